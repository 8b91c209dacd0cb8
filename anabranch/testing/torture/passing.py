"""Tables of a history that a MySQL or MariaDB makes, renames and drops while it streams, between rows of theirs.

They are tables of their own, which no foreign key connects with others: the job parks those. A name may have one table after
another: to the model these are two, and `Model.names` says which of them has it. A statement names a table as it is called
then. Whoever reads such a table shows whether it is there, and with which columns (tables.heading). What does not live here:
columns that come, go and change (growing.py, altering.py).
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.history import PASSING, History, Statement, Transaction
from anabranch.testing.torture.schemas import draw_table
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.tables import DROPPED, MADE, RENAMED, Column, Schema, Table, create_sql
from anabranch.testing.torture.values import plain_constants

SHARE = 0.25  # of the histories that may
DIES = 0.6  # of these histories: a process is gone at one of the places
# Of each name, the lives of the tables that have it, one after the other.
LIVES: Sequence[Sequence[tuple[str, ...]]] = (
    ((DROPPED,),),
    ((RENAMED,),),
    ((RENAMED, DROPPED),),
    ((DROPPED,), (MADE,)),
    ((MADE,),),
)
DROPS = ("apply", "apply", "rename", "keep")
AGAIN_ALIKE = 0.5  # of the tables that are made where another one was: they are defined as that one
POINTS = (
    "apply.dropping",
    "apply.dropped.apart",
    "apply.dropped",
    "apply.created",
    "apply.ddl.noted",
    "capture.statement",
    "capture.statement.noted",
)
# What the server says of their constants in its catalogue is not told by the statement: a table that is made with one parks.
_OTHER_WORDS = ("timestamp", "bit")


def may_pass(seed: int) -> bool:
    """The same for the same seed."""
    return random.Random(f"passing {seed}").random() < SHARE


def draw_drops(seed: int) -> str:
    """Draw what the job does with tables that are dropped (`[ddl] drop_table`)."""
    return random.Random(f"drops of {seed}").choice(DROPS)


def with_passing(schema: Schema, seed: int, known: Kinds) -> Schema:
    """Return the schema with one to three tables more, or one more for each that comes where another was."""
    r = random.Random(f"passes {seed}")
    known = replace(known, all=[kind for kind in known.all if "\\" not in kind.native])  # which parks the table
    found: list[Table] = []
    for number in range(1, r.randint(1, 3) + 1):
        lives = r.choice(LIVES)
        if draw_drops(seed) == "keep":  # a table that comes where one is kept is parked
            lives = lives[:1]
        table = replace(draw_table(r, f"p{number}", known), life=lives[0])
        found.append(_told(table) if MADE in table.life else table)
        found += [_again(r, table, known, life) for life in lives[1:]]
    return Schema((*schema.tables, *found))


def _again(r: random.Random, table: Table, known: Kinds, life: tuple[str, ...]) -> Table:
    """The table that comes where this one was. It has other columns, or all of the same: a statement that was drawn for the one
    and meets the other is refused, or means the same."""
    again = replace(table, name=f"{table.name}b", called=table.name, life=life)
    if r.random() >= AGAIN_ALIKE:
        other = draw_table(r, again.name, known)
        payload = [replace(c, name=f"v{i}") for i, c in enumerate(other.columns, 5) if c.name.startswith("v")]
        kept = [column for column in table.columns if column.name in table.key]
        again = replace(again, columns=(*kept, *payload), uniques=())
    return _told(again)


def _told(table: Table) -> Table:
    """The same, as a statement can make it whose words the catalogue repeats."""
    return replace(table, columns=tuple(map(_repeated, table.columns)))


def _repeated(column: Column) -> Column:
    is_told = column.default in plain_constants(column.of) and not column.of.native.startswith(_OTHER_WORDS)
    return column if is_told else replace(column, default=None)


def draw_passing(schema: Schema, seed: int, places: int, sessions: int) -> Mapping[int, list[Transaction]]:
    """Return the transactions that make, rename and drop tables by the place before which they stand, of so many."""
    r = random.Random(f"passes by {seed}")
    found: dict[int, list[Transaction]] = {}
    session = r.randrange(sessions)
    for steps in _steps(schema):
        for place, statement in zip(sorted(r.sample(range(1, places), len(steps))), steps, strict=True):
            form = r.choice(("", "ALTER")) if statement.do == "rename" else ""
            one = Transaction(0, session, (replace(statement, order=form),), pause=r.randint(0, 4))
            found.setdefault(place, []).append(one)
    return found


def _steps(schema: Schema) -> list[list[Statement]]:
    """Return the statements, in order, of the tables that have one name at first."""
    found: dict[str, list[Statement]] = {}
    for table in schema.tables:
        steps = found.setdefault(table.names[0], [])
        for step in table.life:
            if step == MADE:
                steps.append(Statement("make", table.names[0], name=table.name))
            elif step == RENAMED:
                steps.append(Statement("rename", table.names[0], name=table.names[1]))
            else:
                steps.append(Statement("drop", table.names[-1]))
    return [steps for steps in found.values() if steps]


def passing_sql(schema: Schema, statement: Statement, number: int, exact: str) -> str:
    """Return the statement at a MySQL or MariaDB. `exact`: the collation that compares bytes."""
    if statement.do == "make":
        return create_sql(schema[statement.name], exact, f"CREATE /* {number} */ TABLE")
    if statement.do == "drop":
        return f"DROP TABLE {statement.table}"
    if statement.order:
        return f"ALTER /* {number} */ TABLE {statement.table} RENAME TO {statement.name}"
    return f"RENAME /* {number} */ TABLE {statement.table} TO {statement.name}"


def setting(history: History) -> str:
    """Return lines of `[ddl]`."""
    return f'create_table = "apply"\nrename_table = "apply"\ndrop_table = "{history.drops}"\n'


def wrong_outcomes(history: History, order: Sequence[int], noted: Sequence[tuple[str, str]]) -> str:
    """Return what is wrong with what a target notes of the tables' statements, as table and outcome; "" for nothing. `order`:
    the numbers of the transactions that were committed."""
    outcomes = {"make": "created", "rename": "renamed", "drop": "dropped" if history.drops == "apply" else "kept"}
    alone = {one.number: one.alone for one in history.transactions if one.alone and one.alone.do in PASSING}
    done = [statement for number in order if (statement := alone.get(number))]
    named = (statement.name if statement.do == "rename" else statement.table for statement in done)
    expected = [(table, outcomes[statement.do]) for table, statement in zip(named, done, strict=True)]
    found = [(table, outcome) for table, outcome in noted if table in history.schema.passing()]
    return "" if found == expected else f"what became of tables is noted as {found}, it is {expected}"


def passing_faults(history: History) -> tuple[Fault, ...]:
    """Return the faults that a history has for its sake."""
    drawn = random.Random(f"faults of passing {history.seed}")
    if not history.passes or drawn.random() > DIES:
        return ()
    return (Fault("exit", drawn.choice(POINTS), drawn.choice((1, 1, 2))),)
