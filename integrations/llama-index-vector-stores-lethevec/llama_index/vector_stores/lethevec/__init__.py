"""LlamaIndex: lethevec under the conventional name; everything is in `lethevec.integrations.llama_index`."""

from lethevec.integrations.llama_index import LethevecVectorStore

__all__ = ["LethevecVectorStore"]
