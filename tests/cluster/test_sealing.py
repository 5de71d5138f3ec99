"""What travels: nothing in the clear, keys that end with an erasure, and no trust in what arrives."""

from __future__ import annotations

import contextlib
import random

import numpy as np
import pytest

from lethevec.cluster.buckets import BUCKETS, assign, bucket_of, moves
from lethevec.cluster.calling import Endpoint, UnreachableError
from lethevec.cluster.messages import pack, unpack
from lethevec.cluster.receipts import leaf_of, merkle_proof, merkle_root
from lethevec.cluster.sealing import Hello, SealError, Secret, welcome
from lethevec.cluster.wiping import wipe
from lethevec.errors import FormatError, IdError, KeysError, ServerError, UnavailableError


def test_nothing_travels_in_the_clear(lab):
    db = lab.connect(shards=2, replicas=2)
    passed: list[bytes] = []
    lab.net.seen = lambda target, method, content: passed.append(content)
    vector = np.float32([[0.123456, 7.654321, -3.25, 1.125]])
    collection = db.collection("people", dim=4, metric="l2")
    collection.add(vector, ["the-id-itself"], subjects=["Ann Example"], payloads=[{"street": "Hidden Lane"}])
    assert collection.search(vector, 1)[0][0].payload == {"street": "Hidden Lane"}
    collection.get("the-id-itself")
    db.access("Ann Example")
    with pytest.raises(IdError, match="the-id-itself"):
        collection.add(vector, ["the-id-itself"])
    db.forget(subject="Ann Example")
    everything = b"\n".join(passed)
    assert len(passed) > 20
    for secret in (
        b"the-id-itself",
        b"Ann Example",
        b"Hidden Lane",
        b"street",
        vector.tobytes(),
        vector[0, :2].tobytes(),
    ):
        assert secret not in everything


def test_keys_end_with_an_erasure_at_both_ends(lab):
    db = lab.connect(shards=1, replicas=2)
    reader = lab.connect("reader", read_only=True)
    for one in (db, reader):
        one.collection("people", dim=2, metric="l2") if one is db else one.collections()
    db.collection("people").add([[1, 2]], ["a"], subjects=["ann"])
    reader.collection("people").search([1, 2], 1)
    members = [lab.net.ends[name] for name in ("s0-1", "s0-2")]
    before = {name for member in members for name in member.endpoint._sessions}
    sessions = set(map(id, db.driver.caller._sessions.values()))
    assert before
    db.forget(subject="ann")
    assert not before & {name for member in members for name in member.endpoint._sessions}
    assert not sessions & set(map(id, db.driver.caller._sessions.values()))
    assert reader.collection("people").search([1, 2], 1)[0] == []  # a new session, unasked
    assert not {id(one) for one in reader.driver.caller._sessions.values()} & sessions


def sessions(secret: Secret) -> tuple[object, object]:
    hello = Hello(secret, "c", "m")
    answer, theirs = welcome(secret, "c", "m", hello.content)
    return hello.finish(answer), theirs


def test_a_session_opens_what_it_sealed_and_nothing_else():
    secret = Secret(bytes(range(32)))
    ours, theirs = sessions(secret)
    sealed = ours.seal(bytearray(b"a message"))
    assert b"a message" not in sealed
    assert theirs.open(sealed) == b"a message"
    for place in range(len(sealed)):
        broken = bytearray(sealed)
        broken[place] ^= 1
        with pytest.raises(SealError):
            theirs.open(bytes(broken))
    with pytest.raises(SealError):
        ours.open(sealed)  # a message that is sent back
    with pytest.raises(SealError):
        sessions(secret)[1].open(sealed)
    with pytest.raises(SealError):
        theirs.open(b"")


def test_a_message_is_opened_once_and_an_answer_belongs_to_its_question():
    ours, theirs = sessions(Secret(bytes(range(32))))
    questions = [ours.seal(b"question %d" % k) for k in range(5000)]
    order = [4, 0, 3, 4999, 1000, 998, 999, 4998]
    for place in order:  # late ones are opened, but not those that thousands have overtaken
        assert theirs.open(questions[place]) == b"question %d" % place
    for place in [*order, 1, 2, 903]:
        with pytest.raises(SealError, match="came before"):
            theirs.open(questions[place])
    assert theirs.open(questions[904]) == b"question 904"
    one, other = (theirs.seal(b"answer %d" % k, questions[k]) for k in range(2))
    for wrong in (questions[1], b""):
        with pytest.raises(SealError, match="InvalidTag"):
            ours.open(one, wrong)
    assert ours.open(other, questions[1]) == b"answer 1"
    assert ours.open(one, questions[0]) == b"answer 0"
    with pytest.raises(SealError, match="came before"):
        ours.open(one, questions[0])


