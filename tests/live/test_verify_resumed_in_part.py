"""A verification of a large table that ends early goes on behind the key that it has reached, unless something has come that
makes that worthless; and nothing that was not compared is told to be equal. Without Spark."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch import failpoints
from anabranch.job import in_rounds
from anabranch.job.by_stretches import FORGOTTEN
from anabranch.job.in_rounds import SWITCHED, server_of, verify_in_rounds
from anabranch.job.resuming import IN_PART
from anabranch.model.ids import TableId
from anabranch.model.verified import Verified
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.verify import stretches
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.wanted import Wanted
from anabranch.view.opened import store_of
from rigs.job_here import JobHere, without_spark
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import PostgresToMysql

ROWS = 1_000
TABLES = (
    "CREATE TABLE large (id INT, line INT, n INT, PRIMARY KEY (id, line))",
    f"INSERT INTO large VALUES {', '.join(f'({number // 4}, {number % 4}, 1)' for number in range(ROWS))}",
    "CREATE TABLE small (id INT PRIMARY KEY, n INT)",
    "INSERT INTO small VALUES (1, 1)",
)
FIRST, LAST = 2, 249  # keys in the first stretch and the last
# Stretches of the table: behind the last row that was there when it was cut one range has no row, where a source gives it.
WHOLE = {5, 6}


@pytest.fixture(params=[("mariadb", "postgresql"), ("logical_postgresql", "mysql")], ids=" to ".join)
def here(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JobHere]:
    monkeypatch.setattr(in_rounds, "ROWS", 200)
    monkeypatch.setattr(stretches, "ROWS_PER_RANGE", 50)
    there, to = (request.getfixturevalue(name) for name in request.param)
    source, target = create_database(there, "in_part"), create_database(to, "in_part")
    source.execute(*TABLES)
    source.execute("ANALYZE large" if there.name == "postgresql" else "ANALYZE TABLE large")
    kind = PostgresToMysql if there.name == "postgresql" else Scenario
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job"), is_quick=True))
    made.load()
    made.stream()
    with made.running():
        yield made
    made.made.close()
    made.job.drop(execute=True)
    drop_database(source)
    drop_database(target)


def kept(here: JobHere) -> dict[str, Verified]:
    with store_of(here.job) as store:
        return {one.source.name: one for one in store.verifications.verified(here.job.config.name)}


def verified(here: JobHere, budget: float = math.inf, **wanted: Any) -> Verification:
    with without_spark() as spark:
        return verify_in_rounds(here.job, cast(Any, spark), Wanted(budget=budget, **wanted))


def large(found: Verification) -> TableResult:
    return next(one for one in found.tables if one.source.endswith(".large"))


def flip(here: JobHere, key: int, by: int = 1) -> None:
    here.made.target.execute(f"UPDATE {here.made.there}.large SET n = n + {by} WHERE id = {key} AND line = 0")


class Looks:
    """The comparisons of stretches that a call makes; behind so many the budget ends, or something else is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most, self.then, self.made = 0, cast(Callable[[], object], lambda: None), list[Any]()
        self._compare = in_rounds.compared_whole
        monkeypatch.setattr(in_rounds, "compared_whole", self)

    def __call__(self, job: Any, spark: Any, tables: Any, wanted: Wanted, beside: Any, **part: Any) -> Verification:
        if part:
            self.made.append(part["stretch"])
            if 0 < self.most <= len(self.made):
                wanted = replace(wanted, budget=1e-9)
            self.then()
        return self._compare(job, spark, tables, wanted, beside, **part)

    def out_of_time_in(self, look: int, then: Callable[[], object] = lambda: None) -> None:
        self.most, self.then, self.made = look, then, []


def in_part(here: JobHere, looks: Looks, look: int = 3) -> TableResult:
    """Compare up to the stretch of that number, in which the budget ends."""
    looks.out_of_time_in(look)
    found = verified(here, budget=600.0)
    looks.out_of_time_in(0)
    assert found.exit_code == 9, [*map(str, found.tables)]
    return large(found)


