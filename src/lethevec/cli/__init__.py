"""The `lethevec` command: a thin skin over the library. It needs the extra `cli`; without it, one line says so.

| file | what it holds |
|---|---|
| `app` | the group of commands; errors as one line and an exit code |
| `command` | a command with an example at the end of its help; shared options |
| `inputs`, `writers`, `output` | records from files and pipes, to files; tables and JSON |
| `records` | `add`, `export`, `import` |
| `searching` | `search`, `tune` |
| `erasure` | `forget` |
| `collections` | `collections`, `access`, `hold`, `block`, `expire` |
| `proof` | `verify`, `receipts` |
| `about` | `info`, `doctor` |
| `serving` | `serve`, `keys`, `audit` |
| `running` | `bench`, `demo`, `completion` |

Exit codes: 0 done; 1 refused, or a check failed; 2 wrong usage; 3 an optional package is missing; 4 records are
forgotten but bytes of them are still in a file; 130 interrupted.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """What the installed command calls."""
    try:
        from .app import cli
    except ImportError as error:
        missing = (error.name or "").split(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.stderr.write(f"lethevec: the command line needs the package {missing}: pip install 'lethevec[cli]'\n")
        sys.exit(3)
    cli.main(prog_name="lethevec")
