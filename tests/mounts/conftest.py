"""Small disks for the tests of this folder, where the process may mount: root, or anybody under `unshare -rm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from .small_disk import MountError, SmallDisk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., SmallDisk]]:
    """Mounts file systems of so many megabytes, and unmounts them in the end."""
    disks: list[SmallDisk] = []

    def mount(megabytes: float = 8, name: str = "disk") -> SmallDisk:
        folder = tmp_path / name
        folder.mkdir()
        try:
            disks.append(SmallDisk(folder, int(megabytes * (1 << 20))))
        except MountError as error:
            pytest.skip(f"no file system can be mounted here: {error}; root may, or anybody under unshare -rm")
        return disks[-1]

    yield mount
    for disk in disks:
        disk.close()
