"""A small history of torture, its right states after every commit, and a checker for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from anabranch.testing.torture.check import Checker
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.sources import Commits
from anabranch.testing.torture.speaker import COMMITTED, ROLLED_BACK, Outcome, Result
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.watcher import Observation
from rigs.torture_tables import delete, family, insert, update

Contents = dict[str, list[bytes]]
VERSION = (18, 4)
HISTORY = History(
    7,
    family(),
    before=(Transaction(1, 0, (insert("parent", ("1", "1", None), ("2", "2", "2")), insert("child", ("1", "1")))),),
    after=(
        Transaction(2, 0, (insert("parent", ("3", "3", None)), update("parent", "1", v="9"))),
        Transaction(3, 1, (delete("parent", "1"),)),
        Transaction(4, 1, (insert("loose", ("1", None), ("1", None)),)),
        Transaction(5, 0, (update("parent", "2", v="5"),), commits=False),
        Transaction(6, 0, (Statement("truncate", "loose"),)),
        Transaction(7, 0, (insert("parent", ("4", "4", "4")),)),
    ),
)
ORDER = (1, 3, 4, 2, 6, 7)  # as the source committed them: 2 after 3, and then nothing of row 1 is left to update
MET = {1: (2, 1), 2: (1, 0), 3: (1,), 4: (2,), 5: (1,), 6: (0,), 7: (1,)}
OUTCOMES = {
    number: Outcome(number, tuple(Result(0, met) for met in MET[number]), COMMITTED if number in ORDER else ROLLED_BACK)
    for number in MET
}


def state(place: int, history: History = HISTORY) -> Contents:
    """Return the rows that are right after so many commits."""
    model, ledger = Model(history.schema, "mysql"), []
    for number in ORDER[:place]:
        transaction = next(t for t in history.transactions if t.number == number)
        model.replay(OUTCOMES[number].succeeded(transaction))
        ledger += [] if transaction.truncates else [str(number).encode()]
    return {LEDGER: sorted(ledger), **{table.name: list(model.lines(table.name)) for table in history.schema.tables}}


def seen(*states: Mapping[str, list[bytes]]) -> list[Observation]:
    lines = ({t: b"".join(line + b"\n" for line in reversed(some)) for t, some in one.items()} for one in states)
    return [Observation(number, one) for number, one in enumerate(lines, 1)]


def checker(**options: int) -> Checker:
    return Checker(HISTORY, "mysql", OUTCOMES, Commits(ORDER), **options)


LAST = state(len(ORDER))


def with_lines(of: Contents, table: str, *lines: bytes) -> Contents:
    return {**of, table: list(lines)}


@cache
def drawn(seed: int) -> History:
    """Draw a history of a PostgreSQL, once for all tests of a process. A hundred take seconds of processor: tests ask for them
    when they run, not when they are collected."""
    return draw_history(seed, "postgresql", VERSION)
