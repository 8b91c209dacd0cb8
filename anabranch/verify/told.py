"""Sums and digests of rows as they travel in a trail between two sites: what is asked of a table, and what is
answered.

A question names columns and the form in which each is compared, by which the source's site makes the rows that the
target's site makes of its own; it has no value of a row. An answer has the sums of all buckets of a table, or, of
some buckets, each row's key with a digest, and the places of the log between which the rows were read. Whatever comes
from the other site is looked at before it is used. What does not live here: where both lie (trail/checks.py), reading
rows (source_side.py), comparing (elsewhere.py).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from typing import Any, Self

import numpy as np

from anabranch.contracts import ValueRules
from anabranch.errors import SourceError, TrailCorrupt
from anabranch.model.at_target import AtTarget, CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.verify.canonical import form_of
from anabranch.verify.digest import BUCKETS, DIGEST_BYTES, WORD, PieceReading, Sums, bucket_of, key_of
from anabranch.verify.plan import VerifyPiece, VerifyTable

BY_BOTH = ("zero_date", "nul", "zero_dates")  # of ValueRules: both sites' job files have to say the same
MOST_ROWS = 500_000  # in one answer
MOST_BYTES = 256 << 20  # of keys in one answer, uncompressed
DAMAGED = "verify again; if it stays so, look at who writes the trail"


@dataclass(frozen=True, slots=True)
class Asked:
    """`columns`: source columns with the forms in which they are compared; `key`: the places of key columns among
    them; `rules`: how the target takes values; `buckets`: of which rows are wanted one by one, None: sums of all."""

    version: int
    columns: tuple[tuple[str, CanonicalForm], ...]
    key: tuple[int, ...]
    rules: ValueRules
    buckets: frozenset[int] | None = None

    @classmethod
    def of(cls, one: VerifyTable, rules: ValueRules, buckets: Collection[int] | None = None) -> Self:
        table = one.table
        columns = tuple(zip(table.source_columns, map(form_of, table.types), strict=True))
        key = tuple(table.columns.index(name) for name in table.key)
        return cls(one.schema.version, columns, key, rules, None if buckets is None else frozenset(buckets))

    def to_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "columns": [[name, str(form)] for name, form in self.columns],
            "key": list(self.key),
            "rules": _said(self.rules),
            "buckets": None if self.buckets is None else sorted(self.buckets),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return what a question asks. Raises SourceError for one that this release does not understand."""
        try:
            columns = tuple((str(name), CanonicalForm(form)) for name, form in data["columns"])
            key = tuple(int(place) for place in data["key"])
            buckets = None if data["buckets"] is None else frozenset(map(int, data["buckets"]))
            if not columns or not all(0 <= place < len(columns) for place in key):
                raise ValueError("it has no such columns")
            if buckets is not None and not all(0 <= one < BUCKETS for one in buckets):
                raise ValueError("there are no such buckets")
            return cls(int(data["version"]), columns, key, _rules(data["rules"]), buckets)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            hint = "use the same release at both sites"
            raise SourceError(f"what is asked about rows is not understood here: {error}", hint=hint) from None

    def table(self, schema: TableSchema) -> VerifyTable:
        """Return the table whose source rows, read so, are those that the other site compares."""
        names = tuple(name for name, _ in self.columns)
        types = tuple(LogicalType(Kind.TEXT, at_target=AtTarget(canonical=form)) for _, form in self.columns)
        key = tuple(names[place] for place in self.key)
        return VerifyTable(schema, TargetTable(schema.id, schema.id, names, types, key, names))


def _said(rules: ValueRules) -> dict[str, Any]:
    """Return rules as a question has them; a site of a release that knows no `keeps_nul` is told of it where it matters."""
    said = {name: one for name, one in asdict(rules).items() if name != "carries"}
    return said if rules.keeps_nul else {name: one for name, one in said.items() if name != "keeps_nul"}


