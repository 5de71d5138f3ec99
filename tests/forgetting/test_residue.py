"""The residue search finds what is planted, in every encoding, at every alignment, and nothing else."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lethevec._forgetting import residue
from lethevec._forgetting.residue import MemorySource, Needle, Paged, id_needles, search, text_needles, vector_needles

RNG = np.random.default_rng(7)
VECTOR = RNG.normal(size=24).astype(np.float32)
NOISE = RNG.bytes(20_000)

ENCODINGS = {
    "float32 LE": VECTOR.astype("<f4").tobytes(),
    "float32 BE": VECTOR.astype(">f4").tobytes(),
    "float64 LE": VECTOR.astype("<f8").tobytes(),
    "float64 BE": VECTOR.astype(">f8").tobytes(),
    "float16 LE": VECTOR.astype("<f2").tobytes(),
    "of length 1": (VECTOR / np.linalg.norm(VECTOR)).astype("<f4").tobytes(),
    "JSON of a list": json.dumps(VECTOR.tolist()).encode(),
    "JSON without spaces": json.dumps(VECTOR.tolist(), separators=(",", ":")).encode(),
    "JSON float32": ("[" + ", ".join(str(v) for v in VECTOR) + "]").encode(),
    "base64, alone": base64.b64encode(VECTOR.tobytes()),
    "base64, after 1 byte": base64.b64encode(b"?" + VECTOR.tobytes() + b"tail"),
    "base64, after 2 bytes": base64.b64encode(b"??" + VECTOR.tobytes() + b"tail"),
    "hexadecimal": VECTOR.tobytes().hex().encode(),
}


def plant(data: bytes, at: int) -> bytes:
    return NOISE[:at] + data + NOISE[at + len(data) :]


def found(data: bytes, needles: list[Needle]) -> residue.Report:
    return search([MemorySource("memory", data)], needles)


class TestVectors:
    def test_nothing_in_noise(self):
        report = found(NOISE, vector_needles(VECTOR))
        assert report.clean
        assert report.searched == {"memory": len(NOISE)}
        assert report.patterns > 100

    @pytest.mark.parametrize("name", ENCODINGS)
    @pytest.mark.parametrize("at", [0, 1, 4095, 5003])
    def test_each_encoding_is_found(self, name: str, at: int):
        report = found(plant(ENCODINGS[name], at), vector_needles(VECTOR))
        assert not report.clean
        assert at <= min(f.offset for f in report.findings) < at + 64

    def test_all_bytes_are_counted(self):
        report = found(plant(ENCODINGS["float32 LE"], 777), vector_needles(VECTOR, own_only=True))
        assert report.bytes_found == 4 * len(VECTOR)

    @pytest.mark.parametrize("start", range(0, 60, 7))
    def test_a_piece_of_23_bytes_is_found(self, start: int):
        piece = ENCODINGS["float32 LE"][start : start + 23]
        assert not found(plant(piece, 1001), vector_needles(VECTOR, own_only=True)).clean

    def test_across_the_border_of_two_blocks(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(residue, "_BLOCK", 512)
        for at in range(480, 530):
            report = found(plant(ENCODINGS["float32 LE"], at), vector_needles(VECTOR, own_only=True))
            assert report.bytes_found == 96
            # Each window once, though blocks overlap.
            assert len(report.findings) == len({(f.offset, f.data) for f in report.findings})

    def test_blocks_that_do_not_follow_on_are_not_joined(self):
        data = ENCODINGS["float32 LE"][:16]

        class Gaps:
            name = "gaps"
            length = 232

            def blocks(self, size):
                yield 0, NOISE[:100] + data[:8]
                yield 4096, data[8:] + NOISE[:100]

        assert search([Gaps()], [Needle("x", data)]).clean

    def test_a_vector_of_zeros_is_too_plain(self):
        report = found(bytes(1000), vector_needles(np.zeros(16, np.float32), own_only=True))
        assert report.clean
        assert report.patterns == 0
        assert report.plain == 7


class TestIds:
    @pytest.mark.parametrize("id", [0x1122334455667788, 0x0000_1122_3344_5566, 0x11_2233_4455, 12_345_678_901])
    def test_a_large_int_in_each_form(self, id: int):
        assert found(NOISE, id_needles(id)).clean
        big = id.to_bytes(8, "big")
        forms = [id.to_bytes(8, "little"), big, str(id).encode(), big.lstrip(b"\0").rjust(6, b"\0")]
        for form in forms:
            assert not found(plant(form, 3001), id_needles(id)).clean, form.hex()

    def test_sqlites_own_forms(self, tmp_path):
        import sqlite3

        id = 0x0123_4567_89AB_CDEF
        path = tmp_path / "db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        connection.execute("CREATE TABLE u (b)")
        connection.execute("INSERT INTO t VALUES (?, 'x')", (id,))
        connection.execute("INSERT INTO u VALUES (?)", (id,))
        connection.commit()
        connection.close()
        labels = {f.label for f in found(path.read_bytes(), id_needles(id)).findings}
        assert labels == {"id SQLite varint", "id int64 BE"}

    def test_a_small_int_is_too_plain(self):
        report = found(NOISE, id_needles(7))
        assert report.patterns == 0
        assert report.plain == 4

    def test_texts(self):
        for text in ("alice@example.org", "Zoë Šebestyén", 'say "cheese" twice'):
            for form in (text.encode(), json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()):
                assert not found(plant(form, 99), text_needles(text, "subject")).clean
        assert not found(plant(b"alice@example.org", 5), id_needles("alice@example.org")).clean

    def test_a_short_text_is_too_plain(self):
        assert found(b"bob" * 100, text_needles("bob", "subject")).plain == 1


def test_explained_findings_are_dropped_and_asked_about_once():
    asked = []

    def explained(finding):
        asked.append(finding.data)
        return finding.data.startswith(b"innocent")

    data = b"..innocent-bystander..guilty-as-charged..innocent-bystander.."
    needles = [Needle("one", b"innocent-bystander", text=True), Needle("two", b"guilty-as-charged", text=True)]
    report = search([MemorySource("m", data)], needles, explained)
    assert {f.label for f in report.findings} == {"two"}
    assert len(asked) == 2
    assert report.to_dict() == {"searched": {"m": len(data)}, "patterns": 2, "plain": 0, "found": 1}


def is_looked_for(piece: bytes) -> bool:
    """At least 6 bytes, 4 different ones among them, and 4 that are not the most frequent one."""
    return len(piece) >= 6 and len(set(piece)) >= 4 and len(piece) - max(map(piece.count, piece)) >= 4


@settings(max_examples=200)
@example(b"\0\0\1\1\1\2\3" + bytes(23), [b"\0\1\1\1\2\3", b"\0\0\1\1\1\2\3"])
@given(st.binary(min_size=0, max_size=200), st.lists(st.binary(min_size=1, max_size=16), max_size=8))
def test_equals_a_plain_search(data: bytes, needles: list[bytes]):
    report = found(data, [Needle(str(i), needle) for i, needle in enumerate(needles)])
    expected = set()
    for number, needle in enumerate(needles):
        if is_looked_for(needle):
            expected |= {(str(number), at) for at in range(len(data)) if data.startswith(needle, at)}
    assert {(f.label, f.offset) for f in report.findings} == expected


@settings(max_examples=100)
@example(b"\0\0\1\1\1\2\3" + bytes(23), 1, 6)
@given(st.binary(min_size=30, max_size=120), st.integers(0, 60), st.integers(6, 16))
def test_pieces_of_the_data_itself_are_found(data: bytes, at: int, size: int):
    piece = data[at : at + size]
    if is_looked_for(piece):
        assert any(f.offset == at for f in found(data, [Needle("x", piece)]).findings)


@given(st.integers(0, 2**63 - 1))
def test_varints_as_sqlite_reads_them(value: int):
    data = residue._sqlite_varint(value)
    result = 0
    for place, byte in enumerate(data):
        if place == 8:
            result = result << 8 | byte
            break
        result = result << 7 | byte & 0x7F
        assert bool(byte & 0x80) == (place < len(data) - 1)
    assert result == value


def test_in_pages_nothing_goes_on_from_one_to_the_next():
    piece = bytes(range(1, 41))
    pages = [bytes(40) + piece[:24], piece[24:] + bytes(48), bytes(7) + piece + bytes(17)]
    plain = MemorySource("f", b"".join(pages))
    needles = [Needle("piece", piece)]
    everywhere = {finding.offset for finding in search([plain], needles).findings}
    within = {finding.offset for finding in search([Paged(plain, 64, 64)], needles).findings}
    assert any(offset < 64 < offset + 16 for offset in everywhere), "some windows stand across the first two pages"
    assert within == {offset for offset in everywhere if offset % 64 + 16 <= 64}
    # Of pages with something between them, only what is in them counts.
    apart = MemorySource("f", b"".join(page + piece[:16] for page in pages))
    assert {f.offset for f in search([Paged(apart, 80, 64)], needles).findings} == {
        offset // 64 * 80 + offset % 64 for offset in within
    }
