"""Checks whether the standbys that the URL names have the slot when one of them takes over: asks each of them, and the primary.

https://www.postgresql.org/docs/current/logical-replication-failover.html
https://www.postgresql.org/docs/current/logicaldecoding-explanation.html#LOGICALDECODING-REPLICATION-SLOTS-SYNCHRONIZATION
What does not live here: what becomes of a place at a server that took over (capture.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import psycopg

from anabranch.connectors.postgresql.connection import Connection, one, parameters
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.quoting import literal
from anabranch.connectors.postgresql.source.connection import NAME
from anabranch.connectors.postgresql.source.held_log import read_slot
from anabranch.connectors.postgresql.source.preflight_facts import Live, failed, ok, warning
from anabranch.connectors.postgresql.source.slots import FAILOVER
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint

CHECK = "failover"
LOADS = "after a failover all tables load again"
WAITS_FOR = "synchronized_standby_slots"
_ASKED = ("sync_replication_slots", "hot_standby_feedback", "primary_slot_name", "primary_conninfo")
_SETTINGS = "SELECT name::text, setting::text FROM pg_catalog.pg_settings WHERE name = ANY(%s)"
_HAS_SLOT = "SELECT synced AND NOT temporary FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"


def check_failover(live: Live) -> Iterator[CheckResult]:
    """Check nothing where the URL names one server: nobody says that there is another one."""
    order = live.endpoint.each
    if len(order) < 2:
        return
    if live.version < FAILOVER:
        hint = "upgrade to PostgreSQL 17 or later, where standbys can have the slot"
        yield warning(CHECK, f"a standby of this release has no slot: {LOADS}", hint)
        return
    if not live.options.failover:
        yield warning(CHECK, f"no standby has the slot: {LOADS}", "[source.options] failover = true")
        return
    here = (live.connection.info.host, live.connection.info.port)
    waited_for = _names(str(one(live.connection, f"SELECT current_setting('{WAITS_FOR}')")))
    slot = read_slot(live.connection, _slot(live))
    if slot is not None and not slot.failover:
        why = f"standbys do not keep the slot {_slot(live)} yet: {LOADS}"
        hint = "start the job again: capture changes the slot then; its log says slot_not_changed, and why, where it cannot"
        yield warning(CHECK, why, hint)
    has_slot = slot is not None and bool(slot.failover)
    for standby in order:
        if (standby.host, standby.port) != here:
            yield from _standby(live, standby, waited_for, has_slot)


def _slot(live: Live) -> str:
    return live.context.source_name


def _names(text: str) -> set[str]:
    return {name.strip().strip('"') for name in text.split(",") if name.strip()}


def _standby(live: Live, standby: Endpoint, waited_for: set[str], has_slot: bool) -> Iterator[CheckResult]:
    """Yield what this standby lacks."""
    try:
        with closing(psycopg.connect(**parameters(standby, NAME), autocommit=True)) as connection:
            found = list(_lacks(live, connection, standby.place, waited_for, has_slot))
    except psycopg.Error as error:
        hint = "start it, or take it out of the URL; then look again"
        yield warning(CHECK, f"{standby.place} cannot be looked at: {describe(error)}", hint)
        return
    yield from found or [ok(CHECK, f"{standby.place} keeps the slot in step, and may take over")]


def _lacks(
    live: Live, connection: Connection, place: str, waited_for: set[str], has_slot: bool
) -> Iterator[CheckResult]:
    if not one(connection, "SELECT pg_catalog.pg_is_in_recovery()"):
        why = f"{place} can be written, too: capture reads one of the two, and would not know which is right"
        yield failed(CHECK, why, "take it out of the URL, or make it a standby")
        return
    settings: dict[str, str] = dict(connection.execute(_SETTINGS, [list(_ASKED)]).fetchall())
    lacking = list(_missing(settings))
    for why, hint in lacking:
        yield warning(CHECK, f"{place}: {why}: {LOADS}", f"{hint} at {place}, and SELECT pg_reload_conf()")
    name = settings.get("primary_slot_name") or ""
    if name and name not in waited_for:
        why = f"{place} may lack what capture has read when it takes over, and is refused then: capture does not wait for it"
        names = literal(", ".join(sorted({*waited_for, name})))
        yield warning(CHECK, why, f"ALTER SYSTEM SET {WAITS_FOR} = {names} at the primary, and SELECT pg_reload_conf()")
    if not lacking and has_slot and not one(connection, _HAS_SLOT, [_slot(live)]):
        why = f"{place} does not have the slot yet: it gets it while capture reads and the primary is written to"
        yield warning(
            CHECK, f"{why}; until then: {LOADS}", "look again after a minute; the standby's log says what it waits for"
        )


def _missing(settings: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what keeps a standby from having slots of its primary, and what mends it."""
    for name, otherwise in (("sync_replication_slots", "off"), ("hot_standby_feedback", "off")):
        if settings.get(name, otherwise) != "on":
            yield f"{name} = {settings.get(name, otherwise)}", f"ALTER SYSTEM SET {name} = on"
    if not settings.get("primary_slot_name"):
        made = "SELECT pg_create_physical_replication_slot('standby') at the primary"
        yield "primary_slot_name is empty", f"{made}, ALTER SYSTEM SET primary_slot_name = 'standby'"
    line = settings.get("primary_conninfo")  # not shown to everybody
    if line and "dbname" not in line:
        yield "primary_conninfo has no dbname", "ALTER SYSTEM SET primary_conninfo = '… dbname=postgres'"
