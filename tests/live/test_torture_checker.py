"""The torture kit's own judgement on real servers: a job that carries histories by the model, rightly or wrongly.

What does not live here: the product under torture.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from anabranch.testing.torture.check import BACK, TORN, UNKNOWN, WRONG
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.history import History, Transaction
from anabranch.testing.torture.postgresql_snapshots import PostgresqlSnapshots
from anabranch.testing.torture.run import Result, run_history
from anabranch.testing.torture.tables import SET_NULL, Column
from rigs.torture_double import Double
from rigs.torture_tables import delete, family, insert, update

# Of a mistake: how it is found, and in which of the next seeds at the latest. What stands at the target for a moment only is
# seen if somebody looks meanwhile, which a busy machine may miss in one history.
MISTAKES = {
    "splits": (WRONG, 8),
    "late": (TORN, 8),
    "lost": (TORN, 8),
    "half": (WRONG, 8),
    "twice": (WRONG, 8),
    "returns": (BACK, 8),
    "unknown": (UNKNOWN, 8),
    "foreign keys": (WRONG, 4),
}


def carried(seed: int, source: Server, target: Database, mistake: str = "") -> Result:
    history = draw_history(seed, source.name, version_of(source))
    double = Double(history, source, target, mistake)
    return run_history(history, source, target, double, on_begin=double.on_begin)


def test_a_look_is_as_the_one_before_it_only_while_no_transaction_has_ended(target_database: Database) -> None:
    target_database.execute("CREATE TABLE t (n int)")
    looks = PostgresqlSnapshots(target_database, "public", {"t": [Column("n", "int")]}, ())
    with closing(looks), closing(target_database.connect(autocommit=False)) as writer:
        for statement, seen in (
            ("INSERT INTO t VALUES (1)", b"1\n"),
            ("UPDATE t SET n = 2", b"2\n"),
            ("TRUNCATE t", b""),
            ("INSERT INTO t VALUES (3)", b"3\n"),
        ):
            before = looks.read().tables
            writer.execute(statement)
            if statement != "TRUNCATE t":  # whose lock a look would wait for
                assert looks.read().tables == looks.read().tables == before
            writer.commit()
            assert looks.read().tables == looks.read().tables == {"t": seen}
        writer.execute("DELETE FROM t")
        assert looks.read().tables == {"t": b"3\n"}
        writer.rollback()
        assert looks.read().tables == {"t": b"3\n"}


def test_the_checker_accepts_what_is_right(mysql_family: Server, target_database: Database) -> None:
    """And model and source agree: on the rows that each statement met, and on every row at the end."""
    for seed in (1001, 1002):
        result = carried(seed, mysql_family, target_database)
        assert result.failure is None, f"seed {seed}: {result.failure}"
        assert result.committed > 20 and result.prefixes > 5


@pytest.mark.parametrize(("place", "mistake"), list(enumerate(MISTAKES)))
@pytest.mark.one_case("0-splits", "2-lost", "3-half", "7-foreign keys")
def test_the_checker_finds_a_mistake(
    place: int, mistake: str, request: pytest.FixtureRequest, target_database: Database
) -> None:
    source = request.getfixturevalue(("mariadb", "mysql")[place % 2])
    kind, seeds = MISTAKES[mistake]
    found = (carried(2000 + seed, source, target_database, mistake).failure for seed in range(seeds))
    failure = next(filter(None, found), None)
    assert failure is not None and failure.kind == kind, failure


@pytest.mark.parametrize("mistake", ["", "half", "returns", "unknown"])
@pytest.mark.one_case("", "half")
def test_each_of_two_targets_is_judged(
    mistake: str, mariadb: Server, target_database: Database, postgresql: Server
) -> None:
    for seed in range(2000, 2000 + MISTAKES.get(mistake, ("", 1))[1]):
        other = create_database(postgresql, "other")
        try:
            history = draw_history(seed, mariadb.name, version_of(mariadb))
            double = Double(history, mariadb, target_database, mistake, other)
            result = run_history(history, mariadb, target_database, double, on_begin=double.on_begin)
        finally:
            drop_database(other)
        if result.failure:
            break
    assert result.targets == 2 and result.prefixes > 5
    if mistake:
        assert result.failure and result.failure.kind == MISTAKES[mistake][0], result.failure
        assert result.failure.message.startswith("at the second target: "), result.failure
    else:
        assert result.failure is None, result.failure


def test_seed_847_keys_that_are_off_wait_for_a_parent_that_goes(
    mysql_family: Server, target_database: Database
) -> None:
    """The first removes a parent and clears what is below it, and has not committed; InnoDB lets rows come in before these.
    What such a row comes to is not in the log."""
    history = History(
        847,
        family(on_delete=SET_NULL),
        before=(Transaction(1, 0, (insert("parent", ("1", "1", "1")), insert("child", ("5", None), ("7", "1")))),),
        during=(
            Transaction(2, 0, (delete("parent", "1"),), behind=3),
            Transaction(3, 1, (update("child", "5", p="1"),), pause=20, checks=False),
        ),
    )
    double = Double(history, mysql_family, target_database, "")
    result = run_history(history, mysql_family, target_database, double, on_begin=double.on_begin)
    assert result.failure is None and result.committed == 3, result
