"""`anabranch serve`: the manager, its REST interface and its console.

What does not live here: what they do (`manager/`, `api/`, `console/`).
"""

from __future__ import annotations

import errno
import os
import re
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anabranch.cli.managing import STORE, opened
from anabranch.cli.options import Verb, log_level
from anabranch.errors import ConfigError, Overtaken, install_hint

if TYPE_CHECKING:
    from uvicorn import Config

    from anabranch.manager import Manager
    from anabranch.manager.lease import Lease
    from anabranch.manager.notifying import Way
    from anabranch.manager.oidc.settings import Settings

ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]+)):(\d{1,5})")
NOT_HERE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
BACKLOG = 2048  # connections that wait until they are taken, as uvicorn has it
LOOPBACK = ("127.0.0.1", "::1", "localhost")


@click.command(cls=Verb)
@click.option(
    "--listen", default="127.0.0.1:8420", metavar="HOST:PORT", help="Answer at this address; default 127.0.0.1:8420."
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificate (PEM).",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE", help="Its key (PEM)."
)
@click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Answer under this name, too; may be repeated.",
)
@click.option("--alert-webhook", multiple=True, metavar="URL", help="Post alerts to this URL, as JSON.")
@click.option("--alert-mail", multiple=True, metavar="URL", help="Send alerts by e-mail: smtps://USER@HOST/TO.")
@click.option("--alert-command", multiple=True, metavar="COMMAND", help="Start this program for each alert.")
@click.option(
    "--oidc",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Let people log in by this OpenID provider.",
)
@click.option("--store", metavar="URL", help="Share the jobs with managers elsewhere.")
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(["capture", "apply", "pump", "route", "receive"]),
    metavar="PART",
    help="Start only this kind here; may be repeated.",
)
@click.option("--stop-jobs", is_flag=True, help="Stop the jobs when the manager ends; else they go on.")
@log_level("info")
def serve(
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    allow_host: tuple[str, ...],
    oidc: Path | None,
    store: str | None,
    only: tuple[str, ...],
    stop_jobs: bool,
    alert_webhook: tuple[str, ...],
    alert_mail: tuple[str, ...],
    alert_command: tuple[str, ...],
) -> None:
    """Keep many jobs running; serve REST and a web console.

    What the manager knows stands below $ANABRANCH_HOME/_manager. The first start prints a password for one login as
    `admin`. Beyond this machine it answers with TLS only.

    A second one of the same home stands by, and takes over when the first has ended. On another machine it does so with
    the same `--store postgresql://…` (or $ANABRANCH_STORE) and a shared ANABRANCH_HOME.

    A job with a database at both ends is a capture and an apply: with `--only capture` it is not started.
    """
    host, port = _address(listen)
    if (tls_cert is None) != (tls_key is None):
        raise ConfigError("--tls-cert and --tls-key go together", hint="give both, or none")
    if tls_cert is None and host not in LOOPBACK:
        raise ConfigError(
            f"--listen {listen} is reached by other machines, and passwords would pass in plain text",
            hint="give --tls-cert and --tls-key, or listen at 127.0.0.1 behind a proxy that has TLS",
        )
    _refuse_password(store)
    sockets = bound(host, port)
    sign_on = _sign_on(oidc)  # first: it takes a secret out of the environment
    manager = opened(store)
    if sign_on is not None:
        manager.sign_on_by(sign_on)
    manager.run_only(only)
    manager.notifier.ways = _ways(alert_webhook, alert_mail, alert_command)
    from uvicorn import Config

    config = partial(
        Config, host=host, port=port, ssl_certfile=tls_cert, ssl_keyfile=tls_key, log_config=None, access_log=False,
        server_header=False, proxy_headers=False, timeout_graceful_shutdown=5,
    )  # fmt: skip
    lease, names = _lease_of(manager), (host, *allow_host, *([sign_on.host] if sign_on else []))
    address = f"{'https' if tls_cert else 'http'}://{listen}"
    try:
        if lease.take() or _stood_by(manager, lease, config, names, address, [one.dup() for one in sockets]):
            _serve(manager, lease, config, names, address, stop_jobs, sockets)
    finally:
        lease.close()


def _lease_of(manager: Manager) -> Lease:
    """Return the lease of a manager's store. Raises ConfigError where that is for other homes."""
    from anabranch.manager.lease import Lease
    from anabranch.manager.store_sqlite import SqliteKeeper

    if isinstance(manager.store.keeper, SqliteKeeper):
        return Lease(manager.store.directory)
    from anabranch.manager.lease_shared import SharedLease
    from anabranch.manager.store_postgresql import PostgresKeeper

    assert isinstance(manager.store.keeper, PostgresKeeper)
    shared = SharedLease(manager.store.directory, manager.store.keeper)
    shared.require_home()
    return shared


def _refuse_password(store: str | None) -> None:
    """Raise ConfigError for a password that everybody on this machine would read in the list of processes."""
    login, has_login, _ = (store or "").partition("://")[2].rpartition("@")
    password = login.partition(":")[2]
    if has_login and password and not re.fullmatch(r"\$\{[^{}]*\}", password):
        raise ConfigError(
            "--store has a password that every user of this machine can see",
            hint=f"write ${{NAME}} in its place, and give the variable NAME; or give the URL by ${STORE}",
        )