def _rules(said: Mapping[str, Any]) -> ValueRules:
    known = {one.name for one in fields(ValueRules) if isinstance(one.default, str)}
    if unknown := sorted(set(said) - known - {"texts", "zero_dates", "keeps_nul"}):
        raise ValueError(f"its rules say {', '.join(unknown)}")
    texts = tuple((Kind(kind), TextForm(form)) for kind, form in said.get("texts", ()))
    dates = tuple((str(table), str(column), str(date)) for table, column, date in said.get("zero_dates", ()))
    found: dict[str, Any] = {name: str(said[name]) for name in known & set(said)}
    return ValueRules(**found, texts=texts, zero_dates=dates, keeps_nul=said.get("keeps_nul") is True)


@dataclass(frozen=True, slots=True)
class Told:
    """`low`, `high`: sequences of the trail; everything up to the first is in what was read, nothing behind the
    second. `sums` of all buckets, or `rows`: the key (its cells, b"" of a table without one) and digest of each row
    of the wanted buckets."""

    low: int
    high: int
    sums: Sums | None = None
    rows: Sequence[tuple[bytes, bytes]] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"low": self.low, "high": self.high}
        if self.sums is not None:
            return data | {"sums": _packed(self.sums.rows.astype("<i8").tobytes() + self.sums.digests.tobytes())}
        keys = b"".join(key + b"\n" for key, _ in self.rows)
        return data | {"keys": _packed(keys), "digests": _packed(b"".join(digest for _, digest in self.rows))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return an answer. Raises TrailCorrupt for what is none."""
        try:
            low, high = int(data["low"]), int(data["high"])
            if "sums" in data:
                return cls(low, high, _sums(_unpacked(data["sums"])))
            digests = _unpacked(data["digests"])
            keys = _unpacked(data["keys"]).split(b"\n")[:-1]
            cut = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
            return cls(low, high, rows=list(zip(keys, cut, strict=True)))
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise TrailCorrupt(f"an answer about rows cannot be read: {error}", hint=DAMAGED) from None


def _sums(data: bytes) -> Sums:
    found, counts = Sums(), 8 * BUCKETS
    found.rows += np.frombuffer(data[:counts], "<i8")
    found.digests += np.frombuffer(data[counts:], WORD).reshape(BUCKETS, -1)
    return found


def _packed(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 1)).decode()


def _unpacked(text: object) -> bytes:
    unpacking = zlib.decompressobj()
    found = unpacking.decompress(base64.b64decode(str(text), validate=True), MOST_BYTES)
    if not unpacking.eof:
        raise ValueError("it is cut, or too long")
    return found


@dataclass(frozen=True)
class Digesting(PieceReading):
    """The outcome of a piece is the key and the digest of each of its rows in these buckets."""

    buckets: frozenset[int] = frozenset()

    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> list[tuple[bytes, bytes]]:
        table, found = piece.one.table, list[tuple[bytes, bytes]]()
        key = key_of(table)
        for rows in self.rows(piece, blocks):
            for row in rows:
                its = key(row)
                if bucket_of(its) in self.buckets:
                    digest = blake2b(row, digest_size=DIGEST_BYTES).digest()
                    found.append((its if table.key else b"", digest))
        return found


def refuse_foreign(
    asked: Asked, schema: TableSchema, dropped: Collection[str], own: ValueRules, table: TableId
) -> None:
    """Raise SourceError for a question that this site does not answer: by another definition or other rules for values, about
    columns that its job file drops, or with what is no key as the key, whose values the answer has."""
    names = {name for name, _ in asked.columns}
    why = ""
    if asked.version != schema.version:
        why = f"its definition is number {schema.version} here, {asked.version} where the trail is applied"
    elif lacking := sorted(names - {column.name for column in schema.columns}):
        why = f"it has no columns {', '.join(lacking)} here"
    elif left_out := sorted(names & set(dropped)):
        why = f"the job file here drops {', '.join(left_out)}"
    elif others := sorted({asked.columns[place][0] for place in asked.key} - schema.keyed):
        why = f"{', '.join(others)} are in no key of it"
    elif differ := [name for name in BY_BOTH if sorted(getattr(asked.rules, name)) != sorted(getattr(own, name))]:
        why = f"both job files have to say the same of {', '.join(differ)}"
    if why:
        raise SourceError(f"nothing is told of the rows of {table}: {why}", table=str(table))
