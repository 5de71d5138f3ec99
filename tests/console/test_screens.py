"""The screens: what they show, by keyboard and at phone width, in light and dark, and never all of anything."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

expect = pytest.importorskip("playwright.sync_api", reason="it needs playwright: make test-console").expect
axe_package = pytest.importorskip("axe_playwright_python", reason="it needs axe: make test-console")
AXE = (Path(axe_package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
SCREENS = ["collections", "collections/notes", "find", "person", "receipts", "receipts/1", "holds", "keys", "health"]
ANN = "ann@example.org"


def accessible(page) -> list[str]:
    """What axe finds wrong, in every rule that it has for WCAG 2.2 A and AA, and its best practices."""
    page.evaluate(AXE)
    found = page.evaluate(
        "async () => (await axe.run(document, {resultTypes: ['violations'],"
        " runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})).violations"
    )
    return [f"{one['id']}: {one['help']}: {node['html'][:200]}" for one in found for node in one["nodes"]]


def settle(visitor, screen: str) -> None:
    """Wait until nothing is being asked for."""
    visitor.go(screen)
    visitor.page.wait_for_function("() => !document.querySelector('main [aria-busy], main .loading')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_screen_is_accessible(serve, visit, scheme):
    server = serve()
    server.call(server.admin, "/v1/forget", {"subject": "bob@example.org"})
    server.call(server.admin, "/v1/hold", {"subject": "cyd@example.org", "reason": "case"})
    visitor = visit(server, color_scheme=scheme).come()
    expect(visitor.page.get_by_label("Key", exact=True)).to_be_visible()
    problems = {"door": accessible(visitor.page)}
    visitor.sign_in(server.admin)
    expect(visitor.page.get_by_role("navigation", name="Screens")).to_be_visible()
    for screen in SCREENS:
        settle(visitor, screen)
        problems[screen] = accessible(visitor.page)
    settle(visitor, "receipts/1")
    visitor.click("Verify", exact=True)
    visitor.sees("This receipt holds")
    problems["verified"] = accessible(visitor.page)
    settle(visitor, "find/notes")
    visitor.click("Add a condition")
    problems["filter"] = accessible(visitor.page)
    visitor.click(re.compile("^Open record"))
    visitor.sees("Payload")
    problems["record"] = accessible(visitor.page)
    visitor.page.keyboard.press("Escape")
    settle(visitor, "keys")
    visitor.click(re.compile("^Make a key"))
    problems["new key"] = accessible(visitor.page)
    visitor.page.keyboard.press("Escape")
    settle(visitor, "person")
    visitor.look_up(ANN)
    visitor.sees_what_is_held()
    problems["held"] = accessible(visitor.page)
    visitor.click(re.compile("^Erase…"))
    visitor.sees("It cannot be undone")
    problems["preview"] = accessible(visitor.page)
    visitor.click("Go on")
    problems["question"] = accessible(visitor.page)
    visitor.page.get_by_label("Type the name of the person once more").fill(ANN)
    visitor.page.get_by_role("button", name=re.compile("^Erase [0-9]")).click()
    visitor.sees("are erased")
    problems["erased"] = accessible(visitor.page)
    assert {screen: found for screen, found in problems.items() if found} == {}


def test_every_screen_fits_a_phone_and_the_menu_leads_everywhere(serve, visit):
    server = serve()
    server.call(server.admin, "/v1/forget", {"subject": "bob@example.org"})
    visitor = visit(server, viewport={"width": 360, "height": 740}, has_touch=True).come(server.admin)
    for screen in SCREENS:
        settle(visitor, screen)
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360, screen
    for name in ("Find", "Receipts", "Health"):
        menu = visitor.page.get_by_role("button", name="Menu")
        menu.click()
        expect(menu).to_have_attribute("aria-expanded", "true")
        visitor.page.get_by_role("navigation", name="Screens").get_by_role("link", name=name).click()
        expect(visitor.page.get_by_role("heading", name=name, level=1)).to_be_visible()
        expect(menu).to_have_attribute("aria-expanded", "false")


TOO_WIDE = """() => [...document.querySelectorAll(".table")].flatMap((table) =>
    [table, ...table.querySelectorAll("th, td")].filter((one) => one.scrollWidth > one.clientWidth)
        .map((one) => [table.getAttribute("aria-label"), one.textContent.slice(0, 30), one.scrollWidth]))"""


def test_no_table_is_wider_than_a_usual_window(serve, visit):
    """At 1200 px nothing is cut, nothing scrolls, and so no button stands before what it belongs to."""
    server = serve()
    for place in range(30):
        body = {
            "ids": [f"invoices/2031/05/incoming/{place:012d}"],
            "vectors": [[place + 1, 1] * 4],
            "subjects": ["maximiliane.hohenstein-wittgenfeld@customers.example.org"],
            "payloads": [
                {
                    "title": "A report on the state of things, and what is to be done about them this year",
                    "link": "https://files.example.org/archive/2031/05/9f8e7d6c5b4a39281706f5e4d3c2b1a0.pdf",
                    "year": 2031,
                    "language": "English",
                    "tags": ["red", "green"],
                    "pages": 12,
                }
            ],
            "expires": ["2031-12-31"],
        }
        server.call(server.admin, "/v1/collections/notes/upsert", body)
    server.call(server.admin, "/v1/forget", {"subject": "bob@example.org"})
    reason = "Case 2031-7: the documents of the merger stay until the court has ruled"
    server.call(server.admin, "/v1/hold", {"subject": "cyd@example.org", "reason": reason})
    for name, roles, more in (
        ("search page", ["reader"], {"collections": ["notes", "photos"]}),
        ("front desk of the branch in Rome", ["eraser", "holder"], {"expires_at": "2031-12-31"}),
    ):
        server.key(*roles, name=name, **more)
    visitor = visit(server, viewport={"width": 1200, "height": 900}).come(server.admin)
    found = {}
    for screen in SCREENS:
        settle(visitor, screen)
        found[screen] = visitor.page.evaluate(TOO_WIDE)
    settle(visitor, "find/notes")
    visitor.page.get_by_label("Person", exact=True).fill("maximiliane.hohenstein-wittgenfeld@customers.example.org")
    visitor.click("Find", exact=True)
    visitor.sees("30 records fit")
    visitor.sees("1 to 25")
    found["filtered"] = visitor.page.evaluate(TOO_WIDE)
    visitor.click(re.compile("^Records similar to"))
    visitor.sees("Nearest first")
    expect(visitor.page.get_by_role("columnheader", name="Distance")).to_be_visible()
    found["similar"] = visitor.page.evaluate(TOO_WIDE)
    settle(visitor, "person")
    visitor.look_up("maximiliane.hohenstein-wittgenfeld@customers.example.org")
    visitor.click("Show the records in notes")
    visitor.sees("1 to 25 of 30")
    found["person"] = visitor.page.evaluate(TOO_WIDE)
    visitor.click(re.compile("^Erase…"))
    visitor.sees("It cannot be undone")
    found["preview"] = visitor.page.evaluate(TOO_WIDE)
    assert {screen: wide for screen, wide in found.items() if wide} == {}


def test_the_cluster_behind_a_server_is_shown_with_who_is_away(serve, visit, tmp_path, monkeypatch):
    from lethevec.cluster.connecting import open_cluster
    from lethevec.cluster.local import LocalNetwork, LocalTransport

    net = LocalNetwork(tmp_path / "cluster")
    transport = LocalTransport(net, "driver")
    db = open_cluster(net, transport, net.cluster, net.secret, timeout=20.0, shards=2, replicas=2)
    db.collection("notes", dim=2).add([[1, 0], [0, 1], [1, 1]], ids=[1, 2, 3])
    monkeypatch.setattr("lethevec.server.core._connect", lambda settings, *, read_only: db)
    try:
        server = serve()
        visitor = visit(server, viewport={"width": 1200, "height": 900}).come(server.admin, "health")
        visitor.sees(re.compile("2 shards, 4 members. All of them answer. No erasure waits."))
        rows = visitor.page.get_by_role("region", name="Members of the cluster").get_by_role("row")
        expect(rows).to_have_count(5)
        expect(rows.get_by_text("live", exact=True)).to_have_count(4)
        assert visitor.page.evaluate(TOO_WIDE) == []
        assert accessible(visitor.page) == []
        gone = db.status()["members"][0]["member"]
        net.stop_member(gone)
        server.call(server.admin, "/v1/collections/notes/upsert", {"ids": [4, 5, 6, 7], "vectors": [[1, 2]] * 4})
        server.call(server.admin, "/v1/collections/notes/forget", {"ids": [1]})
        visitor.sees(re.compile(f"{gone}: away. 1 erasure waits for members to carry it out."))
        expect(rows.filter(has_text=gone)).to_contain_text("away")
        expect(rows.filter(has_text=gone).get_by_role("cell").last).to_have_text("1")
    finally:
        for one in visitor.context.pages:
            one.close()
        server.stop()
        net.close()


def test_a_person_is_erased_with_the_keyboard_alone(serve, visit):
    server = serve()
    visitor = visit(server).come()
    press = visitor.page.keyboard.press
    type_text = visitor.page.keyboard.type
    expect(visitor.page.get_by_label("Key", exact=True)).to_be_focused()
    type_text(server.admin)
    press("Enter")
    expect(visitor.page.get_by_role("heading", name="Collections")).to_be_focused()

    def tab_to(name: str) -> None:
        for _ in range(60):
            press("Tab")
            shown = visitor.page.evaluate(
                "() => document.activeElement.labels?.[0]?.textContent || document.activeElement.textContent"
            )
            if shown == name:
                return
        raise AssertionError(f"the keyboard does not reach {name}")

    visitor.page.evaluate("document.activeElement.blur()")
    tab_to("Skip to the content")
    press("Enter")
    expect(visitor.page.locator("main")).to_be_focused()
    visitor.page.evaluate("document.querySelector('.skip').focus()")
    tab_to("Person")
    press("Enter")
    expect(visitor.page.get_by_role("heading", name="Person")).to_be_focused()
    tab_to("Person")
    type_text(ANN)
    press("Enter")
    visitor.sees_what_is_held()
    tab_to("Erase…")
    press("Enter")
    visitor.sees("It cannot be undone")
    tab_to("Go on")
    press("Enter")
    expect(visitor.page.get_by_label("Type the name of the person once more")).to_be_focused()
    type_text(ANN)
    press("Enter")
    visitor.sees("35 records are erased")


def test_collections_have_pictures(serve, visit):
    visitor = visit(server := serve()).come(server.admin)
    expect(visitor.page.get_by_role("row")).to_have_count(3)
    visitor.page.get_by_role("link", name="notes").click()
    visitor.sees("Records becoming due")
    visitor.sees("People with the most records")
    expect(visitor.page.locator("svg.scatter circle")).to_have_count(120)
    expect(visitor.page.locator(".column-bar").first).to_be_visible()
    visitor.page.get_by_text("As a table").last.click()
    expect(visitor.page.get_by_role("cell", name=ANN)).to_be_visible()
    expect(visitor.page.get_by_text("30 records of nobody")).to_be_visible()


def test_records_are_found_by_id_by_filter_and_by_what_they_are_like(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "find/notes")
    visitor.sees("1 to 25 of 120")
    visitor.click("Next")
    visitor.sees("26 to 50 of 120")
    visitor.click("Previous")
    visitor.sees("1 to 25 of 120")

    visitor.click("Add a condition")
    visitor.page.get_by_label("Field").fill("year")
    visitor.page.get_by_role("combobox", name="Condition").select_option("$gte")
    visitor.page.get_by_label("Value").fill("2018")
    visitor.click("Find", exact=True)
    visitor.sees("8 records fit")
    visitor.page.get_by_label("Person", exact=True).fill(ANN)
    visitor.click("Find", exact=True)
    visitor.sees(re.compile("[0-9] records fit"))
    wanted = {"where": {"year": {"$gte": 2018}}, "subject": ANN}
    count = server.call(server.admin, "/v1/collections/notes/count", wanted)["records"]
    expect(visitor.page.get_by_role("row")).to_have_count(count + 1)
    visitor.click("Remove this condition")
    visitor.page.get_by_label("Person", exact=True).fill("")

    visitor.page.get_by_label("Id", exact=True).fill("note-17")
    visitor.click("Find", exact=True)
    expect(visitor.page.get_by_role("row")).to_have_count(2)
    visitor.click("Records similar to note-17")
    visitor.sees("Similar to")
    expect(visitor.page.get_by_role("row")).to_have_count(26)
    first = visitor.page.get_by_role("rowheader").first.inner_text()
    vector = server.call(server.admin, "/v1/collections/notes/get", {"ids": ["note-17"], "include": ["vectors"]})
    hits = server.call(server.admin, "/v1/collections/notes/search", {"vector": vector["vectors"][0], "k": 2})
    assert hits["ids"][0] == ["note-17", first]
    visitor.page.get_by_label("Id", exact=True).fill("nobody")
    visitor.click("Find", exact=True)
    visitor.sees("No record has this id")
    visitor.page.get_by_label("Collection").select_option("photos")
    visitor.page.get_by_label("Id", exact=True).fill("7")  # a number there
    visitor.click("Find", exact=True)
    expect(visitor.page.get_by_role("row")).to_have_count(2)


def test_a_filter_that_cannot_be_used_says_so(serve, visit):
    visitor = visit(server := serve()).come(server.admin, "find/notes")
    visitor.click("Add a condition")
    visitor.page.get_by_label("Field").fill("$near")
    visitor.page.get_by_label("Value").fill("1")
    visitor.click("Find", exact=True)
    visitor.sees("The server has refused this")


def test_keys_are_made_used_and_withdrawn(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "keys")
    visitor.click(re.compile("^Make a key"))
    visitor.click("Make the key")
    visitor.sees("A key needs a name and at least one role.")
    visitor.page.get_by_label("What it is for").fill("front desk")
    visitor.page.get_by_label("reader").check()
    visitor.click("Make the key")
    visitor.sees("Keep it now: it is not shown again")
    text = visitor.page.locator(".secret").inner_text()
    visitor.click("Done")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    assert text not in visitor.page.content()
    visitor.sees("front desk")
    other = visit(server)
    other.come(text)
    visitor.click("Withdraw the key front desk")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Withdraw").click()
    row = visitor.page.get_by_role("row").filter(has_text="front desk")
    expect(row.get_by_text("withdrawn", exact=True)).to_be_visible()  # its state
    time.sleep(0.7)
    other.go("health")
    other.sees(re.compile("Your session has ended"))


def test_a_closed_dialog_is_out_of_the_page_at_once(serve, visit):
    """However it is closed: with its button, with Escape, and when one goes to another screen."""
    server = serve()
    visitor = visit(server).come(server.admin, "keys")
    ways = [
        "() => [...document.querySelectorAll('dialog button')].find((one) => one.textContent === 'Done').click()",
        "() => document.querySelector('dialog').dispatchEvent(new Event('cancel', {cancelable: true}))",
        "() => document.querySelector('dialog [aria-label=Close]').click()",
    ]
    for number, way in enumerate(ways):
        visitor.click(re.compile("^Make a key"))
        visitor.page.get_by_label("What it is for").fill(f"desk {number}")
        visitor.page.get_by_label("reader").check()
        visitor.click("Make the key")
        text = visitor.page.locator(".secret").inner_text()
        left = visitor.page.evaluate(f"() => {{ ({way})(); return document.documentElement.outerHTML; }}")
        assert text not in left
        assert "<dialog" not in left
    visitor.click(re.compile("^Make a key"))
    visitor.page.get_by_label("What it is for").fill("a secret purpose")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    visitor.click(re.compile("^Make a key"))
    visitor.go("health")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_what_was_asked_for_before_and_comes_later_is_not_shown(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "find/notes")
    visitor.sees("1 to 25 of 120")
    late = []
    visitor.page.route("**/v1/collections/notes/*", lambda route: late.append(route))
    visitor.click("Next")
    visitor.page.get_by_label("Collection").select_option("photos")
    visitor.sees("1 to 9 of 9")
    visitor.page.get_by_label("Collection").select_option("notes")
    visitor.page.get_by_label("Person", exact=True).fill(ANN)
    visitor.click("Find", exact=True)  # a page, and a count
    visitor.page.get_by_label("Person", exact=True).fill("")
    visitor.page.get_by_label("Collection").select_option("photos")
    visitor.poll(lambda: len(late) == 4)
    visitor.sees("1 to 9 of 9")
    for route in late:
        with visitor.page.expect_response("**/v1/collections/notes/*"):
            route.continue_()
    visitor.page.evaluate("() => new Promise((done) => setTimeout(done, 300))")
    assert "note-" not in visitor.page.inner_text("main")
    expect(visitor.page.locator(".about")).to_have_text("9 records")
    expect(visitor.page.get_by_role("row")).to_have_count(10)


def test_an_address_that_was_mistyped_leads_to_the_screen(serve, visit):
    visitor = visit(server := serve()).come(server.admin)
    visitor.go("find/%zz")
    expect(visitor.page.get_by_role("heading", name="Find", level=1)).to_be_visible()


def test_plots_move_and_go_on_when_the_server_was_away(serve, visit):
    server = serve(process=True)
    visitor = visit(server).come(server.admin, "health")
    line = visitor.page.locator("path.line").first
    visitor.page.wait_for_function("() => (document.querySelector('path.line')?.getAttribute('d') || '').includes('L')")
    before = line.get_attribute("d")
    server.stop()
    visitor.sees("The server does not answer")
    server.start()
    expect(visitor.page.get_by_text("The server does not answer")).to_have_count(0)
    visitor.page.wait_for_function(
        "before => document.querySelector('path.line').getAttribute('d') !== before", arg=before
    )
    visitor.sees("ready")


def test_the_page_does_not_count_its_own_looking(serve, visit):
    """What is being worked on is what others ask for; and the highest value stands where the line does not go."""
    server = serve()
    server.call(server.admin, "/v1/collections/photos", method="DELETE")
    visitor = visit(server).come(server.admin, "health")
    working = visitor.page.locator("figure", has_text="Being worked on").locator(".line-now")
    held = visitor.page.locator("figure", has_text="Records held")
    expect(held.locator(".line-now")).to_have_text("120")
    expect(working).to_have_text("0")
    expect(visitor.page.get_by_text("1 collection", exact=True)).to_be_visible()
    label, line = (held.locator(one).bounding_box() for one in (".line-top", "path.line"))
    assert label["y"] + label["height"] <= line["y"] + 1


def test_no_screen_loads_all_of_anything(serve, visit):
    """However much there is, what an answer holds has a bound."""
    server = serve()
    ids = [f"more-{place}" for place in range(5000)]
    body = {"ids": ids, "vectors": [[place % 7, 1] * 4 for place in range(5000)], "subjects": [ANN] * 5000}
    server.call(server.admin, "/v1/collections/notes/upsert", body)
    for place in range(40):
        server.call(server.admin, "/v1/block", {"subject": f"p{place}", "reason": "many"})
    visitor = visit(server).come(server.admin)
    longest: dict[str, int] = {}

    def note(response):
        if "/v1/" in response.url and response.ok:
            content = response.json()
            found = max([len(one) for one in content.values() if isinstance(one, list)], default=0)
            longest[response.url] = max(found, longest.get(response.url, 0))

    visitor.page.on("requestfinished", lambda request: note(request.response()))
    for screen in SCREENS:
        settle(visitor, screen)
    settle(visitor, "person")
    visitor.look_up(ANN)
    visitor.click("Show the records in notes")
    visitor.sees("1 to 25 of 5,030")
    visitor.click(re.compile("^Erase…"))
    visitor.sees("It cannot be undone")
    assert max(longest.values()) <= 600, longest
    assert any("/sample" in url for url in longest)


def test_errors_say_what_to_do(serve, visit):
    """Answers that a server gives in trouble, one after the other."""
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    answers = [
        (507, "storage_full", "The server's disk is full"),
        (504, "slow", "This takes longer than one request may"),
        (500, "internal", "The server has failed"),
        (403, "role", "Your key may not do this"),
        (429, "too_many_requests", "Too many requests"),
    ]
    for status, code, shown in answers:
        body = f'{{"error": {{"code": "{code}", "message": "expected something"}}}}'
        answer = {"status": status, "body": body, "content_type": "application/json"}
        visitor.page.route("**/v1/held", lambda route: route.fulfill(**answer))  # noqa: B023 (used up below)
        visitor.look_up(ANN)
        visitor.sees(shown)
        visitor.page.unroute("**/v1/held")
        visitor.click("Try again")
        visitor.sees_what_is_held()