def _stood_by(
    manager: Manager,
    lease: Lease,
    config: Callable[..., Config],
    names: tuple[str, ...],
    address: str,
    sockets: list[socket.socket],
) -> bool:
    """Answer that we stand by until we have the lease. Returns False where we are asked to end before. Closes the sockets."""
    from anabranch.api.ending import Server
    from anabranch.api.standby import create_standby_app

    click.echo(f"anabranch stands by at {address}: {lease.holder} manages the jobs", err=True)
    server, ends = Server(config(create_standby_app(names))), threading.Event()

    def meanwhile() -> None:
        if lease.is_elsewhere:
            manager.stand_by()

    def wait() -> None:
        if lease.wait(ends, meanwhile):
            server.should_exit = True

    waiting = threading.Thread(target=wait, name="lease", daemon=True)
    waiting.start()
    try:
        server.run(sockets)
    finally:
        ends.set()
        waiting.join()
    return lease.is_held and not server.was_asked


def _serve(
    manager: Manager,
    lease: Lease,
    config: Callable[..., Config],
    names: tuple[str, ...],
    address: str,
    stop_jobs: bool,
    sockets: list[socket.socket],
) -> None:
    from anabranch import console
    from anabranch.api import create_app
    from anabranch.api.ending import Server
    from anabranch.api.gate import Pace
    from anabranch.cli.offered import commands
    from anabranch.manager.environment import without_key
    from anabranch.manager.nursery import Nursery

    manager.supervision.may_act = lease.may_act
    manager.supervision.nursery = Nursery(without_key(os.environ), gives_up=lambda: manager.supervision.is_ending)
    manager.operations.offer(commands(_every_verb()))
    if password := manager.accounts.make_first():
        click.echo(f"log in as admin with the password {password} (once: then choose another one)", err=True)
    app = create_app(manager, [console.routes], console.static_files(), names, Pace(), console.refused_page)
    manager.begin()
    try:
        click.echo(f"anabranch serves {address}", err=True)
        server = Server(config(app))
        app.state.is_ending = lambda: server.should_exit  # answers that go on end then
        lease.when_lost = partial(setattr, server, "should_exit", True)
        if not lease.is_lost:
            server.run(sockets)
    finally:
        if left := manager.end(stop_jobs and not lease.is_lost):
            said = "it is not sure that no other manager leads: the store is away"
            click.echo(f"left running, since {said}: {', '.join(left)}", err=True)
    if lease.is_lost:
        message = "another manager has taken over the jobs, which go on: this one did not answer for a while"
        raise Overtaken(message, hint="started again, it stands by")


def _sign_on(file: Path | None) -> Settings | None:
    """Return what the file of an OpenID provider says. Raises ConfigError, also without the packages for it."""
    if file is None:
        return None
    try:
        from anabranch.manager.oidc import sign_on  # noqa: F401 — to know whether all of it is installed
        from anabranch.manager.oidc.settings import load_settings
    except ImportError:
        raise ConfigError("--oidc needs packages that are not installed", hint=install_hint("manager,oidc")) from None
    return load_settings(file)


def bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host's name. Raises ConfigError where a port is taken, or none ours."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    found: list[socket.socket] = []
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for number, (family, *_, address) in enumerate(known, 1):
            try:
                found.append(_listening(family, address))
            except OSError as error:  # IPv6 that this machine does not have, while it has the other one
                if error.errno not in NOT_HERE or not (found or number < len(known)):
                    raise
    except OSError as error:
        for one in found:
            one.close()
        taken = error.errno == errno.EADDRINUSE
        raise ConfigError(
            f"port {port} is taken: {where}" if taken else f"--listen {where} cannot be listened at: {error.strerror}",
            hint="another manager may have it; --listen HOST:PORT gives another one"
            if taken
            else "give HOST:PORT of here",
        ) from None
    return found


def _listening(family: int, address: tuple[Any, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _ways(webhooks: tuple[str, ...], mails: tuple[str, ...], commands: tuple[str, ...]) -> dict[str, Way]:
    """Return the ways to tell alerts, by name; of two with the same name the second has a number."""
    from anabranch.manager.notifying import PASSWORD, command, mail, webhook

    password = os.environ.get(PASSWORD)
    given = [*map(webhook, webhooks), *(mail(url, password) for url in mails), *map(command, commands)]
    found: dict[str, Way] = {}
    for name, way in given:
        found[name if name not in found else f"{name} {len(found) + 1}"] = way
    return found


def _address(text: str) -> tuple[str, int]:
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536:
        raise ConfigError(f"--listen {text!r} is no address", hint="HOST:PORT, such as 127.0.0.1:8420 or [::1]:8420")
    return found[1] or found[2], int(found[3])


def _every_verb() -> click.Group:
    """Return the group of all verbs, of which this command is one."""
    root = click.get_current_context().find_root().command
    assert isinstance(root, click.Group)
    return root
