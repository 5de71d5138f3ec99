"""The console with many records: how long each screen takes, and how much of it is the server's own time.

    python -m tests.console.large 10000000 [FOLDER]

Makes a store with so many records (in FOLDER, which is used again if it is there), serves it, and goes through the
screens with a browser. For each: milliseconds from the click until it is there, milliseconds in which an answer of the
server was awaited, and the difference, which is the console's own. It also says how many bytes came.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import lethevec

from .conftest import FLAGS, Served, chromium

DIM = 8
PART = 50_000
WHO = "person-17@example.org"


def batches(count: int) -> Iterator[dict[str, Any]]:
    """Records of a person in a thousand, each due one day or never."""
    random = np.random.default_rng(1)
    days = [datetime.now(timezone.utc) + timedelta(days=day) for day in range(100, 1100)]
    people = max(1, count // 1000)
    for start in range(0, count, PART):
        places = range(start, min(start + PART, count))
        yield {
            "vectors": random.normal(size=(len(places), DIM)).astype("f4"),
            "ids": list(places),
            "subjects": [f"person-{place % people}@example.org" for place in places],
            "payloads": [{"year": 1990 + place % 30} for place in places],
            "expires": [days[place % 1000] if place % 3 else None for place in places],
        }


#: How long answers of the server were awaited since the last look, overlaps counted once; and their bytes.
AWAITED = """() => {
    const spans = performance.getEntriesByType("resource").filter((one) => one.name.includes("/v1/"))
        .map((one) => [one.startTime, one.responseEnd, one.transferSize]).sort((one, other) => one[0] - other[0]);
    let end = 0, awaited = 0, bytes = 0;
    for (const [start, stop, size] of spans) {
        awaited += Math.max(0, stop - Math.max(start, end)); end = Math.max(end, stop); bytes += size;
    }
    performance.clearResourceTimings();
    return [awaited, bytes];
}"""


WATCHING = """ready => { window.seen = new Promise((done) => {
    const look = () => {
        const place = document.querySelector("dialog[open]") || document.querySelector("main");
        const busy = !place || place.querySelector(".loading, [aria-busy]") || place.innerText.includes("Counting…");
        if (!busy && place.innerText.includes(ready)) done(performance.now());
        else requestAnimationFrame(look);
    };
    const begin = () => { window.begun = performance.now(); requestAnimationFrame(look); };
    document.addEventListener("click", begin, {once: true, capture: true});
    window.addEventListener("hashchange", begin, {once: true, capture: true});
}) }"""


def measure(page: Page, name: str, act: Callable[[], object], ready: str) -> None:
    """One line. Whether it is ready is looked for in every frame that the browser draws."""
    page.wait_for_function("() => !document.querySelector('main [aria-busy]')")
    page.evaluate(AWAITED)
    page.evaluate(WATCHING, ready)
    act()
    took = page.evaluate("async () => (await window.seen) - window.begun")
    awaited, size = page.evaluate(AWAITED)
    print(f"| {name} | {took:,.0f} | {awaited:,.0f} | {took - awaited:,.0f} | {size / 1024:,.0f} |", flush=True)


def main(count: int, folder: Path) -> None:
    """Make, serve, go through."""
    begin = time.monotonic()
    with lethevec.connect(folder) as db:
        if "large" not in db:
            db.collection("large", dim=DIM, metric="l2").load(batches(count), total=count)
            db.forget(subject="person-3@example.org")
    print(f"{count:,} records, made or opened in {time.monotonic() - begin:,.0f} s", flush=True)
    server = Served(folder, process=True, timeout=600)
    server.admin = server.key("admin")
    begin = time.monotonic()
    server.start()
    server.call(server.admin, "/v1/collections", method="GET")
    print(f"the server was ready after {time.monotonic() - begin:,.0f} s\n", flush=True)
    path = chromium()
    assert path is not None
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(600_000)
        page.goto(server.console)
        page.get_by_label("Key", exact=True).fill(server.admin)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_text("large").first.wait_for()

        def go(screen: str) -> Callable[[], object]:
            return lambda: page.evaluate("screen => { location.hash = `#/${screen}` }", screen)

        def press(name: str, **options: Any) -> Callable[[], object]:
            return lambda: page.get_by_role("button", name=name, **options).first.click()

        print("| screen | ms | of them awaited | the console's own | KiB |\n|---|---|---|---|---|", flush=True)
        measure(page, "find, the first page", go("find/large"), "1 to 25")
        measure(page, "find, the next page", press("Next"), "26 to 50")
        measure(page, "similar to a record", press("Records similar to"), "Similar to")
        page.get_by_label("Id", exact=True).fill("77")
        measure(page, "a record by its id", press("Find", exact=True), "1 record")
        measure(page, "collections", go("collections"), "Distance")
        measure(page, "a collection, with its pictures", go("collections/large"), "Vectors in the plane")
        measure(page, "receipts", go("receipts"), "Chain begun")
        measure(page, "verify all", press("Verify all"), "The whole chain holds")
        measure(page, "holds and retention", go("holds"), "New records are kept")
        measure(page, "keys", go("keys"), "live")
        measure(page, "health", go("health"), "writer")
        go("person")()
        page.get_by_label("Person", exact=True).fill(WHO)
        measure(page, "a person", press("Look up"), "New records")
        measure(page, "their records, a page", press("Show the records in large"), "1 to 25")
        measure(page, "what an erasure would do", press("Erase…"), "It cannot be undone")
        page.get_by_role("button", name="Go on").click()
        page.get_by_label("Type the name of the person once more").fill(WHO)
        measure(page, "the erasure", lambda: page.get_by_role("button", name="Erase ").last.click(), "are erased")
        go("find/large")()
        page.get_by_role("button", name="Add a condition").click()
        page.get_by_label("Field").fill("year")
        page.get_by_label("Value").fill("1999")
        measure(page, "the first filter", press("Find", exact=True), "records fit")
        measure(page, "a filter", press("Find", exact=True), "records fit")
        browser.close()
    server.stop()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(int(sys.argv[1]), Path(place) / "people")
