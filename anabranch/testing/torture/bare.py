"""Transactions of a PostgreSQL source that do nothing but TRUNCATE one table: not even their number is in the ledger.

Only such a one is a TRUNCATE at a target where that commits by itself. Its number is in the log, as a message. Between the
emptying and its epoch the target shows the state behind it. https://www.postgresql.org/docs/current/functions-admin.html
What does not live here: TRUNCATE beside other statements (postgresql_events.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.postgresql_tables import shape_of
from anabranch.testing.torture.tables import Schema

SHARE = 0.6  # of the histories to such a target


def with_bare_truncates(history: History) -> History:
    """The same with up to three of them, at any place of it; of some histories as it is."""
    r = random.Random(f"bare truncates of {history.seed}")
    tables = history.schema.tables
    names = [table.name for table in tables if table.may_be_emptied and _is_alone(history.schema, table.name)]
    if r.random() >= SHARE or not names:
        return history
    number = max(one.number for one in history.transactions)
    during, after = list(history.during), list(history.after)
    for more in range(1, r.randint(1, 3) + 1):
        phase = r.choice((during, after, after))
        session = r.choice([one.session for one in phase] or [0])
        one = Transaction(number + more, session, (Statement("empty", r.choice(names)),), bare=True)
        phase.insert(r.randint(0, len(phase)), one)
    return replace(history, during=tuple(during), after=tuple(after))


def said(history: str, number: int) -> str:
    """Return the statement that puts a number into the log instead of the ledger. Every reader of the database is given it, so
    that it says of which history it is."""
    return f"SELECT pg_logical_emit_message(true, '{history}', '{number}')"


def _is_alone(schema: Schema, name: str) -> bool:
    """Return whether emptying a table empties no other one, nor parts of it one by one."""
    referred = (table for table, _ in schema.references(name) if table.name != name)
    return not any(referred) and not any(schema.heirs(name)) and not shape_of(schema[name], "")


def is_any(transactions: Sequence[Transaction]) -> bool:
    return any(one.bare for one in transactions)
