"""Downloads against a local server that can cut, lie, forget ranges and change its mind."""

from __future__ import annotations

import fcntl
import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lethevec import datasets
from lethevec.datasets import _download
from lethevec.errors import DownloadError, FileError, FormatError, ParameterError

from .test_sets import write_benchmark

NAME = "glove-25-angular"


@dataclass
class Server:
    """What the server does, and what it was asked."""

    body: bytes
    etag: str | None = '"v1"'
    ranges: bool = True
    cut_after: list[int] = field(default_factory=list)  # bytes of body to send in each coming answer before it breaks
    status: int | None = None
    lie_about_range: bool = False
    chunked: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


def make_handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:  # the name that http.server wants
            server.asked.append({k: v for k, v in self.headers.items() if k in ("Range", "If-Range")})
            if self.path != f"/sets/{NAME}.hdf5":
                self.send_error(404)
                return
            if server.status:
                self.send_error(server.status)
                return
            start = 0
            wanted = self.headers.get("Range")
            current = self.headers.get("If-Range") in (None, server.etag)
            if wanted and server.ranges and current:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(server.body):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(server.body)}")
                    self.end_headers()
                    return
                self.send_response(206)
                shown = 0 if server.lie_about_range else start
                self.send_header("Content-Range", f"bytes {shown}-{len(server.body) - 1}/{len(server.body)}")
            else:
                self.send_response(200)
            if server.etag:
                self.send_header("ETag", server.etag)
            rest = server.body[start:]
            if server.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(rest), rest))
                return
            self.send_header("Content-Length", str(len(rest)))
            self.end_headers()
            if server.cut_after:
                self.wfile.write(rest[: server.cut_after.pop(0)])
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.wfile.write(rest)

    return Handler


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    write_benchmark(tmp_path / "source.hdf5", "angular")
    state = Server((tmp_path / "source.hdf5").read_bytes())
    with ThreadingHTTPServer(("127.0.0.1", 0), make_handler(state)) as http:
        state.url = f"http://127.0.0.1:{http.server_address[1]}/sets/"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        yield state
        http.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_download, "_PAUSE", 0.0)
    monkeypatch.setattr(_download, "_BLOCK", 1000)
    monkeypatch.setenv("no_proxy", "*")


