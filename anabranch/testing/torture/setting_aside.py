"""Some rows of a table of the target are refused for a while, and set aside (`on_error = "set_aside"`); then what is aside is
released, and what was parked, as the product's rules have it, goes on behind it.

Which rows: of a table with a key some, by a hash of it, the same ones all the while; of one without all, which parks it. What
is aside is shown to whoever looks at the target by a view, in the same snapshot as the tables. Not drawn: discarding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from anabranch.model.ids import TableId
from anabranch.testing.torture.again import Again
from anabranch.testing.torture.deeds import REFUSED_SECONDS, RELEASE, RESUME, Refusing
from anabranch.testing.torture.history import History
from anabranch.testing.torture.schemas import may_be_written_to
from anabranch.testing.torture.targets import Refuses

PATIENCE = 1.0  # seconds before it is asked for once more, where apply is away or the target refuses again
WRITES = ("insert", "ignore", "replace", "upsert", "update")


@dataclass(kw_only=True)
class SettingAside(Refusing):
    """`is_caught_up`: all that the source has committed is at the target, or aside."""

    history: History
    is_caught_up: Callable[[], bool]
    _since: float = field(default=0.0, init=False)  # the first row is aside
    _process: Again | None = field(default=None, init=False)
    _pause: float = field(default=0.0, init=False)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _drawn(self, tables: Sequence[TableId]) -> TableId:
        """One that much is written to; in most histories one that no foreign key connects with others, where there is one:
        others park rather."""
        alone = {table.name for table in may_be_written_to(self.history.schema)} if self.draw // 4 % 4 else set()
        named = {table.name: table for table in tables}
        writes = [s.table for t in self.history.after for s in t.statements if s.do in WRITES and s.table in named]
        chosen = [name for name in writes if name in alone] or writes or sorted(named)
        return named[chosen[self.draw % len(chosen)]]

    def _is_enough(self) -> bool:
        """A while after the first row is aside; at the latest when nothing more comes."""
        if not self._since and self._has_aside():
            self._since = time.monotonic()
        is_over = self._since and time.monotonic() > self._since + REFUSED_SECONDS
        return bool(is_over) or self.is_caught_up() or self._parked()

    def _has_aside(self) -> bool:
        return any(state.facts.set_aside for state in self.states().values())

    def _disturbance(self, table: TableId) -> Refuses:
        schema = self.states()[table].schema
        if schema is None or not schema.primary_key:
            return Refuses()
        parts = 2 + self.draw // 7 % 2
        return Refuses(tuple(schema.primary_key), parts, self.draw // 3 % parts)

    def _bring_back(self) -> None:
        """One process after another, until nothing is aside and nothing parked: resumed first, a table would park again."""
        if self._process is not None:
            if self._process.turn():
                self._process, self._pause = None, time.monotonic() + PATIENCE
        elif self._has_aside():
            if time.monotonic() > self._pause:
                self._process = Again(RELEASE, self.parts, self.judge, self.draw)
        elif self._parked():
            self._process = Again(RESUME, self.parts, self.judge, self.draw)
        else:
            self.is_done = True