def test_what_passed_can_be_neither_repeated_nor_exchanged(lab):
    """By somebody between the two, who can open nothing."""
    db = lab.connect(shards=1)
    collection = db.collection("people", dim=2, metric="l2")
    passed: list[tuple[str, str, bytes]] = []
    lab.net.seen = lambda target, method, content: passed.append((target, method, content))
    collection.upsert([[1, 1]], ["a"])
    first = list(passed)
    collection.upsert([[2, 2]], ["a"])
    endpoint = lab.net.ends["s0-1"].endpoint
    for target, method, content in first:
        if (target, method) == ("s0-1", "call") and content[:1] != b"\1":
            assert endpoint.call(content) == b"\0"
    assert collection.get(["a"])[0].vector.tolist() == [2, 2]

    answers: list[bytes] = []

    def exchanged(content: bytes) -> bytes:
        answers.append(call(content))
        return answers[0]

    call, endpoint.call = endpoint.call, exchanged
    assert len(collection) == 1
    with pytest.raises((UnavailableError, UnreachableError)):
        db.driver.ask("count", {"collection": collection._id, "where": None, "subject": None}, timeout=0.5)


def test_somebody_with_another_secret_gets_no_session(lab):
    secret, other = Secret(bytes(range(32))), Secret(bytes(32))
    with pytest.raises(SealError):
        welcome(other, "c", "m", Hello(secret, "c", "m").content)
    with pytest.raises(SealError):
        welcome(secret, "c", "other member", Hello(secret, "c", "m").content)
    hello = Hello(secret, "c", "m")
    answer, _ = welcome(secret, "c", "m", hello.content)
    with pytest.raises(SealError):
        Hello(secret, "c", "m").finish(answer)
    endpoint = Endpoint("m", "c", secret, {})
    assert endpoint.hello(Hello(other, "c", "m").content) == b""
    assert endpoint.call(b"anything at all, of any length") == b"\0"
    lab.connect(shards=1)
    lab.net.secret = other
    with pytest.raises((ServerError, UnreachableError, Exception)):
        lab.connect("stranger", timeout=0.5)


def test_the_secret_is_a_file_of_its_owner(tmp_path):
    path = tmp_path / "x" / "cluster.secret"
    made = Secret.create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert Secret.load(path).mac(b"a") == made.mac(b"a") == Secret.create(path).mac(b"a")
    path.write_text("short")
    with pytest.raises(KeysError, match="hexadecimal"):
        Secret.load(path)
    with pytest.raises(KeysError, match="nothing there"):
        Secret.load(tmp_path / "none")


def test_messages_come_back_and_damaged_ones_are_refused():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.int64([5, -1]), np.zeros((0, 4), dtype=np.float32)]
    content = bytes(pack({"op": "x", "text": "ä\ud800"}, arrays))
    head, back = unpack(content)
    assert head == {"op": "x", "text": "ä\ud800"}
    assert all((one == other).all() for one, other in zip(arrays, back, strict=True))
    rng = random.Random(0)
    for _ in range(2000):
        broken = bytearray(content)
        for _ in range(rng.randint(1, 4)):
            broken[rng.randrange(len(broken))] = rng.randrange(256)
        with contextlib.suppress(FormatError):
            unpack(bytes(broken[: rng.randint(0, len(broken))]))


def test_wiped_bytes_are_zero():
    content = bytes([1, 2, 3]) * 50
    wipe(content)
    assert content == bytes(150)
    array = bytearray(b"abc")
    wipe(array)
    assert array == bytes(3)


def test_every_member_s_place_in_a_merkle_tree_can_be_shown():
    for n in (1, 2, 3, 5, 8, 13):
        leaves = [leaf_of({"member": str(k)}) for k in range(n)]
        root = merkle_root(leaves)
        assert len({root, merkle_root(leaves[::-1])}) == (1 if n == 1 else 2)
        for place in range(n):
            assert len(merkle_proof(leaves, place)) <= 4


def test_buckets_are_even_and_move_as_little_as_they_can():
    counts = np.bincount([bucket_of(id, b"k" * 32) for id in range(50_000)], minlength=BUCKETS)
    assert counts.min() > 20
    assert counts.max() < 90
    three = assign([], range(3))
    four = assign(three, range(4))
    assert len(moves(three, four)) == 256
    assert all(four[bucket] == 3 for bucket in moves(three, four))
    back = assign(four, [0, 1, 2])
    assert len(moves(four, back)) == 256
    assert assign(four, range(4)) == four
