"""`tools/check_release.py v1.2.3 dist`: a release is one version everywhere, and complete.

The tag, the package, CITATION.cff and the newest section of CHANGELOG.md must name the same version, with a date; and
`dist` must have the sdist and wheels of that version for every system that is promised.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS = ("manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64", "win_amd64")


def problems(tag: str, files: list[str], root: Path = ROOT) -> list[str]:
    """What is wrong, a sentence each."""
    version = tag.removeprefix("v")
    said = []

    def named(path: str, pattern: str) -> None:
        found = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.MULTILINE)
        if found is None or found[1] != version:
            said.append(f"{path}: expected version {version}, got {found[1] if found else 'none'}")

    named("src/lethevec/__init__.py", r'^__version__ = "([^"]+)"')
    named("CITATION.cff", r"^version: (\S+)")
    named("CHANGELOG.md", r"^## (\S+) \(\d{4}-\d\d-\d\d\)")
    if f"lethevec-{version}.tar.gz" not in files:
        said.append(f"expected lethevec-{version}.tar.gz, got none")
    for python in ("cp310", "cp311", "cp312", "cp313", "cp314"):
        for system in SYSTEMS:
            wanted = re.compile(rf"lethevec-{re.escape(version)}-{python}-.*{system}.*\.whl")
            if not any(map(wanted.fullmatch, files)):
                said.append(f"expected a wheel of {version} for {python} and {system}, got none")
    return said


def main() -> int:
    """Check what the arguments name; the exit code."""
    tag, folder = sys.argv[1:]
    said = problems(tag, [path.name for path in Path(folder).iterdir()])
    print("\n".join(said) or f"{tag}: one version everywhere, and every file is there")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
