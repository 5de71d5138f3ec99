"""The language of filters: what each condition means, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from lethevec._filters import language, matches, parse, regex
from lethevec._filters.dates import instant_of
from lethevec.errors import ParameterError

from .strategies import filters, payloads, subjects

RECORD = {
    "year": 1990,
    "price": 2.5,
    "lang": "en",
    "none": None,
    "good": True,
    "tags": ["red", "blue", 3, None],
    "address": {"city": "Rome", "geo": {"lat": 41.9}},
    "title": "The River of Forgetting",
    "when": "2024-05-17T09:30:00+02:00",
    "big": 10**20,
}

TRUE = [
    {"year": 1990},
    {"year": 1990.0},
    {"year": {"$gte": 1990, "$lt": 1991}},
    {"price": {"$gt": 2, "$lt": 3}},
    {"lang": {"$in": ["de", "en"]}},
    {"lang": {"$nin": ["de"]}},
    {"lang": {"$gt": "de"}},
    {"none": None},
    {"none": {"$exists": True}},
    {"missing": {"$exists": False}},
    {"missing": {"$ne": 1}},
    {"missing": {"$nin": [1]}},
    {"$not": {"missing": 1}},
    {"good": True},
    {"tags": {"$contains": "red"}},
    {"tags": {"$contains": 3.0}},
    {"tags": {"$contains": None}},
    {"tags": {"$any": ["green", "blue"]}},
    {"tags": {"$all": ["blue", "red"]}},
    {"tags": {"$all": []}},
    {"tags": {"$exists": True}},
    {"address.city": "Rome"},
    {"address.geo.lat": {"$gt": 40}},
    {"address": {"$exists": True}},
    {"address": {"$ne": "Rome"}},
    {"title": {"$text": "River"}},
    {"title": {"$regex": "^The .* Forget"}},
    {"title": {"$regex": "(?i)river"}},
    {"when": {"$gt": "2024-05-17T07:29:59Z"}},
    {"when": {"$gte": "2024-05-17T07:30Z", "$lte": "2024-05-17 07:30:00"}},
    {"when": {"$lt": "2024-05-18"}},
    {"big": 10**20},
    {"big": {"$gt": 2**63 - 1}},
    {"$id": 7},
    {"$id": {"$in": [1, 7]}},
    {"$id": {"$gte": 7}},
    {"$subject": "ann"},
    {"$subject": {"$regex": "^a"}},
    {"$subject": {"$exists": True}},
    {"$or": [{"year": 1}, {"lang": "en"}]},
    {"$and": [{"year": 1990}, {"lang": "en"}]},
    {"year": np.int32(1990), "price": np.float32(2.5), "good": np.bool_(True)},
    {"lang": {"$in": np.array(["en"])}},
]
FALSE = [
    {"year": "1990"},
    {"year": True},
    {"good": 1},
    {"none": False},
    {"lang": {"$gt": 1}},
    {"year": {"$gt": "1"}},
    {"missing": None},
    {"missing": {"$lt": 5}},
    {"tags": "red"},
    {"tags": {"$contains": "r"}},
    {"tags": {"$any": []}},
    {"tags": {"$all": ["red", "green"]}},
    {"lang": {"$contains": "en"}},
    {"title": {"$text": "river"}},
    {"year": {"$text": "19"}},
    {"address": {"$text": "Rome"}},
    {"when": "2024-05-17T07:30:00Z"},
    {"when": {"$gt": "2024-05-17T07:30:00Z"}},
    {"$id": "7"},
    {"$subject": None},
    {"$not": {"$subject": {"$exists": True}}},
]


@pytest.mark.parametrize("where", TRUE, ids=str)
def test_holds(where):
    assert matches(parse(where), 7, "ann", RECORD)
    assert not matches(parse({"$not": where}), 7, "ann", RECORD)


@pytest.mark.parametrize("where", FALSE, ids=str)
def test_does_not_hold(where):
    assert not matches(parse(where), 7, "ann", RECORD)


def test_no_subject_is_none_and_does_not_exist():
    assert matches(parse({"$subject": None}), 1, None, None)
    assert matches(parse({"$subject": {"$in": [None, "x"]}}), 1, None, None)
    assert matches(parse({"$subject": {"$exists": False}}), 1, None, None)
    assert not matches(parse({"$subject": {"$ne": None}}), 1, None, None)


@given(filters, payloads, subjects)
def test_a_filter_or_its_negation_holds(where, payload, subject):
    node, negation = parse(where), parse({"$not": where})
    assert matches(node, 7, subject, payload) is not matches(negation, 7, subject, payload)


def deep(levels):
    where = {"a": 1}
    for _ in range(levels):
        where = {"$not": where}
    return where


REFUSED = [
    (None, "expected a mapping"),
    ({}, "at least one condition"),
    ([("a", 1)], "expected a mapping"),
    ({1: 2}, "field names as strings"),
    ({"a": {}}, "expected an operator"),
    ({"a": {"$above": 1}}, "got '\\$above'"),
    ({"a": {"b": 1}}, "got 'b'"),
    ({"$above": 1}, "\\$and, \\$or, \\$not, \\$id, \\$subject"),
    ({"$and": []}, "list of conditions"),
    ({"$and": {"a": 1}}, "list of conditions"),
    ({"$or": "ab"}, "list of conditions"),
    ({"$or": [1]}, "expected a mapping"),
    ({"a..b": 1}, "1 to 16 keys"),
    ({"": 1}, "1 to 16 keys"),
    ({".".join("a" * 17): 1}, "1 to 16 keys"),
    ({"a": float("nan")}, "finite number"),
    ({"a": float("inf")}, "finite number"),
    ({"a": 10**400}, "finite number"),
    ({"a": [1]}, "a string, a finite number"),
    ({"a": b"x"}, "a string, a finite number"),
    ({"a": {"$gt": None}}, "a number or a string"),
    ({"a": {"$gt": True}}, "a number or a string"),
    ({"a": {"$gt": float("nan")}}, "finite number"),
    ({"a": {"$in": "ab"}}, "list of up to 10,000"),
    ({"a": {"$in": 1}}, "list of up to 10,000"),
    ({"a": {"$in": list(range(10_001))}}, "list of up to 10,000"),
    ({"a": {"$any": [[1]]}}, "a string, a finite number"),
    ({"a": {"$exists": 1}}, "True or False"),
    ({"a": {"$text": 1}}, "expected a string"),
    ({"a": {"$regex": 1}}, "expected a string"),
    ({"a": {"$regex": "("}}, "end of the group"),
    ({"a": "\ud800"}, "UTF-8"),
    ({"\ud800": 1}, "UTF-8"),
    ({"a": {"$in": ["\ud800"]}}, "UTF-8"),
    (deep(33), "at most 32 levels"),
    (deep(1_000), "at most 32 levels"),
    ({"$or": [{"a": 1}] * 5_000}, "at most 4096 conditions"),
]


@pytest.mark.parametrize(("where", "words"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_read_is_said(where, words):
    with pytest.raises(ParameterError, match=words):
        parse(where)


def test_a_value_that_is_too_deep_to_print_is_refused_all_the_same():
    value: object = 1
    for _ in range(5_000):
        value = [value]
    with pytest.raises(ParameterError, match="a string, a finite number"):
        parse({"a": {"$in": [value]}})
    with pytest.raises(ParameterError, match="list of conditions"):
        parse({"$and": value} if not isinstance(value, list) else {"$and": {"a": value}})


@pytest.mark.parametrize(
    "text",
    ["2024", "2024-05", "20240517", "2024-13-01", "2023-02-29", "0000-01-01", "2024-05-17T24:00", "2024-05-17T1:00",
     "2024-05-17T10:00:60", "2024-05-17T10:00+24:00", "2024-05-17T10:00:00.", "2024-05-17T10:00:00.0000000001",
     "2024-05-17\n", "٢٠٢٤-05-17", "2024-05-17Z", "2024-05-17T10Z"],
)  # fmt: skip
def test_texts_that_are_no_dates(text):
    assert instant_of(text) is None


def test_instants_are_those_of_python():
    from datetime import datetime, timezone

    for text in ("0001-01-01", "1969-12-31T23:59:59", "2000-02-29T12:00:00.123456", "9999-12-31T23:59:59+14:00"):
        there = datetime.fromisoformat(text)
        there = there if there.tzinfo else there.replace(tzinfo=timezone.utc)
        offset = there.utcoffset()
        start = datetime(1, 1, 1)
        passed = there.replace(tzinfo=None) - start - offset
        nanoseconds = (passed.days * 86_400 + passed.seconds) * 10**9 + passed.microseconds * 1_000
        assert instant_of(text) == nanoseconds


def test_the_page_on_filters_names_the_limits():
    page = Path(__file__).parents[2] / "docs" / "filters.md"
    text = " ".join(page.read_text().split())
    for named in (
        f"{language.MAX_DEPTH} levels of conditions",
        f"{language.MAX_CONDITIONS:,} conditions",
        f"{language.MAX_VALUES:,} values in a list",
        f"{language.MAX_PARTS} keys in a dotted field",
        f"{regex.MAX_PATTERN:,} characters in a pattern",
        f"{regex.MAX_INSTRUCTIONS:,} steps",
    ):
        assert named in text
