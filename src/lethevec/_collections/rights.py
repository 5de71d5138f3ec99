"""Legal holds and blocks: subjects whose records must stay, and subjects for whom nothing may be written.

Both are kept as tags of the subject (see `keys`) in the catalog, and each change of them is a signed entry of the
chain. Whose hold it is can therefore only be said by one who has the audit key and the subject's name, and after a
person was forgotten the block that keeps them out does not name them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .._forgetting.receipts import Receipt, now
from .._store.chain import Chain
from ..errors import BlockedError, HoldError, UnknownIdError
from .catalog import Catalog

__all__ = ["Hold", "Rights"]


@dataclass(frozen=True)
class Hold:
    """A legal hold: its id, why, since when, and whose records, where that can be said."""

    id: str
    reason: str
    since: str
    subject: str | None = None


class Rights:
    """The holds and blocks of an open folder."""

    def __init__(self, catalog: Catalog, chain: Chain) -> None:
        """Of an open folder."""
        self._catalog = catalog
        self._chain = chain

    # --- Rules for every write ---------------------------------------------------------------------------------------

    def may_write(self, subjects: Iterable[str | None]) -> None:
        """Refuse to write for a subject that is blocked."""
        kept = self._catalog.rows("SELECT audit_key, subject, since FROM blocks")
        if not kept:
            return
        since = {(key, tag): since for key, tag, since in kept}
        keys = {key for key, _ in since}
        for subject in {subject for subject in subjects if subject is not None}:
            for key, tag in self._tags(subject, keys):
                if (key, tag) in since:
                    raise BlockedError(
                        f"subject: expected one for whom records may be written, got {subject!r:.80}, who is blocked "
                        f"since {since[key, tag]}; unblock() lifts that"
                    )

    def may_change(self, subjects: Iterable[str | None]) -> None:
        """Refuse to change or erase records of a subject under hold."""
        kept = self._catalog.rows("SELECT audit_key, subject, hold, reason, since FROM holds ORDER BY number")
        if not kept:
            return
        found = {(key, tag): Hold(hold, reason, since) for key, tag, hold, reason, since in reversed(kept)}
        keys = {key for key, _ in found}
        for subject in {subject for subject in subjects if subject is not None}:
            for place in self._tags(subject, keys):
                if place in found:
                    raise HoldError(describe(found[place], subject), found[place].id)

    def _tags(self, subject: str, keys: Iterable[str]) -> list[tuple[str, str]]:
        known = self._chain.keys.audit_keys
        return [(key, known[key].tag_subject(subject)) for key in keys if key in known]

    # --- Holds -------------------------------------------------------------------------------------------------------

    def hold(self, subject: str, reason: str) -> Receipt:
        """Forbid to change or erase the records of a subject."""
        audit = self._chain.keys.audit
        id, tag = self._catalog.new_id(), audit.tag_subject(subject)
        with self._catalog.transaction():
            self._catalog.write("INSERT INTO holds VALUES (NULL, ?, ?, ?, ?, ?)", id, audit.id, tag, reason, now())
            return self._chain.append("hold", {**self._about(subject, reason), "hold": id})

    def lift(self, id: str, reason: str) -> Receipt:
        """End a hold."""
        rows = self._catalog.rows("SELECT audit_key, subject FROM holds WHERE hold = ?", id)
        if not rows:
            raise UnknownIdError(f"hold: expected the id of a hold that is in force, got {id!r:.80}")
        ((key, tag),) = rows
        about = {"audit_key": key, "subject": tag, "reason": self._reason(key, reason)}
        with self._catalog.transaction():
            self._catalog.write("DELETE FROM holds WHERE hold = ?", id)
            receipt = self._chain.append("lift", {**about, "hold": id})
        self._catalog.scrub()  # the reason was in words
        return receipt

    def holds(self, subject: str) -> list[Hold]:
        """The holds on the records of a subject, oldest first."""
        rows = self._catalog.rows("SELECT audit_key, subject, hold, reason, since FROM holds ORDER BY number")
        mine = set(self._tags(subject, {key for key, *_ in rows}))
        return [Hold(id, reason, since, subject) for key, tag, id, reason, since in rows if (key, tag) in mine]

    def all_holds(self, subjects: Iterable[str]) -> list[Hold]:
        """All holds, oldest first; the subjects are those that they can be named after."""
        rows = self._catalog.rows("SELECT audit_key, subject, hold, reason, since FROM holds ORDER BY number")
        keys = {key for key, *_ in rows}
        names = {place: subject for subject in subjects for place in self._tags(subject, keys)} if rows else {}
        return [Hold(id, reason, since, names.get((key, tag))) for key, tag, id, reason, since in rows]

    # --- Blocks ------------------------------------------------------------------------------------------------------

    def note_block(self, subject: str) -> bool:
        """Block a subject, inside a transaction whose entry says so; whether they were not blocked before."""
        if self.blocked_since(subject) is not None:
            return False
        audit = self._chain.keys.audit
        self._catalog.write("INSERT INTO blocks VALUES (?, ?, ?)", audit.id, audit.tag_subject(subject), now())
        return True

    def take_block_off(self, subject: str) -> None:
        """Unblock a subject, inside a transaction whose entry says so."""
        for key, tag in self._tags(subject, self._chain.keys.audit_keys):
            self._catalog.write("DELETE FROM blocks WHERE audit_key = ? AND subject = ?", key, tag)

    def block(self, subject: str, reason: str) -> Receipt:
        """Refuse writes for a subject from now on."""
        with self._catalog.transaction():
            self.note_block(subject)
            return self._chain.append("block", self._about(subject, reason))

    def unblock(self, subject: str, reason: str) -> Receipt:
        """Allow writes for a subject again."""
        if self.blocked_since(subject) is None:
            raise UnknownIdError(f"subject: expected one that is blocked, got {subject!r:.80}, which is not")
        with self._catalog.transaction():
            self.take_block_off(subject)
            return self._chain.append("unblock", self._about(subject, reason))

    def blocked_since(self, subject: str) -> str | None:
        """Since when a subject is blocked; None if it is not."""
        for key, tag in self._tags(subject, self._chain.keys.audit_keys):
            rows = self._catalog.rows("SELECT since FROM blocks WHERE audit_key = ? AND subject = ?", key, tag)
            if rows:
                return str(rows[0][0])
        return None

    # --- Entries -----------------------------------------------------------------------------------------------------

    def entries_about(self, subject: str) -> list[Receipt]:
        """The entries of the chain that are about a subject, by its tag."""
        tags = dict(self._tags(subject, self._chain.keys.audit_keys))
        found = []
        for receipt in self._chain.holding(list(tags.values())):
            fields = receipt.fields
            about = fields["asked"]["subject"] if receipt.erases else fields.get("subject")
            if about is not None and tags.get(fields["audit_key"]) == about:
                found.append(receipt)
        return found

    def tags_in_use(self) -> int:
        """How many holds and blocks there are, whose tags need their audit keys."""
        ((holds,),) = self._catalog.rows("SELECT count(*) FROM holds")
        ((blocks,),) = self._catalog.rows("SELECT count(*) FROM blocks")
        return int(holds + blocks)

    def _about(self, subject: str, reason: str) -> dict[str, str]:
        audit = self._chain.keys.audit
        tags = {"subject": audit.tag_subject(subject), "reason": self._reason(audit.id, reason)}
        return {"audit_key": audit.id, **tags}

    def _reason(self, key: str, reason: str) -> str:
        return self._chain.keys.audit_keys[key].tag("reason", reason.encode())


def describe(hold: Hold, subject: str) -> str:
    """What an error says of a hold."""
    return (
        f"subject: expected records that may be changed, got those of {subject!r:.80}, which are under legal hold "
        f"{hold.id} since {hold.since} ({hold.reason!r:.200}); nothing was changed; lift() ends the hold"
    )
