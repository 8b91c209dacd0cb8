"""Indexes that a MySQL or MariaDB makes, drops and renames come to the target where the job file says so, with rows
behind them."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.errors import StoppedByChange
from anabranch.model.ddl_changes import DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT, m INT, t TEXT, KEY by_m (m), KEY by_v (v))",
    "INSERT INTO item (id, v, n, m) VALUES (1, 'one', 1, 1), (2, 'two', 2, 2)",
    "CREATE TABLE keyless (v INT, n INT)",
    "INSERT INTO keyless VALUES (1, 1), (1, 2)",
)
PAIRS = [
    ("mariadb", "postgresql"),
    ("mysql", "mariadb"),
    *(pytest.param(pair, marks=pytest.mark.long) for pair in (("mysql", "postgresql"), ("mariadb", "mysql"))),
]
APPLY = '[ddl]\nindexes = "apply"\ndrop_column = "apply"\nrename_column = "apply"\n'
# The source's names of indexes of the target's table, and their columns.
INDEXES = {
    "postgresql": """
        SELECT substr(i.relname, length(%s) + 2), string_agg(a.attname, ',' ORDER BY k.n)
          FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
          JOIN pg_namespace s ON s.oid = t.relnamespace CROSS JOIN LATERAL unnest(x.indkey) WITH ORDINALITY k(attnum, n)
          LEFT JOIN pg_attribute a ON a.attnum = k.attnum AND a.attrelid = x.indrelid
         WHERE t.relname = %s AND s.nspname = %s AND NOT x.indisprimary AND x.indisvalid GROUP BY 1""",
    "mysql": """
        SELECT INDEX_NAME, GROUP_CONCAT(COLUMN_NAME ORDER BY SEQ_IN_INDEX) FROM information_schema.STATISTICS
         WHERE %s = TABLE_NAME AND TABLE_NAME = %s AND TABLE_SCHEMA = %s AND INDEX_NAME <> 'PRIMARY' GROUP BY 1""",
}


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams two tables, with the indexes that they have."""
    return streams(request.param, TABLES, APPLY, is_built=True)


def _indexes(here: JobHere, table: str = "item") -> dict[str, str]:
    target = here.made.target
    kind = "postgresql" if target.server.name == "postgresql" else "mysql"
    return {str(name): str(columns) for name, columns in target.query(INDEXES[kind], [table, table, here.made.there])}


def _builds(here: JobHere) -> None:
    here.capture()
    here.apply(is_built=True)
    assert here.made.states()["item"] == "streaming", here.made.reason("item")
    here.made.assert_identical("item", "keyless")


def test_indexes_come_and_go_with_those_of_the_source(here: JobHere) -> None:
    """Each form of statement, with rows between them; an index is built behind its place, one that goes or is renamed is so
    just there. An index that is made and dropped in one backlog does not come."""
    assert _indexes(here) == {"by_m": "m", "by_v": "v"}
    here.made.source.execute(
        "CREATE INDEX by_n ON item (n)",
        "INSERT INTO item (id, v, n) VALUES (3, 'three', 3)",
        "ALTER TABLE item ADD KEY (n, m), ADD INDEX cut (t(9)), DROP KEY by_m",
        "UPDATE item SET n = 4, t = 'text' WHERE id = 3",
        "ALTER TABLE item DROP INDEX by_v, ADD INDEX by_v (v, n)",
        "CREATE INDEX gone ON item (m)",
        "ALTER TABLE item ADD COLUMN c INT DEFAULT 5, ADD INDEX by_c (c)",
        "INSERT INTO item (id, c) VALUES (4, 4)",
        "DROP INDEX gone ON item",
        "CREATE INDEX by_v ON keyless (v)",
        "DELETE FROM keyless WHERE n = 2",
        "ALTER TABLE item ADD UNIQUE KEY one (v, id)",  # left as it is, at the target
    )
    _builds(here)
    found = _indexes(here)
    assert found.pop("cut")
    assert found == {"by_n": "n", "n": "n,m", "by_v": "v,n", "by_c": "c"} and _indexes(here, "keyless") == {"by_v": "v"}
    noted = here.job.ddl_changes(f"{here.made.schema}.item")
    assert {(one.outcome, one.rule.action) for one in noted[:-1]} == {(Outcome.ALTERED, "apply")}
    assert noted[-1].outcome is Outcome.IGNORED and noted[-1].why.endswith("as it is: unique_keys")
    assert noted[0].rule == DdlRule("[ddl] indexes", "apply") and noted[0].why == "built while rows go on: by_n"
    here.made.source.execute(
        "ALTER TABLE item DROP INDEX by_c, DROP COLUMN c",
        "UPDATE item SET m = 9 WHERE id = 1",
        "ALTER TABLE item CHANGE n nn INT, ADD INDEX by_nn_m (nn, m)",
        "INSERT INTO item (id, nn) VALUES (5, 5)",
        "DROP INDEX by_n ON item",
    )
    _builds(here)
    found = _indexes(here)
    assert found.pop("cut") and found == {"n": "nn,m", "by_v": "v,nn"}, found


