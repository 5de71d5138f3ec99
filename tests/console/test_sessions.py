"""The door: wrong keys, sessions that end, what a browser keeps, and what each role sees."""

from __future__ import annotations

import re
import sqlite3
import time

import httpx
import pytest

from lethevec.server.keys import KeyFile

expect = pytest.importorskip("playwright.sync_api", reason="it needs playwright: make test-console").expect
WRONG = "lv_00000000_" + "a" * 43


def test_a_wrong_key_opens_nothing_and_says_what_to_do(serve, visit):
    visitor = visit(serve()).come()
    visitor.sign_in(WRONG)
    visitor.sees("This key opens nothing")
    visitor.sees(re.compile("mistyped, withdrawn or expired"))
    expect(visitor.page.get_by_label("Key", exact=True)).to_have_value("")  # nor does it stay in the page
    visitor.click("Sign in")
    visitor.sees("Paste the key that you were given.")
    assert WRONG not in visitor.page.content() + visitor.kept()


def test_the_key_is_kept_nowhere_and_the_cookie_is_out_of_reach(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin)
    kept = visitor.kept()
    assert kept.startswith('["",{},{},')
    assert server.admin not in kept + visitor.page.content() + " ".join(visitor.addresses)
    (cookie,) = visitor.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["expires"]) == (True, "Strict", -1)
    assert server.admin.split("_", 2)[2] not in cookie["value"]
    visitor.page.reload()
    expect(visitor.page.get_by_role("heading", name="Collections")).to_be_visible()
    visitor.click("Sign out")
    visitor.sees("You have signed out.")
    assert visitor.context.cookies() == []
    visitor.page.go_back()
    visitor.page.goto(server.console + "#/collections")
    expect(visitor.page.get_by_label("Key", exact=True)).to_be_visible()
    assert "notes" not in visitor.page.content()


