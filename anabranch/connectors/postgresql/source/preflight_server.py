"""Is the server itself ready to be the job's source: release, log, room for a slot and its reader, what bounds the log.

https://www.postgresql.org/docs/current/runtime-config-replication.html
What does not live here: tables (preflight.py), rights (rights.py), what a decoder shows (preflight_decoder.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.connectors.postgresql.connection import one
from anabranch.connectors.postgresql.room import rooms
from anabranch.connectors.postgresql.source.preflight_facts import Live, failed, ok, some, warning
from anabranch.connectors.postgresql.source.rights import MAY_READ_LOG
from anabranch.errors import SourceError
from anabranch.model.checks import CheckResult
from anabranch.model.room import judged

OLDEST, OLDEST_NAME = 110_000, "11"
TESTED = (11, 12, 15, 17, 18)  # releases that this project's own test runs have spoken to as a source
PINNED_TIMEOUT = 120_000  # from here on a session may set its own: https://www.postgresql.org/docs/release/12.0/
KEEP = "max_slot_wal_keep_size"  # none before 13
IDLE = "idle_replication_slot_timeout"  # none before 18
TIMEOUT = "wal_sender_timeout"
DAY, SHORT = 86_400, 10_000  # seconds that capture may be away; milliseconds in which it answers at the latest
_UNITS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": DAY}
LOGICAL, KEPT_LOG, TIMEOUT_LINE = "logical", "'50GB'", "'60s'"  # values that settings should have
RESTART = "restart the source"
OWN_SENDERS = 120_000
# Beside those of a load's pieces: capture's two, load's own with its snapshot, `run`'s, and two that ask who is in the way.
OUR_CONNECTIONS = 6
SETTINGS = ("wal_level", "max_replication_slots", "max_wal_senders", KEEP, IDLE, TIMEOUT, "server_encoding")
# Every slot of the server takes room, of whatever database, job or product, active or not.
_SLOTS = """
SELECT slot_name::text, coalesce(plugin::text, 'physical'), active_pid FROM pg_catalog.pg_replication_slots
 WHERE slot_name <> %s ORDER BY active_pid IS NOT NULL, 1
"""
_SENDERS = """
SELECT pid, coalesce(application_name, ''), coalesce(usename::text, '') FROM pg_catalog.pg_stat_replication
 WHERE pid IS DISTINCT FROM %s ORDER BY 1
"""
_OWN_READER = "SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = %s"


def check_version(live: Live) -> Iterator[CheckResult]:
    shown = f"PostgreSQL {one(live.connection, 'SHOW server_version')}"
    if live.version < OLDEST:
        yield failed("version", f"{shown} has no pgoutput that we read", f"PostgreSQL {OLDEST_NAME} or later")
    elif live.version // 10_000 not in TESTED:
        tested = ", ".join(map(str, TESTED))
        hint = f"use PostgreSQL {tested}, or let anabranch verify JOB compare both ends"
        yield warning("version", f"{shown} is not among the versions that were tested as a source ({tested})", hint)
    else:
        yield ok("version", shown)


def check_primary(live: Live) -> Iterator[CheckResult]:
    if one(live.connection, "SELECT pg_catalog.pg_is_in_recovery()"):
        yield failed("primary", "the source is a standby", "point the job at the primary")


def check_wal_level(live: Live) -> Iterator[CheckResult]:
    level = live.settings["wal_level"]
    if level.value == LOGICAL:
        yield from _in_force(live, "wal_level")
    else:
        why = f"wal_level = {level.value}: the log has no rows that can be read"
        yield failed("wal_level", *_raised(live, "wal_level", why, LOGICAL))


def check_connections(live: Live) -> Iterator[CheckResult]:
    """Check the sessions that are free. Sessions that read the log are counted by max_wal_senders from 12 on, before by
    both.

    https://www.postgresql.org/docs/release/12.0/
    """
    own = OUR_CONNECTIONS + (live.version < OWN_SENDERS)
    parallel = int(live.context.user_choices.get("load.parallel") or 4)
    yield from judged(rooms(live.connection, "source", own + parallel), "source", own, parallel)


def check_slots(live: Live) -> Iterator[CheckResult]:
    """Check that one slot and one sender are free; the job's own may be there already."""
    name, limit = live.context.source_name, "max_replication_slots"
    slots: list[Any] = live.connection.execute(_SLOTS, [name]).fetchall()
    named = [f"{slot} ({plugin}, {'read now' if pid else 'read by nobody'})" for slot, plugin, pid in slots]
    yield from _room(live, limit, named, "SELECT pg_drop_replication_slot('…') of one that nobody needs")
    reader = one(live.connection, _OWN_READER, [name])
    senders: list[Any] = live.connection.execute(_SENDERS, [reader]).fetchall()
    named = [f"{program or 'unnamed'} of {user or 'another user'} (process {pid})" for pid, program, user in senders]
    yield from _room(live, "max_wal_senders", named, "end one of them")


