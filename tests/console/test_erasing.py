"""A person: what is held, the export, the erasure and all that can go wrong with it, and the proof."""

from __future__ import annotations

import json
import re
import sqlite3
import time

import pytest

from .conftest import held_open, stores

expect = pytest.importorskip("playwright.sync_api", reason="it needs playwright: make test-console").expect
ANN = "ann@example.org"


def test_a_person_is_looked_up_exported_and_erased(serve, visit, tmp_path):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.click("Look up")
    visitor.sees("Type whom you are looking for.")
    visitor.look_up("nobody@example.org")
    visitor.sees("Nothing is held of this person")
    visitor.look_up(ANN)
    visitor.sees("in 2 collections")
    visitor.click("Show the records in notes")
    visitor.sees("1 to 25 of 30")
    visitor.click("Next")
    visitor.sees("26 to 30 of 30")
    with visitor.page.expect_download() as started:
        visitor.click("Export")
    assert started.value.suggested_filename == "export.json"
    started.value.save_as(tmp_path / "export.json")
    exported = json.loads((tmp_path / "export.json").read_text())
    assert {name: len(records) for name, records in exported["collections"].items()} == {"notes": 30, "photos": 5}

    visitor.click(re.compile("^Erase…"))
    dialog = visitor.page.get_by_role("dialog", name="Erase this person")
    expect(dialog).to_contain_text("It cannot be undone")
    expect(dialog.get_by_role("row")).to_have_text(["CollectionRecords", "notes30", "photos5"])
    visitor.click("Go on")
    typed = visitor.page.get_by_label("Type the name of the person once more")
    typed.fill("bob@example.org")
    erase = visitor.page.get_by_role("button", name="Erase 35 records")
    erase.click()
    visitor.sees("Nothing was erased.")
    assert server.call(server.admin, "/v1/held", {"subject": ANN})["records"] == 35
    typed.fill(ANN)
    erase.click()
    visitor.sees("35 records are erased")
    visitor.sees("Erasure")
    assert server.call(server.admin, "/v1/held", {"subject": ANN})["records"] == 0

    # Nothing in the page says who it was.
    assert "ann@" not in visitor.page.content() + visitor.kept()
    assert visitor.page.locator("input").evaluate_all("all => all.map((one) => one.value).join()") == ""
    assert not [address for address in visitor.addresses if "ann" in address]
    visitor.click("Verify", exact=True)
    visitor.sees("This receipt holds")
    visitor.click("Verify against the records")
    visitor.sees(re.compile("none of the .* erased records is in the store"))
    with visitor.page.expect_download() as started:
        visitor.click("Download")
    started.value.save_as(tmp_path / "receipt.json")
    import lethevec

    key = server.call(server.admin, "/v1/key", method="GET")["public_key"]
    assert lethevec.verify(tmp_path / "receipt.json", key=key)
    visitor.look_up(ANN)
    visitor.sees("Receipts about this person")


