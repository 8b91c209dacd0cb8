"""Is the target the server that the job reads, and would it write there to tables that it reads?

Two facts tell, without any right: before a job begins, the target's session sees a lock that the source's holds, or does not;
once it has begun, the server has the identity that the job has noted of its source. URLs do not tell: names, sockets,
ports and proxies differ. A server has one set of databases, so a table has one name at both ends. What does not live
here: other jobs (registered.py, shared_tables.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.identity import NAMES, identity_of, is_certain
from anabranch.connectors.mysql.registered import STATE, witness_lock
from anabranch.connectors.mysql.target.session import Connection, ask, one
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.model.writers import SourceWriter

IS_SEEN = "SELECT IS_USED_LOCK(%s)"
NOTED = f"SELECT source_identity FROM {STATE}.job WHERE job = %s"
PAIRS = f"SELECT source_table, target_table FROM {STATE}.table_state WHERE job = %s"
# https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html
FOLDS = "SELECT @@lower_case_table_names"
REMEDY = "write it to a table that the job does not read ([[rules]] target), or leave that one out ([[rules]] exclude)"
STATE_REMEDY = "choose another database for it ([[rules]] target)"
COPY = "a copy of the source's files has its identity: remove auto.cnf there, and restart it"


def own_identity(connection: Connection) -> str:
    """Return the identity of the server at the other end, as a source would tell it."""
    names = ", ".join(f"'{name}'" for name in NAMES)
    rows = ask(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    return identity_of(family(connection), {str(name).lower(): str(value) for name, value in rows})


def is_server(connection: Connection, noted: str) -> bool:
    """Return whether the server has this identity of a source. False where more than one may have it."""
    return is_certain(noted) and noted == own_identity(connection)


def reads_here(connection: Connection, writer: SourceWriter) -> bool:
    """Return whether a job that writes to the source reads this server: it has noted which one it reads."""
    return is_server(connection, writer.source)


def sees(connection: Connection, key: str) -> bool:
    """Return whether the connection leads to the server whose session holds the lock. False without a key."""
    return bool(key) and one(connection, IS_SEEN, witness_lock(key)) is not None


def read_by_the_job(
    connection: Connection, targets: Sequence[TableId], sources: Collection[TableId]
) -> dict[TableId, TableId]:
    """Return, for each target table, the one among `sources` that it is, if there is one."""
    folds = bool(int(one(connection, FOLDS)))
    read = {_folded(source, folds): source for source in sources}
    return {target: read[_folded(target, folds)] for target in targets if _folded(target, folds) in read}


def followed(connection: Connection, job: str) -> set[TableId]:
    """Return the tables that a job which has begun reads, where it reads this server; else none."""
    if not _is_source(connection, job):
        return set()
    return {TableId.parse(str(source)) for source, _ in ask(connection, PAIRS, job)}


def why(target: TableId, found: TableId) -> str:
    name = "" if target == found else f" by the name of {found}"
    return f"source and target are the same server, and {target} is a table that the job reads{name}"


def is_state(target: TableId) -> str:
    return f"{target} would be in the database in which jobs keep their state"


@dataclass
class OwnSource:
    """The answer for one connection. Whether the job reads this server is asked once, what its tables are each time."""

    _asked: dict[tuple[int, str], bool] = field(default_factory=dict)

    def refuse(self, connection: Connection, job: str, targets: Iterable[TableId] = ()) -> None:
        """Raise TargetError where the job reads one of these target tables, or it is among what jobs keep their state
        in.

        Without `targets`, all target tables of the job are checked.
        """
        targets = tuple(targets)
        if state := next((target for target in targets if target.schema.lower() == STATE), None):
            raise TargetError(is_state(state), hint=STATE_REMEDY, job=job)
        if not self._reads_here(connection, job):
            return
        pairs = [tuple(map(TableId.parse, map(str, pair))) for pair in ask(connection, PAIRS, job)]
        targets = targets or tuple(target for _, target in pairs)
        found = read_by_the_job(connection, targets, [source for source, _ in pairs])
        for target, source in found.items():
            raise TargetError(why(target, source), hint=f"{REMEDY}; {COPY}", job=job)

    def _reads_here(self, connection: Connection, job: str) -> bool:
        asked = (connection.thread_id(), job)
        if asked not in self._asked:
            self._asked = {asked: _is_source(connection, job)}
        return self._asked[asked]


def _is_source(connection: Connection, job: str) -> bool:
    """Return whether the server is the one that the job has noted as its source."""
    return is_server(connection, str(one(connection, NOTED, job) or ""))


def _folded(table: TableId, folds: bool) -> TableId:
    return TableId(table.schema.lower(), table.name.lower()) if folds else table
