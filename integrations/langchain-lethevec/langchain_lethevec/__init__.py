"""LangChain: lethevec under the conventional name; everything is in `lethevec.integrations.langchain`."""

from lethevec.integrations.langchain import LethevecVectorStore

__all__ = ["LethevecVectorStore"]
