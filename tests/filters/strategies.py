"""Random payloads and random filters over the same few fields and values, so that they meet."""

from __future__ import annotations

from hypothesis import strategies as st

FIELDS = ["a", "b", "a.x", "a.x.y", "c d", "é"]
VALUES = [
    None, True, False, 0, 1, 1.0, 2, -1.5, 2**53, 2**53 + 1, 2.0**53, 2**63 - 1, 2.0**63, -(2**63), 10**20, 1e300,
    "1", "", "a", "ab", "b", "é", "true", "a\nb", '"', "\\", "\x01", "😀", "ﬀ", "\u2028",
    "2024-01-01", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00+02:00", "2023-12-31T23:30", "2024-02-30", "2024",
    "2024-01-01 00:00:00.000000001", "x" * 300, "x" * 299 + "y",
]  # fmt: skip
SUBJECTS = [None, "a", "é", "1", "ann", "x" * 300]
PATTERNS = [
    "a",
    "^a",
    "b$",
    "^$",
    "a|b",
    "(a|b)+",
    "[^a]",
    ".",
    "^.{2}$",
    "\\d",
    "\\bb",
    "é",
    "x{100}y",
    "(?i)A",
    "\\w\\W",
]

scalars = st.sampled_from(VALUES) | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=3)
scalars = scalars.filter(lambda v: not isinstance(v, str) or not any("\ud800" <= c <= "\udfff" for c in v))
values = st.one_of(
    scalars,
    st.lists(st.one_of(scalars, st.lists(scalars, max_size=1), st.just({"x": 1})), max_size=4),
    st.dictionaries(st.sampled_from(["x", "y", "x.y", "", "$z"]), scalars, max_size=2),
    st.fixed_dictionaries({"x": st.fixed_dictionaries({"y": scalars})}),
)
payloads = st.none() | st.dictionaries(st.sampled_from(["a", "b", "c d", "é", "a.x", "", "$b"]), values, max_size=4)
subjects = st.sampled_from(SUBJECTS)

ordered = scalars.filter(lambda v: v is not None and not isinstance(v, bool))
bounds = st.dictionaries(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), ordered, min_size=1, max_size=2)
lists = st.lists(scalars, max_size=6)
tests = st.one_of(
    scalars,
    bounds,
    *(st.fixed_dictionaries({name: scalars}) for name in ("$eq", "$ne", "$contains")),
    *(st.fixed_dictionaries({name: lists}) for name in ("$in", "$nin", "$any", "$all")),
    st.fixed_dictionaries({"$exists": st.booleans()}),
    st.fixed_dictionaries({"$text": st.sampled_from(["", "a", "b", "é", "2024", "xx", "xy"])}),
    st.fixed_dictionaries({"$regex": st.sampled_from(PATTERNS)}),
)
ids = st.one_of(
    st.integers(0, 8),
    st.fixed_dictionaries({"$in": st.lists(st.integers(0, 30), max_size=5)}),
    st.fixed_dictionaries({"$gte": st.integers(0, 8)}),
)
leaves = st.one_of(
    st.dictionaries(st.sampled_from([*FIELDS, "$subject"]), tests, min_size=1, max_size=2),
    st.fixed_dictionaries({"$id": ids}),
)
filters = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"$or": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$and": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner}),
    ),
    max_leaves=5,
)
