"""Every help text ends in an example, and every example works, as a person would type it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lethevec.cli.app import cli

NAMES = list(cli.commands)


def example_of(name: str) -> str:
    """What follows `Example:` in the help of a command, to its end."""
    result = CliRunner().invoke(cli, [name, "--help"], prog_name="lethevec")
    assert result.exit_code == 0
    head, mark, example = result.stdout.rpartition("\nExample:\n")
    assert mark, f"{name}: no example"
    assert "Options:" in head
    lines = example.splitlines()
    assert lines
    assert all(line.startswith("  lethevec ") for line in lines), f"{name}: {example}"
    return "\n".join(line.strip() for line in lines)


def test_the_commands_are_those_that_are_promised():
    promised = {"add", "search", "forget", "verify", "info", "export", "import", "tune", "bench", "demo", "doctor"}
    assert promised <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name, tmp_path):
    command = example_of(name)
    assert f"lethevec {name}" in command
    if name == "mcp":
        pytest.importorskip("mcp", reason="the MCP package is not installed: make test-mcp runs the command")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_the_benchmarks_own_help_ends_in_the_same_example():
    from lethevec.bench.cli import parser

    assert parser().format_help().rstrip().splitlines()[-1].strip() == example_of("bench")


def test_every_command_is_in_the_documents():
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for name in NAMES:
        assert f"\n## {name}\n" in page or f"`{name}`" in page, name
