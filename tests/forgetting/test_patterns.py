"""Many patterns in one pass: every match and no other, and work that does not grow with how common the patterns are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethevec._forgetting import patterns, residue
from lethevec._forgetting.patterns import PatternTable
from lethevec._forgetting.residue import MemorySource, search, vector_needles

RNG = np.random.default_rng(11)
COUNT, DIM = 200, 32


def small_numbers() -> np.ndarray:
    """Whole numbers from 0 to 180, small ones far more often and a quarter of them 0, as SIFT has them."""
    values = RNG.exponential(28, size=(COUNT, DIM)) * (RNG.random((COUNT, DIM)) > 0.25)
    return np.minimum(np.floor(values), 180).astype(np.float32)


def mostly_zeros() -> np.ndarray:
    values = RNG.integers(1, 4, size=(COUNT, DIM)) * (RNG.random((COUNT, DIM)) < 0.3)
    return values.astype(np.float32)


def identical() -> np.ndarray:
    return np.tile(np.arange(1, DIM + 1, dtype=np.float32), (COUNT, 1))


def random() -> np.ndarray:
    return RNG.normal(size=(COUNT, DIM)).astype(np.float32)


KINDS = {f.__name__: f() for f in (small_numbers, mostly_zeros, identical, random)}


def all_matches(table: PatternTable, data: bytes) -> list[tuple[int, int]]:
    parts = list(table.matches(data))
    return [pair for places, numbers in parts for pair in zip(places.tolist(), numbers.tolist(), strict=True)]


def plain_search(wanted: list[bytes], data: bytes) -> list[tuple[int, int]]:
    found = []
    for number, pattern in enumerate(wanted):
        place = data.find(pattern)
        while place >= 0:
            found.append((place, number))
            place = data.find(pattern, place + 1)
    return sorted(found)


def windows(vectors: np.ndarray, *, own_only: bool = True) -> list[bytes]:
    """What is looked for of some vectors, each once."""
    needles = [needle for vector in vectors for needle in vector_needles(vector, own_only=own_only)]
    cut = {window: n.text for n in needles for _, window in n.windows()}
    return [window for window, text in cut.items() if not residue._is_plain(window, text)]


def as_cells(vectors: np.ndarray) -> bytes:
    """Records one after the other at any alignment, and a long run of zeros, as files have them."""
    return b"".join(b"\1" * (i % 13) + v.tobytes() for i, v in enumerate(vectors)) + bytes(1 << 16)


@pytest.mark.parametrize("kind", KINDS)
class TestVectorsOfEveryKind:
    @pytest.mark.parametrize("own_only", [True, False])
    def test_equals_a_plain_search(self, kind: str, own_only: bool):
        wanted = windows(KINDS[kind][:3], own_only=own_only)
        data = as_cells(KINDS[kind])
        expected = plain_search(wanted, data)
        assert expected
        assert sorted(all_matches(PatternTable(wanted), data)) == expected

    def test_work_is_bounded_by_the_data_however_many_patterns_there_are(self, kind: str):
        data = as_cells(KINDS[kind])
        for forgotten in (1, 20, COUNT):
            table = PatternTable(windows(KINDS[kind][:forgotten]))
            assert {len(pattern) for pattern in table.patterns} == {16}
            list(table.matches(data))
            assert table.tested <= len(data)

    def test_zeros_cost_nothing(self, kind: str):
        table = PatternTable(windows(KINDS[kind]))
        list(table.matches(bytes(1 << 20)))
        assert table.tested <= 32  # the two ends, where there are no neighbours to look at

    def test_every_encoding_is_found_between_living_records(self, kind: str):
        vector = KINDS[kind][0].copy()
        vector[:4] = [0.5, 17.25, 3.0, 99.0]  # the first windows at least are told apart from zeros
        living = as_cells(KINDS[kind])
        for needle in vector_needles(vector):
            report = search([MemorySource("m", living + needle.data + living)], vector_needles(vector))
            places = {f.offset - len(living) for f in report.findings if f.label == needle.label}
            telling = {at for at, window in needle.windows() if not residue._is_plain(window, needle.text)}
            assert telling, needle.label
            assert telling <= places, needle.label

    def test_what_the_living_share_is_asked_about_once(self, kind: str):
        needles = [needle for vector in KINDS[kind][:20] for needle in vector_needles(vector, own_only=True)]
        asked = []
        report = search([MemorySource("m", as_cells(KINDS[kind]))], needles, lambda f: not asked.append(f.data))
        assert report.clean
        assert asked
        assert len(asked) == len(set(asked)) <= report.patterns


def test_each_length_tests_a_place_once():
    text = bytes(RNG.integers(97, 100, size=5000, dtype=np.uint8))
    wanted = sorted({text[at : at + size] for size in (15, 16, 20, 24) for at in range(0, 4000, 7)})
    table = PatternTable(wanted)
    assert sorted(all_matches(table, text)) == plain_search(wanted, text)
    assert table.tested <= 4 * len(text)


def test_a_pattern_that_begins_with_a_run_is_found_at_the_end_of_one():
    pattern = b" " * 17 + b"indent!"
    for before in range(40):
        data = b"x" * 5 + b" " * before + pattern + b" " * 50
        assert all_matches(PatternTable([pattern]), data) == [(5 + before, 0)]


def test_matches_come_in_parts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(patterns, "_PART", 10)
    wanted = [b"abcdef", b"a periodic text."]
    data = b"a periodic text." * 100 + b"abcdef" * 100
    table = PatternTable(wanted)
    parts = list(table.matches(data))
    assert all(len(places) <= 8 * 10 for places, _ in parts)
    assert len(parts) >= 20
    assert sorted(all_matches(table, data)) == plain_search(wanted, data)


def test_no_patterns_and_no_data():
    assert all_matches(PatternTable([]), b"some data") == []
    table = PatternTable([b"longer than that", b"abc"])
    assert all_matches(table, b"") == []
    assert all_matches(table, b"abc") == [(0, 1)]


FEW = st.binary(max_size=400).map(lambda raw: bytes(byte % 3 for byte in raw))


@settings(max_examples=200)
@given(FEW, st.lists(st.tuples(st.integers(0, 399), st.integers(1, 40)), max_size=12), st.lists(FEW, max_size=3))
def test_equals_a_plain_search_of_any_patterns(data: bytes, cuts: list[tuple[int, int]], strangers: list[bytes]):
    wanted = sorted({piece for piece in [data[at : at + size] for at, size in cuts] + strangers if piece})
    assert sorted(all_matches(PatternTable(wanted), data)) == plain_search(wanted, data)
