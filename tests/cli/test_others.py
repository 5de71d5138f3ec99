"""`info`, `doctor`, `bench` and `demo`, from outside."""

from __future__ import annotations

import os

import lethevec


def test_info(run, ask, store, digest):
    run("forget", store, "1")
    facts = ask("info", store)
    assert facts["records"] == 59
    assert facts["subjects"] == {"ann-the-first": 20, "bob-the-second": 19, "cem-the-third": 20}
    assert facts["digest"] == digest(store)
    assert facts["config"]["metric"] == "l2"
    assert [receipt["records"] for receipt in facts["receipts"]] == [1]
    assert len(facts["public_key"]) == 64
    text = run("info", store, "--subjects", "--receipts").stdout
    for wanted in ("59, of 3 subjects", facts["digest"], "bob-the-second", "dim=6"):
        assert wanted in text
    os.remove(f"{store}-keys")
    assert ask("info", store)["public_key"] is None
    assert "not to be had" in run("info", store).stdout


def test_doctor(run, ask, tmp_path):
    facts = ask("doctor", tmp_path)
    assert facts["cpu"]["isa"] == lethevec.cpu_info().isa
    assert facts["sqlite"]["secure_delete"] == "on"
    assert facts["problems"] == []
    assert list(tmp_path.iterdir()) == []
    assert "all is well" in run("doctor").stdout


def test_doctor_says_when_something_is_wrong(run, monkeypatch):
    from lethevec.cli import about

    facts = about.sqlite_facts()
    monkeypatch.setattr(about, "sqlite_facts", lambda folder: type(facts)("3.1", "off", "off", "wal", "expected 3.35"))
    result = run("doctor", code=1)
    assert "PROBLEM" in result.stdout
    assert "something is wrong" in result.stdout


def test_bench_passes_everything_on(run, monkeypatch):
    import sys
    from types import ModuleType

    given = []
    module = ModuleType("lethevec.bench.cli")
    module.main = lambda arguments: given.append(arguments) or 5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lethevec.bench", ModuleType("lethevec.bench"))
    monkeypatch.setitem(sys.modules, "lethevec.bench.cli", module)
    run("bench", "compare", "--data", "x.hdf5", "--targets", "0.9", "0.95", code=5)
    run("bench", "--", "--help", code=5)
    assert given == [["compare", "--data", "x.hdf5", "--targets", "0.9", "0.95"], ["--help"]]


def test_demo_passes_its_options_on(run, monkeypatch):
    given = []
    monkeypatch.setattr("lethevec.demo.main", given.append)
    run("demo")
    run("demo", "--words", "5000", "--folder", "x")
    assert given == [[], ["--words", "5000", "--folder", "x"]]
