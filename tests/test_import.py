"""What `import lethevec` loads: little, so that it is quick. Modules are counted: time depends on the machine."""

from __future__ import annotations

import json
import subprocess
import sys

#: Parts that are loaded when they are first used.
LATER = ("_store", "_collections", "_client", "_filters", "datasets", "cli", "server", "bench", "demo", "integrations")
ASKED = """
import sys, numpy
before = set(sys.modules)
import lethevec
index = lethevec.Index(dim=2)
index.add([[1, 0], [0, 1]], ids=[1, 2])
index.search([1, 0], k=1)
import json
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded(code: str) -> list[str]:
    """The modules that a fresh Python has after this code, as the code tells them."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_importing_and_searching_loads_little() -> None:
    found = loaded(ASKED)
    ours = [name for name in found if name.startswith("lethevec")]
    assert len(found) <= 90, found
    assert len(ours) <= 50, ours
    assert not [name for name in ours if name.split(".")[1:2] and name.split(".")[1] in LATER]
    assert not {"sqlite3", "asyncio", "ssl", "http", "email", "multiprocessing", "tempfile", "subprocess"} & set(found)
    assert not {"lethevec.reference.index", "lethevec.reference.graph", "lethevec.reference.tables"} & set(ours)


def test_stores_say_that_they_are_not_for_windows() -> None:
    code = """
import json, os
import lethevec
os.name = "nt"
said = []
for name in ("open", "connect", "Client"):
    try:
        getattr(lethevec, name)
    except lethevec.errors.UnsupportedError as error:
        said.append(str(error))
os.name = "posix"
print(json.dumps(said))
"""
    said = loaded(code)
    assert len(said) == 3
    assert all("expected a POSIX system" in text and "got Windows" in text for text in said)
