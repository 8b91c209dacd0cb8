"""Notes of deletes (K23) at a source that is away: apply goes on, and asks again later."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from anabranch.apply import pair_deletes
from anabranch.apply.epoch import Applier
from anabranch.apply.pair_deletes import PairDeletes
from anabranch.contracts import OlderRow, RowAgain, SourceConnector
from anabranch.errors import SourceUnavailable
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow


class NoNotes:
    """A target that has none."""

    def note_deleted(self, job: str, deleted: DeletedRow) -> None:
        raise AssertionError("nothing is deleted here")

    def remove_older(self, job: str, rows: Sequence[OlderRow]) -> int:
        raise AssertionError("no note was read")

    def note_standing(self, job: str, row: StandingRow) -> None:
        raise AssertionError("nothing stands here")

    def standing(self, job: str, limit: int, after: str = "") -> tuple[StandingRow, ...]:
        return ()

    def write_again(self, job: str, rows: Sequence[RowAgain]) -> int:
        raise AssertionError("no note was read")

    def pair_notes(self, job: str) -> PairNotes:
        return PairNotes()

    def forget_notes(self, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
        raise AssertionError("no note was read")


@dataclass
class Away:
    """A source that cannot be reached."""

    asked: int = 0

    def catalog(self) -> Any:
        self.asked += 1
        raise SourceUnavailable("away")


def test_rule_23_a_source_that_is_away_holds_up_no_epoch_and_is_asked_again_later(monkeypatch: Any) -> None:
    """A connection that is waited for at each look would: apply goes on with what the trail has."""
    now = [1000.0]
    monkeypatch.setattr(pair_deletes.time, "monotonic", lambda: now[0])
    source = Away()
    deletes = PairDeletes(cast("SourceConnector", source), cast("Any", None), "back", lambda: False)
    applier = cast("Applier", SimpleNamespace(progress=SimpleNamespace(writer=NoNotes(), job="out")))
    for _ in range(3):
        deletes.look(applier)
    assert source.asked == 1
    now[0] += pair_deletes.AWAY_SECONDS
    deletes.look(applier)
    assert source.asked == 2
