"""`make test-wheel`: build the sdist, the wheel from it, and try the wheel where nothing but NumPy is installed.

Works on a copy of the files that git knows (as they are now, committed or not), so that nothing that lies about can get
into a package or help a build. That wheels for other machines can be built is for CI to show; here cibuildwheel has to
understand what `pyproject.toml` asks of it. Needs the packages `build` and `cibuildwheel`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent

TEN_LINES = """
import numpy as np, lethevec
x = np.random.default_rng(0).normal(size=(1000, 24)).astype("f4")
index = lethevec.Index(dim=24, metric="l2")
index.add(x, ids=range(1000))
assert index.search(x[7], k=1).ids.tolist() == [[7]]
index.forget(7)
never = lethevec.Index(dim=24, metric="l2")
never.add(np.delete(x, 7, axis=0)[::-1], ids=np.delete(np.arange(1000), 7)[::-1])
assert index.digest() == never.digest() and 7 not in index
print("ten lines ran with", lethevec.cpu_info().isa, "instructions, from", lethevec.__file__)
"""

VERSIONS = (310, 311, 312, 313, 314)
#: The most that a wheel may have, beside the bundled words.
MOST_BYTES = 5_000_000
WORDS = "lethevec/datasets/words-20k-glove-100.npz"

# What an sdist needs to be built, tested and read; and what has no business in it.
NEEDED = {
    "pyproject.toml",
    "CMakeLists.txt",
    "README.md",
    "PACKAGE.md",
    "LICENSE",
    "Makefile",
    "src/lethevec/__init__.py",
}
STRAY = (".ci", ".github", ".git", ".venv", "build", "dist", "site", "lethevec-demo")
STRAY_SUFFIXES = (".so", ".pyc", ".log", "_core.pyi")


def run(*command: object, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed; what it prints is shown when it does not."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done  # type: ignore[no-any-return]


def copy_tracked(target: Path) -> None:
    """The files that git knows, as they are now."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())


def check_configuration(source: Path) -> None:
    """The wheels that cibuildwheel would build are those that we want."""
    for system, archs, tags in (
        ("linux", "x86_64,aarch64", ("manylinux_x86_64", "manylinux_aarch64")),
        ("macos", "arm64", ("macosx_arm64",)),
        ("windows", "AMD64", ("win_amd64",)),
    ):
        asked = ["--print-build-identifiers", "--platform", system, "--archs", archs]
        got = set(run(sys.executable, "-m", "cibuildwheel", *asked, source, cwd=source).stdout.split())
        wanted = {f"cp{version}-{tag}" for version in VERSIONS for tag in tags}
        if got != wanted:
            sys.exit(f"cibuildwheel: expected wheels for {sorted(wanted)}, got {sorted(got)}")
        print(f"cibuildwheel: would build {len(got)} wheels for {system}")


def check_sdist(path: Path) -> None:
    """Everything that is needed, nothing that is not."""
    with tarfile.open(path) as archive:
        names = {"/".join(PurePosixPath(member.name).parts[1:]) for member in archive if member.isfile()}
    missing = sorted(NEEDED - names)
    stray = sorted(n for n in names if PurePosixPath(n).parts[0] in STRAY or n.endswith(STRAY_SUFFIXES))
    if missing or stray:
        sys.exit(f"{path.name}: expected {missing or 'nothing'} besides, and none of {stray or 'nothing'}")
    print(f"{path.name}: {len(names)} files, {path.stat().st_size:,} bytes")


def check_wheel(path: Path) -> None:
    """The package and its metadata, the compiled core among them; no tests, no tools."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        size = path.stat().st_size - archive.getinfo(WORDS).compress_size
    if size > MOST_BYTES:
        sys.exit(f"{path.name}: expected at most {MOST_BYTES:,} bytes beside the words, got {size:,}")
    tops = {name.split("/")[0] for name in names}
    if not all(top == "lethevec" or top.endswith(".dist-info") for top in tops):
        sys.exit(f"{path.name}: expected the package and its metadata, got {sorted(tops)}")
    console = "lethevec/server/console/static/"
    files = ("index.html", "main.js", "style.css", "screens/person.js")
    for wanted in (
        *("lethevec/py.typed", "lethevec/cli/app.py", WORDS),
        *(console + name for name in files),
    ):
        if wanted not in names:
            sys.exit(f"{path.name}: expected {wanted}, got none")
    if not any(name.startswith("lethevec/_core.") and name.endswith(".so") for name in names):
        sys.exit(f"{path.name}: expected the compiled core, got none")
    print(f"{path.name}: {len(names)} files, {path.stat().st_size:,} bytes, {size:,} of them beside the words")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install it into an empty environment, and use it."""
    venv.create(folder / "venv", with_pip=True)
    bin_folder = folder / "venv" / "bin"
    empty = folder / "elsewhere"  # so that no source tree is in the way
    empty.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    run(bin_folder / "python", "-m", "pip", "install", "--quiet", wheel, cwd=empty, env=environment)
    frozen = run(bin_folder / "python", "-m", "pip", "freeze", cwd=empty, env=environment).stdout.lower().split("\n")
    installed = {line.split("==")[0].split(" @ ")[0] for line in frozen if line}
    if installed != {"numpy", "lethevec"}:
        sys.exit(f"expected numpy to be the only requirement, got {sorted(installed)}")
    print(run(bin_folder / "python", "-W", "error", "-c", TEN_LINES, cwd=empty, env=environment).stdout.strip())
    told = subprocess.run([bin_folder / "lethevec"], cwd=empty, env=environment, capture_output=True, text=True)
    if told.returncode != 3 or told.stderr.count("\n") != 1 or "pip install 'lethevec[cli]'" not in told.stderr:
        sys.exit(f"expected the command to say what to install, got {told.returncode}: {told.stderr}")
    print("without its extra, the command says:", told.stderr.strip())


def main() -> None:
    """Build and try."""
    with tempfile.TemporaryDirectory(prefix="lethevec-wheel-") as place:
        folder = Path(place)
        source = folder / "source"
        copy_tracked(source)
        check_configuration(source)
        # Without --sdist or --wheel the wheel is built from the sdist, which shows that the sdist is enough.
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", source, cwd=folder)
        (sdist,), (wheel,) = (list((folder / "dist").glob(pattern)) for pattern in ("*.tar.gz", "*.whl"))
        check_sdist(sdist)
        check_wheel(wheel)
        try_wheel(wheel, folder)


if __name__ == "__main__":
    main()