def test_rule_25_it_goes_on_behind_the_key_that_it_has_reached(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    found = in_part(here, looks)
    looks.out_of_time_in(0)
    assert (found.why, found.rows_source, found.rows_target) == (IN_PART, 400, 400)
    reached = kept(here)["large"].reached
    assert reached is not None and reached.rows == 400 and [column for column, _ in reached.key] == ["id", "line"]
    assert kept(here)["large"].result == "pending" and kept(here)["small"].result == "identical"
    flip(here, FIRST)
    flip(here, LAST)
    found = large(verified(here, resumes=True))
    assert (found.different, found.rows_source) == (1, ROWS) and len(looks.made) + 2 in WHOLE
    assert [one.key["id"] for one in found.sample] == [str(LAST)]
    assert kept(here)["large"].result == "different" and kept(here)["large"].reached is None
    flip(here, LAST, -1)
    looks.out_of_time_in(0)
    found = large(verified(here, resumes=True))
    assert found.different == 1 and len(looks.made) in WHOLE, "what differed is compared from its beginning"
    flip(here, FIRST, -1)
    found = in_part(here, looks)
    place = reached.positions[0]
    told = verified(here, resumes=True)
    assert told.identical and large(told).rows_source == ROWS and len(looks.made) + 2 in WHOLE
    was = kept(here)["large"]
    assert was.result == "identical" and was.is_equal and was.reached is None and was.rows == ROWS
    assert was.positions[0] >= place and large(told).compared is not None
    looks.out_of_time_in(0)
    assert verified(here, resumes=True).identical and len(looks.made) in WHOLE, "all were equal: it begins anew"


def test_rule_25_what_dies_behind_a_part_goes_on_there(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    failpoints.arm({failpoints.VARIABLE: "verify.reached=raise@3"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            verified(here, budget=600.0)
    finally:
        failpoints.arm({})
    reached = kept(here)["large"].reached
    assert reached is not None and reached.rows == 600
    looks.out_of_time_in(0)
    assert large(verified(here, resumes=True)).rows_source == ROWS and len(looks.made) + 3 in WHOLE


def test_what_makes_it_worthless_lets_the_table_begin_again(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, name, table = Looks(monkeypatch), here.job.config.name, TableId(here.made.schema, "large")

    def goes_on(**wanted: Any) -> int:
        """Return how many stretches the next call compares."""
        looks.out_of_time_in(0)
        assert verified(here, resumes=True, **wanted).identical
        return len(looks.made)

    def forgotten() -> None:
        with store_of(here.job) as store:
            store.verifications.forget_verified(name, table)

    in_part(here, looks)
    assert goes_on(by_rows=True) in WHOLE, "servers had summed up their rows"
    in_part(here, looks)
    forgotten()
    assert goes_on() in WHOLE
    looks.out_of_time_in(0, forgotten)
    assert large(verified(here, budget=600.0)).identical and "large" not in kept(here)
    assert goes_on() in WHOLE, "what was forgotten meanwhile is not kept again"
    in_part(here, looks)
    assert verified(here, budget=1e-9).exit_code == 9 and goes_on() in WHOLE, "a call without --resume begins anew"
    in_part(here, looks)
    here.made.source.execute("INSERT INTO large VALUES (-5, 0, 1), (10000, 0, 1)")
    at = f"SELECT count(*) FROM {here.made.there}.large WHERE id IN (-5, 10000)"
    until(lambda: int(here.made.target.query(at)[0][0]) == 2, "they are at the target")
    found = verified(here, resumes=True)
    assert found.identical and large(found).rows_source == ROWS + 1, "the row in front of the key has come since"


@pytest.mark.one_case("mariadb to postgresql")
def test_what_becomes_worthless_within_a_call_is_not_kept_again(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the table's turn, and in the middle of it; and what differs in one part is known before the rest is compared."""
    looks, name, table = Looks(monkeypatch), here.job.config.name, TableId(here.made.schema, "large")
    order, seen = in_rounds._Rounds._in_stretches, list[Verified | None]()

    def forgotten() -> None:
        with store_of(here.job) as store:
            store.verifications.forget_verified(name, table)

    def told_to_differ() -> None:
        with store_of(here.job) as store:
            found = kept(here)["large"]
            assert store.verifications.note_verified(
                name, replace(found, result="different", at=found.at + 1, reached=None), found.at
            )

    for meanwhile in (forgotten, told_to_differ):
        in_part(here, looks)

        def comes_first(self: Any, *given: Any, then: Callable[[], None] = meanwhile) -> Any:
            then()
            return order(self, *given)

        with monkeypatch.context() as patched:
            patched.setattr(in_rounds._Rounds, "_in_stretches", comes_first)
            looks.out_of_time_in(0)
            assert verified(here, resumes=True).identical and len(looks.made) in WHOLE, "from its first key"
    in_part(here, looks)
    looks.out_of_time_in(0, lambda: forgotten() if len(looks.made) == 2 else None)
    found = large(verified(here, resumes=True))
    assert found.is_undecided and found.why == FORGOTTEN and "large" not in kept(here)
    looks.out_of_time_in(0)
    assert verified(here).identical and kept(here)["large"].result == "identical"
    flip(here, FIRST)
    looks.out_of_time_in(0, lambda: seen.append(kept(here).get("large")))
    assert large(verified(here)).different == 1
    assert seen[0] is not None and not any(seen[1:]), "nobody takes it for equal while the rest is compared"
    assert kept(here)["large"].result == "different"


@pytest.mark.one_case("mariadb to postgresql")
def test_stretches_of_two_servers_tell_nothing(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, server = Looks(monkeypatch), [server_of(here.job)]

    def switches() -> None:
        server[0] = "another one"

    monkeypatch.setattr(in_rounds, "server_of", lambda _: server[0])
    in_part(here, looks, 2)
    looks.out_of_time_in(0)
    first = server[0]
    look, seen = in_rounds._Rounds._look, list[int]()

    def looked(self: Any, *given: Any, **part: Any) -> Any:
        seen.append(1)
        if len(seen) == 3:
            switches()
        return look(self, *given, **part)

    monkeypatch.setattr(in_rounds._Rounds, "_look", looked)
    found = large(verified(here, resumes=True))
    assert not found.identical and found.is_undecided and found.why == SWITCHED
    reached = kept(here)["large"].reached
    assert reached is not None and reached.by.server == first and kept(here)["large"].result == "pending"
    looks.out_of_time_in(0)
    assert verified(here, resumes=True).identical and len(looks.made) in WHOLE, "another server has other rows"
