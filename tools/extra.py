"""Print what an extra of pyproject.toml asks for, one in a line: for tools that do not need the package itself built.

    python tools/extra.py docs > requirements.txt

Python 3.10 cannot read TOML, so this reads the one form that the file uses: an extra in a line, in double quotes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def requirements(text: str, extra: str) -> list[str]:
    """The requirements of one extra; other extras that it names are taken apart too."""
    section = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    found = re.search(rf"^{re.escape(extra)} = \[(.*?)\]\s*(?:#.*)?$", section, re.MULTILINE)
    if found is None:
        raise SystemExit(f"expected an extra of pyproject.toml, got {extra!r}")
    out: list[str] = []
    for item in re.findall(r'"([^"]+)"', found[1]):
        own = re.fullmatch(r"lethevec\[([\w,]+)\]", item)
        out += [part for name in own[1].split(",") for part in requirements(text, name)] if own else [item]
    return out


if __name__ == "__main__":
    pyproject = Path(__file__).parent.parent / "pyproject.toml"
    print("\n".join(requirements(pyproject.read_text(encoding="utf-8"), sys.argv[1])))
