"""The spec of pivots against its own words: published hashes, definitions written out in double precision, and brute
force; and what the words promise: no order matters, and more effort never drops a row."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from lethevec import reference
from lethevec.reference import constants, pivot_search, pivots, ranking
from lethevec.reference.scan import doublings

METRICS = ["cosine", "l2", "ip"]
KEY = reference.default_pivot_key(3)


def data(n, d, seed=0):
    """Vectors around a few centres, of different norms; ids in no order, some of them negative."""
    rng = np.random.default_rng([seed, n, d])
    centres = rng.normal(size=(max(1, n // 40), d))
    x = centres[rng.integers(len(centres), size=n)] + 0.5 * rng.normal(size=(n, d))
    ids = rng.choice(np.arange(-10 * n, 10 * n), size=n, replace=False).astype(np.int64)
    return (x * rng.uniform(0.5, 2.0, size=(n, 1))).astype(np.float32), ids


def settings_of(d, metric="l2", m=2, cell_size=8, probes=20, refine=0, key=KEY):
    return reference.PivotSettings(reference.make_frame(d, m, 1, "hadamard"), metric, cell_size, probes, key, refine)


def built(n, d, seed=0, **settings):
    x, ids = data(n, d, seed)
    return reference.build_pivots(settings_of(d, **settings), ids, x)


def searched(made):
    """z: what distances between records and centres are about."""
    x = made.records.vectors
    return (reference.directions(x) if made.settings.metric == "cosine" else x).astype(np.float64)


# --- The hash --------------------------------------------------------------------------------------------------------


def siphash_of_bytes(key, message):
    """SipHash-2-4 of any bytes, in Python's whole numbers."""
    mask = (1 << 64) - 1
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [int.from_bytes(part, "big") for part in (b"somepseu", b"dorandom", b"lygenera", b"tedbytes")]
    v = [v[0] ^ k0, v[1] ^ k1, v[2] ^ k0, v[3] ^ k1]

    def turn(i, by):
        v[i] = (v[i] << by | v[i] >> (64 - by)) & mask

    def rounds(count):
        for _ in range(count):
            for a, b, by in ((0, 1, 13), (2, 3, 16), (0, 3, 21), (2, 1, 17)):
                v[a] = (v[a] + v[b]) & mask
                turn(b, by)
                v[b] ^= v[a]
                if b == 1:
                    turn(a, 32)

    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


# Of the reference implementation, for the key 00 01 ... 0f and the messages 00 01 ... of 0 to 8 bytes and of 15.
PUBLISHED = {
    0: "310e0edd47db6f72",
    1: "fd67dc93c539f874",
    2: "5a4fa9d909806c0d",
    3: "2d7efbd796666785",
    4: "b7877127e09427cf",
    5: "8da699cd64557618",
    6: "cee3fe586e46c9cb",
    7: "37d1018bf50002ab",
    8: "6224939a79f5f593",
    15: "e545be4961ca29a1",
}


def test_siphash_gives_the_published_hash():
    key = reference.pivot_key(bytes(range(16)))
    id = int.from_bytes(bytes(range(8)), "little")
    assert int(reference.siphash(key, np.array([id]))[0]).to_bytes(8, "little").hex() == PUBLISHED[8]


def test_siphash_of_any_id():
    for length, expected in PUBLISHED.items():
        hashed = siphash_of_bytes(bytes(range(16)), bytes(range(length)))
        assert hashed.to_bytes(8, "little").hex() == expected
    rng = np.random.default_rng(0)
    key = rng.bytes(16)
    ids = np.concatenate([[0, -1, 1, -(2**63), 2**63 - 1], rng.integers(-(2**63), 2**63 - 1, size=50)])
    expected = [siphash_of_bytes(key, id.to_bytes(8, "little", signed=True)) for id in ids.tolist()]
    assert reference.siphash(reference.pivot_key(key), ids).tolist() == expected