def test_signing_out_clears_the_page_before_the_server_is_asked(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up("ann@example.org")
    visitor.sees_what_is_held()
    held = []
    visitor.page.route("**/v1/session", lambda route: held.append(route))  # an answer that does not come
    visitor.click("Sign out")
    assert "ann@" not in visitor.page.content()
    assert visitor.page.locator("input").count() == 0
    visitor.sees("Signing out")
    visitor.poll(lambda: len(held) == 1)
    held[0].continue_()
    visitor.sees("You have signed out.")
    assert visitor.context.cookies() == []


def test_signing_out_while_the_server_is_away_is_made_up_for(serve, visit):
    server = serve(process=True)
    visitor = visit(server).come(server.admin, "find/notes")
    visitor.sees("note-0")
    server.stop()
    visitor.click("Sign out")
    assert "note-0" not in visitor.page.content()
    visitor.sees(re.compile("The server does not answer, so your session there goes on."))
    server.start()
    visitor.sees("You have signed out.")
    assert visitor.context.cookies() == []
    visitor.page.reload()
    expect(visitor.page.get_by_label("Key", exact=True)).to_be_visible()


def test_a_session_warns_and_ends_by_itself(serve, visit):
    server = serve(session_idle=24)  # it asks eight seconds before the end
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up("ann@example.org")
    visitor.sees_what_is_held()
    expect(visitor.page.get_by_role("dialog", name="Are you still there?")).to_be_visible()
    visitor.click("Stay signed in")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    visitor.sees_what_is_held()
    # The page ends the session; on a machine that stalls the server may do so first.
    visitor.sees(re.compile("Nothing was done for 24 seconds, so you were signed out.|Your session has ended"), wait=60)
    assert "ann@example.org" not in visitor.page.content()
    if visitor.page.get_by_text("Nothing was done").count():
        assert visitor.context.cookies() == []
    refused = visitor.page.evaluate(
        """async () => (await fetch("/v1/me", {headers: {"lethevec-console": "act"}})).status"""
    )
    assert refused == 401


def test_live_plots_do_not_keep_a_session_alive(serve, visit):
    server = serve(session_idle=10)
    visitor = visit(server).come(server.admin, "health")
    visitor.sees("Calls since the start")
    visitor.sees(re.compile("you were signed out|Your session has ended"), wait=60)


def test_a_session_that_the_server_has_ended_leads_back_to_where_one_was(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up("ann@example.org")
    visitor.sees_what_is_held()
    database = sqlite3.connect(server.state / "sessions.sqlite")
    database.execute("DELETE FROM sessions")
    database.commit()
    database.close()
    visitor.click("Show the records in notes")
    visitor.sees("Your session has ended. Sign in to go on where you were.")
    assert "ann@example.org" not in visitor.page.content()
    visitor.sign_in(server.admin)
    expect(visitor.page.get_by_role("heading", name="Person", exact=True)).to_be_visible()


def test_a_withdrawn_key_ends_its_sessions(serve, visit):
    server = serve()
    key = server.key("reader")
    time.sleep(0.7)
    visitor = visit(server).come(key)
    KeyFile(server.state).withdraw(key.split("_")[1])
    time.sleep(0.7)
    visitor.go("find")
    visitor.sees(re.compile("Your session has ended"))


SCREENS = {
    "reader": ["Collections", "Find", "Person", "Health"],
    "writer": ["Collections", "Holds and retention", "Health"],
    "eraser": ["Collections", "Person", "Receipts", "Holds and retention", "Health"],
    "auditor": ["Collections", "Receipts", "Health"],
    "holder": ["Collections", "Person", "Holds and retention", "Health"],
    "admin": ["Collections", "Find", "Person", "Receipts", "Holds and retention", "Keys and roles", "Health"],
}


def test_roles_decide_what_is_shown_and_the_server_refuses_regardless(serve, visit):
    server = serve()
    keys = {role: server.key(role) for role in SCREENS}
    time.sleep(0.7)
    for role, screens in SCREENS.items():
        visitor = visit(server).come(keys[role])
        assert visitor.page.get_by_role("navigation", name="Screens").get_by_role("link").all_inner_texts() == screens
        for screen in ("keys", "receipts", "find"):  # an address typed by hand
            visitor.go(screen)
            titles = {"keys": "Keys and roles", "receipts": "Receipts", "find": "Find"}
            expected = titles[screen] if titles[screen] in screens else "Collections"
            expect(visitor.page.get_by_role("heading", level=1)).to_have_text(expected)
        refused = visitor.page.evaluate(
            """async () => (await fetch("/v1/keys", {headers: {"lethevec-console": "act"}})).status"""
        )
        assert refused == (200 if role == "admin" else 403)
        visitor.context.close()


def test_a_key_for_one_collection_sees_that_alone(serve, visit):
    server = serve()
    key = server.key("reader", "eraser", collections=["photos"])
    time.sleep(0.7)
    visitor = visit(server).come(key)
    visitor.sees("photos")
    assert "notes" not in visitor.page.inner_text("main")
    names = visitor.page.get_by_role("navigation", name="Screens").get_by_role("link").all_inner_texts()
    assert names == ["Collections", "Find"]


def test_an_eraser_sees_how_much_and_nothing_of_it(serve, visit):
    server = serve()
    key = server.key("eraser")
    time.sleep(0.7)
    visitor = visit(server).come(key, "person")
    visitor.look_up("ann@example.org")
    visitor.sees_what_is_held()
    assert visitor.page.get_by_role("button", name="Export").count() == 0
    assert visitor.page.get_by_role("button", name=re.compile("Show")).count() == 0
    visitor.erase("ann@example.org")
    visitor.sees("35 records are erased")


def test_a_server_without_keys_asks_for_none_until_it_has_one(serve, visit):
    server = serve(keys=False)
    visitor = visit(server).come()
    visitor.sees("this server has no keys")
    visitor.go("keys")
    visitor.sees("No keys yet")
    visitor.click(re.compile("^Make a key"))
    visitor.sees("The first key closes the door")
    visitor.page.get_by_label("What it is for").fill("ops")
    visitor.click("Make the key")
    text = visitor.page.locator(".secret").inner_text()
    assert text.startswith("lv_")
    assert httpx.get(f"{server.url}/v1/collections").status_code == 401
    visitor.click("Done")
    visitor.sees("ops (yours)")  # whoever closes the door stays inside
    assert text not in visitor.page.content() + visitor.kept()
    visitor.click("Sign out")
    visitor.sign_in(text)
    visitor.go("collections")
    expect(visitor.page.get_by_role("heading", name="Collections")).to_be_visible()


@pytest.mark.parametrize("path", ["/console", "/console/main.js", "/console/style.css", "/console/nothing"])
def test_every_file_carries_the_rules(serve, path):
    answer = httpx.get(serve(keys=False).url + path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_page_cannot_make_markup_of_a_text(serve, visit):
    """Trusted Types refuse it, and what records hold is shown as the text that it is."""
    server = serve()
    attack = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
    body = {"ids": [attack], "vectors": [[1] * 8], "subjects": [attack], "payloads": [{attack: attack}]}
    server.call(server.admin, "/v1/collections/notes/upsert", body)
    visitor = visit(server).come(server.admin, "find/notes")
    visitor.sees("note-0")
    visitor.page.get_by_label("Id", exact=True).fill(attack)
    visitor.click("Find", exact=True)
    visitor.sees("1 record")
    assert visitor.page.locator("main img, main script").count() == 0
    assert attack in visitor.page.inner_text("main")
    visitor.click(re.compile("^Open record"))
    visitor.sees("Payload")
    visitor.page.keyboard.press("Escape")
    visitor.go("collections/notes")
    visitor.sees("Vectors in the plane")
    visitor.go("person")
    visitor.look_up(attack)
    visitor.sees("in 1 collection")
    assert "broken" not in visitor.page.title()
    refused = visitor.page.evaluate(
        "() => { try { document.body.innerHTML = '<b>x</b>'; return false } catch (error) { return error.name } }"
    )
    assert refused == "TypeError"
    visitor.problems = [text for text in visitor.problems if "TrustedHTML" not in text]  # that was us


def test_no_page_of_another_origin_can_frame_or_use_the_console(serve, visit, tmp_path):
    """Another port of this machine shares the cookie with us, as browsers see it; the header is out of its reach."""
    import http.server
    import threading

    server = serve()
    visitor = visit(server).come(server.admin)
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "index.html").write_text(f'<iframe src="{server.console}"></iframe>')

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=str(tmp_path / "evil"), **options)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as evil:
        threading.Thread(target=evil.serve_forever, daemon=True).start()
        page = visitor.context.new_page()
        page.goto(f"http://127.0.0.1:{evil.server_address[1]}/index.html")
        script = """async ([url, headers]) => {
            const body = JSON.stringify({subject: "ann@example.org"});
            const options = {method: "POST", body, credentials: "include", headers};
            try { return (await fetch(url + "/v1/forget", options)).status } catch { return "refused" }
        }"""
        assert page.evaluate(script, [server.url, {}]) == "refused"
        assert page.evaluate(script, [server.url, {"lethevec-console": "act"}]) == "refused"
        blind = script.replace("headers}", 'mode: "no-cors"}')
        page.evaluate(blind, [server.url, {}])
        frame = page.frames[1]
        assert "Collections" not in frame.content()
        evil.shutdown()
    assert server.call(server.admin, "/v1/held", {"subject": "ann@example.org"})["records"] == 35
