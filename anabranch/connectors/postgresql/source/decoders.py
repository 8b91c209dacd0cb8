"""The decoders that a job may read its slot with: what each shows, what it is asked for, who reads its messages.

https://www.postgresql.org/docs/current/logicaldecoding-output-plugin.html
What does not live here: slots (slots.py), what preflight says of it (preflight_decoder.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anabranch.connectors.postgresql.source.positions import Place
from anabranch.connectors.postgresql.source.truncate_notes import noted
from anabranch.contracts import Select
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.connectors.postgresql.source.assemble import Assembler
    from anabranch.connectors.postgresql.source.relations import ReaderOf, TypeText
    from anabranch.connectors.postgresql.source.streamed import Undone
    from anabranch.model.schema import TableSchema

MESSAGES = 140_000  # from here on pgoutput shows what sessions write into the log
NEVER = 1 << 30
STREAMS = 140_000  # and gives large transactions while they are open


@dataclass(frozen=True)
class SlotReading:
    """The settings that a slot is read with.

    `has_newer`: the server's plugin knows the options that only newer ones have; `reader`: set where values come in
    binary form; `undone`: which subtransactions were rolled back; `decoding`: auto, python, native; `leave_out`:
    origins whose rows are left out; `tells_columns`: as LogOptions has it; `former`: as RedefinedReader.expect_former.
    """

    name: str
    place: Place
    select: Select
    type_text: TypeText
    has_newer: bool
    reader: ReaderOf | None = None
    undone: Undone = lambda subtransactions: False
    decoding: str = "python"
    leave_out: frozenset[str] = frozenset()
    tells_columns: bool = False
    former: Mapping[TableId, Sequence[TableSchema]] = field(default_factory=dict)
    by_notes: frozenset[ColumnChange] = frozenset()


@dataclass(frozen=True)
class Decoder:
    """`truncates`, `roots` (rows of partitions as rows of their root), `old_nulls` (NULL and not there are two things in old
    rows): does it show that? `messages`, `streams`: the server's version from which on it shows what sessions write into the
    log, and may give large transactions while they are open. Each gives also what came to the source by replication. `inexact`:
    types by format_type's name whose values do not come exactly, and why; `ambiguous`: those of which a NULL may be a value.
    `options`: of the slot's and the publication's name, the tables that are published, the server's version; `newer`: those
    that an older plugin does not know. `tells_columns`: may rows by other columns be told (LogRedefined)?"""

    plugin: str
    options: Callable[[str, Collection[TableId], int], dict[str, str]]
    make: Callable[[SlotReading], Assembler]
    truncates: bool = True
    messages: int = 0
    streams: int = NEVER
    roots: bool = True
    old_nulls: bool = True
    binary: bool = False  # may values come in binary form?
    converts: bool = False  # does text come as UTF-8, whatever the database's encoding?
    native: bool = False  # may compiled code read its messages?
    needs_places: bool = True  # of messages, beside what is in them
    origins: bool = False  # does it tell where a transaction was made, other than by a job's marker?
    inexact: Mapping[str, str] = field(default_factory=dict)
    ambiguous: frozenset[str] = frozenset()
    newer: Mapping[str, str] = field(default_factory=dict)
    tells_columns: bool = False

    def can_compile(self, decoding: str) -> bool:
        """Return whether compiled code decodes. Raises ConfigError where it is asked for and missing."""
        from anabranch.rows.compiled import compiled

        return self.native and compiled(decoding)

    def can_stream(self, version: int) -> bool:
        return version >= self.streams


def _pgoutput_options(name: str, tables: Collection[TableId], version: int) -> dict[str, str]:
    asked = {"proto_version": "1", "publication_names": name}
    return asked | ({"messages": "true"} if version >= MESSAGES else {})


def _wal2json_options(name: str, tables: Collection[TableId], version: int) -> dict[str, str]:
    asked = {
        "format-version": "2",
        "include-transaction": "true",
        "include-xids": "true",
        "include-timestamp": "true",
        "include-types": "true",
        "include-typmod": "true",
        "include-type-oids": "true",
        "actions": "insert, update, delete, truncate",
        "add-msg-prefixes": name,  # no session's own: any bytes may be in them, which JSON does not have
    }
    return asked | ({"add-tables": ",".join(map(_pattern, sorted(tables)))} if tables else {})


def _pattern(table: TableId) -> str:
    return ".".join("".join(f"\\{c}" if c in " ',.*\\" else c for c in part) for part in (table.schema, table.name))


# Who reads messages comes with Arrow: preflight and `status`, which only ask what a decoder can, go without.


def _pgoutput(how: SlotReading) -> Assembler:
    from anabranch.connectors.postgresql.source.decode_pgoutput import PgoutputAssembler

    made = how.place, how.select, how.type_text, how.name, how.reader, how.undone, how.decoding, how.leave_out
    return PgoutputAssembler(*made, how.tells_columns, how.former, how.by_notes)


def _wal2json(how: SlotReading) -> Assembler:
    from anabranch.connectors.postgresql.source.decode_wal2json import Wal2jsonAssembler

    return Wal2jsonAssembler(how.place, how.select, how.has_newer, how.leave_out)


def _decoderbufs(how: SlotReading) -> Assembler:
    from anabranch.connectors.postgresql.source.decode_decoderbufs import DecoderbufsAssembler

    return DecoderbufsAssembler(how.place, how.select, noted(how.name), how.leave_out)


# In place of the others of these names: https://www.postgresql.org/docs/current/protocol-logical-replication.html
STREAMING = {"proto_version": "2", "streaming": "on"}
_CENTS = "decoderbufs gives an amount without its currency's form"
DECODERS: dict[str, Decoder] = {
    "pgoutput": Decoder(
        "pgoutput",
        _pgoutput_options,
        _pgoutput,
        messages=MESSAGES,
        streams=STREAMS,
        binary=True,
        converts=True,
        native=True,
        needs_places=False,
        origins=True,
        tells_columns=True,
    ),
    "wal2json": Decoder(
        "wal2json",
        _wal2json_options,
        _wal2json,
        roots=False,
        ambiguous=frozenset(("real", "double precision", "numeric")),
        newer={"numeric-data-types-as-string": "true"},
    ),
    "decoderbufs": Decoder(
        "decoderbufs",
        lambda name, tables, version: {},
        _decoderbufs,
        truncates=False,
        messages=NEVER,
        roots=False,
        old_nulls=False,
        inexact={
            "money": _CENTS,
            "time with time zone": "decoderbufs gives a time without its zone",
            "point": "decoderbufs gives coordinates, not the server's text",
        },
    ),
}
