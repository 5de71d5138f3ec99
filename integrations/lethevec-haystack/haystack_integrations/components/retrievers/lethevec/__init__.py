"""Haystack: lethevec under the conventional name; everything is in `lethevec.integrations.haystack`."""

from lethevec.integrations.haystack import LethevecEmbeddingRetriever

__all__ = ["LethevecEmbeddingRetriever"]
