"""The trace of jobs at a PostgreSQL target: `anabranch.trace`.

What does not live here: what is noted, and when it comes here (`job/shipping.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

from anabranch.connectors.postgresql.connection import Connection

# Nobody waits for a trace: who locks the table gets it later.
NO_WAIT = "SET LOCAL lock_timeout = '400ms'"
ADD: LiteralString = """
INSERT INTO anabranch.trace (job, id, at, level, event, task, host, pid, state, sub_state, code, side, message, facts)
SELECT %s, e ->> 'id', (e ->> 'at')::timestamptz, e ->> 'level', e ->> 'event', e ->> 'task', e ->> 'host',
       (e ->> 'pid')::integer, e ->> 'state', e ->> 'sub_state', e ->> 'code', e ->> 'side', e ->> 'message', e -> 'facts'
  FROM json_array_elements(%s::json) AS e
ON CONFLICT DO NOTHING
"""
FORGET: LiteralString = "DELETE FROM anabranch.trace WHERE job = %s AND id < %s"
# In the form in which the home has it.
READ: LiteralString = """
SELECT json_strip_nulls(json_build_object('id', id, 'at', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
       'level', level, 'event', event, 'task', task, 'host', host, 'pid', pid, 'state', state, 'sub_state', sub_state,
       'code', code, 'side', side, 'message', message, 'facts', facts))::text
  FROM anabranch.trace WHERE job = %s AND id >= %s ORDER BY id
"""


def add(connection: Connection, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> None:
    """Add entries. Those that are there stay as they are; older ones than `oldest` are removed."""
    with connection.transaction():
        connection.execute(NO_WAIT)
        connection.execute(ADD, [job, json.dumps(list(entries), ensure_ascii=False)])
        connection.execute(FORGET, [job, oldest])


def read(connection: Connection, job: str, first: str) -> list[dict[str, Any]]:
    return [json.loads(text) for (text,) in connection.execute(READ, [job, first])]
