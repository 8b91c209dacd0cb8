"""Building of secondary indexes, foreign keys and statistics, once the target is consistent and while the stream goes
on (K29)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

from anabranch import log
from anabranch.apply.closure import closure
from anabranch.apply.tables import Tables
from anabranch.contracts import RowTarget, ValueRules
from anabranch.errors import AnabranchError, TargetBusy, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, TableSchema
from anabranch.model.table_life import TableState

TOGETHER = 32  # small tables that are built in one transaction: it holds their locks for a tenth of a second
SETTLE_SECONDS, PAUSE = 60.0, 0.1  # how long a refused row waits for keys of its table, and the pause between two looks
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0  # a large index that finds no room is not begun again every second


class Finisher:
    """Builds in a thread of its own, over a connection of its own. Results are taken over between two epochs.

    Delivery: every step finds what is built already, so it may be repeated after any crash.
    """

    def __init__(
        self,
        job: str,
        target: RowTarget,
        rules: ValueRules,
        tables: Tables,
        told: Callable[[Sequence[str]], None] = lambda tables: None,
    ) -> None:
        """Prepare it. `told`: is told which tables are being built from here on; none: that is over."""
        self._told = told
        self.job, self.target, self.rules, self.tables = job, target, rules, tables
        self._thread: threading.Thread | None = None
        self._results: dict[
            TableId, tuple[tuple[int, int], Sequence[str]]
        ] = {}  # of which table, what the target refused
        self._is_closing = threading.Event()
        self._at: frozenset[TableId] = frozenset()  # tables that the thread is building
        self._gone: set[TableId] = set()  # tables that it has to leave alone
        self._built: set[TableId] = set()  # tables that it has built since `settle` last asked for them
        self._mutex = threading.Lock()
        self.failure: AnabranchError | None = None
        self._not_before, self._pause = 0.0, FIRST_PAUSE

    def start(self, states: Mapping[TableId, TableState]) -> None:
        """Start building what is not built yet, unless that is going on. Raises the error that stopped the last
        attempt."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        if (self._thread is not None and self._thread.is_alive()) or time.monotonic() < self._not_before:
            return
        todo = {t: _left(s) for t, s in states.items() if s.is_streaming and not s.is_built and s.schema}
        if todo and not self._is_closing.is_set():
            streaming = {t: s for t, s in states.items() if s.is_streaming and s.schema}
            self._gone.clear()
            self._thread = threading.Thread(target=self._build, args=(todo, streaming), name="finish", daemon=True)
            self._thread.start()

    def take_results(self, states: Mapping[TableId, TableState]) -> Iterator[tuple[TableId, Sequence[str]]]:
        """Yield tables that are done, with what the target refused. Left out are those that no longer stream, or were
        loaded again or altered since: an index may have come."""
        with self._mutex:
            done, self._results = self._results, {}
        for table, (built, not_built) in done.items():
            if table in states and states[table].is_streaming and _which(states[table]) == built:
                yield table, not_built

    def lets_go(self, table: TableId) -> bool:
        """Leave a table that is to be loaded again, or goes, alone from now on, and forget what was built of it: one of its
        name that comes later is another one. Returns False while it is being worked on."""
        with self._mutex:
            self._gone.add(table)
            self._results.pop(table, None)
            return table not in self._at

    def make_way(self, table: TableId, stop: Callable[[], bool], waits: bool) -> None:
        """Wait, a minute at most, while keys of the table are being built, and begin with it anew behind what alters it now.
        `waits`: what is being built may have to be taken off again. Raises TargetBusy where it is not through by then."""
        self.settle(table, stop)
        if not self.lets_go(table) and waits:
            raise TargetBusy(f"keys of {table} are being built", table=str(table), hint="tried again by itself")

    def settle(self, table: TableId, stop: Callable[[], bool]) -> bool:
        """Wait, a minute at most, while keys of the table are being built. Returns True if some were since this was
        last asked: what half-built keys refuse may pass now."""
        until = time.monotonic() + SETTLE_SECONDS
        while not stop() and time.monotonic() < until:
            with self._mutex:
                if table not in self._at:
                    was_built = table in self._built
                    self._built.discard(table)
                    return was_built
            time.sleep(PAUSE)
        return False

    def raise_sequences(self, states: Mapping[TableId, TableState]) -> None:
        """Raise the target's sequences when apply ends: rows that came by the stream have their numbers from the
        source."""
        tables = [self.tables.target_table(s.schema) for s in states.values() if s.is_streaming and s.schema]
        target = self.target.tables(self.rules)
        try:
            for problem in target.raise_sequences(tables):
                log.get(job=self.job).warning("sequence_not_raised", reason=problem)
        except TargetUnavailable as lost:
            log.get(job=self.job).warning("target_lost", doing="raise sequences", error=lost.message)
        finally:
            target.close()

    def close(self) -> None:
        self._is_closing.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _build(self, todo: Mapping[TableId, TableState], streaming: Mapping[TableId, TableState]) -> None:
        tables = {t: self.tables.target_table(s.schema) for t, s in streaming.items() if s.schema}
        todo = {table: todo[table] for table in _deepest_first(todo)}
        try:
            reach("apply.build")
            with closing(self.target.tables(self.rules)) as target:
                open_points: dict[TableId, list[str]] = {}
                for few in self._few(todo):
                    open_points |= target.build_small(self.job, [(s, tables[t]) for t, s in few.items()], tables.get)
                    for table, schema in self._some({t: todo[t] for t in few if t not in open_points}):
                        open_points[table] = target.build(self.job, schema, tables[table], tables.get)
                for table, schema in self._some({t: todo[t] for t, points in open_points.items() if points}):
                    # a foreign key may have waited for another table's unique key
                    open_points[table] = target.build(self.job, schema, tables[table], tables.get)
                reach("apply.built")
                self._pause = FIRST_PAUSE
                for table, points in open_points.items():
                    if points:
                        log.get(job=self.job, table=str(table)).warning("not_built", points=points)
                with self._mutex:
                    done = {table: points for table, points in open_points.items() if table not in self._gone}
                    self._results = {table: (_which(todo[table]), points) for table, points in done.items()}
        except TargetUnavailable as lost:
            log.get(job=self.job).warning("target_lost", doing="build indexes", error=str(lost), retry_in=self._pause)
            self._not_before = time.monotonic() + self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
        except AnabranchError as failure:
            self.failure = failure
        finally:
            self._at = frozenset()
            self._told(())

    def _few(self, todo: Mapping[TableId, TableState]) -> Iterator[dict[TableId, TableSchema]]:
        """Yield groups of up to TOGETHER tables that are built together. Stops, and leaves tables out, as `_some` does."""
        names = list(todo)
        for first in range(0, len(names), TOGETHER):
            if self._is_closing.is_set():
                return
            with self._mutex:
                few = {t: s.schema for t in names[first : first + TOGETHER] if (s := todo[t]).schema}
                self._at = frozenset(few) - self._gone
                self._built |= self._at
            self._told(sorted(map(str, self._at)))
            yield {table: schema for table, schema in few.items() if table in self._at}
        with self._mutex:
            self._at = frozenset()

    def _some(self, todo: Mapping[TableId, TableState]) -> Iterator[tuple[TableId, TableSchema]]:
        """Yield the tables one by one, until closing is asked for. Tables that were let go are left out."""
        for table, state in todo.items():
            if state.schema is None or self._is_closing.is_set():
                continue
            with self._mutex:
                self._at = frozenset() if table in self._gone else frozenset((table,))
                self._built |= self._at
            if self._at:
                self._told((str(table),))
                yield table, state.schema
        with self._mutex:
            self._at = frozenset()


