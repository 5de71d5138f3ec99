"""Patterns: what Python's `re` finds in this subset is found, and no pattern takes long."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethevec._filters.regex import compile_pattern
from lethevec.errors import ParameterError

atoms = st.sampled_from(
    ["a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\S", r"\.", "é", r"\b", "^", "$", "[]a]", r"[\d-]"]
)


def repeated(part: str, times: str) -> str:
    return part if part in ("^", "$", r"\b") else f"(?:{part}){times}"


patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{1,}", "*?"])).map(lambda p: repeated(*p)),
    ),
    max_leaves=6,
)
texts = st.text(alphabet="abc.d1 é", max_size=8)


@given(patterns, texts)
def test_finds_what_pythons_own_finds(pattern, text):
    assert compile_pattern(pattern).found_in(text) == (re.search(pattern, text, re.ASCII) is not None)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^\x61\u00e9\U0001F600$", "aé😀", True),
        ("(?i)straße", "STRAßE", True),
        ("(?i)[é]", "É", True),
        ("(?i)[a-z]+$", "ABC", True),
        ("^a$", "a\n", False),  # the end is the end of the text
        (".", "\n", False),
        ("a{0}", "", True),
        ("()*", "x", True),
        ("(a|)+b", "aab", True),
        ("x{3,5}", "xx", False),
        ("[^\\]]", "]", False),
        ("[-a]", "-", True),
        ("^", "", True),
        (r"\B", "", True),
    ],
)
def test_examples(pattern, text, found):
    assert compile_pattern(pattern).found_in(text) is found


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "end of the group"),
        (")", "group that was opened"),
        ("[", "more of the pattern"),
        ("[a", "more of the pattern"),
        ("[z-a]", "lower to the higher"),
        (r"[\d-z]", "single characters"),
        ("*", "something to repeat"),
        ("^*", "something to repeat"),
        ("a**", "one repetition"),
        ("a{2}{2}", "one repetition"),
        ("a{2,1}", "m up to n"),
        ("a{1001}", "number of times"),
        ("a{x}", "number of times"),
        ("a\\", "more of the pattern"),
        (r"\1", "escape that patterns have"),
        (r"\p{L}", "escape that patterns have"),
        (r"\xg0", "hexadecimal"),
        (r"\UFFFFFFFF", "character of Unicode"),
        ("(?=a)", "another kind of group"),
        ("(?P<n>a)", "another kind of group"),
        ("a" * 1_001, "at most 1000 characters"),
        ("(" * 60 + ")" * 60, "inside each other"),
        ("((a{100}){100}){100}", "at most 2000 steps"),
        ("(((((a*){9}){9}){9}){9}){9}", "at most 2000 steps"),
    ],
)
def test_what_cannot_be_a_pattern_is_said(pattern, words):
    with pytest.raises(ParameterError, match=re.escape(words)):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|a)*b", "(a|aa)+$b", "(.*)*b", "(a+)+b", "((a?){20}){20}b"])
def test_hostile_patterns_end(pattern):
    started = time.process_time()
    assert not compile_pattern(pattern).found_in("a" * 300)
    assert time.process_time() - started < 60  # Python's own would take longer than the universe is old
