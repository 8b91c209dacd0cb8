"""A job that is none: it carries a history to the target by the model, rightly or with one mistake on purpose.

For tests of the checker: what it has to accept, and what it has to find.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.history import History
from anabranch.testing.torture.model import Disagreement, Model
from anabranch.testing.torture.order import Place, commit_order
from anabranch.testing.torture.sessions import Sessions
from anabranch.testing.torture.tables import LEDGER, RESTRICT, Schema

Lines = Mapping[str, list[bytes]]
SHOWN = 0.05  # seconds for which what is wrong stays to be seen
JOINED = 0.5  # until who looks at another target has noticed that its tables stream
STATE = "CREATE TABLE anabranch.table_state (job text, source_table text, state text)"
WRONG = frozenset({"splits", "half", "twice", "returns", "unknown", "lost"})  # at one transaction


class Double:
    """Its mistake happens at one transaction of the last phase, drawn by the history's seed; `blunder` is its number.

    A transaction (kind of mistake):
    `splits` it over two of the target · is `late`, behind the next · is `lost` · loses one of its rows (`half`) · puts a row
    of it twice (`twice`) · is taken back a moment later (`returns`) · `foreign keys`: what they do is not done, in all of
    them · has a number in the ledger that the source never committed (`unknown`).

    With an `other` target the mistake is there, and the first one is right."""

    def __init__(
        self,
        history: History,
        source: Server,
        target: Database,
        mistake: str = "",
        other: Database | None = None,
    ) -> None:
        self.history, self.source, self.target, self.mistake = history, source, target, mistake
        self.others = (other,) if other else ()
        self.blunder = 0
        self._place: Place | None = None
        self._sessions: Sessions | None = None
        self._done = 0
        schema = _without_actions(history.schema) if mistake == "foreign keys" else history.schema
        self._model = Model(schema, source.name)
        self._ledger: list[bytes] = []

    def on_begin(self, place: Place, sessions: Sessions) -> None:
        self._place, self._sessions = place, sessions

    # --- the contract of a pipeline ----------------------------------------------------------------------------------------

    truncates = (True, True)
    meets = ""

    def start(self) -> None:
        columns = {
            t.name: ", ".join(f"{c.name} {c.of.at_target}" for c in t.columns) for t in self.history.schema.tables
        }
        columns[LEDGER] = "n integer"
        tables = (f"CREATE TABLE {self.history.database}.{name} ({made})" for name, made in columns.items())
        made = [f"CREATE SCHEMA {self.history.database}", *tables]
        for target in (self.target, *self.others):
            target.execute(*made)
        for target in self.others:  # of which the product says when all streams
            target.execute("CREATE SCHEMA anabranch", STATE)

    def committed(self, transactions: int) -> None: ...

    def wait_loading(self, seconds: float) -> None: ...

    def wait_consistent(self, seconds: float) -> None:
        """The load: everything so far at once."""
        self._write([self._apply(number) for number in self._next_numbers()][-1:])
        for target in self.others:
            target.execute(f"INSERT INTO anabranch.table_state VALUES ('{self.history.database}', 'x.y', 'streaming')")
            time.sleep(JOINED)

    def wait_caught_up(self, seconds: float) -> None:
        numbers = self._next_numbers()
        first = random.Random(self.history.seed).randrange(max(1, len(numbers) // 2))
        if self.mistake == "late":
            numbers[first : first + 2] = reversed(numbers[first : first + 2])
        for place, number in enumerate(numbers):
            before = self._state()
            after = self._apply(number)
            # Of one that changes nothing most mistakes could not be seen, and at the very end nothing comes behind it.
            changed = [t for t in after if t != LEDGER and before[t] != after[t]]
            if self.mistake in WRONG and not self.blunder and first <= place < len(numbers) - 1 and changed:
                self.blunder = number
                self._write(self._wrong(before, after, changed[0]), after)
            else:
                self._write([after])

    def settle(self, seconds: float) -> bool:
        return True

    def look(self) -> None: ...

    def beside(self) -> tuple[str, ...]:
        return ()

    def wrong_beside(self, seen: Mapping[str, Sequence[bytes]], losses: int) -> str:
        return ""

    def fired(self) -> tuple[Fault, ...]:
        return ()

    def hits(self) -> frozenset[str]:
        return frozenset()

    def stop(self) -> None: ...

    # --- the model, and its mistakes -----------------------------------------------------------------------------------------

    def _next_numbers(self) -> list[int]:
        assert self._place
        order = commit_order(self.source, self._place, self.history.database)
        new, self._done = order[self._done :], len(order)
        return new

    def _apply(self, number: int) -> dict[str, list[bytes]]:
        assert self._sessions
        transaction = next(t for t in self.history.transactions if t.number == number)
        succeeded = self._sessions.outcomes[number].succeeded(transaction)
        try:
            self._model.replay(succeeded, transaction.checks)
        except Disagreement:
            if self.mistake not in ("foreign keys", "late"):
                raise
        if not transaction.truncates:
            self._ledger = [*self._ledger, str(number).encode()]
        return self._state()

    def _state(self) -> dict[str, list[bytes]]:
        tables = {t.name: list(self._model.lines(t.name)) for t in self.history.schema.tables}
        return {LEDGER: list(self._ledger), **tables}

    def _wrong(self, before: Lines, after: Lines, table: str) -> list[Lines]:
        """What the target shows instead of what is right."""
        new = [line for line in after[table] if line not in before[table]] or before[table]
        if self.mistake == "splits":
            return [{**after, LEDGER: before[LEDGER]}, after]
        if self.mistake == "half":
            return [{**after, table: before[table]}]
        if self.mistake == "twice":
            return [{**after, table: [*after[table], new[0]]}]
        if self.mistake == "returns":
            return [after, before, after]
        if self.mistake == "unknown":
            return [{**after, LEDGER: [*after[LEDGER], b"0"]}]
        self._ledger = list(before[LEDGER])  # lost
        return [before]

    def _write(self, states: list[Lines], right: Lines | None = None) -> None:
        """Each in a transaction of its own, whole tables at once; where there is another target, the first has what is
        `right`."""
        if self.others:
            self._write_to(self.target, [right] if right else states)
        self._write_to(self.others[0] if self.others else self.target, states)

    def _write_to(self, target: Database, states: list[Lines]) -> None:
        with closing(target.connect(autocommit=False, options="-c TimeZone=UTC")) as connection:
            for state in states:
                with closing(connection.cursor()) as cursor:
                    for table, lines in state.items():
                        cursor.execute(f"DELETE FROM {self.history.database}.{table}")
                        with cursor.copy(f"COPY {self.history.database}.{table} FROM STDIN") as copy:
                            copy.write(b"".join(line + b"\n" for line in lines))
                connection.commit()
                if len(states) > 1:
                    time.sleep(SHOWN)


def _without_actions(schema: Schema) -> Schema:
    """As if foreign keys did nothing."""
    return Schema(tuple(
        replace(t, foreign_keys=tuple(replace(k, on_delete=RESTRICT, on_update=RESTRICT) for k in t.foreign_keys))
        for t in schema.tables
    ))  # fmt: skip
