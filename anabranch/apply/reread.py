"""Rows that the load window could not complete are read from the source again (K3).

A partial image met no row: a key had moved between two chunks. The keys are kept with the table's state. Once the
stream is past the window, their rows are read in a snapshot that has everything the target has, and put; the table's
window then reaches to that snapshot's end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from anabranch import log
from anabranch.abc import SourceConnector, TableState, ValueRules
from anabranch.apply.context import Followed, replace_context
from anabranch.apply.epoch import Applier
from anabranch.apply.window import WindowResolver
from anabranch.model.ids import TableId
from anabranch.rows.lines import parse_line
from anabranch.rows.net import RowChange, TargetTable

UNRESOLVED = 1 << 62  # the end of a window that the trail has not reached yet
KEYS = "reread"

Texts = Mapping[str, str | None]


class Rereader:
    """Called between two epochs."""

    def __init__(self, source: SourceConnector, resolver: WindowResolver, rules: ValueRules, lock: str, identity: str):
        self.source, self.resolver, self.rules, self.lock, self.identity = source, resolver, rules, lock, identity

    def look(self, applier: Applier) -> None:
        """Resolve windows that the trail has reached since, and read again where a window has passed."""
        for table, followed in list(applier.context.tables.items()):
            state = applier.states[table]
            if followed.high == UNRESOLVED:
                if self.resolver.reached(state):
                    _follow(applier, replace(followed, high=self.resolver.window(state)[1]))
            elif KEYS in state.facts and followed.high <= applier.checkpoint.position.sequence:
                self._read_again(applier, followed, state)

    def _read_again(self, applier: Applier, followed: Followed, state: TableState) -> None:
        keys: list[Texts] = json.loads(state.facts[KEYS])
        names = dict(zip(followed.table.columns, followed.table.source_columns, strict=True))
        snapshot = self.source.snapshot(self.identity)
        try:
            low, high = snapshot.open(followed.schema, self.lock)
            if self.resolver.low(low.resume) < applier.checkpoint.position.sequence:
                return  # the snapshot lacks what the target has: another one, soon
            wanted = [{names[name]: value for name, value in key.items()} for key in keys]
            lines = b"".join(snapshot.lines_of(followed.schema, followed.table.source_columns, wanted, self.rules))
        finally:
            snapshot.close()
        facts = {name: value for name, value in state.facts.items() if name != KEYS}
        window = json.dumps([*json.loads(state.high or "[]"), high.resume])
        read = replace(state, state="loading", high=window, facts=facts)
        applier.put(_changes(followed.table, keys, lines), read)
        _follow(applier, replace(followed, high=UNRESOLVED))
        log.get(job=applier.job, table=str(state.source)).info("rows_read_again", keys=len(keys))


def _changes(table: TargetTable, keys: Sequence[Texts], lines: bytes) -> Iterator[RowChange]:
    for key in keys:
        yield RowChange(table, "delete", dict(key), checked=False)
    for line in lines.split(b"\n")[:-1]:
        values = dict(zip(table.columns, parse_line(line), strict=True))
        yield RowChange(table, "insert", values=values, checked=False)


def _follow(applier: Applier, followed: Followed) -> None:
    table: TableId = followed.schema.id
    applier.context = replace_context(applier.context, {**applier.context.tables, table: followed})
