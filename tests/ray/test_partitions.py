"""A node that is cut off: packets to and from it vanish, while records are added, searched and forgotten.

Each Ray node with a disk has a network namespace of its own, joined by a bridge. A network that is cut there is one: no
connection is closed, nobody is told, and what is under way is lost. It needs root and iproute2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def may_make_namespaces() -> bool:
    """Whether this process may make network namespaces, with links between them and a bridge."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"lvtry{os.getpid() % 100_000}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode:
        return False
    try:
        tries = (["ip", "link", "add", name, "type", "bridge"], ["ip", "-n", name, "link", "add", "type", "veth"])
        return all(subprocess.run(words, capture_output=True).returncode == 0 for words in tries)
    finally:
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "del", name], check=False)


def test_a_node_whose_packets_vanish(tmp_path):
    if not may_make_namespaces():
        pytest.skip("needs root, iproute2 and the right to make network namespaces")
    # A process of its own: this one may be connected to another Ray.
    from tests.ray.partitions import DISKS, remove

    tag = f"lv{os.getpid() % 100_000}"
    command = [sys.executable, "-m", "tests.ray.partitions", str(tmp_path), tag]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    finally:
        remove(tag, DISKS)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert "partitions: 2" in done.stdout