def get(server: Server, folder: Path, sha256: str | None = None) -> Path:
    return datasets.download(NAME, folder=folder, base_url=server.url, sha256=sha256)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download_and_load(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "a/b"
    loaded = datasets.load(NAME, folder=folder, base_url=server.url)
    assert loaded.name == NAME
    assert loaded.train.shape == (40, 6)
    assert (folder / f"{NAME}.hdf5").read_bytes() == server.body
    digest = hashlib.sha256(server.body).hexdigest()
    assert (folder / f"{NAME}.hdf5.sha256").read_text() == f"{digest}  {NAME}.hdf5\n"
    assert files(folder) == [f"{NAME}.hdf5", f"{NAME}.hdf5.sha256"]


def test_default_folder_is_the_data_folder(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LETHEVEC_DATA", str(tmp_path / "data"))
    path = datasets.download(NAME, base_url=server.url)
    assert path == tmp_path / f"data/{NAME}.hdf5"


def test_second_call_does_not_ask_the_server(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path / "d")
    get(server, tmp_path / "d")
    assert len(server.asked) == 1


def test_a_cut_connection_is_resumed_within_one_call(server: Server, tmp_path: Path) -> None:
    server.cut_after = [3000, 0, 1500]
    path = get(server, tmp_path / "d")
    assert path.read_bytes() == server.body
    assert server.asked == [
        {},
        {"Range": "bytes=3000-", "If-Range": '"v1"'},
        {"Range": "bytes=3000-", "If-Range": '"v1"'},
        {"Range": "bytes=4500-", "If-Range": '"v1"'},
    ]


def test_an_interrupted_call_is_resumed_by_the_next(server: Server, tmp_path: Path) -> None:
    server.cut_after = [2500, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match=r"broke 5 times in a row .* 2500 bytes are kept"):
        get(server, tmp_path / "d")
    assert files(tmp_path / "d") == [f"{NAME}.hdf5.part", f"{NAME}.hdf5.part.json"]
    server.cut_after = []
    server.asked.clear()
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert server.asked == [{"Range": "bytes=2500-", "If-Range": '"v1"'}]
    assert files(tmp_path / "d") == [f"{NAME}.hdf5", f"{NAME}.hdf5.sha256"]


def interrupted(server: Server, folder: Path, sha256: str | None = None) -> None:
    """Leave 2,500 bytes of the file in the folder."""
    server.cut_after = [2500, 0, 0, 0, 0] if server.ranges else [2500] * 5
    with pytest.raises(DownloadError):
        get(server, folder, sha256)
    assert server.cut_after == []
    server.asked.clear()


def test_a_file_that_changed_meanwhile_is_fetched_again(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "d")
    server.body = bytes(reversed(server.body))
    server.etag = '"v2"'
    assert get(server, tmp_path / "d").read_bytes() == server.body


def test_a_server_without_ranges(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    interrupted(server, tmp_path / "d")
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert "Range" in server.asked[0]


def test_without_a_version_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    server.etag = None
    interrupted(server, tmp_path / "d")
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert server.asked == [{}]


def test_without_a_version_but_with_a_checksum_it_is_resumed(server: Server, tmp_path: Path) -> None:
    server.etag = None
    digest = hashlib.sha256(server.body).hexdigest()
    interrupted(server, tmp_path / "d", digest)
    assert get(server, tmp_path / "d", digest.upper()).read_bytes() == server.body
    assert server.asked == [{"Range": "bytes=2500-"}]


def test_a_part_of_another_address_is_not_continued(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "d")
    state = tmp_path / f"d/{NAME}.hdf5.part.json"
    state.write_text(state.read_text().replace("127.0.0.1", "127.0.0.2"))
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert server.asked == [{}]


@pytest.mark.parametrize("text", ["", "[]", '{"url": 1}', '{"version": "a\\r\\nEvil: 1"}', "\x00"])
def test_a_damaged_state_file_means_a_fresh_start(server: Server, tmp_path: Path, text: str) -> None:
    interrupted(server, tmp_path / "d")
    (tmp_path / f"d/{NAME}.hdf5.part.json").write_text(text)
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert server.asked == [{}]


def test_a_part_that_was_complete_already(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "d")
    (tmp_path / f"d/{NAME}.hdf5.part").write_bytes(server.body)
    assert get(server, tmp_path / "d").read_bytes() == server.body
    assert len(server.asked) == 1


def test_a_part_that_is_too_long(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "d")
    (tmp_path / f"d/{NAME}.hdf5.part").write_bytes(server.body + b"more")
    assert get(server, tmp_path / "d").read_bytes() == server.body


def test_an_answer_for_other_bytes_is_refused(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "d")
    server.lie_about_range = True
    with pytest.raises(DownloadError, match="expected bytes from 2500, got Content-Range 'bytes 0-"):
        get(server, tmp_path / "d")


def test_an_answer_without_a_length(server: Server, tmp_path: Path) -> None:
    server.chunked = True
    assert get(server, tmp_path / "d").read_bytes() == server.body


def test_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"expected sha256 {'0' * 64}, got [0-9a-f]{{64}}; what came was thrown away"):
        get(server, tmp_path / "d", "0" * 64)
    assert files(tmp_path / "d") == []


def test_damage_after_the_download_is_found(server: Server, tmp_path: Path) -> None:
    path = get(server, tmp_path / "d")
    damaged = bytearray(server.body)
    damaged[100] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FormatError, match=r"expected sha256 .* \(from glove-25-angular\.hdf5\.sha256\), got"):
        get(server, tmp_path / "d")
    assert path.exists()


def test_a_given_checksum_is_held_against_a_file_that_is_there(server: Server, tmp_path: Path) -> None:
    path = get(server, tmp_path / "d")
    get(server, tmp_path / "d", hashlib.sha256(server.body).hexdigest())
    with pytest.raises(FormatError, match=r"\(from the caller\)"):
        get(server, tmp_path / "d", "f" * 64)
    assert path.exists()


def test_another_file_under_the_same_name_is_refused(server: Server, tmp_path: Path) -> None:
    """The sidecar outlives the file: a changed server is noticed when the file is fetched again."""
    get(server, tmp_path / "d").unlink()
    server.body += b"x"
    with pytest.raises(FormatError, match="what came was thrown away"):
        get(server, tmp_path / "d")


def test_a_file_put_there_by_hand_gets_its_checksum_recorded(server: Server, tmp_path: Path) -> None:
    path = tmp_path / f"{NAME}.hdf5"
    path.write_bytes(server.body)
    assert get(server, tmp_path) == path
    assert server.asked == []
    assert hashlib.sha256(server.body).hexdigest() in (tmp_path / f"{NAME}.hdf5.sha256").read_text()


def test_a_damaged_sidecar(server: Server, tmp_path: Path) -> None:
    get(server, tmp_path)
    (tmp_path / f"{NAME}.hdf5.sha256").write_bytes(b"\xff\xfe nonsense")
    with pytest.raises(FormatError, match="expected a sha256 and a file name"):
        get(server, tmp_path)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_http_errors(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(DownloadError, match=f"{NAME}.hdf5: expected the file, got HTTP status {status}"):
        get(server, tmp_path / "d")
    assert f"{NAME}.hdf5" not in files(tmp_path / "d")


def test_offline_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/"
        with pytest.raises(
            DownloadError, match=r"cannot be reached .* offline, fetch the file elsewhere and put it at"
        ):
            datasets.download(NAME, folder=tmp_path, base_url=url)


def test_two_processes_do_not_write_one_part(server: Server, tmp_path: Path) -> None:
    with (tmp_path / f"{NAME}.hdf5.part").open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(DownloadError, match="another process is fetching it"):
            get(server, tmp_path)
    assert get(server, tmp_path).read_bytes() == server.body


def test_a_folder_that_cannot_be_made(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot be written"):
        get(server, tmp_path / "file/d")


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="expected http:// or https://, got 'file:"):
        datasets.download(NAME, folder=tmp_path, base_url="file:///etc/")
    with pytest.raises(ParameterError, match="expected 64 hexadecimal digits, got 'abc'"):
        datasets.download(NAME, folder=tmp_path, sha256="abc")
