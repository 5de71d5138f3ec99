"""For `make docs`: examples in docstrings shown as code.

Docstrings are Markdown with doctests in them. Markdown takes `>>>` for a quotation of a quotation of a quotation, so
each run of doctest lines is put into a fence before it is rendered.
"""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


def fenced(text: str) -> str:
    """The text with fences around its doctests: from a line with a prompt to the next empty one."""
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>> "):
            inside = True
            out += ["```pycon"]
        elif inside and not line.strip():
            inside = False
            out += ["```"]
        out.append(line)
    return "\n".join(out + (["```"] if inside else []))


class Doctests(Extension):
    """Called by griffe for each thing that it has read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Change its docstring in place."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
