"""`serve`, `keys`, `audit`: the server, who may call it, and who did."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from lethevec.errors import FileError, LethevecError, MissingDependencyError

from .command import command, json_option
from .output import note, print_fields, print_json, print_table

__all__ = ["COMMANDS"]

_folder = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
_state = click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the server keeps keys and logs (FOLDER-server).",
)


def _server(name: str) -> Any:
    """A module of the server, or the error that says how to install it."""
    import importlib

    try:
        return importlib.import_module(f"lethevec.server.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lethevec"):
            raise
        raise MissingDependencyError(
            f"the server needs {error.name}, which is not there: pip install 'lethevec[server]'"
        ) from None


@command(
    "serve",
    """
    lethevec keys make people --name ops --role admin
    lethevec serve people --port 8765 --check
    """,
)
@_folder
@click.option("--cluster", metavar="ADDRESS", help="Serve a cluster on the Ray at ADDRESS; FOLDER is its members'.")
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings in a TOML file.")
@_state
@click.option("--host", help="Address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="Port to listen on (8765); 0 takes a free one.")
@click.option("--workers", type=int, help="Processes that read, beside the one that writes (0: one does both).")
@click.option("--tls-cert", type=click.Path(dir_okay=False, path_type=Path), help="Certificate chain, PEM.")
@click.option("--tls-key", type=click.Path(dir_okay=False, path_type=Path), help="Its private key, PEM.")
@click.option(
    "--behind-proxy", is_flag=True, default=None, help="A proxy does TLS: plain HTTP beyond loopback is meant."
)
@click.option("--rate", type=float, help="Requests a second that one key may make (no limit).")
@click.option("--log", type=click.Choice(["all", "errors", "none"]), help="Requests in the log (all).")
@click.option("--allow-reset", is_flag=True, default=None, help="Let Chroma's clients reset everything; for tests.")
@click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other setting, e.g. max_k=500.")
@click.option("--check", is_flag=True, help="Print the settings and stop.")
def serve(folder: Path, config: Path | None, others: tuple[str, ...], check: bool, **flags: Any) -> None:
    """Serve the collections of FOLDER over HTTP, to programs in any language and to Chroma's clients.

    Settings come from --config, then from variables such as LETHEVEC_SERVER_PORT, then from flags. Without keys it
    listens on this machine only. Ctrl-C, or SIGTERM, ends it when the requests in flight are answered.
    """
    settings_module = _server("settings")
    given = dict(flags, folder=folder)
    for other in others:
        name, equals, value = other.partition("=")
        if not equals:
            raise click.UsageError(f"--set: expected NAME=VALUE, got {other!r}")
        given[name] = value
    settings = settings_module.load_settings(config, given)
    keys = _server("keys").KeyFile(settings.state_folder).keys()
    settings.check_reach(has_keys=bool(keys))
    serving = _server("serving")
    if check:
        print_fields([(field.name, getattr(settings, field.name)) for field in fields(settings)])
        return
    if not keys:
        note("there are no keys: everybody on this machine may do everything (`lethevec keys make` makes one)")
    serving.run(settings, lambda url: note(f"lethevec serves {folder} at {url} ; Ctrl-C ends it"))


@command(
    "keys",
    """
    lethevec keys make people --name "search page" --role reader --collection books
    lethevec keys list people
    """,
)
@click.argument("action", type=click.Choice(["make", "list", "withdraw"]))
@_folder
@click.argument("key", required=False)
@_state
@click.option("--name", help="What the key is for; it is in the audit log's stead of the key.")
@click.option(
    "--role", "roles", multiple=True, help="reader, writer, eraser, auditor, holder or admin; several may be given."
)
@click.option("--collection", "collections", multiple=True, help="Only this collection; several may be given (all).")
@click.option("--expires", help="A date after which the key is useless.")
@json_option
def keys(
    action: str,
    folder: Path,
    key: str | None,
    state: Path | None,
    name: str | None,
    roles: tuple[str, ...],
    collections: tuple[str, ...],
    expires: str | None,
    as_json: bool,
) -> None:
    """Make, list and withdraw the keys of the server of FOLDER. A new key is shown once; only its hash is kept.

    A running server takes up changes within a second. `withdraw` takes the id of a KEY, which `list` shows.
    """
    settings = _server("settings").Settings(folder=folder, state=state)
    file = _server("keys").KeyFile(settings.state_folder)
    if action == "make":
        text, made = file.make(name or "unnamed", roles, collections=collections or None, expires_at=expires)
        if as_json:
            print_json({"id": made.id, "key": text})
        else:
            click.echo(text)
            note(f"key {made.id} ({', '.join(made.roles)}): keep it now, it is not shown again")
        return
    if action == "withdraw":
        if key is None:
            raise click.UsageError("withdraw: expected the id of a key, as `lethevec keys list` shows it")
        gone = file.withdraw(key)
        click.echo(f"key {gone.id} ({gone.name}) opens nothing any more")
        return
    found = file.keys()
    if as_json:
        print_json(
            [
                {
                    "id": one.id,
                    "name": one.name,
                    "roles": one.roles,
                    "collections": one.collections,
                    "live": one.live,
                    "made_at": one.made_at,
                    "expires_at": one.expires_at,
                    "withdrawn_at": one.withdrawn_at,
                }
                for one in found
            ]
        )
        return
    rows = [
        (
            one.id,
            one.name,
            ", ".join(one.roles),
            "all" if one.collections is None else ", ".join(one.collections),
            "live" if one.live else "withdrawn" if one.withdrawn_at else "expired",
        )
        for one in found
    ]
    print_table(["key", "name", "roles", "collections", "state"], rows)


@command(
    "audit",
    """
    lethevec keys make people --role admin
    lethevec audit people
    """,
)
@_folder
@_state
@click.option("--key", "public", help="The public key to check with, in hexadecimal (that of the state folder).")
@click.option("--subject", help="Only what concerned this person: searches, exports, erasures, holds.")
@click.option("--entries", is_flag=True, help="Print the entries, not only whether they are whole.")
@json_option
def audit(
    folder: Path, state: Path | None, public: str | None, subject: str | None, entries: bool, as_json: bool
) -> None:
    """Check the audit log of the server of FOLDER, and show it: who searched, exported and erased, and when."""
    module = _server("audit")
    where = _server("settings").Settings(folder=folder, state=state).state_folder
    try:
        trusted = None if public is None else bytes.fromhex(public)
    except ValueError:
        raise click.UsageError("--key: expected 64 hexadecimal digits") from None
    if trusted is not None and len(trusted) != 32:
        raise click.UsageError("--key: expected 64 hexadecimal digits")
    if not where.is_dir():
        raise FileError(
            f"{where}: expected the folder of a server's keys and logs, got none; `lethevec serve` makes it"
        )
    # A look makes no keys: where nothing is logged yet there is nothing to check, and none are needed.
    signer = module.Signer.open(where, make=False) if any((where / "audit").glob("*.jsonl")) else None
    checks = [] if signer is None else module.check_logs(where, signer.public if trusted is None else trusted)
    if entries or subject is not None:
        tag = None if subject is None or signer is None else signer.tag("subject", subject)
        shown = [one for one in module.read_log(where) if "do" in one and (tag is None or one.get("subject") == tag)]
        if as_json:
            print_json(shown)
        else:
            rows = [(one["at"], one["key"], one["do"], one["in"], one["status"]) for one in shown]
            print_table(["at", "key", "do", "in", "status"], rows)
    elif as_json:
        print_json(
            [{"file": c.path.name, "entries": c.entries, "unsealed": c.unsealed, "problem": c.problem} for c in checks]
        )
    else:
        shown = [(c.path.name, f"{c.entries:,}", f"{c.unsealed:,}", c.problem or "good") for c in checks]
        print_table(["file", "entries", "unsealed", "state"], shown, right=["entries", "unsealed"])
    broken = [check for check in checks if check.problem is not None]
    if broken:
        raise LethevecError(f"{broken[0].path}: the audit log is not whole: {broken[0].problem}")


COMMANDS = [serve, keys, audit]
