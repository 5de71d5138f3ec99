"""The progress line: silent when it should be, true when it speaks, and gone afterwards."""

from __future__ import annotations

import io

import pytest

from lethevec._progress import Progress


class FakeTerminal(io.StringIO):
    """A terminal that remembers all that was written, and can show what a person would see."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> str:
        """The visible line: a carriage return goes back to column 0 and what follows overwrites."""
        line: list[str] = []
        column = 0
        for char in self.getvalue():
            if char == "\r":
                column = 0
                continue
            line[column : column + 1] = [char]
            column += 1
        return "".join(line).rstrip()


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "24")


def test_shows_share_counts_rate_and_eta() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    with Progress(10_000, "hashing", unit="vectors", stream=terminal, clock=clock) as progress:
        clock.now += 2.0
        progress.advance(2_500)
        line = terminal.screen()
    assert line == "hashing   25 % [#####---------------]  2,500 of 10,000 vectors  1,250 vectors/s  ETA 0:06"


def test_line_is_wiped_at_the_end() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    with Progress(10, "work", stream=terminal, clock=clock) as progress:
        clock.now += 5.0
        progress.advance(3)
        assert terminal.screen() != ""
    assert terminal.screen() == ""
    assert terminal.getvalue().endswith("\r")


def test_line_is_wiped_after_an_error_and_the_error_passes() -> None:
    terminal, clock = FakeTerminal(), FakeClock()

    def fail() -> None:
        with Progress(10, "work", stream=terminal, clock=clock) as progress:
            clock.now += 5.0
            progress.advance(3)
            raise RuntimeError("the work failed")

    with pytest.raises(RuntimeError, match="the work failed"):
        fail()
    assert terminal.screen() == ""


def test_a_shorter_line_leaves_nothing_of_a_longer_one() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    progress = Progress(None, "reading", unit="rows", stream=terminal, clock=clock)
    clock.now += 2.0
    progress.advance(1_000_000)
    clock.now += 10_000.0
    progress.advance(1)
    assert terminal.screen() == "reading  1,000,001 rows  100 rows/s"


def test_quick_work_is_silent() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    with Progress(100, "work", stream=terminal, clock=clock) as progress:
        for _ in range(100):
            clock.now += 0.0099
            progress.advance()
    assert terminal.getvalue() == ""
    assert progress.done == 100


def test_no_terminal_means_silence_and_no_look_at_the_clock() -> None:
    stream, clock = io.StringIO(), FakeClock()
    with Progress(100, "work", stream=stream, clock=clock) as progress:
        clock.now += 60.0
        progress.advance(50)
    assert stream.getvalue() == ""
    assert clock.looks == 0
    assert progress.done == 50


def test_redraws_at_most_ten_times_a_second() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    with Progress(100_000, "work", stream=terminal, clock=clock) as progress:
        for _ in range(3_000):
            clock.now += 0.001
            progress.advance()
        drawn = terminal.getvalue().count("\r")
    assert 15 <= drawn <= 21  # two of the three seconds are beyond the delay


def test_never_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    terminal, clock = FakeTerminal(), FakeClock()
    progress = Progress(10, "a label that is longer than the whole line", stream=terminal, clock=clock)
    clock.now += 2.0
    progress.advance()
    assert len(terminal.screen()) == 29


def test_bytes_are_shown_in_decimal_units() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    progress = Progress(3_600_000_000, "download", unit="bytes", stream=terminal, clock=clock)
    clock.now += 2.0
    progress.advance(5_000_000)
    assert "5.0 MB of 3.6 GB  2.5 MB/s  ETA 23:58" in terminal.screen()


def test_no_progress_yet_says_unknown_instead_of_dividing_by_zero() -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    progress = Progress(10, "work", stream=terminal, clock=clock)
    clock.now += 2.0
    progress.advance(0)
    assert terminal.screen().endswith("ETA unknown")


def test_a_broken_stream_silences_the_bar_and_not_the_work() -> None:
    class Broken(FakeTerminal):
        writes = 0

        def write(self, text: str) -> int:
            self.writes += 1
            raise BrokenPipeError

    terminal, clock = Broken(), FakeClock()
    with Progress(10, "work", stream=terminal, clock=clock) as progress:
        for _ in range(5):
            clock.now += 2.0
            progress.advance()
    assert progress.done == 5
    assert terminal.writes == 1


def test_default_stream_is_stderr_as_it_is_when_the_work_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, clock = FakeTerminal(), FakeClock()
    monkeypatch.setattr("sys.stderr", terminal)
    progress = Progress(10, "work", clock=clock)
    clock.now += 2.0
    progress.advance()
    assert terminal.screen().startswith("work   10 %")
