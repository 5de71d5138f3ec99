"""What is public: every name exists, is documented, and nothing else shows."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import re
from pathlib import Path

import pytest

import lethevec
from lethevec import _hashing, errors, reference

MODULES = [lethevec, errors, _hashing, reference]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_all_is_sorted_complete_and_exists(module):
    names = module.__all__
    assert len(set(names)) == len(names)
    for name in names:
        assert hasattr(module, name), name


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_no_private_name_is_public(module):
    for name in module.__all__:
        assert name == "__version__" or not name.startswith("_")


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_everything_public_has_a_docstring(module):
    assert (module.__doc__ or "").strip()
    for name in module.__all__:
        thing = getattr(module, name)
        if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
            assert (inspect.getdoc(thing) or "").strip(), name


@pytest.mark.parametrize("name", [n for n in lethevec.__all__ if inspect.isclass(getattr(lethevec, n))])
def test_every_public_method_has_a_docstring(name):
    ours = [kind for kind in getattr(lethevec, name).__mro__ if kind.__module__.startswith("lethevec")]
    for member, thing in [item for kind in ours for item in vars(kind).items()]:
        if not member.startswith("_") and (inspect.isfunction(thing) or isinstance(thing, property)):
            assert (inspect.getdoc(thing) or "").strip(), f"{name}.{member}"


@pytest.mark.parametrize("name", [n for n in lethevec.__all__ if n != "__version__"])
def test_public_things_are_ours(name):
    thing = getattr(lethevec, name)
    module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
    assert module.split(".")[0] == "lethevec"


def test_nothing_else_shows():
    """Apart from __all__ and private names, the package's namespace holds its own modules, not what they import."""
    for name, thing in vars(lethevec).items():
        if name in lethevec.__all__ or name.startswith("_"):
            continue
        assert inspect.ismodule(thing), f"lethevec.{name} is neither public nor a module of the package"
        assert thing.__name__ == f"lethevec.{name}", f"lethevec.{name} is {thing.__name__}"


def test_star_import_gives_all_and_only_all():
    space = {}
    exec("from lethevec import *", space)
    space.pop("__builtins__")
    assert set(space) == set(lethevec.__all__)


def test_one_version():
    assert lethevec.__version__ == importlib.metadata.version("lethevec")
    assert re.fullmatch(r"\d+\.\d+\.\d+", lethevec.__version__)


def test_typed():
    assert (Path(lethevec.__file__).parent / "py.typed").is_file()


def test_import_needs_numpy_only():
    """The core's only dependency; everything optional is imported where it is used."""
    import subprocess
    import sys

    code = (
        "import sys, lethevec; own = sys.stdlib_module_names | {'lethevec', 'numpy'};"
        "print(sorted({m.split('.')[0] for m in sys.modules if getattr(sys.modules[m], '__file__', None)} - own))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    loaded = {name for name in eval(out) if not name.startswith("_")}
    # What site-packages' own start-up hooks load is there without us, too.
    bare = subprocess.run(
        [sys.executable, "-c", code.replace("import sys, lethevec", "import sys, numpy")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert loaded <= set(eval(bare))


def test_import_is_light():
    """What takes long to load is loaded when it is first used: the store with SQLite, files, the network, the CLI."""
    import subprocess
    import sys

    heavy = [
        "sqlite3",
        "cryptography",
        "h5py",
        "pyarrow",
        "click",
        "rich",
        "faiss",
        "ssl",
        "urllib.request",
        "argparse",
        "tempfile",
        "shutil",
        "random",
        "lzma",
        "inspect",
        "lethevec._waiting",
    ]
    heavy += ["lethevec._store", "lethevec.datasets", "lethevec.cli", "lethevec.demo"]
    # NumPy loads things of its own.
    code = f"import sys, numpy; had = set(sys.modules); import lethevec; print(set({heavy}) & set(sys.modules) - had)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_the_error_tree_is_the_one_in_the_docstring():
    """Each class under its base, in the order of the tree; a new error must be added to the picture."""
    tree = []  # (depth, name)
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ([│├└─\s]*)([A-Z]\w*Error)\b", line)
        if match:
            tree.append((len(match[1]) // 4, match[2]))
    assert {name for _, name in tree} == set(errors.__all__)
    parents = {}
    for depth, name in tree:
        parents[depth] = name
        if depth:
            assert getattr(errors, parents[depth - 1]) in getattr(errors, name).__bases__, name
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.LethevecError)


def test_an_error_class_is_public():
    defined = {n for n, c in vars(errors).items() if inspect.isclass(c) and c.__module__ == errors.__name__}
    assert defined == set(errors.__all__)


def test_unknown_ids_read_like_a_message():
    """KeyError would print its repr."""
    assert str(errors.UnknownIdError("ids: unknown 7")) == "ids: unknown 7"


@pytest.mark.parametrize("name", ["lethevec.reference", "lethevec._hashing", "lethevec.errors", "lethevec._vectors"])
def test_documented_modules_import(name):
    assert importlib.import_module(name).__name__ == name
