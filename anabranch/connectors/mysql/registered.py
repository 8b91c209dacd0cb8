"""Jobs that write to tables of this server, by the state that they keep here: what may come back to a source.

A job has noted there which server it reads. What does not live here: a job whose own target is its source, and whether a
target is the server that such a job reads (target/own_source.py).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping

import pymysql

from anabranch.connectors.mysql.connection import ask
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.cutover import held
from anabranch.model.ids import TableId
from anabranch.model.state import LEAVES_OUT, ORIGINS, PAIR
from anabranch.model.writers import JOB, SourceWriter, from_text, origins_of_text, with_held

STATE = "anabranch"  # the database in which jobs keep their state
# A table is there only for who has some right to it.
THERE = """
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN ('job', 'table_state')
"""
# A table that was parked before its first load is written by nobody.
JOBS = f"""
SELECT s.job, j.uuid, j.source_identity, s.source_table, s.target_table
  FROM {STATE}.table_state s JOIN {STATE}.job j ON j.job = s.job
 WHERE j.uuid IS NOT NULL AND (s.state <> 'parked' OR s.generation > 0) ORDER BY 1, 4
"""
FACTS = f"SELECT job, facts FROM {STATE}.job WHERE uuid IS NOT NULL ORDER BY 1"
HELD = f"""
SELECT job, number, step, phase, noted_at FROM {STATE}.cutover
 WHERE job IN (SELECT job FROM {STATE}.checkpoint WHERE LEFT(owner, 8) = 'cutover-')
   AND job NOT IN (SELECT job FROM {STATE}.checkpoint WHERE LEFT(owner, 8) <> 'cutover-') ORDER BY 1, 2
"""
NO_RIGHT = (1142, 1143, 1044, 1146)  # or dropped at this moment
# Asked for a table that is not there, a server says so only to who might read it.
MAY_READ, ABSENT = f"SELECT 1 FROM {STATE}.{{}} LIMIT 0", (1146, 1049)
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html


def witness_lock(key: str) -> str:
    """Return the name of the lock that a source holds while a job begins."""
    return f"anabranch-source-{key}"


def writers(connection: pymysql.Connection) -> list[SourceWriter]:
    """Return the jobs that write to tables here, where this user may read their state. Raises SourceUnavailable."""
    if ask(connection, THERE, STATE)[0][0] != 2:
        return []
    try:
        rows, facts = ask(connection, JOBS), ask(connection, FACTS)
    except SourceError as error:
        if _is_no_right(error):
            return []
        raise
    known = {job: json.loads(text or "{}") for job, text in facts}
    origins = [(f"{JOB}{job}", of.get(ORIGINS)) for job, of in known.items()]
    others = [writer for name, text in origins if text for writer in from_text(text, name)]
    left_out = {job: origins_of_text(of.get(LEAVES_OUT)) for job, of in known.items()}
    found = _grouped(rows, left_out, {job: of.get(PAIR, "") for job, of in known.items()}) + others
    return with_held(found, _held(connection))


def _held(connection: pymysql.Connection) -> frozenset[str]:
    """Return the jobs that a cut-over holds; none where this user may not read that."""
    try:
        return held(ask(connection, HELD))
    except SourceError as error:
        if _is_no_right(error):
            return frozenset()
        raise


def _is_no_right(error: SourceError) -> bool:
    """Return whether a table may not be read, or is not there."""
    if isinstance(error, SourceUnavailable) or not isinstance(error.__cause__, pymysql.err.Error):
        return False
    return error.__cause__.args[0] in NO_RIGHT


def sees_writers(connection: pymysql.Connection) -> bool:
    """Return whether this user may read the state of jobs here, be it there or not. Raises SourceUnavailable."""
    try:
        for table in ("job", "table_state"):
            ask(connection, MAY_READ.format(table))
    except SourceUnavailable:
        raise
    except SourceError as error:
        number = error.__cause__.args[0] if isinstance(error.__cause__, pymysql.err.Error) else 0
        if number not in (*NO_RIGHT, *ABSENT):
            raise
        return number in ABSENT
    return True


def _grouped(
    rows: Iterable[tuple[str, str, str | None, str, str]],
    left_out: Mapping[str, frozenset[str]],
    in_pair: Mapping[str, str],
) -> list[SourceWriter]:
    pairs = defaultdict(list)
    for job, key, source, read, written in rows:
        pairs[job, key, source or ""].append((TableId.parse(read), TableId.parse(written)))
    return [
        SourceWriter(
            f"{JOB}{job}",
            key,
            tuple(found),
            source=source,
            leaves_out=left_out.get(job, frozenset()),
            pair=in_pair.get(job, ""),
        )
        for (job, key, source), found in pairs.items()
    ]
