"""Fetch a large file over HTTP: with progress, resumed where it stopped, checked, and never half there.

The bytes go to `<name>.part`; only a complete and checked file gets its name, by a rename. An interrupted download
leaves the part, and the next call asks for the rest. It does so only when it can tell that the rest belongs to the same
file: the server named a version (ETag or Last-Modified, kept in `<name>.part.json`), or the caller knows the checksum.

The SHA-256 of the first download is kept in `<name>.sha256` (in the form of the sha256sum tool); later calls verify the
file against it. That finds damage and silent changes, not a server that lied the first time: give `sha256` for that.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .._durable import sync_folder
from .._progress import Progress
from .._shown import shown
from ..errors import DownloadError, FileError, FormatError, ParameterError

_BLOCK = 1 << 18
_ATTEMPTS = 5
_PAUSE = 0.5  # seconds before the second attempt; doubles from there


def fetch(url: str, path: Path, *, sha256: str | None = None, timeout: float = 30.0) -> Path:
    """Make sure that `path` holds what `url` gives, and return it. A file that is there is verified, not fetched."""
    if not url.startswith(("http://", "https://")):
        raise ParameterError(f"url: expected http:// or https://, got {shown(url)}")
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise ParameterError(f"sha256: expected 64 hexadecimal digits, got {shown(sha256)}")
    if path.exists():
        verify(path, sha256)
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        with _locked(part, path) as file:
            if path.exists():  # another process was faster
                part.unlink(missing_ok=True)
                verify(path, sha256)
                return path
            _fetch_all(url, path, file, sha256, timeout)
            _accept(url, path, part, sha256)
    except OSError as error:
        raise FileError(f"{path}: cannot be written: {error.strerror or error}") from error
    return path


def verify(path: Path, sha256: str | None = None) -> None:
    """Hold a file against `sha256` and against its sidecar; without either, the sidecar is made now."""
    actual = _digest(path)
    expected = {"the caller": sha256.lower()} if sha256 else {}
    recorded = _read_sidecar(path)
    if recorded:
        expected[_sidecar(path).name] = recorded
    for source, digest in expected.items():
        if digest != actual:
            raise FormatError(
                f"{path}: expected sha256 {digest} (from {source}), got {actual}: the file is damaged or another one; "
                f"remove it and {_sidecar(path).name} to fetch it again"
            )
    if not recorded:
        _write_sidecar(path, actual)


def _fetch_all(url: str, path: Path, file: IO[bytes], sha256: str | None, timeout: float) -> None:
    """Try until the part is complete. Attempts are counted again whenever one brought bytes."""
    attempt = 0
    with Progress(None, f"download {path.name}", unit="bytes") as progress:
        while True:
            before = file.seek(0, os.SEEK_END)
            try:
                if _fetch_rest(url, path, file, sha256, timeout, progress):
                    file.flush()
                    os.fsync(file.fileno())  # before the rename: a name must never stand for bytes that may be lost
                    return
                reason = "the connection closed early"
            except (TimeoutError, ConnectionError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            attempt = 0 if file.seek(0, os.SEEK_END) > before else attempt
            attempt += 1
            if attempt == _ATTEMPTS:
                raise DownloadError(
                    f"{url}: the connection broke {attempt} times in a row ({reason}); {file.tell()} bytes are kept, "
                    f"and the next call goes on from there"
                )
            time.sleep(_PAUSE * 2 ** (attempt - 1))


def _fetch_rest(url: str, path: Path, file: IO[bytes], sha256: str | None, timeout: float, progress: Progress) -> bool:
    """One request for what is missing. True when the part is complete after it."""
    offset = file.seek(0, os.SEEK_END)
    state = _read_state(path)
    same = state.get("url") == url
    version = state.get("version") if same else None
    if offset and not version and not (same and sha256):
        offset = _restart(file)
    headers = {"User-Agent": "lethevec", "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if version:
            headers["If-Range"] = version
    try:
        # The scheme was checked above, and urllib follows redirects to http, https and ftp only.
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and offset:
                if error.headers.get("Content-Range", "").endswith(f"/{offset}"):
                    return True  # everything had come, and only the rename was missing
                _restart(file)
                return False
            raise DownloadError(f"{url}: expected the file, got HTTP status {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError | ConnectionResetError):
            raise error.reason from None
        raise DownloadError(
            f"{url}: the server cannot be reached ({error.reason}). If this machine is offline, fetch the file "
            f"elsewhere and put it at {path}"
        ) from None
    with response:
        return _save_body(url, path, file, response, offset, progress)


def _save_body(url: str, path: Path, file: IO[bytes], response: Any, offset: int, progress: Progress) -> bool:
    headers = response.headers
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", ""))
        if not match or int(match[1]) != offset:
            raise DownloadError(
                f"{url}: expected bytes from {offset}, got Content-Range {headers.get('Content-Range')!r}"
            )
        total = None if match[2] == "*" else int(match[2])
    elif response.status == 200:  # no ranges there, or the file has changed: from the beginning
        offset = _restart(file)
        length = headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
    else:
        raise DownloadError(f"{url}: expected HTTP status 200 or 206, got {response.status}")
    etag = headers.get("ETag")
    version = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified")
    _write_state(path, {"url": url, "version": version})
    progress.total = total
    progress.advance(offset - progress.done)
    while block := _read_block(response):
        file.write(block)
        offset += len(block)
        progress.advance(len(block))
    file.flush()
    return total is None or offset == total


def _read_block(response: Any) -> bytes:
    try:
        block: bytes = response.read(_BLOCK)
    except OSError as error:  # of the network (TLS among them), to be told from those of the disk
        raise ConnectionError(str(error) or type(error).__name__) from error
    return block


def _accept(url: str, path: Path, part: Path, sha256: str | None) -> None:
    actual = _digest(part)
    recorded = _read_sidecar(path)  # of a file that was there once and is fetched again
    for expected in filter(None, (sha256.lower() if sha256 else None, recorded)):
        if expected != actual:
            part.unlink()
            _state_path(path).unlink(missing_ok=True)
            raise FormatError(f"{url}: expected sha256 {expected}, got {actual}; what came was thrown away")
    _write_sidecar(path, actual)
    os.replace(part, path)
    _state_path(path).unlink(missing_ok=True)
    sync_folder(path.parent)


@contextmanager
def _locked(part: Path, path: Path) -> Iterator[IO[bytes]]:
    """The part, open for appending, by one process at a time (where the system has flock)."""
    with part.open("ab") as file:
        try:
            import fcntl
        except ImportError:  # pragma: no cover  # Windows
            yield file
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DownloadError(f"{path}: expected to be the only one, but another process is fetching it") from None
        yield file


def _restart(file: IO[bytes]) -> int:
    file.truncate(0)
    return file.seek(0)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file, Progress(path.stat().st_size, f"check {path.name}", unit="bytes") as progress:
            while block := file.read(1 << 20):
                digest.update(block)
                progress.advance(len(block))
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror or error}") from None
    return digest.hexdigest()


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _read_sidecar(path: Path) -> str | None:
    try:
        line = _sidecar(path).read_text(encoding="utf-8")[:200]
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        line = ""
    match = re.match(r"([0-9a-f]{64})\s", line)
    if not match:
        raise FormatError(f"{_sidecar(path)}: expected a sha256 and a file name, got {line[:40]!r}")
    return match[1]


def _write_sidecar(path: Path, digest: str) -> None:
    _write_whole(_sidecar(path), f"{digest}  {path.name}\n")


def _state_path(path: Path) -> Path:
    return path.with_name(path.name + ".part.json")


def _read_state(path: Path) -> dict[str, str]:
    try:
        state = json.loads(_state_path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    strings = state.items() if isinstance(state, dict) else ()
    # A line break in the version would let the file write headers of its own.
    return {k: v for k, v in strings if isinstance(v, str) and v.isprintable()}


def _write_state(path: Path, state: dict[str, str | None]) -> None:
    _write_whole(_state_path(path), json.dumps(state))


def _write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
