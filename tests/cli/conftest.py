"""A store to ask, and a way to run commands in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("cryptography")

from click.testing import CliRunner, Result

import lethevec
from lethevec.cli.app import cli

N, DIM = 60, 6
Run = Callable[..., Result]


@pytest.fixture(scope="session")
def vectors() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(N, DIM)).astype(np.float32)


@pytest.fixture(scope="session")
def template(tmp_path_factory, vectors) -> Path:
    """A store of 60 records of ann, bob and cem, numbered, made once."""
    folder = tmp_path_factory.mktemp("template")
    with lethevec.open(folder / "people.lethe", dim=DIM, metric="l2") as db:
        db.add(
            vectors,
            ids=range(N),
            subjects=[("ann-the-first", "bob-the-second", "cem-the-third")[i % 3] for i in range(N)],
            payloads=[{"n": i} for i in range(N)],
        )
    return folder


@pytest.fixture
def store(template, tmp_path, monkeypatch) -> Path:
    """A copy of it, in the folder in which commands run."""
    for path in template.iterdir():
        shutil.copy(path, tmp_path / path.name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "people.lethe"


@pytest.fixture
def run(monkeypatch, tmp_path) -> Run:
    """Run a command; unless told otherwise it must succeed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, code: int = 0, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], input=stdin, prog_name="lethevec")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def ask(run) -> Callable[..., Any]:
    """Run a command with --json and give back what it says."""
    return lambda *arguments, **options: json.loads(run(*arguments, "--json", **options).stdout)


@pytest.fixture
def digest() -> Callable[[Path], str]:
    """The digest of a store as it is now."""

    def digest(path: Path) -> str:
        with lethevec.open(path, read_only=True) as db:
            return db.digest()

    return digest
