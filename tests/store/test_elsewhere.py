"""What a caller says of copies outside the store, in the receipt: of a store, a folder, and over HTTP."""

from __future__ import annotations

import numpy as np
import pytest

import lethevec
from lethevec import Receipt
from lethevec.errors import ParameterError, ReceiptError

STATED = {"mem0-history": 3, "chat-logs": None}


@pytest.fixture
def db(tmp_path):
    with lethevec.open(tmp_path / "a.lethe", dim=2) as store:
        store.add(np.eye(2), ids=[1, 2], subjects=["ann", "bob"])
        yield store


def test_a_store_signs_what_it_was_told(db):
    receipt = db.forget([1], elsewhere=STATED)
    assert receipt.elsewhere == STATED
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert db.verify(receipt)
    report = str(lethevec.verify(receipt, key=db.public_key()))
    assert "does not prove that 3 entries were erased in mem0-history" in report
    assert "does not prove that anything was erased in chat-logs" in report
    assert db.forget([2], elsewhere={}).elsewhere == {}


def test_a_folder_does_too(tmp_path):
    with lethevec.connect(tmp_path / "folder") as db:
        one = db.collection("one", dim=2)
        one.add(np.eye(2), ids=[1, 2], subjects=["ann", "bob"])
        db.collection("two", dim=2).add(np.eye(2), ids=[1, 2], subjects=["ann", "cy"])
        everywhere = db.forget(subject="ann", elsewhere=STATED)
        assert (everywhere.records, everywhere.elsewhere) == (2, STATED)
        assert one.forget(subject="bob", elsewhere=STATED).elsewhere == STATED
        assert db.verify(everywhere, subject="ann")
        assert lethevec.verify_chain(db.receipts(all_kinds=True))


@pytest.mark.parametrize(
    "wrong",
    [
        *(["a"], "a", 3, {"A": 1}, {"ann@example.org": 1}, {"-a": 1}, {"a" * 41: 1}, {1: 1}),
        *({"a": -1}, {"a": 1.5}, {"a": True}, {f"p{n}": n for n in range(101)}),
    ],
)
def test_what_is_no_statement_is_refused_and_nothing_is_forgotten(db, wrong):
    before = db.digest()
    with pytest.raises(ParameterError, match="elsewhere"):
        db.forget([1], elsewhere=wrong)
    assert db.digest() == before
    assert db.receipts() == []


@pytest.mark.parametrize(
    "edited",
    [
        [],
        [{"place": "b", "erased": 1}, {"place": "a", "erased": 1}],
        [{"place": "a", "erased": 1}] * 2,
        [{"place": "Ann", "erased": 1}],
        [{"place": "a", "erased": -1}],
        [{"place": "a"}],
        {"a": 1},
    ],
)
def test_a_receipt_has_one_form_of_it(db, edited):
    fields = db.forget([1], elsewhere=STATED).fields
    fields["asked"]["elsewhere"] = edited
    with pytest.raises(ReceiptError):
        Receipt(fields)
