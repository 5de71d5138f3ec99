"""Ids, subjects and payloads from a few letters to many pages leave nothing when they are forgotten.

They fill SQLite's trees, those of tables and those of indexes, several levels deep and with overflow pages.
"""

from __future__ import annotations

import random

import numpy as np

BOTH_LAYOUTS = True
LENGTHS = (20, 60, 400, 1100, 2500, 9000)


def a_text(choose: random.Random, most: int) -> str:
    length = min(choose.choice(LENGTHS), most)
    return "".join(choose.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


def test_nothing_stays(make, tmp_path, leftovers, unaccounted):
    choose = random.Random(1)
    vectors = np.random.default_rng(1).normal(size=(240, 8)).astype(np.float32)
    records = {
        a_text(choose, 900): (vector, a_text(choose, 3000), {"text": a_text(choose, 9000)}) for vector in vectors
    }
    ids = list(records)
    db = make()
    for start in range(0, len(ids), 40):
        part = ids[start : start + 40]
        given, subjects, payloads = zip(*(records[id] for id in part), strict=True)
        db.add(given, ids=part, subjects=subjects, payloads=list(payloads))
    (leaf_pages,) = db._session.connection.execute("PRAGMA page_count").fetchone()
    assert leaf_pages > 200, "several levels, or this shows little"
    choose.shuffle(ids)
    for turn in range(8):
        part, ids = ids[:20], ids[20:]
        if turn % 2:
            for id in part:
                db.forget(subject=records[id][1])
        else:
            db.forget(part)
        texts = [text for id in part for text in (id, records[id][1], records[id][2]["text"])]
        assert leftovers(tmp_path, vectors=[records[id][0] for id in part], texts=texts) == []
        assert unaccounted(db.path) == {}
        # What is left moves about in the trees.
        changed = choose.sample(ids, 10)
        for id in changed:
            records[id] = (records[id][0], a_text(choose, 3000), {"text": a_text(choose, 9000)})
        db.update(ids=changed, subjects=[records[id][1] for id in changed], payloads=[records[id][2] for id in changed])
    assert {record.id: record.subject for record in db} == {id: records[id][1] for id in ids}
