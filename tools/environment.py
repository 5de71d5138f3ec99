"""Make an environment for the tests of one framework: its packages, pytest, and lethevec as .venv has it built.

    python tools/environment.py langchain

Frameworks disagree about versions, of pytest among others, so each gets an environment of its own below
build/environments. The native core is not compiled again: what `pip install --editable` put into .venv is linked.
What an environment needs is in tests/integrations/NAME/requirements.txt, or in the file given after the name.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def site_packages(environment: Path) -> Path:
    """Where its packages are."""
    return environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def link_lethevec(environment: Path, built: Path) -> None:
    """Everything of lethevec in the environment where it was built, and the command."""
    found = [path for path in site_packages(built).iterdir() if "lethevec" in path.name]
    if not found:
        raise SystemExit(
            f"{built}: expected lethevec to be installed there, got none: make {built.name}/.installed-test"
        )
    for path in found:
        link = site_packages(environment) / path.name
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    script = environment / "bin" / "lethevec"
    script.write_text(f"#!{environment}/bin/python\nfrom lethevec.cli import main\n\nmain()\n", encoding="utf-8")
    script.chmod(0o755)


def main(name: str, given: str | None = None) -> None:
    """Make it, or bring it up to date."""
    requirements = ROOT / (given or f"tests/integrations/{name}/requirements.txt")
    if not requirements.exists():
        raise SystemExit(f"expected the name of a folder in tests/integrations with a requirements.txt, got {name!r}")
    environment = ROOT / "build" / "environments" / name
    venv.create(environment, with_pip=True, symlinks=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", str(requirements)], check=True)
    link_lethevec(environment, ROOT / ".venv")


if __name__ == "__main__":
    main(*sys.argv[1:3])
