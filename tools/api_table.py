"""Prints the tables of docs/server-api.md from the operations. A test compares the page with what this prints.

python tools/api_table.py > table.md
"""

from __future__ import annotations

from lethevec.server.api import OPERATIONS


def table() -> str:
    """One line for each call."""
    lines = ["| call | right | what it does |", "|---|---|---|"]
    lines += [
        f"| `{one.method} {one.path}` | {'any key' if one.right is None else one.right or 'no key'} | {one.summary} |"
        for one in sorted(OPERATIONS, key=lambda one: (one.path, one.method))
    ]
    return "\n".join(lines) + "\n"


def fields() -> str:
    """The fields of each body."""
    lines = []
    for one in sorted(OPERATIONS, key=lambda one: one.path):
        if one.body is not None and one.body["properties"]:
            needed = one.body.get("required", [])
            names = [f"**`{name}`**" if name in needed else f"`{name}`" for name in one.body["properties"]]
            lines.append(f"* `{one.method} {one.path}`: {', '.join(names)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table())
    print(fields())
