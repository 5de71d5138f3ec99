"""The page that plans many records says what the planner says, and the planner what follows from its figures."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from lethevec.cluster.planning import erasure_seconds, main, plan, simulate
from lethevec.errors import ParameterError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text()
KEPT = {"float32": "float32", "int8": "int8", "on disk": "disk"}


def test_the_table_of_the_page_is_what_the_planner_gives():
    rows = re.findall(r"\| (\d+) billion \| ([a-z0-9 ]+) \| ([\d,]+) \| (\d+) \| (\d+) \|", PAGE)
    assert len(rows) == 6
    for billions, kept, each, shards, machines in rows:
        made = plan(float(billions) * 1e9, 384, vectors=KEPT[kept], machine_gib=256)
        assert (made.bytes_each, made.shards, made.machines) == (
            int(each.replace(",", "")),
            int(shards),
            int(machines),
        )
    disk = plan(1e9, 384, vectors="disk", machine_gib=256).disk_gib
    stated = int(re.search(r"take about ([\d,]+) GiB", PAGE)[1].replace(",", ""))
    assert abs(disk - stated) < 100


def test_records_fit_into_what_is_planned():
    for vectors in ("float32", "int8", "disk"):
        made = plan(1e10, 768, vectors=vectors, replicas=3, machine_gib=64)
        assert made.shards * 64 * 2**30 * 0.7 >= 1e10 * made.bytes_each
        assert (made.shards - 1) * 64 * 2**30 * 0.7 < 1e10 * made.bytes_each
        assert made.machines == 3 * made.shards
    with pytest.raises(ParameterError, match="vectors"):
        plan(1, 1, vectors="float64")


def test_more_shards_are_slower_and_hedging_helps():
    rng = np.random.default_rng(0)
    times = rng.lognormal(0.0, 0.5, 5000)
    few, many = (np.median(simulate(times, shards)) for shards in (4, 88))
    hedged = simulate(times, 88, hedge=float(np.percentile(times, 95)))
    assert np.median(times) < few < many
    assert np.median(hedged) < many
    one = simulate(times, 1)
    assert abs(np.percentile(one, 90) - np.percentile(times, 90)) < 0.1


def test_an_erasure_waits_for_the_slowest_member_and_for_the_lease_of_one_that_is_down():
    alone, all_of_them = erasure_seconds(0.3, 1), erasure_seconds(0.3, 176)
    assert 0.3 < alone < all_of_them < 1.5
    assert erasure_seconds(0.3, 176, away=True) == pytest.approx(all_of_them + 3.0)


def test_the_times_of_the_page_are_what_the_planner_gives():
    each = float(re.search(r"With ([\d.]+) s for each member", PAGE)[1])
    rows = re.findall(r"\| (\d+) \| ([\d.]+) s \| ([\d.]+) s \|", PAGE)
    assert len(rows) == 4
    for machines, whole, without in rows:
        assert erasure_seconds(each, int(machines)) == pytest.approx(float(whole), abs=0.051)
        assert erasure_seconds(each, int(machines), away=True) == pytest.approx(float(without), abs=0.051)


def test_the_command_plans_machines_latency_and_erasures(tmp_path, capsys):
    samples = tmp_path / "times.txt"
    np.savetxt(samples, np.random.default_rng(0).lognormal(0.0, 0.3, 500))
    main(["--records", "1e10", "--samples", str(samples), "--erasing", "0.3", "--lease", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if "10,000,000,000 records" in line]) == 3
    assert len([line for line in lines if "hedged: median" in line]) == 3
    down = [re.search(r"person: ([\d.]+) s; with one member down, incomplete after ([\d.]+) s", line) for line in lines]
    found = [(float(one[1]), float(one[2])) for one in down if one]
    assert len(found) == 3
    assert all(without == pytest.approx(whole + 2.0, abs=0.11) for whole, without in found)
