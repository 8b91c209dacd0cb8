"""Finds the row of the log that has text without a character in UTF-8: the server ends the stream at it and names none.

It is looked for in the same log, given as it is stored. What does not live here: rows that are loaded (stored_text.py).
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from anabranch.connectors.postgresql.source.pgoutput import ROW_HEAD, ROWS, Begin, Relation, parse
from anabranch.connectors.postgresql.source.positions import lsn_text
from anabranch.connectors.postgresql.source.row_images import TEXT, Images, images
from anabranch.connectors.postgresql.source.stored_text import is_text, no_character
from anabranch.connectors.postgresql.source.wal_stream import DATA, DATA_HEAD, WalStream
from anabranch.contracts import Select
from anabranch.errors import ValueRefused
from anabranch.model.ids import TableId
from anabranch.rows.refused import readable, refused

PATIENCE = 60.0  # seconds
_MESSAGES, _BYTES = 256, 1 << 20
PAST = (
    "the source's log cannot be read past this row, whatever the job file says: correct the row there, then remove the job's"
    " state (anabranch drop JOB --execute) and run the job, which reloads all tables"
)
_KINDS = frozenset((*ROWS, *b"RB"))


def find(stream: WalStream, slot: str, after: int, options: Mapping[str, str], select: Select) -> ValueRefused | None:
    """Return the refusal of the first such row behind `after`; None where none is found in time. `stream` gives text as it is
    stored. Raises SourceUnavailable, SourceError."""
    stream.begin(slot, after, options, {})
    search, until = _Search(stream, select), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        first = stream.receive(0.2)
        for frame in [first, *stream.receive_some(_MESSAGES, _BYTES)] if first is not None else []:
            if frame is not None and frame[0] == DATA and (found := search.look(bytes(frame[DATA_HEAD:]))):
                return found
    return None


class _Search:
    def __init__(self, stream: WalStream, select: Select) -> None:
        self._codec, self._encoding, self._select = stream.codec, stream.encoding, select
        self._relations: dict[int, Relation] = {}
        self._at = 0

    def look(self, message: bytes) -> ValueRefused | None:
        """Return the refusal if a message has the row. Raises ValueError for an invalid message."""
        if message[0] not in _KINDS:
            return None
        if message[0] in ROWS:
            return None if message.isascii() else self._row(message)
        item, _ = parse(message)
        if isinstance(item, Relation):
            self._relations[item.oid] = item
        elif isinstance(item, Begin):
            self._at = item.lsn
        return None

    def _row(self, message: bytes) -> ValueRefused | None:
        relation = self._relations[int.from_bytes(message[1:ROW_HEAD])]
        schema = self._select(TableId(relation.schema, relation.name))
        found = images([message], [column.in_identity for column in relation.columns], ROW_HEAD)
        for place, column in enumerate(relation.columns):
            if schema is None or all(is_text(value, self._codec) for value in _texts(found, place)):
                continue
            names = [one.name for one in relation.columns]
            key = {name: self._key(found, names.index(name)) for name in schema.primary_key if name in names}
            return refused(schema.id, column.name, key, no_character(self._encoding), PAST, lsn_text(self._at))
        return None

    def _key(self, found: Images, place: int) -> str | None:
        """Return a key value of the last image."""
        values = _texts(found, place)
        if not values:
            return None
        return values[-1].decode(self._codec) if is_text(values[-1], self._codec) else readable(values[-1])


def _texts(found: Images, place: int) -> list[bytes]:
    has = np.flatnonzero(found.cells.tags[:, place] == TEXT)
    return [found.column(place)[int(image)].as_py() for image in has]
