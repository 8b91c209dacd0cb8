"""The format `protobuf`: Debezium's envelopes in Protobuf, each behind the number of its schema, as schema registries have it.

A byte of 0, four bytes of the number (highest first), the places of the message in its file (a byte of 0: the first one), the
value: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format. What does
not live here: what an envelope has (debezium/), the registry (a connector), schemas and values (beside this file).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from anabranch.errors import ConfigError, RowRefused, TargetError, install_hint
from anabranch.model.datatype import Kind
from anabranch.rows.altered import AlteredTable
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.messages.avro.encoding import DoesNotFit
from anabranch.rows.messages.avro.envelope import MAGIC, known_subjects, subjects
from anabranch.rows.messages.avro.schemas import Schema
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.format import Messages, Settings
from anabranch.rows.messages.protobuf import numbers
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.messages.protobuf.schemas import UNSIGNED, File, file_of, without_names
from anabranch.rows.messages.protobuf.text import Unreadable, numbers_in, text_of
from anabranch.rows.net import TargetTable

FIRST_OF_FILE = b"\x00"
ROW = "Value"  # the message of a row
_decoded = json.JSONDecoder().decode
Write = Callable[[Any], bytes]


@dataclass(frozen=True)
class _Side:
    """Keys or values of a table: what stands in front of each, and what writes it."""

    front: bytes
    write: Write


@dataclass(frozen=True)
class _Sides:
    """Both sides of a table. `numbers`: of the fields of its columns; `noted`: those that were noted when these were found."""

    noted: Numbers | None
    numbers: Numbers
    key: _Side
    value: _Side


class ProtobufFormat:
    """Makes messages of `debezium`, and writes them in Protobuf. Asks for the number of a schema once for each table and its
    fields' numbers."""

    def __init__(self, settings: Settings) -> None:
        if settings.schema_id is None:
            raise ConfigError('format = "protobuf" needs a schema registry', hint="[target.options] registry")
        if settings.transactions:
            raise ConfigError('format = "protobuf" has no topic of transactions', hint='format = "debezium" has it')
        self._settings, self._schema_id, self._writer = settings, settings.schema_id, _library()
        self._json = DebeziumFormat(replace(settings, schema=False))
        self._sides: dict[tuple[str, TargetTable], _Sides] = {}

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        unnamed = [
            f"column {name} of {table.source} has a name that no schema of Protobuf can bring along"
            for table in tables
            for name in without_names(table.columns)
        ]
        return unnamed + self._json.check(tables)

    def begin(self) -> None:
        self._json.begin()

    def messages(self, batch: ChangeBatch) -> Messages:
        return self._encoded(self._json.messages(batch))

    def end(self) -> Messages:
        return self._encoded(self._json.end())

    def _encoded(self, made: Messages) -> Messages:
        keys, values = list[bytes | None](), list[bytes | None]()
        sides = [self._sides_of(*of) for of in zip(made.topics, made.tables, strict=True)]
        for topic, _, _, key, value in made.columns():
            of_key, of_value = sides[topic]
            keys.append(None if key is None else _written(of_key, key, made.tables[topic]))
            values.append(None if value is None else _written(of_value, value, made.tables[topic]))
        return replace(made, key=pa.array(keys, pa.large_binary()), value=pa.array(values, pa.large_binary()))

    def _sides_of(self, topic: str, table: TargetTable | None) -> tuple[_Side, _Side]:
        assert table is not None, "there are no messages of transactions"
        noted = self._settings.fields(table)
        known = self._sides.get((topic, table))
        if known is None or noted not in (known.noted, known.numbers):
            both = list(subjects(self._settings, table))
            made = dict(files(self._settings, both, table))
            found = {subject: self._side(subject, file) for subject, file in made.items()}
            key, value = (subject for subject, _ in both)
            (numbers,) = (one.numbers for one in made[value].messages if one.name == ROW)
            known = self._sides[topic, table] = _Sides(noted, numbers, found.get(key, _NO_KEY), found[value])
        if known.numbers != noted:  # as long as they are not committed, for an epoch may be taken back
            self._settings.note_fields(table, known.numbers)
        return known.key, known.value

    def _side(self, subject: str, file: File) -> _Side:
        number = self._schema_id(subject, text_of(file))
        return _Side(MAGIC + number.to_bytes(4, "big") + FIRST_OF_FILE, self._writer(file))


