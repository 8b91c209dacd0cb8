"""The rows of differing buckets, brought together by bucket and compared by key, on the executors.

What does not live here: which buckets differ (run.py), what the user sees (report.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from anabranch.model.ids import TableId
from anabranch.rows.lines import unescape
from anabranch.rows.net import TargetTable
from anabranch.spark.work import Outcome
from anabranch.verify.canonical import NULL
from anabranch.verify.digest import PieceReading, bucket_of, key_of
from anabranch.verify.plan import VerifyPiece
from anabranch.verify.report import Difference

Place = tuple[TableId, int]
"""A bucket of a table."""


@dataclass(frozen=True)
class Picking(PieceReading):
    """The outcome of a piece is its rows of differing buckets."""

    buckets: Mapping[TableId, frozenset[int]] = field(default_factory=dict)

    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> list[bytes]:
        table = piece.one.table
        key, wanted = key_of(table), self.buckets[table.source]
        return [row for rows in self.rows(piece, blocks) for row in rows if bucket_of(key(row)) in wanted]


@dataclass(frozen=True)
class Found:
    """The differences in one bucket. `keys`: of those that differ, where they are to be looked at again; `is_cut`: not all."""

    bucket: int = -1
    missing: int = 0
    extra: int = 0
    different: int = 0
    sample: tuple[Difference, ...] = ()
    keys: tuple[bytes, ...] = ()
    is_cut: bool = False

    @property
    def count(self) -> int:
        return self.missing + self.extra + self.different


@dataclass(frozen=True)
class Comparison:
    """The comparison of a bucket's rows: the tables by id, and how many keys to show. `again`: how many keys of a bucket of a
    table are told, to be looked at again; in `shared` tables not those that only the target has."""

    tables: Mapping[TableId, TargetTable]
    limit_keys: int
    show_values: bool
    again: Mapping[TableId, int] = field(default_factory=dict)
    shared: frozenset[TableId] = frozenset()

    def spread(self, outcome: Outcome) -> Iterator[tuple[Place | None, Outcome | tuple[bool, bytes]]]:
        """Yield rows by bucket; a failure has a place of its own."""
        if outcome.failure is not None:
            yield None, outcome
            return
        table: TargetTable = outcome.piece.one.table
        key, is_source = key_of(table), outcome.piece.is_source
        for row in outcome.value:
            yield (table.source, bucket_of(key(row))), (is_source, row)

    def bucket(self, group: tuple[Place | None, Iterable[Outcome | tuple[bool, bytes]]]) -> list[Outcome]:
        """Compare everything that stands at one place."""
        place, found = group
        if place is None:
            return [one for one in found if isinstance(one, Outcome)]
        rows: tuple[list[bytes], list[bytes]] = ([], [])
        for one in found:
            if not isinstance(one, Outcome):
                rows[0 if one[0] else 1].append(one[1])
        return [Outcome(place, replace(self.compare(self.tables[place[0]], *rows), bucket=place[1]))]

    def compare(self, table: TargetTable, source: Iterable[bytes], target: Iterable[bytes]) -> Found:
        there, here = Counter(source), Counter(target)
        only_there, only_here = _by_key(table, there - here), _by_key(table, here - there)
        keys = sorted(only_there.keys() | only_here.keys())
        pairs = [(len(only_there.get(key, ())), len(only_here.get(key, ()))) for key in keys]
        shown = (
            self._difference(table, only_there.get(key, []), only_here.get(key, []), (there, here))
            for key in islice(keys, self.limit_keys)
        )
        limit = self.again.get(table.source, 0)
        told = [key for key in keys if key in only_there or table.source not in self.shared] if limit else []
        return Found(
            missing=sum(max(0, source - target) for source, target in pairs),
            extra=sum(max(0, target - source) for source, target in pairs),
            different=sum(map(min, pairs)),
            sample=tuple(shown),
            keys=tuple(told[:limit]),
            is_cut=len(told) > limit,
        )

    def _difference(
        self, table: TargetTable, there: Sequence[bytes], here: Sequence[bytes], all_rows: tuple[Counter[bytes], ...]
    ) -> Difference:
        row = there[0] if there else here[0]
        kind = "different" if there and here else "missing" if there else "extra"
        cells = tuple(rows[0].split(b"\t") if rows else [] for rows in (there, here))
        columns = [(name, a, b) for name, a, b in zip(table.columns, *cells, strict=False) if there and here and a != b]
        return Difference(
            kind=kind,
            key={name: text_of(row.split(b"\t")[table.columns.index(name)]) for name in table.key},
            columns=tuple(name for name, _, _ in columns),
            copies=(0, 0) if table.key else (all_rows[0][row], all_rows[1][row]),
            values={name: (text_of(a), text_of(b)) for name, a, b in self._values(table, *cells)}
            if self.show_values
            else {},
        )

    def _values(
        self, table: TargetTable, there: Sequence[bytes], here: Sequence[bytes]
    ) -> Iterator[tuple[str, bytes, bytes]]:
        absent = [NULL] * len(table.columns)
        for name, a, b in zip(table.columns, there or absent, here or absent, strict=True):
            if a != b:
                yield name, a, b


def _by_key(table: TargetTable, rows: Counter[bytes]) -> dict[bytes, list[bytes]]:
    key = key_of(table)
    found: dict[bytes, list[bytes]] = {}
    for row, count in rows.items():
        found.setdefault(key(row), []).extend([row] * count)
    return found


def text_of(cell: bytes) -> str | None:
    """Return a cell of a row as people see it; None for NULL."""
    return None if cell == NULL else unescape(cell).decode(errors="backslashreplace")
