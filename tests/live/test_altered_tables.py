"""Tables that a MySQL or MariaDB alters are altered at the target just there, between rows of both definitions."""

from __future__ import annotations

from contextlib import suppress

import pytest

from anabranch import failpoints
from anabranch.apply.altering import Altering
from anabranch.errors import ConfigError, StoppedByChange
from anabranch.model.column_changes import APPLY_ALL, BESIDE_COLUMNS, ColumnChange, TableActions
from anabranch.model.ddl_changes import PARKS, DdlChange, DdlRule, Outcome, digest_of
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.streams import Streams

PLACES = (
    "capture.statement.noted",
    "capture.appended",
    "apply.altering",
    "apply.altering.filled",
    "apply.altered.apart",
    "apply.altered",
    "apply.ddl.noted",
    "apply.committed",
)
APART = ("apply.altering", "apply.altering.filled", "apply.altered.apart")  # where the statement commits by itself
SPARE = ", ".join(f"p{n} INT, g{n} INT NOT NULL DEFAULT {n}" for n in range(len(PLACES)))
# At the source, at the target (the table's name is in braces), and what such a table parks for.
REFUSED = [
    ("ADD mine INT", "ALTER TABLE {} ADD COLUMN mine int", "already"),
    ("DROP goes", "ALTER TABLE {} DROP COLUMN goes", "no column goes"),
    ("DROP goes", "CREATE INDEX mine ON {} (v, goes)", "mine depends on goes"),
    ("CHANGE old new INT", "ALTER TABLE {} ADD COLUMN new int", "already"),
    ("CHANGE old new INT", "ALTER TABLE {} DROP COLUMN old", "no column old"),
    ("MODIFY goes INT NOT NULL", "UPDATE {} SET goes = NULL", "null"),
    ("MODIFY goes BIGINT", "ALTER TABLE {} DROP COLUMN goes, ADD COLUMN goes smallint", "was made as"),
]
TABLES = (
    *(f"CREATE TABLE r{n} (id INT PRIMARY KEY, v INT, goes INT, old INT)" for n in range(len(REFUSED))),
    *(f"INSERT INTO r{n} (id, v, goes) VALUES (1, 1, 1)" for n in range(len(REFUSED))),
    f"CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), goes INT NOT NULL DEFAULT 3, old VARCHAR(9), {SPARE})",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE keyless (v INT, goes INT)",
    "CREATE TABLE wide (id INT PRIMARY KEY, i INT DEFAULT 1, s VARCHAR(5), d DECIMAL(5,2) DEFAULT 1.5, n INT NOT NULL, "
    "x INT DEFAULT 1, m INT, t TEXT)",
    "INSERT INTO item (id, v, old) VALUES (1, 'one', 'x'), (2, 'two', NULL)",
    "INSERT INTO keyless VALUES (1, 1), (1, 2), (2, 1)",
)
QUICK = [("mariadb", "postgresql"), ("mysql", "mariadb")]
PAIRS = [
    *QUICK,
    *(pytest.param(pair, marks=pytest.mark.long) for pair in (("mysql", "postgresql"), ("mariadb", "mysql"))),
]
OTHERS = BESIDE_COLUMNS | {ColumnChange.CREATE, ColumnChange.PARTITIONS}
APPLY = "[ddl]\n" + "".join(f'{kind} = "apply"\n' for kind in ColumnChange if kind not in OTHERS)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams two tables."""
    return streams(request.param, TABLES, APPLY)


BACKLOG = (
    "INSERT INTO item (id, v) VALUES (3, 'three')",
    "CREATE INDEX by_v ON item (v)",  # definitions are compared, and the catalogue is ahead
    "ALTER TABLE item ADD COLUMN n INT NOT NULL DEFAULT 5",
    "INSERT INTO item (id, v, n) VALUES (4, 'four', 6)",
    "UPDATE item SET n = 7 WHERE id = 1",
    "ALTER TABLE item ADD note TEXT NULL COMMENT 'it''s new' AFTER id, "
    "ADD (price DECIMAL(9,2) DEFAULT 1.5, day DATE DEFAULT '2024-02-29')",
    "INSERT INTO item (id, note, v, n, price, day) VALUES (5, 'x', 'five', 8, -0.25, NULL)",
    "UPDATE item SET id = 20, note = 'moved' WHERE id = 2",
    "ALTER TABLE item ADD word VARCHAR(9) CHARACTER SET latin1 NOT NULL DEFAULT '\u00e9' FIRST, ALGORITHM=INPLACE",
    "DELETE FROM item WHERE id = 3",
    # what rows that are there get in columns that are NOT NULL and have no default
    "ALTER TABLE item ADD (i BIGINT UNSIGNED NOT NULL, d DECIMAL(7,2) NOT NULL, f DOUBLE NOT NULL, e ENUM('b','a') NOT NULL, "
    "s SET('b','a') NOT NULL, c CHAR(3) NOT NULL, t TEXT NOT NULL, y BINARY(2) NOT NULL, z BLOB NOT NULL, w BIT(3) NOT NULL)",
    "UPDATE item SET e = 'a', s = 'a,b', t = 'text', y = 'yy', w = b'101' WHERE id = 5",
    "ALTER TABLE item DROP COLUMN goes, ALGORITHM=INPLACE",
    "UPDATE item SET old = 'before' WHERE id = 4",
    "ALTER TABLE item CHANGE old new VARCHAR(9) CHARACTER SET utf8mb4 NULL COMMENT 'renamed'",
    "UPDATE item SET new = 'behind' WHERE id = 1",
    "INSERT INTO other VALUES (1, 1)",
    "DELETE FROM keyless WHERE goes = 2",
    "ALTER TABLE keyless DROP goes, ADD is_new INT NOT NULL FIRST",
    "DELETE FROM keyless WHERE v = 2",
    "INSERT INTO keyless VALUES (1, 1), (0, 1)",
    "INSERT INTO wide (id, i, s, d, n, m) VALUES (1, 2147483647, 'abcde', -1.5, 1, 1)",
    "ALTER TABLE wide MODIFY i BIGINT DEFAULT 1, MODIFY COLUMN s VARCHAR(9), MODIFY d DECIMAL(9,4) DEFAULT 2.5, "
    "MODIFY t LONGTEXT",
    "INSERT INTO wide (id, i, s, n, m) VALUES (2, 9000000000, 'abcdefghi', 2, 2)",
    "ALTER TABLE wide CHANGE n nn BIGINT NULL, ALTER x SET DEFAULT 7, MODIFY m INT NOT NULL DEFAULT 3 COMMENT 'never NULL'",
    "INSERT INTO wide (id) VALUES (3)",
)


ADD_COLUMN = DdlRule("[ddl] add_column", "apply")


def _noted(here: JobHere, table: str) -> list[DdlChange]:
    """Return what the target has noted of a table, in its order; of each transaction once."""
    found = here.job.ddl_changes(f"{here.made.schema}.{table}")
    assert len({one.sequence for one in found}) == len(found)
    assert all(one.position.startswith(f"{one.sequence}@") and one.commit_time and one.noted_at for one in found)
    return found


def _streams(here: JobHere) -> None:
    here.stream()
    assert set(here.made.states().values()) == {"streaming"}, here.made.status()
    here.made.assert_identical("item", "other", "keyless", "wide")


def test_rule_17_columns_come_between_the_rows_of_both_definitions(here: JobHere) -> None:
    """Several statements in a backlog, whose catalogue shows the last of them only, with rows of each definition between. Then
    the job dies at every place on a statement's way, and goes on."""
    source = here.made.source
    source.execute(*BACKLOG)
    _streams(here)
    assert here.verify().identical
    columns = [column.name for column in here.job.schema_versions(f"{here.made.schema}.item")[-1].schema.columns]
    query = "SELECT column_name, is_nullable FROM information_schema.columns WHERE table_schema = %s AND table_name = 'wide'"
    assert {("nn", "YES"), ("m", "NO")} <= set(here.made.target.query(query, [here.made.there]))
    insert = f"INSERT INTO {here.made.there}.wide (id) VALUES (4)"  # whoever writes there gets the source's defaults
    here.made.target.execute(insert)
    found = here.made.target.query(f"SELECT i, d, x, m FROM {here.made.there}.wide WHERE id = 4")
    assert [tuple(map(float, row)) for row in found] == [(1, 2.5, 7, 3)]
    here.made.target.execute(f"DELETE FROM {here.made.there}.wide WHERE id = 4")
    spare = [f"{name}{n}" for n in range(len(PLACES)) for name in "pg"]
    assert columns == ["word", "id", "note", "v", "new", *spare, "n", "price", "day", *"idfesctyzw"]
    met = []
    for number, place in enumerate(PLACES):
        source.execute(
            f"UPDATE item SET p{number} = -1, g{number} = -2 WHERE id = 5",
            f"ALTER TABLE item ADD c{number} INT NOT NULL, CHANGE p{number} q{number} INT, DROP g{number}",
            f"UPDATE item SET c{number} = -1, q{number} = -3 WHERE id = 4",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(place)
        finally:
            failpoints.arm({})
        _streams(here)
    apart = isinstance(here.made, MysqlToMysql)
    assert met == [place for place in PLACES if apart or place not in APART]
    query = "SELECT IS_NULLABLE, COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND COLUMN_NAME = %s"
    assert here.made.target.query(query, [here.made.there, "c3"]) == [("NO", None)]
    versions, every = here.job.schema_versions(f"{here.made.schema}.item")[1:], _noted(here, "item")
    noted = [one for one in every if one.outcome is not Outcome.IGNORED]
    assert [one.statement for one in every if one not in noted] == ["CREATE INDEX by_v ON item (v)"]
    assert [(one.statement, one.sequence, one.version, one.digest, one.outcome) for one in noted] == [
        (one.statement, one.sequence, one.schema.version, digest_of(one.schema), Outcome.ALTERED) for one in versions
    ]
    assert {one.why for one in noted} == {"", 'comments = "ignore": comment of new'}
    assert {one.source_user for one in noted} == {None} and noted[0].rule == ADD_COLUMN
    assert noted[-1].rule == DdlRule("[ddl] add_column, drop_column, rename_column", "apply")
    assert [one for one in here.job.ddl_changes() if one.source == noted[0].source] == every


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
def test_what_is_known_behind_an_alteration_is_what_the_target_says(
    here: JobHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Apply goes on over its connection, and asks for nothing but the altered table, where no key leads to it or from it."""
    carry_out, look_anew = Altering.carry_out, Altering._look_anew
    compared, anew = list[int](), list[int]()

    def compared_behind(self: Altering, sequence: int) -> None:
        carry_out(self, sequence)
        progress = self.progress
        if not progress._is_in_doubt:
            asked = progress.with_aside(progress.context_of(progress.states), progress.states)
            assert progress.context == asked and progress.states == progress.store.states.tables(progress.job)
            compared.append(sequence)

    monkeypatch.setattr(Altering, "carry_out", compared_behind)
    monkeypatch.setattr(Altering, "_look_anew", lambda self: anew.append(1) or look_anew(self))
    here.made.source.execute(
        "ALTER TABLE item ADD COLUMN a INT NOT NULL DEFAULT 4, ADD b TEXT",
        "INSERT INTO item (id, a, b) VALUES (7, 7, 'x')",
        "ALTER TABLE other ADD w INT",
        "INSERT INTO other (id, v, w) VALUES (7, 7, 7)",
        "ALTER TABLE item CHANGE old new VARCHAR(9) CHARACTER SET utf8mb4, DROP goes",
        "UPDATE item SET new = 'n' WHERE id = 1",
        "ALTER TABLE wide MODIFY n INT NULL",
        "INSERT INTO wide (id) VALUES (7)",
    )
    _streams(here)
    apart = isinstance(here.made, MysqlToMysql)
    assert (len(compared), len(anew)) == (4, 0 if apart else 2)  # prepared statements know a column that changes


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_a_plan_of_the_log_says_what_becomes_of_its_statements(here: JobHere) -> None:
    """Plan the statements that the target has not come to: apply then notes for each what the plan has said."""
    assert here.job.plan_ddl_backlog() == []
    here.made.source.execute(
        "ALTER TABLE item ADD COLUMN a INT NOT NULL DEFAULT 4",
        "INSERT INTO item (id, a) VALUES (7, 7)",
        "ALTER TABLE item DROP goes, ADD b TEXT",
        "ALTER TABLE keyless ADD z TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP",  # not followed
        "ALTER TABLE r0 ADD mine INT",  # the target has it already
        "ALTER TABLE r0 ADD more INT",
        "ALTER TABLE wide MODIFY s VARCHAR(30)",
    )
    here.made.target.execute(f"ALTER TABLE {here.made.there}.r0 ADD COLUMN mine int")
    here.capture()
    found = here.job.plan_ddl_backlog()
    told = [(one.table.name, one.outcome) for one in found]
    altered, parked = Outcome.ALTERED, Outcome.PARKED
    first = [("item", altered), ("item", altered), ("keyless", parked), ("r0", parked)]
    assert told == [*first, ("r0", Outcome.PASSED), ("wide", altered)]
    statements = [one.altering.statements if one.altering else () for one in found]
    assert "ADD COLUMN" in statements[0][0] and not statements[1] and "how the target takes it" in found[1].why
    assert "already" in found[3].why and "not follow" in found[2].why and found[0].exit_code == 0
    here.apply()
    noted = {(one.sequence, one.source): one.outcome for one in here.job.ddl_changes()}
    assert noted == {(one.sequence, one.table): one.outcome for one in found}
    assert here.job.plan_ddl_backlog() == []


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_a_table_that_cannot_be_altered_parks_just_there(here: JobHere) -> None:
    """The target has such a column of its own: nobody knows what its rows have."""
    made = here.made
    made.target.execute(f"ALTER TABLE {made.there}.item ADD COLUMN mine int")
    made.source.execute(
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD mine INT",
        "UPDATE item SET v = 'x' WHERE id = 1",
        "INSERT INTO other VALUES (1, 1)",
    )
    here.stream()
    states = made.states()
    assert (states["item"], states["other"]) == ("parked", "streaming")
    assert "altered at the source" in made.reason("item") and "already" in made.reason("item")
    assert made.target.query(f"SELECT v FROM {made.there}.item WHERE id = 1") == [("before",)]
    made.assert_identical("other")
    (refused,), first = _noted(here, "item"), here.job.schema_versions(f"{made.schema}.item")[0]
    assert (refused.outcome, refused.rule) == (Outcome.PARKED, ADD_COLUMN) and "already" in refused.why
    assert (refused.version, refused.digest) == (1, digest_of(first.schema))
    made.source.execute("ALTER TABLE item ADD later INT")
    here.stream()
    *_, passed = _noted(here, "item")
    assert (passed.outcome, passed.why, passed.version) == (Outcome.PASSED, "the table is parked", 1)
    here.load(TableId(made.schema, "item"), recreate=True)
    _streams(here)
    assert len(_noted(here, "item")) == 2


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_rule_17_a_change_that_no_setting_takes_is_noted_where_it_parks_its_table(here: JobHere) -> None:
    """Note each change once, also where the job dies before and behind the commit. What only adds goes on."""
    here.made.write_job()
    here.made.source.execute("ALTER TABLE wide ADD later INT DEFAULT 5, MODIFY i BIGINT DEFAULT 1")
    here.stream()
    statements = {
        "keyless": "ALTER TABLE keyless DROP goes, ADD later INT",
        "other": "ALTER TABLE other MODIFY v SMALLINT",
        "item": "ALTER TABLE item MODIFY v VARCHAR(10)",
        "fresh": "CREATE TABLE fresh (id INT PRIMARY KEY)",
    }
    here.made.source.execute(*statements.values())
    for place, state in (("apply.ddl.noted", "streaming"), ("apply.committed", "parked")):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            with suppress(failpoints.FailpointReached):  # behind the commit all is done, and it may end by that
                here.stream()
        finally:
            failpoints.arm({})
        assert here.made.states()["item"] == state
    here.stream()
    (went_on,) = _noted(here, "wide")
    assert (went_on.outcome, went_on.rule) == (Outcome.ALTERED, DdlRule("[ddl] add_column, change_type", "apply"))
    parked = {table: _noted(here, table) for table in statements}
    assert {table: [one.statement for one in found] for table, found in parked.items()} == {
        table: [statement] for table, statement in statements.items()
    }
    assert {(one.outcome, one.rule) for (one,) in parked.values()} == {(Outcome.PARKED, PARKS)}
    assert "altered at the source" in parked["other"][0].why and parked["fresh"][0].digest == ""


STOPS = """
[ddl]
add_column = "stop"

[[ddl.rules]]
tables = ["*.other", "*.wide"]
add_column = "apply_if_exact"

[[ddl.rules]]
tables = ["*.keyless"]
add_column = "park"
"""


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_a_job_stops_in_front_of_a_change_and_rules_decide_for_their_tables(here: JobHere) -> None:
    """It stops again at each start, and goes on from there once the file says something else."""
    made = here.made
    made.write_job(STOPS)
    assert here.job.plan_ddl("ALTER TABLE item ADD n INT").outcome is Outcome.STOPPED
    made.source.execute(
        *(f"ALTER TABLE {table} ADD n INT" for table in ("other", "keyless")),
        "ALTER TABLE wide ADD u BIGINT UNSIGNED",
        "UPDATE item SET v = 'before' WHERE id = 1",
        "ALTER TABLE item ADD n INT",
        "UPDATE item SET n = 5",
    )
    for _ in range(2):
        with pytest.raises(
            StoppedByChange, match=r'\[ddl\] add_column = "stop": ALTER TABLE item ADD n INT'
        ) as stopped:
            here.stream()
        assert (stopped.value.table, stopped.value.exit_code) == (f"{made.schema}.item", 5)
        assert made.target.query(f"SELECT v FROM {made.there}.item WHERE id = 1") == [("before",)]
        assert ("n",) not in _columns(here) and not _noted(here, "item")
    has_unsigned = isinstance(made, MysqlToMysql)
    states = {table: made.states()[table] for table in ("other", "keyless", "wide", "item")}
    assert list(states.values()) == ["streaming", "parked", "streaming" if has_unsigned else "parked", "streaming"]
    rule = DdlRule("[[ddl.rules]] 1 add_column", "apply_if_exact")
    assert [_noted(here, table)[-1].rule for table in ("other", "wide")] == [rule, rule]
    assert has_unsigned or ("u is numeric" in made.reason("wide") and "there, widened" in made.reason("wide"))
    made.write_job(APPLY)
    here.stream()
    made.assert_identical("item", "other")
    assert _noted(here, "item")[-1].outcome is Outcome.ALTERED


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_tables_that_have_another_shape_there_park(here: JobHere) -> None:
    made = here.made
    made.target.execute(*(there.format(f"{made.there}.r{n}") for n, (_, there, _) in enumerate(REFUSED)))
    for number, (statement, _, _) in enumerate(REFUSED):
        made.source.execute(f"ALTER TABLE r{number} {statement}", f"UPDATE r{number} SET v = 2")
    here.stream()
    states = made.states()
    assert states["item"] == "streaming"
    for number, (_, _, why) in enumerate(REFUSED):
        assert states[f"r{number}"] == "parked" and why in made.reason(f"r{number}").lower(), made.reason(f"r{number}")
        assert made.target.query(f"SELECT v FROM {made.there}.r{number}") == [(1,)]


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_a_dropped_column_is_kept_for_the_rows_that_have_values_in_it(here: JobHere) -> None:
    """Rows that come have NULL in it. Rows of a table without a key could not be told apart any more."""
    made, keep = here.made, TableActions({ColumnChange.DROP: "keep"})
    made.source.execute(
        "ALTER TABLE item DROP goes",
        "INSERT INTO item (id, v) VALUES (3, 'three')",
        "UPDATE item SET v = 'behind' WHERE id = 1",
        "ALTER TABLE keyless DROP goes",
    )
    here.stream(actions=lambda table: keep)
    states = made.states()
    assert (states["item"], states["keyless"]) == ("streaming", "parked") and "no key" in made.reason("keyless")
    made.assert_identical("item")
    rows = made.target.query(f"SELECT id, v, goes FROM {made.there}.item ORDER BY id")
    assert rows == [(1, "behind", 3), (2, "two", 3), (3, "three", None)]
    made.source.execute("ALTER TABLE item ADD goes INT")
    here.stream(actions=lambda table: APPLY_ALL)
    assert made.states()["item"] == "parked" and "already" in made.reason("item")


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mariadb to postgresql")
def test_columns_of_a_filter_park(here: JobHere) -> None:
    made = here.made
    made.source.execute(
        "ALTER TABLE item DROP goes", "ALTER TABLE other CHANGE v w INT", "ALTER TABLE keyless ADD more INT"
    )
    filters = "".join(
        f'[[tables]]\nname = "{made.schema}.{name}"\nwhere = "{where}"\n'
        for name, where in {"item": "goes > 1", "other": "v > 1"}.items()
    )
    made.write_job(f"{APPLY}{filters}")
    here.stream()
    states = made.states()
    assert (states["item"], states["other"], states["keyless"]) == ("parked", "parked", "streaming")


@pytest.mark.parametrize("here", QUICK, indirect=True, ids=" to ".join)
@pytest.mark.one_case("mysql to mariadb")
def test_an_alteration_that_is_left_out_parks_its_table(here: JobHere) -> None:
    """Its rows come by the next definition from then on."""
    made = here.made
    made.source.execute("ALTER TABLE item ADD left_out INT", "INSERT INTO item (id) VALUES (9)")
    here.capture()
    here.job.skip(str(here.job.schema_versions(f"{made.schema}.item")[-1].sequence), execute=True)
    here.apply()
    assert made.states()["item"] == "parked" and "the target's were not" in made.reason("item")
    assert (9,) not in made.target.query(f"SELECT id FROM {made.there}.item")
    (left,) = _noted(here, "item")
    assert left.outcome is Outcome.PARKED and "the target's were not" in left.why and "left_out" in left.statement


PLANNED = (
    # statement, exit code of its plan, a part of why it would be parked
    ("ALTER TABLE item ADD COLUMN n INT NOT NULL DEFAULT 5, ADD (price DECIMAL(9,2) DEFAULT 1.5, note TEXT)", 0, ""),
    (
        "ALTER TABLE item ADD e ENUM('b','a') NOT NULL FIRST, ADD w VARCHAR(5) CHARACTER SET latin1 DEFAULT 'x' AFTER v",
        0,
        "",
    ),
    ("ALTER TABLE item DROP COLUMN goes, ALTER n SET DEFAULT 7", 0, ""),
    ("ALTER TABLE item ADD mine INT", 3, "already"),
)


@pytest.mark.one_case("mariadb to postgresql")
def test_a_plan_says_what_becomes_of_a_statement(here: JobHere) -> None:
    """It changes nothing, and is what then becomes of the statement: the definition, the outcome, the target's statement."""
    made, name = here.made, f"{here.made.schema}.item"
    made.target.execute(f"ALTER TABLE {made.there}.item ADD COLUMN mine int")
    keyed = here.job.plan_ddl("ALTER TABLE item ADD k INT, ADD FULLTEXT KEY by_k (v)")
    assert (keyed.exit_code, keyed.outcome, keyed.after) == (3, Outcome.PARKED, None) and "something else" in keyed.why
    for statement, code, why in PLANNED:
        before = here.job.schema_versions(name), _noted(here, "item"), _columns(here)
        plan = here.job.plan_ddl(statement)
        assert (plan.exit_code, plan.from_trail) == (code, True) and why in plan.why
        assert (here.job.schema_versions(name), _noted(here, "item"), _columns(here)) == before
        made.source.execute(statement, "UPDATE item SET v = 'behind' WHERE id = 1")
        here.stream()
        assert _noted(here, "item")[-1].outcome is plan.outcome
        if plan.outcome is Outcome.ALTERED:
            assert plan.after is not None and plan.altering is not None and plan.altering.bytes
            came = here.job.schema_versions(name)[-1].schema
            assert _told(plan.after) == _told(came)
            assert _columns(here) != before[2] and not plan.altering.rewrites
    assert here.job.plan_ddl(PLANNED[0][0]).outcome is Outcome.PASSED  # the last one has parked the table
    with pytest.raises(ConfigError, match="no rule includes"):
        here.job.plan_ddl("ALTER TABLE elsewhere.item ADD n INT")


def _told(schema: TableSchema) -> list[tuple[object, ...]]:
    """Return what a statement tells: not how wide a number is shown, nor the usual collation of a character set."""
    return [(c.name, c.type, c.nullable, c.default, c.charset) for c in schema.columns]


def _columns(here: JobHere) -> list[tuple[str, ...]]:
    query = "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name = 'item'"
    return sorted(here.made.target.query(query, [here.made.there]))