def _no_key(value: Any) -> bytes:
    raise AssertionError("a table without a key has no keys")


_NO_KEY = _Side(b"", _no_key)


def _library() -> Callable[[File], Write]:
    try:
        from anabranch.rows.messages.protobuf.encoding import writer
    except ModuleNotFoundError as missing:
        if not (missing.name or "").startswith("google"):
            raise
        raise ConfigError('format = "protobuf" needs the package protobuf', hint=install_hint("protobuf")) from missing
    return writer


# --- schemas of a table -----------------------------------------------------------------------------------------------


def files(settings: Settings, found: Iterable[tuple[str, Schema]], table: TargetTable) -> Iterator[tuple[str, File]]:
    """Yield of a table's subjects each, and the file of its schema, with the numbers that fields have already. Raises
    TargetError for a subject whose latest schema is not one of ours."""
    for subject, schema in found:
        if schema["fields"]:
            known, own = _latest(settings, subject), _with_unsigned(schema, table, settings.decimal)
            if subject.endswith("-value"):
                known[ROW] = _numbers(settings.fields(table), known.get(ROW, Numbers()), own)
            yield subject, file_of(own, known)


def _numbers(noted: Numbers | None, latest: Numbers, schema: Schema) -> Numbers:
    """Return the numbers that columns have already: those that are noted, which say of each column whether it is the same one;
    else those of the latest schema, whose columns are known by name and type. No number of the other is given again."""
    if noted is not None:
        return noted.above(latest)
    (row,) = (one for one in file_of(schema, {}).messages if one.name == ROW)
    return latest.without_other({one.stands_for: one.type for one in row.fields})


def texts(settings: Settings, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield subjects and texts of a table's schemas."""
    for subject, file in files(settings, known_subjects(settings, table), table):
        yield subject, text_of(file)


def altered_fields(settings: Settings, change: AlteredTable) -> Numbers:
    """Return the numbers of the columns' fields behind a changed definition. Raises TargetError as `files` does."""
    *_, (subject, schema) = subjects(settings, change.former_table)
    latest = _latest(settings, subject).get(ROW, Numbers())
    own = _with_unsigned(schema, change.former_table, settings.decimal)
    former = _numbers(settings.fields(change.former_table), latest, own)
    return numbers.altered(former.of(change.former_table.columns), change)


def _latest(settings: Settings, subject: str) -> dict[str, Numbers]:
    text = settings.latest(subject)
    try:
        return {} if text is None else numbers_in(text)
    except Unreadable as error:
        what = f"the latest schema of subject {subject} is none that a job has written: {error}"
        raise TargetError(what, hint="take other topics, or delete the subject if nobody reads by it") from error


def _with_unsigned(schema: Schema, table: TargetTable, decimal: str) -> Schema:
    """Return a schema in which unsigned numbers of 64 bits are what Protobuf has for them."""
    columns = {
        name: {"type": UNSIGNED, "from": "string" if decimal == "string" else "bytes"}
        for name, type in zip(table.columns, table.types, strict=True)
        if type.kind is Kind.UINT64
    }
    return _replaced(schema, columns, 0 if schema["name"].endswith(".Key") else 1) if columns else schema


def _replaced(schema: Schema, columns: Mapping[str, Mapping[str, str]], depth: int) -> Schema:
    """Return a schema with other columns: its own fields, or, with a depth of 1, those of its rows."""
    fields = []
    for one in schema["fields"]:
        if depth:
            fields.append(_replaced(one, columns, 0) if one["field"] in ("before", "after") else one)
        else:
            more = {"optional": one["optional"], "field": one["field"]}
            fields.append({**columns[one["field"]], **more} if one["field"] in columns else one)
    return {**schema, "fields": fields}


def _written(side: _Side, text: bytes, table: TargetTable | None) -> bytes:
    try:
        return side.front + side.write(_decoded(text.decode()))
    except DoesNotFit as error:
        hint = 'leave the column out ([[tables]] columns.drop), or take format = "debezium"'
        raise RowRefused(
            f"a value cannot be told in Protobuf: {error}", table=str(table.source) if table else "", hint=hint
        ) from None
