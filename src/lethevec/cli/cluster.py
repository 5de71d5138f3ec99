"""`cluster`: what an operator does with a cluster on Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lethevec.errors import ParameterError, ReceiptError

from .command import command, json_option
from .output import note, print_fields, print_json, print_table

__all__ = ["COMMANDS"]


@command(
    "cluster",
    """
    lethevec cluster secret --folder cluster-data
    """,
)
@click.argument(
    "action",
    type=click.Choice(
        ["status", "rebalance", "declare-lost", "receipts", "verify", "restore-registry", "secret"],
    ),
)
@click.argument("member", required=False)
@click.option("--address", help="Where Ray is (auto: the one on this machine).")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="On every node's disk.")
@click.option("--name", default="default", show_default=True, help="Which cluster, where there are several.")
@click.option("--secret", type=click.Path(dir_okay=False, path_type=Path), help="The secret (FOLDER/NAME.secret).")
@click.option("--shards", type=click.IntRange(1), help="rebalance: so many shards.")
@click.option("--replicas", type=click.IntRange(1), help="rebalance: so many members of each shard.")
@click.option("--takeover", is_flag=True, help="Do not wait for a driver that holds the term to write.")
@click.option("--without", multiple=True, metavar="MEMBER", help="restore-registry: a member that is given up.")
@click.option("--yes", is_flag=True, help="declare-lost, restore-registry: do not ask.")
@json_option
def cluster(
    action: str,
    member: str | None,
    address: str | None,
    folder: Path,
    name: str,
    secret: Path | None,
    shards: int | None,
    replicas: int | None,
    takeover: bool,
    without: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Look after a cluster on Ray.

    `status` shows its members and what waits for them. `rebalance` moves buckets until each shard has its share, also
    when there are to be more or fewer shards or replicas. `declare-lost MEMBER` says that a member never comes back:
    erasures no longer wait for it, and their receipts say "declared" of it. `receipts` prints the combined receipts,
    one in a line. `verify` checks the whole chain of them: signatures, and that each names the one before.
    `restore-registry` lets a registry go on from an older copy of its folder, with what the members know. `secret`
    makes the secret that every node needs a copy of.
    """
    from lethevec import cluster as clusters

    if action == "secret":
        from lethevec.cluster.sealing import Secret

        path = secret or folder / f"{name}.secret"
        Secret.create(path)
        click.echo(str(path))
        note("copy it to the same path on every node, readable by its owner alone; it is made once")
        return
    if (action == "declare-lost") != (member is not None):
        raise ParameterError(
            f"{action}: expected {'the name of a member' if member is None else 'no name'}, got {member}"
        )
    if action == "declare-lost" and not yes:
        click.confirm(f"Is the disk of {member} destroyed, or will it be? Receipts will say so", abort=True)
    if action == "restore-registry":
        if not yes:
            click.confirm(
                "Is there no newer copy of the registry's folder? Receipts since this one are lost", abort=True
            )
        states = clusters.restore_registry(address, folder=folder, name=name, secret=secret, without=without)
        print_json(states) if as_json else print_fields(states.items())
        return
    reads = action in ("status", "receipts", "verify")
    with clusters.connect(address, folder=folder, name=name, secret=secret, read_only=reads, takeover=takeover) as db:
        if action == "status":
            _show(db.status(), as_json)
        elif action == "receipts":
            for receipt in db.receipts():
                click.echo(receipt.to_json())
        elif action == "verify":
            _verify(db, as_json)
        elif action == "rebalance":
            done = db.rebalance(shards=shards, replicas=replicas)
            shown = {**done, "receipts": len(done["receipts"])}
            if as_json:
                print_json(shown)
            else:
                print_fields(shown.items())
        else:
            assert member is not None
            signed = db.declare_lost(member)
            if as_json:
                print_json({"member": member, "receipts": [receipt.fields for receipt in signed]})
            else:
                print_fields([("lost", member), ("erasures that are complete now", len(signed))])


def _verify(db: Any, as_json: bool) -> None:
    checks: list[Any] = []
    after: int | None = -1
    while after is not None:
        report, after = db.verify_chain(after=after)
        checks += report.checks
    entries = [check for check in checks if check.name != "signature"]
    bad = [check.name for check in entries if not check.passed]
    if as_json:
        print_json({"entries": len(entries), "good": not bad, "failed": bad})
    else:
        print_fields([("entries", len(entries)), ("failed", ", ".join(bad) or "none")])
    if bad:
        raise ReceiptError(
            f"chain: expected {len(entries)} signed entries in their places, got {len(bad)} that are not"
        )


def _show(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(status)
        return
    rows = [
        (
            one["member"],
            one["shard"],
            one["disk"].removeprefix("lethevec_disk_"),
            one["state"],
            f"{one['records']:,}" if "records" in one else "does not answer",
            ", ".join(str(n) for n, names in status["waiting"].items() if one["member"] in names) or "none",
        )
        for one in status["members"]
    ]
    head = ["member", "shard", "disk", "state", "records", "erasures waiting"]
    print_table(head, rows, right=["shard", "records"])
    note(f"epoch {status['epoch']}, collections: {', '.join(status['collections']) or 'none'}")


COMMANDS = [cluster]