def _which(state: TableState) -> tuple[int, int]:
    """Return the load and the definition by which the target has the table."""
    return state.generation, state.schema.version if state.schema else 0


def _left(state: TableState) -> TableState:
    """Return the table as it is to be built. One that was built has only the indexes, checks and foreign keys that came
    since: what else the target has lost meanwhile somebody has taken off. Those that came and are not followed are not
    built: nobody would take them off."""
    if state.schema is None:
        return state
    followed = tuple(index for index in state.schema.indexes if index.name not in state.facts.passed)
    asked = tuple(check for check in state.schema.checks if not check.left_out)
    if not state.facts.built:
        return replace(state, schema=replace(state.schema, indexes=followed, checks=asked))
    indexes = tuple(index for index in followed if index.name in state.facts.adding)
    columns = tuple(
        replace(c, has_default=c.nullable, default=None, default_is_expression=False) for c in state.schema.columns
    )
    checks = tuple(check for check in asked if check.name in state.facts.checking)
    keys = tuple(key for key in state.schema.foreign_keys if key.name in state.facts.keying)
    schema = replace(state.schema, columns=columns, indexes=indexes, checks=checks, foreign_keys=keys)
    return replace(state, schema=schema)


def _deepest_first(todo: Mapping[TableId, TableState]) -> list[TableId]:
    """Return the tables with children before parents, by keys that delete children. Where a key of the target removes
    rows by itself, the keys of the next level are then built already."""
    below: dict[TableId, set[TableId]] = {}
    for table, state in todo.items():
        for key in state.schema.foreign_keys if state.schema else ():
            if key.on_delete is Action.CASCADE:
                below.setdefault(key.parent, set()).add(table)

    return sorted(todo, key=lambda table: len(closure(table, lambda one: below.get(one, ()))))
