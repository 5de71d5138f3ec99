"""A server for the adapters, as a client's collection must do wherever a store does; and the thin distributions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """Where a server keeps everything."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture
def folder(request, tmp_path):
    """Where the files of a test's store are: with the parameter "server", the server's."""
    parameters = getattr(request.node, "callspec", None)
    remote = parameters is not None and "server" in parameters.params.values()
    return request.getfixturevalue("served") if remote else tmp_path


@pytest.fixture(scope="session")
def server(served):
    """The address of `lethevec serve`, which runs where its own packages are."""
    pytest.importorskip("httpx", reason="httpx is not installed, which lethevec.Client needs")
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        pytest.fail(f"expected an environment with the server at {python}, got none: make .venv/.installed-test")
    folder = served
    command = [str(python), "-m", "lethevec.cli", "serve", str(folder / "data"), "--port", "0", "--log", "none"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([*command, "--workers", "0"], stdin=subprocess.DEVNULL, stderr=log)
    try:
        end = time.monotonic() + 60
        while (found := re.search(r"at (http://\S+:\d+) ", (folder / "log").read_text())) is None:
            if time.monotonic() > end or process.poll() is not None:
                raise AssertionError(f"the server did not start: {(folder / 'log').read_text()}")
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def remote(server, request):
    """Makes collections of a client of that server, empty ones; they are dropped in the end."""
    import lethevec

    with lethevec.Client(server) as client:
        made = []

        def make(dim: int, metric: str = "cosine"):
            name = f"c{abs(hash(request.node.nodeid)):x}-{len(made)}"
            made.append(name)
            return client.collection(name, dim, metric)

        yield make
        for name in made:
            client.drop(name)


@pytest.fixture
def distribution(tmp_path):
    """Builds and installs a distribution with a conventional name; its modules must have the same classes."""
    import lethevec

    def check(name: str, ours: str, classes: Mapping[str, str]) -> str:
        """`classes` are names by the modules that re-export them; returns the metadata of what was installed."""
        source, site = tmp_path / "source", tmp_path / "site"
        shutil.copytree(ROOT / "integrations" / name, source)  # a build leaves files beside the sources
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--target", str(site), str(source)], check=True)
        code = f"""
import importlib
ours = importlib.import_module({ours!r})
for module, name in {dict(classes)!r}.items():
    assert getattr(importlib.import_module(module), name) is getattr(ours, name), name
"""
        path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": path})
        [metadata] = site.glob("*.dist-info/METADATA")
        text = metadata.read_text()
        assert f"Version: {lethevec.__version__}" in text
        assert re.search(r"^Requires-Dist: lethevec\[[a-z_-]+\]>=0\.2$", text, re.MULTILINE)  # the first with adapters
        return text

    return check