def _room(live: Live, setting: str, taken: list[str], otherwise: str) -> Iterator[CheckResult]:
    most = int(live.settings[setting].value)
    if most > len(taken):
        yield from _in_force(live, setting, f"{setting} = {most}, {len(taken)} in use by others")
    else:
        why = f"{setting} = {most}, and {len(taken)} are in use by others: {some(taken) or 'none'}"
        message, hint = _raised(live, setting, why, str(len(taken) + 4))
        yield failed(setting, message, f"{hint}; or {otherwise}" if taken else hint)


def _raised(live: Live, setting: str, why: str, value: str) -> tuple[str, str]:
    """Say why a setting is not enough; where the configuration has another value already, only a restart is missing."""
    if live.settings[setting].waits:
        return f"{why}; the configuration says otherwise, which waits for a restart", f"{RESTART}; then look again"
    return why, f"ALTER SYSTEM SET {setting} = {value}, then restart the server"


def _in_force(live: Live, setting: str, message: str = "") -> Iterator[CheckResult]:
    """Report a setting that is good as it is; warn if another value waits in the configuration."""
    shown = message or f"{setting} = {live.settings[setting].value}"
    if live.settings[setting].waits:
        why = f"{shown}; the configuration says otherwise, which is in force from the next restart on"
        hint = f"make sure that the new value is enough (SELECT * FROM pg_file_settings WHERE name = '{setting}')"
        yield warning(setting, why, hint)
    else:
        yield ok(setting, shown)


def check_log_connection(live: Live) -> Iterator[CheckResult]:
    """Open and close one replication connection: pools, proxies and pg_hba.conf may let ordinary sessions pass only."""
    from anabranch.connectors.postgresql.source.wal_stream import WalStream

    reader = one(live.connection, _OWN_READER, [live.context.source_name])
    taken = one(live.connection, "SELECT count(*) FROM pg_catalog.pg_stat_replication")
    if reader or not one(live.connection, MAY_READ_LOG) or int(taken) >= int(live.settings["max_wal_senders"].value):
        return  # it is open, or said already
    try:
        WalStream(live.endpoint).close()
    except SourceError as error:
        hint = (
            f"{error.hint or 'look at the log of the source'}; the URL has to lead to the server itself, not to a pool"
        )
        yield failed("log_connection", f"the log cannot be read over this URL: {error.message}", hint)


def check_kept_log(live: Live) -> Iterator[CheckResult]:
    """Check how much log is kept for a slot.

    https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-MAX-SLOT-WAL-KEEP-SIZE
    """
    most, told = live.value(KEEP), live.options.held_log_warning_mb
    if most == "-1":
        hint = (
            f"ALTER SYSTEM SET {KEEP} = {KEPT_LOG}, as the disk allows; of a slot that needs more the tables load again"
        )
        why = "nothing bounds the log that is kept while capture is away: it may fill the disk"
        why += f" (status warns from {told} MB on: [source.options] held_log_warning_mb)"
        yield warning(KEEP, why, hint)
    elif most is not None:
        told = min(told, int(most) // 2)
        why = f"{KEEP} = {most} MB: capture that is away for longer has to load again (status warns from {told} MB on)"
        yield ok(KEEP, why)


def check_idle_slots(live: Live) -> Iterator[CheckResult]:
    """Check how long an idle slot lives.

    https://www.postgresql.org/docs/18/runtime-config-replication.html#GUC-IDLE-REPLICATION-SLOT-TIMEOUT
    """
    setting = live.settings.get(IDLE)
    seconds = int(setting.value) * _UNITS[setting.unit or "s"] if setting else 0
    if 0 < seconds < DAY:
        why = f"{IDLE} = {seconds:g} s: capture that is away for longer loses its slot, and all tables load again"
        yield warning(IDLE, why, f"ALTER SYSTEM SET {IDLE} = 0 at the source, and SELECT pg_reload_conf()")


def check_sender_timeout(live: Live) -> Iterator[CheckResult]:
    """Check wal_sender_timeout. The session that reads the log sets its own where the release allows it (settings.py)."""
    value = int(live.settings[TIMEOUT].value)
    hint = f"ALTER SYSTEM SET {TIMEOUT} = {TIMEOUT_LINE} at the source, and SELECT pg_reload_conf()"
    if live.version >= PINNED_TIMEOUT:
        yield ok(TIMEOUT, f"{TIMEOUT} = {value} ms; the session that reads the log sets 60 s for itself")
    elif value == 0:
        yield warning(
            TIMEOUT, f"{TIMEOUT} = 0: a reader whose line was cut keeps its slot, and the next one waits", hint
        )
    elif value < SHORT:
        yield warning(TIMEOUT, f"{TIMEOUT} = {value} ms: a reader that is busy for longer is cut", hint)
    else:
        yield ok(TIMEOUT, f"{TIMEOUT} = {value} ms")


def check_encoding(live: Live) -> Iterator[CheckResult]:
    if live.value("server_encoding") == "SQL_ASCII":
        why = "the database has no encoding (SQL_ASCII): what comes of text that is not UTF-8 is [apply] on_error's to say"
        yield warning("encoding", why, "make sure that its text is UTF-8")
