"""Does this server's log go on where we stopped? (K18) Asked once, before a log is opened. Refuses rather than jumps."""

from __future__ import annotations

from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.connection import ask, family
from anabranch.connectors.mysql.source.binlog import LOAD_AGAIN
from anabranch.connectors.mysql.source.log_end import executed, identity
from anabranch.connectors.mysql.source.positions import MysqlGtids, Place, gtid_set
from anabranch.errors import LogLost


def continued(connection: pymysql.Connection, place: Place) -> Place:
    """Return `place` as this server would name it; its `by_gtid` says whether the log has to be entered by the set.

    Raises LogLost: purged, reset, restored to before `place`, or another server that does not contain it.
    """
    server = identity(connection)
    if family(connection) != place.family:
        raise LogLost(f"the trail was read from {place.family}, this server is {family(connection)}")
    if server != place.identity or place.by_gtid:
        _check_set(connection, place, server)
        return replace(place, identity=server, created=0, by_gtid=True)
    _check_place(connection, place)
    if place.gtid:
        _check_contained(connection, place, server)
    return place


def _check_place(connection: pymysql.Connection, place: Place) -> None:
    """Raise LogLost unless the file is there and reaches as far as we read it."""
    files = {str(name): int(size) for name, size, *_ in ask(connection, "SHOW BINARY LOGS")}
    if place.file not in files:
        first, last = next(iter(files), "nothing"), next(reversed(files), "nothing")  # as the server lists them
        raise LogLost(
            f"the source has no {place.file} any more (the trail ends at {place}, its log goes from {first} to {last})",
            position=str(place),
        )
    if place.offset > files[place.file]:
        raise LogLost(
            f"{place.file} ends at {files[place.file]}, before the trail's end {place}: "
            "the source was restored or has lost its tail",
            position=str(place),
        )


def _check_contained(connection: pymysql.Connection, place: Place, server: str) -> None:
    missing = gtid_set(place.family, place.gtid).missing_from(executed(connection))
    if missing:
        raise LogLost(
            f"the source {server} does not contain {missing}, which the trail of {place.identity} has: "
            "it was restored, reset, or is another server",
            position=str(place),
        )
    if place.family == "mysql":
        purged = str(ask(connection, "SELECT @@GLOBAL.gtid_purged")[0][0] or "")
        lost = MysqlGtids(purged).missing_from(place.gtid)
        if lost:
            raise LogLost(
                f"the source {server} has purged {lost}, which the trail does not have",
                position=str(place),
            )


def _check_set(connection: pymysql.Connection, place: Place, server: str) -> None:
    if not place.gtid:
        raise LogLost(
            f"this server is {server}, the trail was read from {place.identity}, and its positions have no GTIDs",
            position=str(place),
        )
    if place.anonymous:
        raise LogLost(
            f"this server is {server}, the trail was read from {place.identity}, and it has transactions without GTIDs "
            "(gtid_mode was not ON all the time): nobody can say whether this server has them, or under which GTIDs",
            position=str(place),
            hint=f"go back to {place.identity}; or {LOAD_AGAIN}",
        )
    _check_contained(connection, place, server)
