"""The spec can be read in the order that its docstring gives, and each public function has an example or a test."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

from lethevec import reference

FOLDER = Path(reference.__file__).parent
TESTS = Path(__file__).parents[1]


def modules_in_order():
    rows = re.findall(r"^\| (`.*`) \|", reference.__doc__, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def imports_of(name):
    """(level, module) of everything that a module imports."""
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""
        elif isinstance(node, ast.Import):
            yield from ((0, one.name) for one in node.names)


def test_all_modules_are_named():
    assert sorted(modules_in_order()) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", modules_in_order())
def test_a_module_needs_only_those_before_it(name):
    order = modules_in_order()
    before = set(order[: order.index(name)])
    for level, module in imports_of(name):
        if level:
            assert (level, module) in {(1, one) for one in before}, module
        else:
            assert module.split(".")[0] in {"numpy", *sys.stdlib_module_names}, module


@pytest.mark.parametrize("name", [name for name in reference.__all__ if inspect.isfunction(getattr(reference, name))])
def test_every_public_function_has_an_example_or_a_test(name):
    if ">>>" in (getattr(reference, name).__doc__ or ""):
        return
    texts = (path.read_text() for path in TESTS.glob("**/*.py") if path != Path(__file__))
    assert any(re.search(rf"\b{name}\b", text) for text in texts), f"{name}: neither an example nor a test"
