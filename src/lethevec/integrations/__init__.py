"""Lethevec inside other frameworks. Each module needs the extra of its name, and is imported by its name alone.

| module | what it has |
|---|---|
| `langchain` | `LethevecVectorStore` |
| `llama_index` | `LethevecVectorStore` |
| `haystack` | `LethevecDocumentStore` and `LethevecEmbeddingRetriever` |
| `crewai` | `LethevecStorage`: the memory of CrewAI's agents |
| `mem0` | `vector_store` and `forget`: mem0's memories, and what mem0 keeps of deleted ones |
| `mcp` | `Memory` and `make_server`: an agent's memory over the Model Context Protocol |
| `embedding` | `WordEmbedding`, a small embedding that needs no network; it needs no extra either |
| `sklearn` | `LethevecTransformer`: scikit-learn's neighbours, with a `forget` |

A module imports its framework when it is itself imported, and says what to install where that is missing. All of them
use the public names of lethevec only.
"""
