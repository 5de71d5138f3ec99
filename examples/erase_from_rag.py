"""Erase a person from the store behind a RAG application, and look for them afterwards.

    python examples/erase_from_rag.py

A shop's assistant answers from notes about customers. One of them asks to be erased. The notes leave the answers, the
files of the store are searched for them, and the receipt is checked. Everything runs offline; needs lethevec[store].
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import lethevec
from lethevec.integrations.embedding import WordEmbedding  # a small bundled one; an application uses a model

NOTES = {
    "ann": [
        "Ann called about the rash that our soap gave her, and sent photographs of her arm",
        "Ann lives at Mill Lane 4 and wants parcels left with her neighbour",
        "Ann asked for a refund of the soap because of an allergy to lavender",
    ],
    "bob": [
        "Bob collects stamps and buys our paper knives for opening letters",
        "Bob returned a kettle that leaked and was given another one",
    ],
    None: [
        "The soap with lavender must not be used by people with sensitive skin",
        "A refund is paid within ten days to the card that was used",
        "Parcels can be left with a neighbour if the customer agrees",
    ],
}


def main(folder: Path) -> None:
    """Fill a store, ask it, erase Ann, ask it again, and look into its files."""
    embedding = WordEmbedding()
    path = folder / "notes.lethe"
    db = lethevec.open(path, dim=embedding.dim)
    for subject, texts in NOTES.items():
        db.upsert(
            embedding.embed_documents(texts),
            ids=[f"{subject or 'shop'}-{n}" for n in range(len(texts))],
            subjects=[subject] * len(texts),
            payloads=[{"text": text} for text in texts],
        )

    def context(question: str) -> list[str]:
        """What a model would be given to answer from."""
        hits = db.search(embedding.embed_query(question), k=3)[0]
        return [hit.payload["text"] for hit in hits if hit.payload]

    question = "Who had an allergy to the lavender soap?"
    print(question)
    for text in context(question):
        print("   ", text)

    preview = db.forget(subject="ann", dry_run=True)
    receipt = db.forget(subject="ann")
    print(f"\nAnn asks to be erased: {preview.records} notes would go, {receipt.records} went")

    print(f"\n{question}")
    for text in context(question):
        print("   ", text)

    files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    traces = [text for text in NOTES["ann"] if any(text.encode() in data for data in files.values())]
    print(f"\nNotes of Ann's in the {len(files)} files of the store: {len(traces)}")
    print(f"The receipt holds: {bool(db.verify(receipt, subject='ann'))}")

    never = lethevec.open(folder / "never.lethe", dim=embedding.dim)
    for subject, texts in NOTES.items():
        if subject != "ann":
            ids = [f"{subject or 'shop'}-{n}" for n in range(len(texts))]
            payloads = [{"text": text} for text in texts]
            never.upsert(embedding.embed_documents(texts), ids=ids, subjects=[subject] * len(texts), payloads=payloads)
    print(f"Equal to a store that never knew her: {db.digest() == never.digest()}")
    never.close()
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
