"""The HTTP API v2 of Chroma, so that its clients erase for real when their URL is changed.

A collection of Chroma is a collection of ours. Metadata are the payload's fields; the document and the URI are fields
named as Chroma names its own, `chroma:document` and `chroma:uri`. What Chroma knows about collections (tenant,
database, UUID, configuration) are records without vectors in a collection of ours, so it is forgotten like everything.

What differs, because order of insertion is history: `get` answers by ascending id. What Chroma has for its cloud
(fork, hybrid search, functions) is answered with 501.
"""

from .routes import chroma_operations

__all__ = ["chroma_operations"]
