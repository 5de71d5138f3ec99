"""What may import what: SQLite belongs to the store, and the store is needed by nothing below it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import lethevec

SOURCE = Path(lethevec.__file__).parent


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def test_who_imports_sqlite3():
    users = {path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py") if "sqlite3" in imported(path)}
    # A benchmark opens the files of others, and the server notes what it has answered in a file of its own.
    assert users == {"_store", "bench", "server"}


def test_forgetting_knows_neither_store_nor_index():
    for path in (SOURCE / "_forgetting").glob("*.py"):
        assert not {name for name in imported(path) if name.startswith(("_store", ".._store", ".._index"))}, path.name


def test_cryptography_is_imported_only_when_needed():
    code = "import sys, lethevec._store; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