def test_an_erasure_can_be_left_at_both_questions(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up(ANN)
    visitor.click(re.compile("^Erase…"))
    visitor.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    visitor.click(re.compile("^Erase…"))
    visitor.click("Go on")
    visitor.page.keyboard.press("Escape")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    assert server.call(server.admin, "/v1/held", {"subject": ANN})["records"] == 35


def test_an_erasure_that_a_reader_keeps_from_completing_says_so_and_completes(serve, visit):
    server = serve(timeout=3)
    visitor = visit(server).come(server.admin, "person")
    readers = [held_open(path) for path in stores(server.folder)]
    try:
        visitor.look_up(ANN)
        visitor.erase(ANN)
        visitor.sees("Not complete yet")
        visitor.sees(re.compile("No search finds the records any more"))
        assert server.call(server.admin, "/v1/collections/notes/count", {"subject": ANN})["records"] == 0
        time.sleep(2.5)
        visitor.sees("Not complete yet")
    finally:
        for reader in readers:
            reader.execute("ROLLBACK")
            reader.close()
    visitor.sees("35 records are erased")
    visitor.click("Verify", exact=True)
    visitor.sees("This receipt holds")


def test_one_may_leave_while_an_erasure_waits_and_is_reminded_of_it(serve, visit):
    server = serve(timeout=3)
    visitor = visit(server).come(server.admin, "person")
    readers = [held_open(path) for path in stores(server.folder)]
    try:
        visitor.look_up(ANN)
        visitor.erase(ANN)
        visitor.sees("Not complete yet")
        visitor.go("collections")
        visitor.sees("1 erasure waits to complete")
    finally:
        for reader in readers:
            reader.execute("ROLLBACK")
            reader.close()
    expect(visitor.page.get_by_text("1 erasure waits to complete")).to_be_hidden(timeout=30_000)


def test_a_hold_stands_in_the_way_until_it_is_lifted(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "holds")
    visitor.sees("No holds")
    visitor.click(re.compile("^Set a hold"))
    visitor.page.get_by_role("dialog").get_by_label("Person").fill(ANN)
    visitor.click("Set the hold")
    visitor.sees("A hold needs a person and a reason.")
    visitor.page.get_by_role("dialog").get_by_label("Reason").fill("Case 7")
    visitor.click("Set the hold")
    visitor.sees("Case 7")
    visitor.go("person")
    visitor.look_up(ANN)
    visitor.sees("nothing may be erased")
    visitor.click(re.compile("^Erase…"))
    visitor.sees("A legal hold stands in the way")
    assert visitor.page.get_by_role("button", name="Go on").count() == 0
    visitor.page.keyboard.press("Escape")
    visitor.go("holds")
    visitor.click(re.compile("^Lift the hold"))
    visitor.page.get_by_role("dialog").get_by_label("Reason").fill("closed")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Lift the hold").click()
    visitor.sees("No holds")
    visitor.go("person")
    visitor.look_up(ANN)
    visitor.erase(ANN)
    visitor.sees("35 records are erased")


def test_a_hold_that_comes_between_the_questions_counts(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up(ANN)
    visitor.click(re.compile("^Erase…"))
    visitor.click("Go on")
    server.call(server.admin, "/v1/hold", {"subject": ANN, "reason": "Case 8"})
    visitor.page.get_by_label("Type the name of the person once more").fill(ANN)
    visitor.page.get_by_role("button", name="Erase 35 records").click()
    visitor.sees("A legal hold keeps these records")
    visitor.sees(re.compile("under Holds and retention"))
    assert server.call(server.admin, "/v1/held", {"subject": ANN})["records"] == 35


def test_a_blocked_person_gets_no_new_records(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up(ANN)
    visitor.click(re.compile("^Erase…"))
    visitor.page.get_by_label("Refuse new records for this person").check()
    visitor.click("Go on")
    visitor.page.get_by_label("Type the name of the person once more").fill(ANN)
    visitor.page.get_by_role("button", name="Erase 35 records").click()
    visitor.sees("35 records are erased")
    visitor.look_up(ANN)
    visitor.sees("Refused")
    visitor.click(re.compile("^Unblock…"))
    visitor.page.get_by_role("dialog").get_by_label("Reason").fill("came back")
    visitor.click("Unblock", exact=True)
    visitor.sees("Accepted")


def test_a_connection_that_is_lost_while_erasing_is_repeated_and_done_once(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "person")
    numbers = []

    def cut(route):
        """The request arrives, its answer does not."""
        numbers.append(route.request.headers["idempotency-key"])
        if "dry_run" in route.request.post_data:
            numbers.pop()
            route.continue_()
        elif len(numbers) == 1:
            route.fetch()
            route.abort("connectionreset")
        else:
            route.continue_()

    visitor.page.route("**/v1/forget", lambda route: cut_or_pass(route, cut))
    visitor.look_up(ANN)
    visitor.erase(ANN)
    visitor.sees("35 records are erased")
    assert len(numbers) == 2
    assert len(set(numbers)) == 1
    chain = server.call(server.admin, "/v1/receipts", method="GET")["receipts"]
    assert [receipt["kind"] for receipt in chain].count("erasure") == 1


def cut_or_pass(route, cut):
    if "idempotency-key" in route.request.headers:
        cut(route)
    else:
        route.continue_()


def test_a_server_that_stops_and_returns_is_waited_for(serve, visit):
    server = serve(process=True)
    visitor = visit(server).come(server.admin, "person")
    visitor.page.get_by_label("Person", exact=True).fill(ANN)
    server.stop()
    visitor.click("Look up")
    visitor.sees("The server does not answer")
    expect(visitor.page.get_by_label("Person", exact=True)).to_have_value(ANN)
    server.start()
    visitor.sees_what_is_held()  # by itself, in the same session
    expect(visitor.page.get_by_text("The server does not answer")).to_have_count(0)
    visitor.erase(ANN)
    visitor.sees("35 records are erased")


def edited(path, text):
    """The year of the signature, changed."""
    place = text.index('"issued_at":"') + len('"issued_at":"')
    path.write_text(text[:place] + "1999" + text[place + 4 :])
    return path


def test_an_edited_receipt_is_found_out(serve, visit, tmp_path):
    server = serve()
    receipt = server.call(server.admin, "/v1/forget", {"subject": ANN})["receipt"]
    text = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    (tmp_path / "good.json").write_text(text + "\n")
    visitor = visit(server).come(server.admin, "receipts")
    check = visitor.page.locator("section", has_text="Check a receipt that you have").last
    check.get_by_role("button", name="Check").click()
    visitor.sees("Choose the file of a receipt.")
    check.get_by_label("Receipt").set_input_files(tmp_path / "good.json")
    check.get_by_label("About whom").fill(ANN)
    check.get_by_role("button", name="Check").click()
    visitor.sees("This receipt holds")
    visitor.sees("it is about what was given")
    check.get_by_label("About whom").fill("bob@example.org")
    check.get_by_role("button", name="Check").click()
    visitor.sees("Do not rely on this receipt")
    check.get_by_label("Receipt").set_input_files(edited(tmp_path / "edited.json", text))
    check.get_by_role("button", name="Check").click()
    visitor.sees("it is not that of this content.")
    (tmp_path / "other.json").write_text("{}")
    check.get_by_label("Receipt").set_input_files(tmp_path / "other.json")
    check.get_by_role("button", name="Check").click()
    visitor.sees("This is no receipt of ours")


def test_the_whole_chain_is_verified_and_a_receipt_that_was_edited_in_the_files_is_found(serve, visit):
    server = serve()
    for subject in (ANN, "bob@example.org"):
        server.call(server.admin, "/v1/forget", {"subject": subject})
    visitor = visit(server).come(server.admin, "receipts")
    expect(visitor.page.get_by_role("row")).to_have_count(4)
    visitor.click("Verify all")
    visitor.sees("The whole chain holds")
    visitor.sees(re.compile("3 receipts: in their order"))
    server.stop()
    catalog = sqlite3.connect(server.folder / "lethevec.catalog")
    (text,) = catalog.execute("SELECT receipt FROM receipts WHERE sequence = 1").fetchone()
    catalog.execute(
        "UPDATE receipts SET receipt = ? WHERE sequence = 1", (text.replace('"issued_at":"20', '"issued_at":"19'),)
    )
    catalog.commit()
    catalog.close()
    server.start()
    visitor.page.reload()
    visitor.click("Verify all")
    visitor.sees("The chain is broken")
    visitor.sees(re.compile("receipt 1: the signature is not that of its content"))
    visitor.page.get_by_role("link", name="1", exact=True).click()
    visitor.click("Verify", exact=True)
    visitor.sees("This receipt does not hold")


def test_what_is_due_is_erased_after_two_questions(serve, visit):
    server = serve()
    body = {"ids": ["brief"], "vectors": [[1] * 8], "expires": [1]}
    server.call(server.admin, "/v1/collections/notes/upsert", body)
    time.sleep(1.2)
    visitor = visit(server).come(server.admin, "holds")
    visitor.sees(re.compile("1 record is due"))
    visitor.click(re.compile("^Erase what is due"))
    visitor.click("Go on")
    visitor.click("Erase 1 record")
    visitor.sees("1 record erased")
    visitor.sees(re.compile("Nothing is due"))


def test_how_long_a_collection_keeps_records_can_be_changed(serve, visit):
    server = serve()
    visitor = visit(server).come(server.admin, "holds")
    visitor.click("Change how long notes keeps records")
    dialog = visitor.page.get_by_role("dialog")
    dialog.get_by_label("Keep records").select_option("time")
    dialog.get_by_label("How many").fill("0")
    dialog.get_by_role("button", name="Save").click()
    visitor.sees("Type a number above zero.")
    dialog.get_by_label("How many").fill("2")
    dialog.get_by_role("button", name="Save").click()
    visitor.sees("2 years")
    assert server.call(server.admin, "/v1/collections/notes", method="GET")["expires"] == 2 * 365 * 86400


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_of_an_erased_person_is_left_in_files_or_logs(serve, visit, tmp_path, workers):
    """All that the console can do with a person, then a look at every byte that the server has written."""
    server = serve(process=True, workers=workers)
    name, id, title = "Zebedee Quintessa", "record-of-zebedee", "the lighthouse manuscript"
    body = {"ids": [id], "vectors": [[0.25] * 8], "subjects": [name], "payloads": [{"title": title}]}
    server.call(server.admin, "/v1/collections/notes/upsert", body)
    visitor = visit(server).come(server.admin, "person")
    visitor.look_up(name)
    visitor.click("Show the records in notes")
    visitor.sees(title)
    visitor.click(f"Open record {id}")
    visitor.sees("Payload")
    visitor.page.keyboard.press("Escape")
    with visitor.page.expect_download():
        visitor.click("Export")
    visitor.go("find/notes")
    visitor.page.get_by_label("Id", exact=True).fill(id)
    visitor.click("Find", exact=True)
    visitor.click(f"Records similar to {id}")
    visitor.sees("Nearest first")
    visitor.page.get_by_label("Id", exact=True).fill("")
    visitor.page.get_by_label("Person", exact=True).fill(name)
    visitor.click("Add a condition")
    visitor.page.get_by_label("Field").fill("title")
    visitor.page.get_by_label("Value").fill(title)
    visitor.click("Find", exact=True)
    visitor.sees("1 record fits")
    visitor.go("person")
    visitor.look_up(name)
    visitor.click(re.compile("^Set a hold"))
    visitor.page.get_by_role("dialog").get_by_label("Reason").fill("for a while")
    visitor.click("Set the hold")
    visitor.sees("nothing may be erased")
    visitor.go("holds")
    visitor.sees(name)
    visitor.click(re.compile("^Lift the hold"))
    visitor.page.get_by_role("dialog").get_by_label("Reason").fill("over")
    visitor.page.get_by_role("dialog").get_by_role("button", name="Lift the hold").click()
    visitor.sees("No holds")
    visitor.go("person")
    visitor.look_up(name)
    visitor.erase(name)
    visitor.sees("1 record is erased")
    needles = [text.encode(encoding) for text in (name, id, title) for encoding in ("utf-8", "utf-16-le")]
    for running in (True, False):
        if not running:
            server.stop()
        searched = 0
        for path in tmp_path.rglob("*"):
            if path.is_file():
                try:
                    content = path.read_bytes()
                except FileNotFoundError:  # a log that the server has just let go of
                    continue
                searched += 1
                assert not any(needle in content for needle in needles), path
        assert searched > 10
    assert server.log.stat().st_size > 1000
    words = [name, "zebedee", "Zebedee", "lighthouse"]
    seen = visitor.page.content() + visitor.kept() + " ".join(visitor.addresses)
    assert not any(word in seen for word in words)
