"""Lethevec inside other frameworks. Each module needs the extra of its name, and is imported by its name alone.

| module | what it has |
|---|---|
| `sklearn` | `LethevecTransformer`: scikit-learn's neighbours, with a `forget` |

A module imports its framework when it is itself imported, and says what to install where that is missing. All of them
use the public names of lethevec only.
"""
