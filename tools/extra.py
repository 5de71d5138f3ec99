"""Print what an extra of pyproject.toml asks for, one in a line: for tools that do not need the package itself built.

    python tools/extra.py docs > requirements.txt

Python 3.10 cannot read TOML, so this reads the one form that the file uses: lists of strings in double quotes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def requirements(text: str, extra: str) -> list[str]:
    """The requirements of one extra; other extras that it names are taken apart too."""
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    start = re.search(rf"^{re.escape(extra)} = \[", section, re.MULTILINE)
    if start is None:
        raise SystemExit(f"expected an extra of pyproject.toml, got {extra!r}")
    out: list[str] = []
    # Strings, comments, and the bracket that ends the list: a bracket inside a string ends nothing.
    for token in re.finditer(r'"([^"]*)"|#[^\n]*|\]', section[start.end() :]):
        if token[0] == "]":
            break
        if token[1] is not None:
            own = re.fullmatch(r"lethevec\[([\w,]+)\]", token[1])
            out += [part for name in own[1].split(",") for part in requirements(text, name)] if own else [token[1]]
    return out


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    print("\n".join(requirements(pyproject.read_text(encoding="utf-8"), sys.argv[1])))
