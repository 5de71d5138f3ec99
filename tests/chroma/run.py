"""Chroma's own suite, from its wheel, against `lethevec serve`. `make test-chroma-suite` runs it.

    python tests/chroma/run.py PYTHON_WITH_CHROMA [MODULE ...]

Every test that talks to the server must pass, but for those in differences.txt, which must not.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.server.load import Served  # noqa: E402

#: Tests that skip themselves when the server is not Chroma's own in the same process; the real server skips them too.
SKIPPED = 6


def expected() -> set[str]:
    """The names in differences.txt."""
    lines = (HERE / "differences.txt").read_text().splitlines()
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def main() -> int:
    """Run; the exit code."""
    python = os.path.abspath(sys.argv[1])  # not resolved: a virtual environment is where its link is
    modules = sys.argv[2:] or ["chromadb.test.test_api"]
    whole = modules == ["chromadb.test.test_api"]
    with tempfile.TemporaryDirectory() as folder:
        server = Served(Path(folder) / "chroma", 0, "--allow-reset")
        try:
            done = subprocess.run(
                [
                    *(python, "-m", "pytest", "--pyargs", *modules, "-q", "--timeout", "120", "-rA", "--tb", "short"),
                    *("-p", "offline", "-p", "no:cacheprovider", "-k", "integration", "-W", "ignore"),
                ],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTHONPATH": str(HERE),
                    "CHROMA_INTEGRATION_TEST_ONLY": "1",
                    "CHROMA_SERVER_HOST": "localhost",
                    "CHROMA_SERVER_HTTP_PORT": str(server.port),
                    "ANONYMIZED_TELEMETRY": "False",
                },
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
        finally:
            server.stop()
    outcomes = re.findall(r"^(PASSED|FAILED|ERROR) \S*::(\w+)", done.stdout, re.MULTILINE)
    skipped = sum(int(count) for count in re.findall(r"^SKIPPED \[(\d+)\]", done.stdout, re.MULTILINE))
    passed = [name for outcome, name in outcomes if outcome == "PASSED"]
    failed = [name for outcome, name in outcomes if outcome != "PASSED"]
    surprises = sorted(set(failed) - expected())
    stale = sorted(expected() - set(failed)) if whole else []
    print(done.stdout[done.stdout.rfind("\n=") :] if surprises or not outcomes else "", end="")
    for name in surprises:
        print(f"failed, and is not in differences.txt: {name}")
    for name in stale:
        print(f"is in differences.txt, and passed: {name}")
    print(f"{len(passed)} passed, {len(failed)} failed, {skipped} skipped themselves, of {len(outcomes) + skipped}")
    if whole and (len(passed) < 180 or skipped > SKIPPED):
        print("expected at least 180 to pass")
        return 1
    return 1 if surprises or stale or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
