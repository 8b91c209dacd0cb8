"""Capture of a live database into a trail, in this process and without a target; and what the trail then has."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch import connectors
from anabranch.capture.run import Capture
from anabranch.contracts import LogOptions, LogReader
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.chunk import META, Chunk, Part
from anabranch.testing.databases import Database
from anabranch.testing.in_time import in_time
from anabranch.trail import identity
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.staging import staged
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter


@dataclass
class Captured:
    """Capture of a database into a trail, run for as long as the log goes on."""

    database: Database
    directory: Path
    patience: float = 5.0
    waited: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        server = self.database.server
        self.endpoint = Endpoint(server.name, server.host, server.port, server.user, server.password, "", ())
        self.source = connectors.source(self.endpoint)

    def run(self, until: Callable[[], bool] | None = None) -> None:
        """Up to the log's end as it is now, or until something is so."""
        reader = self.source.log(LogOptions(77300, 1.0))
        place, give_up = reader.end(), time.monotonic() + 240
        try:
            with TrailWriter.open(
                self.directory, job="j", job_uuid="u", source_identity=self.followed(reader), pack=False
            ) as trail:

                def stop() -> bool:
                    in_time(give_up, f"capture is at {trail.end.position}, not at {place.native}")
                    if until:
                        return until()
                    return bool(trail.end.resume) and self.source.order.includes(
                        self.source.order.mark(trail.end.resume), place.native, None
                    )

                wanted = self.is_wanted
                Capture(
                    self.source,
                    reader,
                    trail,
                    wanted,
                    stop,
                    self,
                    self.followed(reader),
                    lambda *_: None,
                    self.patience,
                ).run()
        finally:
            reader.close()

    def followed(self, reader: LogReader) -> str:
        """The server that the trail was read from, this one where there is none yet."""
        found = identity.load(LocalStorage(self.directory))
        return found.source_identity if found else reader.identity()

    def is_wanted(self, table: TableId) -> bool:
        return table.schema == self.database.name and table.name != "other"

    def follows(self, decoder: str) -> None: ...

    def read(self, *_: Any) -> None: ...

    def log_end(self, mark: object) -> None: ...

    def at_end(self, trail: TrailWriter) -> None: ...

    def written(self, trail: TrailWriter) -> None: ...

    def waiting(self, why: str, on: object) -> None:
        self.waited.append(why)

    def chunks(self) -> list[Chunk]:
        with TrailReader(self.directory) as trail:
            assert trail.check().is_good
            return list(chunks(trail, 0))

    def transactions(self) -> list[list[int]]:
        """The ids of their rows, in the trail's order; without those that have none."""
        found: list[list[int]] = []
        held: list[tuple[int, int]] = []
        for chunk in self.chunks():
            per: dict[int, list[tuple[int, int]]] = {}
            for rows in chunk.tables:
                ids = rows.batch.column(META).to_pylist()
                tx, ordinal = (rows.batch[name].to_pylist() for name in ("_tx", "_ordinal"))
                for number, place, id in zip(tx, ordinal, ids, strict=True):
                    per.setdefault(number, []).append((place, id))
            for number in range(chunk.transactions.num_rows):
                held += per.get(number, [])
                if chunk.part is not Part.FRAGMENT:
                    found.append([id for _, id in sorted(held)])
                    held = []
        return [ids for ids in found if ids]

    def staged(self) -> set[str]:
        return {one.xid for one in staged(self.directory)}
