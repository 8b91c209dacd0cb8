"""Texts of the ledger that have values of rows: sealed where the trail is encrypted, by a data key in `ledger/key.json`.

A text in the ledger says itself whether it is sealed: one from before encryption was turned on is read as it is. What does not
live here: which texts these are (ledger.py), keys (`trail/keys.py`).
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from anabranch.errors import TrailCorrupt
from anabranch.trail import keys, sealed_files, sealing
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.sealing import Seal, Tampered
from anabranch.trail.storage import LocalStorage, read_whole

KEY = "ledger/key.json"
MARK = "sealed:"  # no text of the ledger begins with it by itself: they are JSON, or sentences
_HINT = (
    "restore the file from a backup of the trail; or remove the trail (anabranch drop JOB --execute), and load again"
)


class SealingConnection(sqlite3.Connection):
    """A connection that opens sealed texts in whatever is read. `texts` is set by who opens it."""

    texts: SealedTexts

    def seals(self, text: str | None) -> str | None:
        """Return a text as it has to stand in the ledger. To be called in a transaction that writes."""
        return None if text is None else self.texts.sealed(text)


class SealedTexts:
    """Seals texts of a trail's ledger, and opens them. Not for several threads."""

    def __init__(self, trail: Path) -> None:
        self._storage = LocalStorage(trail)
        self._seal: Seal | None = None

    def sealed(self, text: str) -> str:
        """Return a text sealed; as it is, where the trail is not encrypted. Raises TrailKeyMissing, TrailCorrupt."""
        ring = keys.ring(self._storage)
        if ring is None or ring.current is None:
            return text
        if self._seal is None:
            self._seal = self._known() or self._made()
        return text if self._seal is None else MARK + self._seal.text(text.encode(), KEY.encode())

    def opened(self, text: str) -> str:
        """Return a sealed text as it was. Raises TrailKeyMissing, TrailCorrupt."""
        if self._seal is None:
            self._seal = self._known()
        try:
            if self._seal is None:
                raise Tampered(f"{KEY} is missing")
            return self._seal.open_text(text.removeprefix(MARK), KEY.encode()).decode()
        except Tampered as error:
            raise TrailCorrupt(f"the ledger of the load in {self._storage.path('')}: {error}", hint=_HINT) from None

    def row(self, cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row that was read, with what is sealed in it opened."""
        return tuple(self.opened(one) if isinstance(one, str) and one.startswith(MARK) else one for one in row)

    def _known(self) -> Seal | None:
        try:
            header = json.loads(read_whole(self._storage, KEY))
            return sealed_files.opened(self._storage, KEY, header)
        except FileNotFoundError:
            return None
        except (ValueError, AttributeError, Tampered) as error:
            raise TrailCorrupt(f"{self._storage.path(KEY)}: {error}", hint=_HINT) from None

    def _made(self) -> Seal | None:
        seal, header = sealing.begin(self._storage, sealed_files.header_for(self._storage, KEY))
        if seal is not None:
            with writing(KEY):
                self._storage.replace(KEY, to_json(header) + b"\n")
        return seal
