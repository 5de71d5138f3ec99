"""The pictures of docs/console.md: every screen in light and dark, of the demo's words (`make console-pictures`).

python -m tests.console.pictures docs/console
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from .conftest import FLAGS, Served, chromium, held_open, stores

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import console_demo  # noqa: E402

WHO = "ines@example.org"
OTHER = "paula@example.org"
SIZE = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 844}


def take(page: Page, folder: Path, name: str, scheme: str, *, whole: bool = False) -> None:
    """`whole`: in a window that is tall enough for all of the screen. The colours are the 256 that are nearest to those
    that the screen has, by k-means: no shade differs by what an eye sees, and the file is half as large."""
    page.mouse.move(2, 2)
    if whole:
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({**SIZE, "height": max(height, SIZE["height"])})
    page.wait_for_timeout(250)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    few = picture.quantize(256, Image.Quantize.MEDIANCUT, kmeans=3, dither=Image.Dither.NONE)
    few.save(folder / f"{name}-{scheme}.png", optimize=True)
    if whole:
        page.set_viewport_size(SIZE)


def screens(page: Page, server: Served, folder: Path, scheme: str) -> None:
    """One after the other, as somebody would go through them."""

    def go(screen: str, wait: str) -> None:
        page.evaluate("screen => { location.hash = `#/${screen}` }", screen)
        page.get_by_text(wait).filter(visible=True).first.wait_for()
        page.wait_for_function("() => !document.querySelector('main [aria-busy], main .loading')")

    page.goto(server.console)
    page.get_by_label("Key", exact=True).wait_for()
    take(page, folder, "door", scheme)
    page.get_by_label("Key", exact=True).fill(server.admin)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("letters").first.wait_for()
    take(page, folder, "collections", scheme)
    go("collections/words", "Vectors in the plane")
    take(page, folder, "collection", scheme, whole=True)
    go("find/words", "1 to 25")
    page.get_by_role("button", name="Add a condition").click()
    page.get_by_label("Field").fill("letters")
    page.get_by_role("combobox", name="Condition").select_option("$gte")
    page.get_by_label("Value").fill("9")
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_text("records fit").first.wait_for()
    page.wait_for_function("() => !document.querySelector('main [aria-busy]')")
    take(page, folder, "find", scheme)
    go("person", "What is held of somebody")
    page.get_by_label("Person", exact=True).fill(WHO)
    page.get_by_role("button", name="Look up").click()
    page.get_by_role("button", name="Show the records in words").click()
    page.get_by_text("1 to ").first.wait_for()
    take(page, folder, "person", scheme)
    page.get_by_role("button", name="Erase…").click()
    page.get_by_text("It cannot be undone").first.wait_for()
    take(page, folder, "erase", scheme)
    page.get_by_role("button", name="Go on").click()
    page.get_by_label("Type the name of the person once more").fill(WHO)
    take(page, folder, "question", scheme)
    readers = [held_open(path) for path in stores(server.folder)]
    page.get_by_role("button", name="Erase ").last.click()
    page.get_by_text("Not complete yet").first.wait_for()
    take(page, folder, "waiting", scheme)
    for reader in readers:
        reader.execute("ROLLBACK")
        reader.close()
    page.get_by_text("are erased").first.wait_for()
    page.get_by_role("button", name="Verify", exact=True).click()
    page.get_by_text("This receipt holds").first.wait_for()
    take(page, folder, "receipt", scheme)
    go("receipts", "Chain begun")
    page.get_by_role("button", name="Verify all").click()
    page.get_by_text("The whole chain holds").wait_for()
    take(page, folder, "receipts", scheme)
    go("holds", "Legal holds")
    take(page, folder, "holds", scheme)
    go("keys", "What each role may")
    take(page, folder, "keys", scheme, whole=True)
    go("health", "Calls since the start")
    for turn in range(60):  # somebody uses the server meanwhile
        for _ in range(3 + turn % 7):
            server.call(server.admin, "/v1/collections/words/search", {"vector": [turn + 1, 1] * 50, "k": 5})
        page.wait_for_timeout(600)
    take(page, folder, "health", scheme, whole=True)
    page.set_viewport_size(PHONE)
    go("person", "What is held of somebody")
    page.get_by_label("Person", exact=True).fill(OTHER)
    page.get_by_role("button", name="Look up").click()
    page.get_by_role("button", name="Export").wait_for()
    take(page, folder, "phone", scheme)


def main(folder: Path) -> None:
    """All of them."""
    with sync_playwright() as running, tempfile.TemporaryDirectory() as place:
        path = chromium()
        assert path is not None, "it needs chromium"
        browser = running.chromium.launch(executable_path=path, args=FLAGS)
        for scheme in ("light", "dark"):
            server = Served(Path(place) / scheme / "people", process=True, timeout=3)
            server.folder.parent.mkdir()
            console_demo.fill(server.folder)
            server.admin = server.key("admin", name="data protection")
            server.key("reader", name="search page", collections=["words"])
            server.key("eraser", "holder", name="front desk", expires_at="2031-12-31")
            server.start()
            context = browser.new_context(color_scheme=scheme, viewport=SIZE)
            screens(context.new_page(), server, folder, scheme)
            context.close()
            server.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
