"""The files of the console, without a browser: that they are served, whole, and keep the rules that they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "src" / "lethevec" / "server" / "console" / "static"
SCRIPTS = sorted(STATIC.rglob("*.js"))
#: Ways to make markup or code from a text, to keep something in the browser, or to reach another site.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|\beval\(|new Function|"
    r"localStorage|sessionStorage|indexedDB|document\.cookie|history\.pushState|sendBeacon|XMLHttpRequest|importScripts"
)


def test_scripts_keep_the_rules():
    assert len(SCRIPTS) > 12
    for path in SCRIPTS:
        text = path.read_text()
        assert not FORBIDDEN.search(text), path
        addresses = set(re.findall(r"https?://[^\s\"'`]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), path


def test_every_import_leads_to_a_file_and_every_file_is_used():
    used = {"main.js"}
    for path in SCRIPTS:
        for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            target = (path.parent / name).resolve()
            assert target.is_file(), (path, name)
            used.add(str(target.relative_to(STATIC)))
    assert used == {str(path.relative_to(STATIC)) for path in SCRIPTS}


def test_the_page_has_no_script_and_no_style_of_its_own():
    page = (STATIC / "index.html").read_text()
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == [""]
    assert "<style" not in page
    assert " style=" not in page
    assert " on" not in re.sub(r"<[^>]*>", lambda match: match[0] if re.search(r"\son\w+=", match[0]) else "", page)


def test_every_file_is_served_as_what_it_is(start):
    server = start()
    assert server.call("GET", "/console").headers["cache-control"] == "no-store"
    for path in STATIC.rglob("*"):
        if path.is_file() and path.name != "index.html":
            answer = server.call("GET", f"/console/{path.relative_to(STATIC)}")
            assert (answer.status_code, answer.content) == (200, path.read_bytes())
            kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
            assert answer.headers["content-type"].startswith(kinds[path.suffix])
            again = server.call("GET", str(answer.url.path), headers={"if-none-match": answer.headers["etag"]})
            assert again.status_code == 304
    for wrong in ("nothing.js", "../__init__.py", "%2e%2e/__init__.py", "index.html", "screens", "screens/"):
        assert server.call("GET", f"/console/{wrong}").status_code == 404, wrong
    assert server.call("GET", "/console/").headers["location"] == "/console"


def test_the_console_can_be_turned_off(start):
    assert start(console=False).call("GET", "/console").status_code == 404


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pictures_of_the_documents_are_there_and_small(scheme):
    page = (ROOT / "docs" / "console.md").read_text()
    names = re.findall(rf"console/(\w+)-{scheme}\.png", page)
    assert sorted(names) == sorted(
        [
            "collection",
            "collections",
            "door",
            "erase",
            "find",
            "health",
            "holds",
            "keys",
            "person",
            "phone",
            "question",
            "receipt",
            "receipts",
            "waiting",
        ]
    )
    for name in names:
        size = (ROOT / "docs" / "console" / f"{name}-{scheme}.png").stat().st_size
        assert size < 150_000, name
