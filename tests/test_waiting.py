"""A sign of life on a terminal, none elsewhere, and nothing left behind."""

from __future__ import annotations

import io
import threading

import pytest

from lethevec._waiting import waiting


class Terminal(io.StringIO):
    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.fails = fails
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.drawn.set()
        if self.fails:
            raise OSError("gone")
        return super().write(text)


def test_a_terminal_sees_it_and_it_is_wiped():
    stream = Terminal()
    with waiting("working", stream=stream, delay=0.0):
        assert stream.drawn.wait(60)
    first, *_, last, end = stream.getvalue().split("\r")[1:]
    assert first.startswith("working  ")
    assert last == " " * len(last)
    assert len(last) >= len(first)
    assert end == ""


def test_quick_work_and_other_streams_stay_silent():
    stream, elsewhere = Terminal(), io.StringIO()
    with waiting("working", stream=stream, delay=3600.0):
        pass
    with waiting("working", stream=elsewhere, delay=0.0):
        pass
    assert stream.getvalue() == elsewhere.getvalue() == ""


def test_errors_pass_and_a_terminal_that_is_gone_is_nobodys_problem():
    stream = Terminal(fails=True)

    def fail() -> None:
        assert stream.drawn.wait(60)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), waiting("working", stream=stream, delay=0.0):
        fail()
