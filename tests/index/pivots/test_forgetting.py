"""What a forgotten record leaves in an index with pivots: nothing of itself, nothing of what it was the centre of.

Each test first shows that the patterns it looks for are there while the record is.
"""

import numpy as np
import pytest

from lethevec import Index, reference
from lethevec._native import core

METRICS = ["cosine", "l2", "ip"]
DIM = 100
N = 800


def occurrences(index, needles):
    """Names of the patterns that are in memory: in one piece, or byte by byte among the 32 rows of a block."""
    memory = core.testing.raw_memory(index._native)
    lanes = [memory[r::64] for r in range(64)]
    return {
        name
        for name, needle in needles.items()
        if needle in memory or ("interleaved" in name and any(needle in lane for lane in lanes))
    }


def later_planes(bits):
    """As they lie in memory, apart from the first plane."""
    return np.packbits(bits[DIM:], bitorder="little")[: DIM // 8].tobytes()


def of_record(spec, id):
    """What an index holds of a record: vector, residual code, numbers."""
    made = spec.made
    row = int(np.flatnonzero(spec.ids == id)[0])
    x = made.records.vectors[row]
    needles = {
        "id": int(id).to_bytes(8, "little", signed=True),
        "vector, first": x[:4].tobytes(),
        "vector, last": x[-4:].tobytes(),
    }
    if made.sizes[row] == 0:  # the origin itself: its code is that of every zero, and says nothing
        return needles
    return needles | {
        "numbers": made.biases[row].tobytes() + made.scales[row].tobytes(),
        "code": later_planes(made.bits[row]),
        "first plane, interleaved": made.records.codes[row].tobytes()[: DIM // 8],
    }


def of_centre(spec, id):
    """What an index holds of a cell: centre, origin, rotated too, and the sums of its members."""
    made = spec.made
    c = int(np.flatnonzero(made.cells.ids == id)[0])
    centre, origin = made.cells.centres[c], made.cells.origins[c]
    rotated = reference.superbit(made.settings.frame, origin[None], 2 * DIM)[0]
    return {
        "centre, first": centre[:4].tobytes(),
        "centre, last": centre[-4:].tobytes(),
        "origin, first": origin[:4].tobytes(),
        "origin, last": origin[-4:].tobytes(),
        "origin, rotated": rotated[:4].tobytes(),
        "origin, second plane": rotated[-4:].tobytes(),
        "sums": made.cells.sums[c, :3].tobytes(),
    }


def passing_by(x, origin):
    """What is computed on the way and has no business to stay: direction, residual and its direction."""
    z = reference.directions(x[None])[0]
    rows = {"direction": z}
    for name, r in (("residual", x - origin), ("residual of direction", z - origin)):
        if r.any():  # where it is alone in its cell it is zero
            rows |= {name: r, f"direction of {name}": reference.directions(r[None])[0]}
    return {name: row[:4].tobytes() for name, row in rows.items()}


@pytest.fixture(params=[False, True], ids=["pivots", "refined"])
def refine(request):
    return request.param


@pytest.fixture(params=METRICS)
def problem(request, tools, refine):
    """An index, its spec, and what else both were made with."""
    rng = np.random.default_rng(1)
    x = tools.clustered(1, N, DIM)
    ids = reference.words(9, 1, N).view(np.int64)
    index = tools.build(x, ids, metric=request.param, refine=refine, cell_size=20)
    return index, tools.Spec(index.config, ids, x), dict(zip(ids.tolist(), x, strict=True)), rng


def cell_of(spec, id):
    return int(spec.made.cells.ids[spec.made.cells_of[int(np.flatnonzero(spec.ids == id)[0])]])


def spec_of_the_rest(tools, index, records):
    left = index.ids()
    return tools.Spec(index.config, left, np.stack([records[id] for id in left.tolist()]))


def test_a_record_that_is_no_pivot(problem, tools):
    index, spec, records, rng = problem
    others = np.setdiff1d(spec.ids, tools.pivots_among(index.config, spec.ids))
    for batch in (rng.choice(others, 1), rng.choice(others, 1), rng.choice(others, 100, replace=False)):
        batch = batch[np.isin(batch, spec.ids)]
        needles = {}
        for id in batch[:5].tolist():
            mine = of_record(spec, id)
            assert occurrences(index, mine) == set(mine)
            origin = spec.made.cells.origins[spec.made.cells.ids == cell_of(spec, id)][0]
            mine.update(passing_by(records[id], origin))
            needles.update({f"{name} of {id}": needle for name, needle in mine.items()})
        index.forget(batch)
        assert occurrences(index, needles) == set()
        assert len(needles) >= 8
        spec = spec_of_the_rest(tools, index, records)


def test_a_pivot_and_what_was_coded_relative_to_it(problem, tools):
    index, spec, records, rng = problem
    for pivot in rng.permutation(tools.pivots_among(index.config, spec.ids))[:4].tolist():
        members = [id for id in spec.ids.tolist() if id != pivot and cell_of(spec, id) == pivot]
        centre = of_centre(spec, pivot)
        mine = of_record(spec, pivot)
        assert occurrences(index, {**mine, **centre}) == {*mine, *centre}
        codes = {f"code of {id}": of_record(spec, id)["code"] for id in members[:5]}
        assert occurrences(index, codes) == set(codes)
        index.forget(pivot)
        where = spec.made.cells.origins[spec.made.cells.ids == pivot][0]
        needles = {**mine, **centre, **codes, **passing_by(records[pivot], where)}
        assert occurrences(index, needles) == set()
        spec = spec_of_the_rest(tools, index, records)
        for id in members[:5]:  # they are there still, as the codes of other residuals
            assert occurrences(index, of_record(spec, id)) == set(of_record(spec, id))


def test_an_update(problem, tools):
    index, spec, records, _ = problem
    pivots = tools.pivots_among(index.config, spec.ids)
    for id in [int(pivots[3]), int(np.setdiff1d(spec.ids, pivots)[7])]:
        needles = of_record(spec, id)
        del needles["id"]
        if id in pivots:
            needles.update(of_centre(spec, id))
        assert occurrences(index, needles) == set(needles)
        records[id] = -records[id] * np.float32(0.7)
        index.update(records[id][None], ids=[id])
        assert occurrences(index, needles) == set()
        spec = spec_of_the_rest(tools, index, records)
        assert occurrences(index, of_record(spec, id)) == set(of_record(spec, id))


def test_all_pivots_and_then_all(problem, tools):
    """First everything falls into the void, then there is nothing."""
    index, spec, records, _ = problem
    pivots = tools.pivots_among(index.config, spec.ids)
    needles = {}
    for id in pivots[:10].tolist():
        for name, needle in {**of_record(spec, id), **of_centre(spec, id)}.items():
            needles[f"{name} of {id}"] = needle
    for id in np.setdiff1d(spec.ids, pivots)[:100].tolist():
        needles[f"code of {id}"] = of_record(spec, id)["code"]
    index.forget(pivots)
    cells, held = tools.native_state(index)
    assert set(cells) == {None}
    assert len(held) == N - len(pivots)
    assert occurrences(index, needles) == set()
    for id in held:
        needles[f"vector of {id}"] = records[id][:4].tobytes()
        needles[f"code of {id}"] = later_planes(np.unpackbits(np.frombuffer(held[id][-1], np.uint8), bitorder="little"))
    index.forget(list(held))
    assert occurrences(index, needles) == set()
    empty = Index(DIM, metric=index.metric, **source_of(index))
    assert index.stats() == empty.stats()
    assert tools.native_state(index) == tools.native_state(empty)
    assert index.digest() == empty.digest()


def source_of(index):
    return {"source": index.config.source}


def test_a_sampled_record_leaves_the_centre(tools):
    """refine=True: the centre was a mean with it, and is the mean without."""
    x, ids = tools.clustered(2, N, DIM), np.arange(N)
    index = tools.build(x, ids, metric="l2", refine=True, cell_size=20)
    spec = tools.Spec(index.config, ids, x)
    pivots = tools.pivots_among(index.config, ids)
    sampled = np.setdiff1d(ids[reference.is_sampled(ids, spec.made.settings.key)], pivots)
    plain = tools.Spec(tools.build(x, ids, metric="l2", cell_size=20).config, ids, x)
    for id in sampled[:5].tolist():
        pivot = cell_of(plain, id)  # sampled for the centre that is nearest by the pivots themselves
        before = of_centre(spec, pivot)
        assert occurrences(index, before) == set(before)
        index.forget(id)
        ids = index.ids()
        spec, plain = (
            tools.Spec(s.config, ids, x[ids]) for s in (index, tools.build(x, range(N), metric="l2", cell_size=20))
        )
        after = of_centre(spec, pivot)
        assert before["centre, first"] != after["centre, first"]
        gone = {name: needle for name, needle in before.items() if needle != after[name]}
        assert occurrences(index, gone) == set()
        assert occurrences(index, after) == set(after)


@pytest.mark.parametrize("metric", METRICS)
def test_a_record_leaves_the_origin_that_it_was_part_of(tools, metric, refine):
    """And whoever was coded relative to that origin is coded again."""
    x, ids = tools.clustered(6, N, DIM), np.arange(N)
    index = tools.build(x, ids, metric=metric, refine=refine, cell_size=40)
    spec = tools.Spec(index.config, ids, x)
    settings, others = spec.made.settings, np.setdiff1d(ids, tools.pivots_among(index.config, ids))
    if refine:  # so that centres stay where they are
        others = others[~reference.is_sampled(others, settings.key)]
    smallest = others[np.argsort(reference.siphash(settings.key, others))]
    for id in smallest[:5].tolist():
        pivot = cell_of(spec, id)
        before = of_centre(spec, pivot)
        members = [other for other in spec.ids.tolist() if other != id and cell_of(spec, other) == pivot]
        codes = {f"code of {other}": of_record(spec, other)["numbers"] for other in members[:5]}
        assert occurrences(index, before | codes) == set(before | codes)
        index.forget(id)
        spec = tools.Spec(index.config, index.ids(), x[index.ids()])
        after = of_centre(spec, pivot)
        gone = {name: needle for name, needle in before.items() if needle != after[name]}
        assert {"origin, first", "origin, last", "origin, rotated", "origin, second plane"} <= set(gone)
        assert occurrences(index, gone | codes) == set()
        assert occurrences(index, after) == set(after)


def test_equal_vectors_leave_one_by_one(tools):
    """The cell goes from one pivot to the next, all of them equal."""
    x = np.repeat(tools.clustered(3, 1, DIM), 120, axis=0)
    index = tools.build(x, range(120), metric="l2")
    left = sorted(range(120))
    config = index.config
    while len(left) > 1:
        index.forget(left.pop(0))
        cells, held = tools.native_state(index)
        pivots = tools.pivots_among(config, left).tolist()
        assert set(cells) == (set(pivots) or {None})
        assert {cell for cell, *_ in held.values()} == {pivots[0] if pivots else None}
    assert x[0, :4].tobytes() in core.testing.raw_memory(index._native)
    index.forget(left)
    assert x[0, :4].tobytes() not in core.testing.raw_memory(index._native)


def test_nothing_is_left_of_what_was_found_out_for_a_change(tools):
    """The ids of pivots to come, and who is nearer to them: found out while searches go on, for the next change."""
    x = tools.clustered(6, 200, DIM)
    ids = reference.words(9, 1, 200).view(np.int64)
    index = tools.build(x[:100], ids[:100], metric="l2", cell_size=5)
    pivots = []
    for i in range(100, 200):
        index.add(x[i : i + 1], ids=ids[i : i + 1])
        if int(ids[i]) in tools.native_state(index)[0]:
            pivots.append(int(ids[i]))
            needles = {"id": pivots[-1].to_bytes(8, "little", signed=True)}
            assert occurrences(index, needles) == {"id"}
            index.forget(pivots[-1])
            assert occurrences(index, needles) == set()
    assert pivots


def test_memory_follows_from_the_records(tools):
    x = tools.clustered(4, 3000, 24)
    index = tools.build(x, range(3000), metric="l2")
    going = np.random.default_rng(5).choice(3000, size=2600, replace=False)
    index.forget(going[:1300])
    for id in going[1300:1500].tolist():
        index.forget(id)
    index.forget(going[1500:])
    left = np.setdiff1d(np.arange(3000), going)
    other = tools.build(x[left], left, metric="l2")
    assert index.stats() == other.stats()
    assert len(core.testing.raw_memory(index._native)) == len(core.testing.raw_memory(other._native))
