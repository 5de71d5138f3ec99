"""Haystack: lethevec under the conventional name; everything is in `lethevec.integrations.haystack`."""

from lethevec.integrations.haystack import LethevecDocumentStore

__all__ = ["LethevecDocumentStore"]