@pytest.mark.parametrize("cell_size", [2, 3, 16, 200])
def test_one_in_cell_size_is_a_pivot(cell_size):
    ids = np.arange(-50_000, 50_000)
    chosen = reference.is_pivot(ids, KEY, cell_size)
    p = 1 / cell_size
    assert abs(chosen.mean() - p) < 5 * math.sqrt(p * (1 - p) / len(ids))
    # The sample is another one, of pivots and others alike; so are the pivots under another key.
    for other in (reference.is_sampled(ids, KEY), reference.is_pivot(ids, (KEY[0] ^ 1, KEY[1]), 16)):
        for part in (chosen, ~chosen):
            assert abs(other[part].mean() - 1 / 16) < 5 * math.sqrt(1 / 16 / part.sum())


def test_larger_cells_have_fewer_of_the_same_pivots():
    ids = np.arange(20_000)
    sets = [set(np.flatnonzero(reference.is_pivot(ids, KEY, size)).tolist()) for size in (2, 5, 50, 1000)]
    assert all(more > fewer for more, fewer in pairwise(sets))


# --- Means -----------------------------------------------------------------------------------------------------------


def test_exponents_bracket_the_norm():
    rng = np.random.default_rng(1)
    z = (rng.normal(size=(200, 5)) * 10.0 ** rng.uniform(-40, 17, size=(200, 1))).astype(np.float32)
    z = np.concatenate([z, np.float32([[1, 0, 0, 0, 0], [0.99999994, 0, 0, 0, 0], [1e-45, 0, 0, 0, 0]])])
    E = pivots.exponents(z)
    size = reference.norms(z).astype(np.float32).astype(np.float64)
    assert (size >= 2.0 ** (E - 1)).all()
    assert (size < 2.0**E).all()
    assert E[-3:].tolist() == [1, 0, -148]
    assert pivots.exponents(np.zeros((1, 5), dtype=np.float32)).tolist() == [0]


@pytest.mark.parametrize("scale", [1e-44, 1e-12, 1.0, 1e17])
def test_sums_add_and_subtract_in_any_order(scale):
    rng = np.random.default_rng(2)
    z = (rng.normal(size=(300, 7)) * scale).astype(np.float32)
    E = int(pivots.exponents(z[:1])[0])
    total = pivots.in_units(z, E).sum(axis=0)
    running = np.zeros(7, dtype=np.int64)
    for row in rng.permutation(300).tolist():
        running += pivots.in_units(z[row : row + 1], E)[0]
    np.testing.assert_array_equal(running, total)
    for row in rng.permutation(300)[:250].tolist():
        running -= pivots.in_units(z[row : row + 1], E)[0]
        z[row] = np.nan
    left = z[~np.isnan(z[:, 0])]
    np.testing.assert_array_equal(running, pivots.in_units(left, E).sum(axis=0))
    mean = pivots.exact_mean(running, 50, E)
    unit = 2.0 ** (E - constants.UNIT_BITS)
    true = left.astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(mean, true, rtol=1e-7, atol=max(unit, 1e-45))


