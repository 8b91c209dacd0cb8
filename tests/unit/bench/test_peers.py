"""Peers of the benchmark in turns: who takes part, what a line says. No peer runs here."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

sys.path.append(str(Path(__file__).parents[3]))  # bench is no part of the package

from bench.figures import Side
from bench.peers import chosen
from bench.peers.ring import Ring, summary
from bench.processes import Cost, ProgramFailed


@dataclass
class Stand:
    name: str = "mysql"
    schema: str = ""


@dataclass
class Peer:
    name: str
    seconds: list[float] = field(default_factory=list)
    reason: str = ""

    def missing(self, stand: object) -> str:
        return self.reason

    def run(self) -> Cost:
        if not self.seconds:
            raise ProgramFailed("it ended with 1\nINFO starts\nFATAL: no such table\n  at line 5")
        return Cost(self.seconds.pop(0), 1.0, 200.0)


def ring(*peers: Peer) -> Ring[Any]:
    return Ring("W0 work", cast(Any, Stand()), "mysql-pg", peers)


def ours(*seconds: float, rows: int = 1) -> Side:
    return Side("anabranch", "ours", rows, [Cost(one, 0.5, 100.0) for one in seconds])


def test_a_figure_says_how_many_times_quicker_ours_is() -> None:
    one = ring(Peer("slow", [8.0, 6.0, 7.0]))
    for _ in range(3):
        one.each(lambda peer: peer.run())
    [figure] = one.figures(ours(2.0, 2.0, 2.0, rows=1000), {"slow": 3.0})
    assert (figure.value, figure.goal, figure.is_kept) == (3.5, 3.0, True)
    assert str(figure).startswith("W0 work/slow mysql-pg ratio=3.5 goal=3 ok ratio_min=3 ratio_max=4 rows_per_s=500")


def test_who_cannot_take_part_is_shown_with_why() -> None:
    [figure] = ring(Peer("other", reason="reads nothing of this")).figures(ours(1.0), {})
    assert str(figure) == "W0 work/other mysql-pg not measured: reads nothing of this"


def test_who_fails_on_its_way_is_shown_with_why_and_others_go_on() -> None:
    both = ring(Peer("weak", [1.0]), Peer("good", [1.0, 1.0]))
    for _ in range(2):
        both.each(lambda peer: peer.run())
    lines = [str(figure) for figure in both.figures(ours(1.0), {})]
    assert [line.split()[1] for line in lines] == ["work/good", "work/weak"]
    assert lines[1] == "W0 work/weak mysql-pg not measured: FATAL: no such table"


def test_a_wrong_result_is_no_reason_to_be_left_out() -> None:
    def wrong(peer: Peer) -> Cost:
        raise AssertionError("other rows")

    with pytest.raises(AssertionError):
        ring(Peer("wrong")).each(wrong)


def test_the_summary_of_what_was_said_without_an_error_is_its_last_line() -> None:
    assert summary("one\ntwo\n") == "two"
    assert summary("") == "it does not say why"


@pytest.mark.parametrize(
    ("given", "names"), [("none", []), ("pgloader", ["pgloader"]), ("debezium, pgloader", ["pgloader"])]
)
def test_the_variable_names_those_that_take_part(monkeypatch: Any, given: str, names: list[str]) -> None:
    monkeypatch.setenv(chosen.VARIABLE, given)
    assert [peer.name for peer in chosen.chosen(chosen.LOADERS)] == names


def test_all_take_part_when_nothing_is_said(monkeypatch: Any) -> None:
    monkeypatch.delenv(chosen.VARIABLE, raising=False)
    assert chosen.chosen(chosen.LOADERS) == list(chosen.LOADERS)


def test_an_unknown_name_is_refused(monkeypatch: Any) -> None:
    monkeypatch.setenv(chosen.VARIABLE, "pgloder")
    with pytest.raises(SystemExit, match="no peer pgloder; there are debezium"):
        chosen.chosen(chosen.LOADERS)