def test_rule_17_a_kill_on_the_way_of_an_index_is_made_good(here: JobHere) -> None:
    """Between the statement and its record, and between the build and what is noted of it."""
    places = (
        "apply.altering",
        "apply.altered.apart",
        "apply.altered",
        "apply.committed",
        "apply.built",
        "apply.built.told",
    )
    rename = "RENAME INDEX" if here.made.source.server.name == "mysql" else None
    for number, place in enumerate(places):
        before, last = f"i{number}", f"i{number - 1}" if number else "by_m"
        here.made.source.execute(
            f"UPDATE item SET n = {number} WHERE id = 1",
            f"ALTER TABLE item DROP INDEX {last}, ADD INDEX {before} (n)",
            f"UPDATE item SET m = {number} WHERE id = 2",
        )
        if rename:
            here.made.source.execute(f"ALTER TABLE item {rename} {before} TO x{number}, {rename} by_v TO by_w")
            here.made.source.execute(f"ALTER TABLE item {rename} x{number} TO {before}, {rename} by_w TO by_v")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.capture()
            here.apply(is_built=True)
        except failpoints.FailpointReached:
            pass
        finally:
            failpoints.arm({})
        _builds(here)
        assert _indexes(here) == {before: "n", "by_v": "v"}, place


def test_what_the_target_does_not_make_of_an_index_is_told_and_parks_nothing(here: JobHere) -> None:
    """An index of the target's own stays; one that the target refuses is in the status."""
    made = here.made
    is_postgresql = made.target.server.name == "postgresql"
    made.target.execute(
        f"DROP INDEX {made.there}.item_by_m" if is_postgresql else f"DROP INDEX by_m ON {made.there}.item"
    )
    made.source.execute("DROP INDEX by_m ON item", "INSERT INTO item (id) VALUES (9)")
    _builds(here)
    (noted,) = here.job.ddl_changes(f"{made.schema}.item")
    assert noted.outcome is Outcome.ALTERED and noted.why.startswith("index by_m is not dropped: the target has none")
    assert _indexes(here) == {"by_v": "v"}


@pytest.mark.one_case("mariadb to postgresql")
def test_indexes_are_left_alone_stop_the_job_or_wait_as_the_file_has_it(here: JobHere) -> None:
    made = here.made
    made.write_job("")
    made.source.execute("CREATE INDEX by_n ON item (n)", "INSERT INTO item (id, n) VALUES (9, 9)")
    _builds(here)
    (ignored,) = here.job.ddl_changes()
    assert _indexes(here) == {"by_m": "m", "by_v": "v"} and ignored.outcome is Outcome.IGNORED
    assert ignored.rule == DdlRule("[ddl] indexes", "ignore") and ignored.why.endswith("as it is: indexes")
    made.source.execute("ALTER TABLE item ADD COLUMN c INT, ADD INDEX by_c (c)", "UPDATE item SET c = 1")
    _builds(here)
    assert _indexes(here) == {"by_m": "m", "by_v": "v"}
    made.write_job('[ddl]\nindexes = "stop"\n')
    made.source.execute("DROP INDEX by_v ON item", "INSERT INTO item (id, c) VALUES (10, 9)")
    with pytest.raises(StoppedByChange, match='indexes = "stop"'):
        here.stream()
    made.write_job('[ddl]\nindexes = "ask"\n')
    here.stream()
    assert made.states()["item"] == "parked"
    (waiting,) = [one for one in here.job.ddl_changes() if one.outcome is Outcome.WAITING]
    here.job.decide_ddl(waiting.number, "apply")
    here.stream()
    _builds(here)
    assert _indexes(here) == {"by_m": "m"}


@pytest.mark.one_case("mysql to mariadb")
def test_a_plan_shows_what_becomes_of_an_index(here: JobHere) -> None:
    found = here.job.plan_ddl("CREATE INDEX by_n ON item (n)")
    assert found.outcome is Outcome.ALTERED and found.altering and not found.altering.rewrites
    assert len(found.altering.statements) == 1 and "by_n" in found.altering.statements[0]
    dropped = here.job.plan_ddl("ALTER TABLE item DROP INDEX by_m")
    assert dropped.altering and "by_m" in dropped.altering.statements[0]
    here.made.write_job("")
    assert here.job.plan_ddl("DROP INDEX by_m ON item").outcome is Outcome.IGNORED