def test_a_coordinate_far_beyond_the_pivot_is_cut():
    z = np.float32([[1e9, -1e9, 0.75, 2.0**-25, 3 * 2.0**-25]])
    assert pivots.in_units(z, 0).tolist() == [[2**31, -(2**31), 3 * 2**22, 0, 2]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refine", [0, 1])
def test_cells_hold_what_is_nearest_and_its_mean(metric, refine):
    made = built(600, 12, metric=metric, refine=refine)
    cells, z = made.cells, searched(made)
    assert cells.counts.sum() == 600
    assert len(cells.ids) == reference.is_pivot(made.records.ids, KEY, 8).sum() > 40
    distances = ((z[:, None] - cells.centres[None].astype(np.float64)) ** 2).sum(axis=2)
    own = distances[np.arange(600), made.cells_of]
    np.testing.assert_allclose(own, distances.min(axis=1), rtol=1e-4, atol=1e-7)
    matrix = reference.analysis(made.settings.frame, np.eye(12, dtype=np.float32))[:, :12].astype(np.float64)
    for c in np.flatnonzero(cells.counts):
        members = z[made.cells_of == c]
        pivot = z[made.records.ids == cells.ids[c]][0]
        unit = 2.0 ** math.frexp(np.float32(np.linalg.norm(pivot)))[1] / 2**24
        np.testing.assert_allclose(cells.sums[c] * unit / cells.counts[c], members.mean(axis=0), atol=2 * unit)
        rotated = members.mean(axis=0) @ matrix
        np.testing.assert_allclose(cells.means[c] * cells.steps[c], rotated, atol=0.51 * cells.steps[c])
        assert np.abs(cells.means[c]).max() == 127
        variance = ((members - members.mean(axis=0)) ** 2).sum(axis=1).mean()
        if metric == "ip":
            best = -1.5 * math.sqrt(2 * constants.LN2 * doublings(float(cells.counts[c])) * variance / 12)
            assert cells.penalties[c] == pytest.approx(best, rel=1e-3, abs=1e-3)
        else:
            assert cells.penalties[c] == pytest.approx((rotated**2).sum() + 0.25 * variance, rel=1e-5)


def test_centres_are_pivots_or_means_of_a_sample():
    plain, refined = built(2000, 6), built(2000, 6, refine=1)
    z, ids = searched(plain), plain.records.ids
    where = np.searchsorted(ids, plain.cells.ids)
    np.testing.assert_array_equal(plain.cells.centres, z[where])
    sampled = reference.is_sampled(ids, KEY)
    sampled[where] = False
    moved = 0
    for c, p in enumerate(where.tolist()):
        others = z[sampled & (plain.cells_of == c)]
        expected = np.concatenate([z[p : p + 1], others]).mean(axis=0)
        np.testing.assert_allclose(refined.cells.centres[c], expected, atol=1e-5)
        moved += len(others) > 0
    assert moved > 50

    def spread(made):
        return ((searched(made) - made.cells.centres[made.cells_of]) ** 2).sum()

    assert spread(refined) < spread(plain)


def test_equal_pivots_share_a_cell_by_id():
    x, ids = data(300, 5)
    x[:] = x[0]
    made = reference.build_pivots(settings_of(5), ids, x)
    assert made.cells.counts.tolist() == [300] + [0] * (len(made.cells.ids) - 1)
    assert len(made.cells.ids) > 10
    assert made.cells.ids[0] == made.cells.ids.min()
    # A mean of equal vectors is rounded: it is not quite one of them.
    assert made.sizes.max() <= 2.0**-22 * np.linalg.norm(x[0])
    for empty in (made.cells.origins, made.cells.sums, made.cells.means, made.cells.steps, made.cells.penalties):
        assert not empty[1:].any()


@pytest.mark.parametrize("refine", [0, 1])
@pytest.mark.parametrize("metric", METRICS)
def test_an_origin_is_the_mean_of_the_members_with_the_smallest_hashes(metric, refine):
    made = built(900, 10, metric=metric, refine=refine, cell_size=20)
    z, ids, cells = searched(made), made.records.ids, made.cells
    assert (cells.counts > constants.ORIGIN_MEMBERS).sum() > 10
    assert (cells.counts < constants.ORIGIN_MEMBERS).sum() > 5
    for c in np.flatnonzero(cells.counts).tolist():
        members = np.flatnonzero(made.cells_of == c).tolist()
        members.sort(key=lambda row: (int(reference.siphash(KEY, ids[row : row + 1])[0]), ids[row]))
        counted = members[: constants.ORIGIN_MEMBERS]
        np.testing.assert_allclose(cells.origins[c], z[counted].mean(axis=0), atol=1e-5)
        if refine == 0:
            assert cells.ids[c] in ids[counted]


def test_residuals_are_shorter_from_origins_than_from_pivots():
    made = built(3000, 20, metric="l2", cell_size=60)
    z = searched(made)
    from_pivots = np.linalg.norm(z - made.cells.centres[made.cells_of], axis=1)
    assert np.mean(made.sizes**2) < 0.9 * np.mean(from_pivots**2)


# --- A function of the records ---------------------------------------------------------------------------------------


def arrays_of(made):
    parts = {**vars(made.cells), **vars(made.records), **vars(made)}
    return {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}


@pytest.mark.parametrize("refine", [0, 1])
def test_order_does_not_matter(refine):
    x, ids = data(500, 9)
    order = np.random.default_rng(3).permutation(500)
    settings = settings_of(9, refine=refine)
    one, other = reference.build_pivots(settings, ids, x), reference.build_pivots(settings, ids[order], x[order])
    for name, part in arrays_of(one).items():
        np.testing.assert_array_equal(part, arrays_of(other)[name], err_msg=name)


@pytest.mark.parametrize("metric", METRICS)
def test_a_record_that_is_no_pivot_leaves_by_subtraction(metric):
    x, ids = data(500, 9)
    settings = settings_of(9, metric=metric)
    whole = reference.build_pivots(settings, ids, x)
    row = int(np.flatnonzero(~counted_for_origins(whole))[5])
    rest = np.arange(500) != row
    vectors = whole.records.vectors
    less = reference.build_pivots(settings, whole.records.ids[rest], vectors[rest])
    cell = whole.cells_of[row]
    z = reference.directions(vectors[row : row + 1]) if metric == "cosine" else vectors[row : row + 1]
    pivot = vectors[whole.records.ids == whole.cells.ids[cell]]
    E = int(pivots.exponents(reference.directions(pivot) if metric == "cosine" else pivot)[0])
    sums = whole.cells.sums.copy()
    sums[cell] -= pivots.in_units(z, E)[0]
    np.testing.assert_array_equal(less.cells.sums, sums)
    for name in ("cells_of", "sizes", "offsets", "scales", "biases"):
        np.testing.assert_array_equal(getattr(less, name), getattr(whole, name)[rest])
    np.testing.assert_array_equal(less.records.codes, whole.records.codes[rest])


def counted_for_origins(made):
    """Rows that an origin is the mean of; pivots are among them."""
    hashes, counted = reference.siphash(KEY, made.records.ids), np.zeros(len(made.cells_of), dtype=bool)
    for c in range(len(made.cells.ids)):
        members = np.flatnonzero(made.cells_of == c)
        counted[members[np.argsort(hashes[members])][: constants.ORIGIN_MEMBERS]] = True
    assert counted[reference.is_pivot(made.records.ids, KEY, made.settings.cell_size)].all()
    return counted


@pytest.mark.parametrize("metric", METRICS)
def test_a_record_that_an_origin_is_made_of_takes_it_along(metric):
    """The members of its cell are coded again, and nobody else."""
    x, ids = data(500, 9)
    settings = settings_of(9, metric=metric, cell_size=40)
    whole = reference.build_pivots(settings, ids, x)
    others = ~reference.is_pivot(whole.records.ids, KEY, 40) & (whole.cells.counts[whole.cells_of] > 20)
    row = int(np.flatnonzero(counted_for_origins(whole) & others)[0])
    rest = np.arange(500) != row
    less = reference.build_pivots(settings, whole.records.ids[rest], whole.records.vectors[rest])
    np.testing.assert_array_equal(less.cells_of, whole.cells_of[rest])
    cell = whole.cells_of[row]
    moved = (less.cells.origins != whole.cells.origins).any(axis=1)
    assert np.flatnonzero(moved).tolist() == [cell]
    recoded = less.sizes != whole.sizes[rest]
    assert recoded.any()
    assert (less.cells_of[recoded] == cell).all()
    elsewhere = less.cells_of != cell
    np.testing.assert_array_equal(less.records.codes[elsewhere], whole.records.codes[rest][elsewhere])


# --- What is kept of a record ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("metric", METRICS)
def test_four_numbers_turn_a_code_into_distances(metric, m):
    """The distance to origin + |r| factor r̂, written out, for each way of making r̂ from the code."""
    made = built(300, 16, metric=metric, m=m)
    frame = made.settings.frame
    q = np.random.default_rng(4).normal(size=16)
    origins = made.cells.origins[made.cells_of].astype(np.float64)
    size = np.linalg.norm(searched(made) - origins, axis=1)
    np.testing.assert_allclose(made.sizes, size, rtol=2.0**-8)  # sixteen bits
    R = reference.analysis(frame, np.eye(16, dtype=np.float32)).astype(np.float64)
    b = np.where(made.bits, 1.0, -1.0)
    c = np.repeat(reference.plane_weights(16, m).astype(np.float64), 16)
    of_all = (size * made.records.factors)[:, None] * ((b * c) @ R.T)
    of_first = size[:, None] * (b[:, :16] @ R[:, :16].T) / math.sqrt(32 / math.pi)

    def distance(residual):
        if metric == "ip":
            return -(residual @ q) - origins @ q
        return ((q - origins) ** 2).sum(axis=1) + size**2 - 2 * residual @ q + 2 * (residual * origins).sum(axis=1)

    base = -(origins @ q) if metric == "ip" else ((q - origins) ** 2).sum(axis=1)
    second = base + made.biases - made.scales * (b @ ((q @ R) * c))
    gain = (1 if metric == "ip" else 2) / math.sqrt(32 / math.pi)
    first = base - made.sizes * ((b[:, :16] @ (q @ R)[:16]) * gain - made.offsets)
    np.testing.assert_allclose(second, distance(of_all), atol=1e-3)
    # Size and offset have eight bits and a sign less than their exponents take: half a step of each.
    terms = (b[:, :16] @ (q @ R)[:16]) * gain
    slack = size * (2 * np.abs(terms) + 4 * np.abs(made.offsets)) * 2.0**-9 + 1e-3
    assert np.all(np.abs(first - distance(of_first)) <= slack)


@pytest.mark.parametrize("metric", METRICS)
def test_the_estimate_comes_closer_with_each_plane(metric):
    errors = []
    for m in (1, 2, 4):
        made = built(400, 32, metric=metric, m=m)
        z, b = searched(made), np.where(made.bits, 1.0, -1.0)
        R = reference.analysis(made.settings.frame, np.eye(32, dtype=np.float32)).astype(np.float64)
        c = np.repeat(reference.plane_weights(32, m).astype(np.float64), 32)
        q = np.random.default_rng(5).normal(size=32)
        q = q / np.linalg.norm(q) if metric == "cosine" else q
        origins = made.cells.origins[made.cells_of]
        base = -(origins @ q) if metric == "ip" else ((q - origins) ** 2).sum(axis=1)
        true = -(z @ q) if metric == "ip" else ((q - z) ** 2).sum(axis=1)
        error = base + made.biases - made.scales * (b @ ((q @ R) * c)) - true
        errors.append(np.sqrt((error**2).mean()) / true.std())
        assert abs(error.mean()) < 4 * error.std() / math.sqrt(len(error))
    assert errors[0] > 1.5 * errors[1] > 3 * errors[2]
    assert errors[2] < 0.25


# --- Search ----------------------------------------------------------------------------------------------------------


def brute_force(made, query, k, allowed=None):
    rows = np.arange(len(made.cells_of)) if allowed is None else np.flatnonzero(allowed)
    distances = ranking.true_distances(query, made.records, rows, made.settings.metric)
    return ranking.answer(distances, made.records.ids[rows], k)


EFFORTS = [1e-9, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.8, 1.0, 1.4, 2.0, 4.0, 10.0, 1e3, 1e18]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refine", [0, 1])
@pytest.mark.parametrize("probes", [2, 200])
def test_more_effort_never_drops_a_row(metric, refine, probes):
    made = built(2500, 10, metric=metric, refine=refine, cell_size=6, probes=probes)
    rng = np.random.default_rng(6)
    pruned = set()
    for query in data(2, 10, seed=9)[0]:
        for k, allowed in ((1, None), (7, rng.random(2500) < 0.4), (3, rng.random(2500) < 0.02)):
            last: set[int] = set()
            for effort in EFFORTS:
                found = reference.pivot_candidates(made, query[None], k, effort, allowed)
                rows = set(found.rows.tolist())
                assert last <= rows, (k, effort)
                assert len(rows) >= min(k, 2500 if allowed is None else int(allowed.sum()))
                assert allowed is None or allowed[found.rows].all()
                if found.refined:
                    assert found.refined >= len(rows)
                    pruned |= {"first"} if found.refined < found.scanned else set()
                    pruned |= {"second"} if len(rows) < found.refined else set()
                last = rows
            assert last == set(np.flatnonzero(np.ones(2500) if allowed is None else allowed).tolist())
    assert "second" in pruned
    assert "first" in pruned or probes == 2


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refine", [0, 1])
def test_recall(metric, refine):
    made = built(3000, 16, metric=metric, refine=refine, cell_size=10, probes=60)
    right = 0
    for query in data(20, 16, seed=8)[0]:
        ids, distances = reference.search_pivots(made, query[None], 5, 1.0)
        true_ids, _ = brute_force(made, query[None], 5)
        right += len(set(ids.tolist()) & set(true_ids.tolist()))
        assert (np.diff(distances) >= 0).all()
        exact = reference.search_pivots(made, query[None], 5, 1e18)
        np.testing.assert_array_equal(exact[0], true_ids)
    assert right / 100 > 0.85


def test_cells_come_by_the_distance_of_their_means():
    made = built(1500, 24)
    q = data(1, 24, seed=7)[0]
    size = np.float32(np.linalg.norm(q))
    order, _ = pivot_search.cell_order(made, reference.analysis(made.settings.frame, q)[0, :24], size)
    filled = np.flatnonzero(made.cells.counts)
    assert sorted(order.tolist()) == filled.tolist()
    assert agreement(by_distance(made, order, q), order) > 0.99


def by_distance(made, order, q):
    """What cells are ordered by, written out: the distance to the mean, and a share of the variance."""
    cells = [searched(made)[made.cells_of == c] for c in order]
    return [((x.mean(axis=0) - q) ** 2).sum() + constants.VARIANCE_SHARE * x.var(axis=0).sum() for x in cells]


def agreement(values, order):
    return np.corrcoef(np.argsort(np.argsort(values)), np.arange(len(order)))[0, 1]


def test_where_all_vectors_point_about_the_same_way_cells_come_by_distance_too():
    """Whatever vector is added to all records and to the query."""
    x, ids = data(1500, 24)
    q = data(1, 24, seed=7)[0]
    away = np.float32(60.0) * reference.directions(q)
    made = reference.build_pivots(settings_of(24), ids, x + away)
    moved = (q + away)[0]
    v0 = reference.analysis(made.settings.frame, moved[None])[0, :24]
    order, _ = pivot_search.cell_order(made, v0, np.float32(np.linalg.norm(moved)))
    assert agreement(by_distance(made, order, moved), order) > 0.95


def test_under_ip_a_wide_cell_comes_before_a_narrow_one_with_the_same_mean():
    mu, counts = np.ones((2, 4), dtype=np.float32), np.array([16, 16])
    narrow, wide = (np.int64(square * 2**24 * 16) for square in (4.5, 8.0))
    one, other = pivots.penalties("ip", mu, counts, np.array([narrow, wide]), np.zeros(2, dtype=np.int64)).tolist()
    assert other < one < 0
    expected = -1.5 * math.sqrt(2 * math.log(16) * 0.5 / 4)
    assert one == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refine", [0, 1])
def test_the_void(metric, refine):
    """No record is a pivot: one cell, and still the nearest are found."""
    made = built(800, 12, metric=metric, refine=refine, cell_size=2**40)
    cells = made.cells
    assert cells.real.tolist() == [False]
    assert cells.counts.tolist() == [800]
    assert not cells.centres.any()
    np.testing.assert_allclose(cells.sums[0] / 2**24, searched(made).sum(axis=0), atol=1e-4)
    found = 0
    for query in data(40, 12, seed=8)[0]:
        few = reference.pivot_candidates(made, query[None], 5, 0.2)
        assert len(few.rows) < 800
        ids, _ = reference.search_pivots(made, query[None], 5, 1.0)
        found += len(set(ids.tolist()) & set(brute_force(made, query[None], 5)[0].tolist()))
    assert found >= 0.95 * 5 * 40


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("refine", [0, 1])
def test_extreme_vectors(metric, refine):
    """The smallest numbers, the largest, zeros and equal ones together: no overflow, no NaN (warnings are errors)."""
    rng = np.random.default_rng(9)
    sizes = np.float32([1e-45, 1e-38, 1e-20, 1.0, 1e10, 1e17])
    x = (rng.normal(size=(900, 10)) * np.resize(sizes, (900, 1))).astype(np.float32)
    x[~x.any(axis=1)] = np.float32(1e-45)
    if metric != "cosine":
        x[::7] = 0
    made = reference.build_pivots(settings_of(10, metric=metric, refine=refine), np.arange(900), x)
    assert all(np.isfinite(part).all() for part in arrays_of(made).values())
    for query in (x[1], x[2], x[3], x[4], x[5], -x[5]):
        for effort in (0.1, 1e18):
            ids, distances = reference.search_pivots(made, query[None], 5, effort)
            assert len(set(ids.tolist())) == 5
            assert not np.isnan(distances).any()


@pytest.mark.parametrize(
    ("records", "allowed", "cells"), [(1, 1, 1), (1000, 1000, 90), (1000, 3, 90), (10**7, 10**6, 10**5)]
)
def test_the_plan_grows_with_effort(records, allowed, cells):
    for k in (1, 10, 3000):
        plans = [reference.pivot_plan(records, allowed, cells, 40, k, effort) for effort in EFFORTS]
        assert len({(plan.first, plan.reference) for plan in plans}) == 1
        for less, more in pairwise(plans):
            for name in ("growth", "few", "errors"):
                assert getattr(less, name) <= getattr(more, name)
            for worth, first in ((0, 1), (cells // 2, 1), (cells, cells)):
                assert less.probed(worth, first, cells) <= more.probed(worth, first, cells)
        for plan in plans:
            whole = (plan.first, plan.probed(cells, 1, cells), plan.reference, plan.few)
            assert all(isinstance(value, int) for value in whole)
            assert 1 <= plan.probed(0, 1, cells) <= plan.probed(cells, 1, cells) <= cells
            assert k <= plan.reference <= plan.first
            assert k <= plan.few
            assert plan.errors > 0
        assert plans[-1].probed(0, 1, cells) == cells
        assert plans[-1].few >= records


def test_more_cells_are_visited_where_they_are_worth_it_and_a_given_number_is_kept():
    plan = reference.pivot_plan(100_000, 100_000, 1000, 0, 10, 1.0)
    probed = [plan.probed(worth, 5, 1000) for worth in (0, 200, 300, 1000)]
    assert probed == sorted(set(probed))
    assert probed[0] == math.ceil(constants.LEAST_CELLS_PER_ROOT * math.sqrt(1000))
    assert probed[-1] == math.ceil(constants.MOST_CELLS_PER_ROOT * math.sqrt(1000))
    given = reference.pivot_plan(100_000, 100_000, 1000, 40, 10, 1.0)
    assert {given.probed(worth, 5, 1000) for worth in (0, 200, 1000)} == {40}


def scanned_share(x, queries):
    """Of all records, how many a search looks at."""
    made = reference.build_pivots(settings_of(x.shape[1], cell_size=0, probes=0), np.arange(len(x)), x)
    return np.mean([reference.pivot_candidates(made, q[None], 10, 1.0).scanned for q in queries]) / len(x)


def test_where_cells_are_about_equally_far_more_of_them_are_visited():
    """In many dimensions without clusters; not in few."""
    rng = np.random.default_rng(0)
    few, many = (rng.normal(size=(4010, d)).astype(np.float32) for d in (3, 64))
    assert scanned_share(many[:-10], many[-10:]) > 1.5 * scanned_share(few[:-10], few[-10:])
