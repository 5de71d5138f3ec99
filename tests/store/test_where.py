"""Filters: a store's answer equals a plain Python reading of the rules, inside the search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethevec._filters import Pattern
from lethevec._store import open as open_store
from lethevec.errors import ParameterError

VALUES = [None, True, False, 0, 1, 1.0, 2, -1.5, 10**20, "1", "", "a", "b", "é", "true", [1], {"x": 1}]
FIELDS = ["a", "b", "a.x", "c d", "é"]


def lookup(payload, field):
    """(is there, value)."""
    value = payload
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return False, None
        value = value[part]
    return True, value


def kind(value):
    return "bool" if isinstance(value, bool) else "number" if isinstance(value, int | float) else type(value).__name__


def compare(there, value, name, operand) -> bool:
    equal = there and kind(value) == kind(operand) and value == operand
    if name == "$eq":
        return equal
    if name == "$ne":
        return not equal
    if name == "$in":
        return any(compare(there, value, "$eq", one) for one in operand)
    if name == "$nin":
        return not compare(there, value, "$in", operand)
    if name == "$exists":
        return there == operand
    if not there or kind(value) != kind(operand):
        return False
    return {"$gt": value > operand, "$gte": value >= operand, "$lt": value < operand, "$lte": value <= operand}[name]


def matches(where, payload, subject) -> bool:
    for key, value in where.items():
        if key == "$and":
            good = all(matches(part, payload, subject) for part in value)
        elif key == "$or":
            good = any(matches(part, payload, subject) for part in value)
        elif key == "$not":
            good = not matches(value, payload, subject)
        else:
            if key == "$subject":
                there, found = (True, subject)
                operators = value if isinstance(value, dict) else {"$eq": value}
                operators = {n: o for n, o in operators.items() if n != "$exists"}
                exists = value.get("$exists") if isinstance(value, dict) else None
                if exists is not None and exists != (subject is not None):
                    return False
            else:
                there, found = lookup(payload, key)
                operators = value if isinstance(value, dict) else {"$eq": value}
            good = all(compare(there, found, name, operand) for name, operand in operators.items())
        if not good:
            return False
    return True


scalars = st.sampled_from([v for v in VALUES if not isinstance(v, list | dict)])
ordered = st.sampled_from(
    [v for v in VALUES if isinstance(v, str) or (isinstance(v, int | float) and v is not True and v is not False)]
)
operators = st.one_of(
    scalars,
    st.fixed_dictionaries({}, optional={"$eq": scalars, "$ne": scalars}).filter(bool),
    st.fixed_dictionaries({}, optional={"$gt": ordered, "$gte": ordered, "$lt": ordered, "$lte": ordered}).filter(bool),
    st.fixed_dictionaries({"$in": st.lists(scalars, max_size=3)}),
    st.fixed_dictionaries({"$nin": st.lists(scalars, max_size=3)}),
    st.fixed_dictionaries({"$exists": st.booleans()}),
)
leaves = st.dictionaries(st.sampled_from([*FIELDS, "$subject"]), operators, min_size=1, max_size=2)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner}),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    rng = np.random.default_rng(0)
    payloads = [None, {}]
    for value in VALUES:
        payloads += [{"a": value}, {"b": value, "c d": 1}, {"a": {"x": value}}, {"é": value, "a": value}]
    subjects = [[None, "a", "é", "1"][i % 4] for i in range(len(payloads))]
    with open_store(tmp_path_factory.mktemp("where") / "s", 4, "l2") as db:
        db.add(rng.normal(size=(len(payloads), 4)), ids=range(len(payloads)), subjects=subjects, payloads=payloads)
        yield db, payloads, subjects


@settings(max_examples=300)
@given(filters)
def test_equals_plain_python(filled, where):
    db, payloads, subjects = filled
    expected = [i for i, (p, s) in enumerate(zip(payloads, subjects, strict=True)) if matches(where, p, s)]
    hits = db.search(np.zeros(4), k=len(payloads), where=where)
    assert sorted(hit.id for hit in hits[0]) == expected


def test_the_nearest_allowed_ones_and_not_what_is_left_of_the_nearest(make, vectors):
    db = make()
    db.add(
        vectors,
        ids=range(40),
        payloads=[{"n": i} for i in range(40)],
        subjects=["s" if i == 39 else None for i in range(40)],
    )
    by_distance = [hit.id for hit in db.search(vectors[0], k=40)[0]]
    allowed = [id for id in by_distance if id >= 20]
    assert [h.id for h in db.search(vectors[0], k=5, where={"n": {"$gte": 20}})[0]] == allowed[:5]
    assert [h.id for h in db.search(vectors[0], k=5, where={"$subject": "s"})[0]] == [39]
    assert db.search(vectors[0], k=5, where={"n": -1})[0] == []


def test_a_subject_is_found_by_its_index(make, vectors):
    """Nothing but a subject makes no structure of all payloads, and has the same answer when there is one."""
    db = make()
    db.add(vectors, ids=range(40), subjects=[f"s{i % 4}" for i in range(40)], payloads=[{"n": i} for i in range(40)])

    def ask():
        hits = db.search(vectors[0], k=40, subject="s1")[0]
        return db.count(subject="s1"), db.ids(subject="s1"), [hit.id for hit in hits]

    first = ask()
    assert not db._fields.used
    assert db.count({"n": {"$lt": 10}}) == 10
    assert db._fields.used
    assert ask() == first
    assert first[0] == 10


@pytest.mark.parametrize(
    "where",
    [
        {},
        [],
        "a",
        {1: 2},
        {"$xor": []},
        {"$or": []},
        {"$or": {"a": 1}},
        {"$and": "ab"},
        {"$not": {}},
        {"a": {}},
        {"a": {"$like": "x"}},
        {"a": {"$gt": None}},
        {"a": {"$gt": True}},
        {"a": {"$in": "abc"}},
        {"a": {"$in": [object()]}},
        {"a": {"$exists": 1}},
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": [1]},
        {"a": b"x"},
        {"a": "\ud800"},
        {"a..b": 1},
        {"": 1},
        {"a": {"$in": list(range(10_001))}},
    ],
)
def test_refused(make, vectors, where):
    with pytest.raises(ParameterError, match="where: expected"):
        make().search(vectors[0], where=where)


def test_too_deep(make, vectors):
    where: dict = {"a": 1}
    for _ in range(40):
        where = {"$not": where}
    with pytest.raises(ParameterError, match="at most 32 levels"):
        make().search(vectors[0], where=where)


@pytest.mark.parametrize("fields", [True, ["text"], False])
def test_patterns_in_long_texts_are_not_looked_for_in_python(tmp_path, monkeypatch, fields):
    """Texts of 2 MB: Python would take minutes for them, and hold the store for as long."""

    def in_python(*_):
        raise AssertionError("a pattern was looked for in Python")

    filler = "lorem ipsum \u00e9t\u00e9 " * 100_000
    texts = [filler, filler + "needle 17", "needle 4 " + filler, filler + "needle x" + filler, "needle 9"]
    more = {f"field {n}": n for n in range(1100)}  # too many for the structure: these records are looked at
    payloads = [{"text": text, **(more if n % 2 else {})} for n, text in enumerate(texts)]
    with open_store(tmp_path / "s", 2, "l2", filters=fields) as db:
        db.add(np.eye(5, 2), ids=range(5), payloads=payloads)
        db.add(None, ids=range(5, 10), payloads=payloads)
        monkeypatch.setattr(Pattern, "found_in", in_python)
        for pattern, wanted in (
            ("needle [0-9]+", [1, 2, 4]),
            ("^needle", [2, 4]),
            ("[0-9]$", [1, 4]),
            ("\u00e9t\u00e9 needle", [1, 3]),
            ("(a*)*b", []),
        ):
            assert db.ids({"text": {"$regex": pattern}}) == [*wanted, *(5 + n for n in wanted)]
        assert db.ids({"text": {"$text": "needle x"}}) == [3, 8]
        assert db.forget(where={"text": {"$regex": "needle [0-9]"}}).records == 6
        assert db.ids() == [0, 3, 5, 8]
