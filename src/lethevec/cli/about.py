"""`info` and `doctor`: what a store holds, and what this machine has."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import lethevec
from lethevec._store import sqlite_facts
from lethevec.errors import KeysError, LethevecError

from .command import command, json_option, keys_option, open_store, store_argument
from .output import print_fields, print_json, print_table

__all__ = ["COMMANDS"]

_OPTIONAL = {
    "cryptography": ("signed receipts", "store"),
    "h5py": ("HDF5 files", "datasets"),
    "pyarrow": ("Parquet and Arrow files", "datasets"),
    "faiss-cpu": ("the comparison in the demo", "demo"),
    "matplotlib": ("the pictures of benchmarks", "bench"),
}


@command(
    "info",
    """
    lethevec add words.lethe :words
    lethevec info words.lethe --subjects
    """,
)
@store_argument
@click.option("--subjects", is_flag=True, help="List the subjects and how many records each has.")
@click.option("--receipts", is_flag=True, help="List the receipts.")
@keys_option
@json_option
def info(store: Path, subjects: bool, receipts: bool, keys: Path | None, as_json: bool) -> None:
    """What STORE holds: records, settings, files, digest, receipts."""
    with open_store(store, keys) as db:
        facts: dict[str, Any] = {
            "store": str(store),
            "records": len(db),
            "subjects": db.subjects(),
            "digest": db.digest(),
            "config": _plain(db.config),
            "files": db.files(),
            "receipts": [receipt.fields for receipt in db.receipts()],
            "pending_erasures": db.pending_erasures(),
            "public_key": _public_key(db),
        }
    if as_json:
        print_json(facts)
        return
    config = facts["config"]
    shown = ("dim", "metric", "family", "bits", "ranking", "keep_vectors", "seed")
    print_fields(
        [
            ("store", store),
            ("records", f"{facts['records']:,}, of {len(facts['subjects']):,} subjects"),
            (
                "settings",
                ", ".join(f"{name}={config[name]}" for name in shown) + f", source={config['source']['name']}",
            ),
            ("digest", facts["digest"]),
            ("files", ", ".join(f"{name} ({size:,} bytes)" for name, size in facts["files"].items())),
            ("receipts", f"{len(facts['receipts']):,}; {facts['pending_erasures']} erasures wait to be completed"),
            ("public key", facts["public_key"] or "not to be had: the key file is not there"),
        ]
    )
    if subjects:
        click.echo()
        print_table(["subject", "records"], [(n, f"{c:,}") for n, c in facts["subjects"].items()], right=["records"])
    if receipts:
        click.echo()
        rows = [(r["sequence"], r["issued_at"], f"{r['records']:,}", r["asked"]["by"]) for r in facts["receipts"]]
        print_table(["receipt", "issued", "records", "asked by"], rows, right=["receipt", "records"])


def _public_key(db: lethevec.Store) -> str | None:
    try:
        return db.public_key().hex()
    except (KeysError, lethevec.errors.MissingDependencyError):
        return None


@command("doctor", "lethevec doctor")
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path), required=False)
@json_option
def doctor(folder: Path | None, as_json: bool) -> None:
    """Look at this machine: CPU, instructions, threads, SQLite and its secure delete, optional packages.

    With a FOLDER, whether SQLite can keep a store there. Ends with 1 if something is wrong.
    """
    cpu = lethevec.cpu_info()
    sqlite = sqlite_facts(folder)
    packages = {name: _version(name) for name in _OPTIONAL}
    problems = _problems(sqlite.problem)
    if as_json:
        print_json(
            {
                "lethevec": lethevec.__version__,
                "python": platform.python_version(),
                "numpy": _version("numpy"),
                "platform": platform.platform(),
                "cpu": {"name": _cpu_name(), **asdict(cpu)},
                "sqlite": asdict(sqlite),
                "packages": packages,
                "problems": problems,
            }
        )
    else:
        versions = f"{lethevec.__version__}, Python {platform.python_version()}, NumPy {_version('numpy')}"
        secure = f"secure_delete {sqlite.secure_delete} as the store sets it ({sqlite.secure_delete_default} otherwise)"
        print_fields(
            [
                ("lethevec", versions),
                ("system", platform.platform()),
                ("CPU", _cpu_name()),
                ("instructions", f"{cpu.isa}: {cpu.reason}"),
                ("CPU features", ", ".join(cpu.features) or "none that matter"),
                ("threads", f"{cpu.threads} cores that this process may use, of {os.cpu_count()}"),
                ("SQLite", f"{sqlite.version}, {secure}, journal {sqlite.journal_mode}"),
                *((name, _package(name, version)) for name, version in packages.items()),
                *(("PROBLEM", problem) for problem in problems),
                ("verdict", "something is wrong" if problems else "all is well"),
            ]
        )
    if problems:
        click.get_current_context().exit(1)


def _plain(config: lethevec.Config) -> dict[str, Any]:
    """A configuration as JSON has it."""
    return {
        **asdict(config),
        "params": dict(config.params),
        "source": {"name": config.source.name, **asdict(config.source)},
    }


def _problems(sqlite: str | None) -> list[str]:
    """What is wrong, each with what was expected."""
    problems = [] if sqlite is None else [sqlite]
    try:
        index = lethevec.Index(dim=8)
        index.add([[1.0] * 8, [1.0, -1.0] * 4], ids=[1, 2])
        found = index.search([1.0] * 8, k=1).ids.tolist()
        if found != [[1]]:
            problems.append(f"native core: expected a search to find record 1, got {found}")
    except LethevecError as error:  # pragma: no cover - a broken build
        problems.append(f"native core: {error}")
    if sys.maxsize < 2**32:
        problems.append("Python: expected 64 bits, got 32")
    return problems


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _package(name: str, version: str | None) -> str:
    purpose, extra = _OPTIONAL[name]
    return f"{version} ({purpose})" if version else f"not installed; for {purpose}: pip install 'lethevec[{extra}]'"


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


COMMANDS = [info, doctor]
