"""A history that fails is made small, whatever it takes to fail."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.testing.torture.check import MODEL, WRONG, Failure
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.history import History, Statement
from anabranch.testing.torture.run import Result
from anabranch.testing.torture.shrink import shrink

HISTORY = draw_history(3, "mysql", (8, 0, 33))


def run(fails: Callable[[History], bool], kind: str = WRONG) -> Callable[[History], Result]:
    def run(history: History) -> Result:
        failure = Failure(kind, "so") if fails(history) else None
        return Result(history.seed, failure, 1, 1, 1, 0.0, (), frozenset())

    return run


def every(history: History) -> list[Statement]:
    return [s for t in history.transactions for s in t.statements]


def test_what_is_needed_stays_and_nothing_else() -> None:
    one, another = HISTORY.after[5].number, next(t.number for t in HISTORY.transactions if t.statements)

    def fails(history: History) -> bool:
        return {one, another} <= {t.number for t in history.transactions} and bool(every(history))

    small, result = shrink(HISTORY, run(fails), runs=1000)
    assert result and result.failure and result.failure.kind == WRONG
    assert {t.number for t in small.transactions} == {one, another} and len(every(small)) == 1
    assert len(small.schema.tables) == 1 and not small.schema.tables[0].uniques
    assert small.images == HISTORY.images and fails(small)


def test_rows_keys_and_savepoints() -> None:
    def fails(history: History) -> bool:
        return sum(len(s.rows) for s in every(history)) >= 3 and any(t.uniques for t in history.schema.tables)

    small, _ = shrink(HISTORY, run(fails), runs=2000)
    assert sum(len(s.rows) for s in every(small)) == 3
    assert sum(len(t.uniques) for t in small.schema.tables) == 1
    assert not any(t.foreign_keys for t in small.schema.tables)

    def fails_on_the_way_back(history: History) -> bool:
        return any(s.do == "back" for s in every(history))

    history = next(h for n in range(50) if fails_on_the_way_back(h := draw_history(n, "mysql", (8, 0, 33))))
    small, _ = shrink(history, run(fails_on_the_way_back), runs=1000)
    assert [s.do for s in every(small)] == ["savepoint", "back"]


def test_a_history_that_does_not_fail_again_is_left_alone() -> None:
    assert shrink(HISTORY, run(lambda _: False)) == (HISTORY, None)


def test_another_way_to_fail_does_not_count() -> None:
    def alike(history: History) -> Result:
        is_whole = len(history.transactions) == len(HISTORY.transactions)
        return run(lambda _: True, WRONG if is_whole else MODEL)(history)

    assert len(shrink(HISTORY, alike, runs=60)[0].transactions) == len(HISTORY.transactions)


def test_the_number_of_runs_has_a_limit() -> None:
    runs: list[int] = []

    def fails(history: History) -> bool:
        runs.append(1)
        return len(history.transactions) > 7

    small, result = shrink(HISTORY, run(fails), runs=20)
    assert len(runs) <= 20 and result is not None and len(small.transactions) < len(HISTORY.transactions)
