"""Rows of a load as a trail has them: the SnapshotReader of a source that is not asked.

Delivery: every row of a piece as the load at the source's site read it, once. Damage is TrailCorrupt before a row is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import Bounds, LogOrder, ValueRules
from anabranch.errors import SourceUnavailable, TrailCorrupt, TrailError, ValueRefused
from anabranch.model.at_target import AtTarget, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows import json_texts
from anabranch.rows.arrow import arrow_type
from anabranch.rows.lines import cells, escaped_cell, has_nul, unescape
from anabranch.rows.raw import parse_text
from anabranch.rows.refused import readable, refused
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica_files import gone_of
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.manifests import Manifest, RecordedChunk

ELSEWHERE = "at the source's site: anabranch load JOB --table {table}"
PREFIX = 3  # of bytes in a line, in front of their digits: an escaped backslash, and an x


class RecordedRows:
    """A reader of the rows that a trail has. `order`: of the source's log."""

    def __init__(self, trail: Path, order: LogOrder) -> None:
        self._trail, self._order = trail, order
        self._read: dict[TableId, tuple[tuple[int, int], Manifest]] = {}  # rows and their marks are of one load

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        """Return the pieces as they were read: their sizes are the other site's choice. Raises ValueRefused for rows that the
        trail cannot bring up to now: what changed behind them is not all in it any more."""
        self._read.pop(table.id, None)
        chunks = self._manifest(table).chunks
        self._refuse_gone(table)
        with TrailReader(self._trail, name="load") as trail:
            for low in sorted({chunk.low for chunk in chunks}):
                if why := _why_before(trail, self._order, self._order.mark(low)):
                    raise ValueRefused(
                        f"its rows in the trail are too old: {why}", table=str(table.id), hint=_again(table)
                    )
        return [chunk.bounds for chunk in chunks]

    def places(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        return self.bounds(table, rows_per_chunk)

    def share(self, tables: Sequence[TableSchema]) -> str:
        """Return a word for what was read already: all of it may be read at any time."""
        return "recorded"

    def open_shared(self, table: TableSchema, shared: str) -> LogMark | None:
        """Return the one place of the log at which all rows of the table were read; None where there are several."""
        places = {(chunk.low, chunk.high) for chunk in self._manifest(table).chunks}
        low, high = next(iter(places)) if len(places) == 1 else ("", "?")
        return self._order.mark(high) if low == high else None

    def estimate(self, table: TableSchema) -> int:
        return self._manifest(table).rows

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        """Return the marks of a table that was read in one piece. Raises ValueRefused where rows are wanted as of now."""
        chunks = self._manifest(table).chunks
        if len({(chunk.low, chunk.high) for chunk in chunks}) != 1:
            why = "rows of it have to be read again at the source, which is not reached from here"
            hint = f"{_again(table)}, then here: anabranch load JOB --table {table.id.typed}"
            raise ValueRefused(why, table=str(table.id), hint=hint)
        return self._order.mark(chunks[0].low), self._order.mark(chunks[0].high)

    def open_piece(self, table: TableSchema, bounds: Bounds) -> tuple[LogMark, LogMark]:
        chunk = self._chunk(table, bounds)
        return self._order.mark(chunk.low), self._order.mark(chunk.high)

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        chunk = self._chunk(table, bounds)
        try:
            chunk_files.check(self._trail, chunk.file)
        except TrailCorrupt:
            if _stamp(self._trail, table) == self._read[table.id][0]:
                raise
            why = "its rows were read anew at the source's site while they were read here"
            raise SourceUnavailable(why, table=str(table.id), hint="nothing: they are read again") from None
        if missing := [name for name in columns if name not in self._manifest(table).columns]:
            why = f"its load at the source's site left out {', '.join(missing)}"
            raise ValueRefused(
                why, table=str(table.id), hint=f"take it out of [[tables]] there, and load again: {_again(table)}"
            )
        forms = [_form(table, name, rules) for name in columns]
        for found in chunk_files.read(self._trail, chunk.file.name, columns):
            if not rules.keeps_nul or rules.nul == "strip":
                found = _without_nul(table, columns, found, rules)
            formed = [cell if form is None else _formed(cell, form) for cell, form in zip(found, forms, strict=True)]
            yield chunk_files.joined(formed)

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        """Raise ValueRefused: rows as they are now are at the source."""
        raise ValueRefused(
            f"{len(keys)} rows have to be read again at the source, which is not reached from here",
            table=str(table.id),
            hint=f"{_again(table)}, then here: anabranch load JOB --table {table.id.typed}",
        )

    def close(self) -> None:
        """Let another load of a table be read from now on. Files are opened as they are read."""
        self._read.clear()

    def _manifest(self, table: TableSchema) -> Manifest:
        if table.id not in self._read:
            stamp = _stamp(self._trail, table)
            self._read[table.id] = stamp, _manifest_of(self._trail, str(table.id), stamp)
        found = self._read[table.id][1]
        if found.version != table.version:
            why = f"its rows in the trail are of definition {found.version}, the trail is at {table.version}"
            raise ValueRefused(why, table=str(table.id), hint=_again(table))
        return found

    def _refuse_gone(self, table: TableSchema) -> None:
        """Raise ValueRefused where some of the table's files are not there any more. Whoever calls holds the trail, so those
        that are there stay."""
        found = self._manifest(table)
        why = ""
        if gone_of(LocalStorage(self._trail), manifests.folder(table.id)) >= found.generation:
            why = "the load's files are gone: all who read the trail then had loaded them"
        elif not all((self._trail / chunk.file.name).exists() for chunk in found.chunks):
            why = "the load's files are not all here"
        if why:
            raise ValueRefused(why, table=str(table.id), hint=f"{_again(table)}, then here the same")

    def _chunk(self, table: TableSchema, bounds: Bounds) -> RecordedChunk:
        found = next((chunk for chunk in self._manifest(table).chunks if chunk.bounds == bounds), None)
        if found is None:
            why = "it was loaded again at the source's site since the load here began"
            again = f"anabranch load JOB --table {table.id.typed}"
            hint = f"{again}; where the first load has not finished: drop the job, load anew"
            raise ValueRefused(why, table=str(table.id), hint=hint)
        return found


def _why_before(trail: TrailReader, order: LogOrder, mark: LogMark) -> str:
    """Return why a place of the log may be from before the trail, whose beginning was dropped; "" where it is not."""
    first = trail.first() - 1
    if first <= 0:
        return ""
    if not order.is_set(mark):
        native = trail.position_at(first).native
        is_inside = bool(native) and order.includes(mark, native, None)
        return "" if is_inside else f"they were read before the trail's beginning of now, {first}@{native}"
    begun = trail.begun()
    try:
        lacking = order.lacks(mark, order.mark(begun)) if begun else "what the trail began behind"
    except ValueError as error:
        return str(error)
    return f"they lack {lacking}, which is from before the trail's beginning of now" if lacking else ""


def _stamp(trail: Path, table: TableSchema) -> tuple[int, int]:
    """Return what tells one manifest of a table from the next. Raises ValueRefused where there is none."""
    try:
        found = (trail / manifests.file_of(table.id)).stat()
    except FileNotFoundError:
        why = (manifests.parked(trail) or {}).get(table.id) or "the load at the source's site has not come to it"
        raise ValueRefused(f"the trail has no rows of it: {why}", table=str(table.id), hint=_again(table)) from None
    return found.st_ino, found.st_mtime_ns


@lru_cache(maxsize=64)
def _manifest_of(trail: Path, table: str, stamp: tuple[int, int]) -> Manifest:
    found = manifests.load(trail, TableId.parse(table))
    if found is None:
        raise TrailError(f"the manifest of {table} is gone", hint="the trail was changed by hand: restore it")
    return found


def _without_nul(table: TableSchema, columns: Sequence[str], cells: Sequence[Any], rules: ValueRules) -> list[Any]:
    """Return cells without zero characters: left out where the job says so. Raises ValueRefused with the row's key."""
    found = list(cells)
    for place, (name, column) in enumerate(zip(columns, cells, strict=True)):
        if not has_nul(column):
            continue
        if rules.nul != "strip":
            row = next(number for number, cell in enumerate(column.to_pylist()) if cell and b"\0" in cell)
            known = dict(zip(columns, (one[row].as_py() for one in cells), strict=True))
            key = {one: readable(unescape(known[one])) for one in table.primary_key if known.get(one) is not None}
            hint = f'correct the row, then {_again(table)}; or set [types] nul = "strip" at both sites'
            raise refused(table.id, name, key, "a zero character in text", hint)
        found[place] = pc.replace_substring(column, "\0", "")
    return found


def _again(table: TableSchema) -> str:
    return ELSEWHERE.format(table=table.id.typed)


def _form(table: TableSchema, column: str, rules: ValueRules) -> LogicalType | None:
    """Return the type with the text form that the rules want, None where the cell is in it already."""
    type = table.column(column).type
    if type is None:
        return None
    form = json_texts.wanted(type, rules) if column not in table.keyed else TextForm.OF_KIND
    form = rules.text_of(type.carried) if form is TextForm.OF_KIND else form
    return None if form is TextForm.OF_KIND else replace(type, at_target=AtTarget(form))


def _formed(column: Any, type: LogicalType) -> Any:
    """Return the cells of a column in the text form of its type."""
    if type.carried is Kind.BINARY and type.at_target.text is TextForm.BARE_DIGITS:
        return pc.cast(pc.utf8_slice_codeunits(pc.cast(column, pa.string()), PREFIX), pa.binary())
    if json_texts.is_json(type):
        texts = [None if cell is None else unescape(cell).decode() for cell in column.to_pylist()]
        made = [None if text is None else escaped_cell(json_texts.as_json(type, text)).encode() for text in texts]
        return pa.array(made, pa.binary())
    values = [None if cell is None else parse_text(type, unescape(cell).decode()) for cell in column.to_pylist()]
    return pc.cast(cells([type], [pa.array(values, arrow_type(type))]), pa.binary())
