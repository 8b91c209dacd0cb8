"""Comments that a MySQL or MariaDB changes come to the target where the job file says so, with rows behind them."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'it''s' COMMENT 'of v',"
    " e ENUM('a','b') DEFAULT 'b', j JSON, w DATETIME(3) NOT NULL DEFAULT '2020-01-01 00:00:00', d DECIMAL(9,2) DEFAULT 1.5)"
    " COMMENT 'items'",
    "INSERT INTO item (id) VALUES (1), (2)",
)
APPLY = '[ddl]\ncomments = "apply"\n'
COMMENTS = {
    "postgresql": """
        SELECT a.attname, d.description FROM pg_description d LEFT JOIN pg_attribute a ON a.attrelid = d.objoid
           AND a.attnum = d.objsubid AND a.attnum > 0 WHERE d.objoid = (%s || '.item')::regclass""",
    "mysql": """
        SELECT COLUMN_NAME, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'item'
           AND COLUMN_COMMENT <> ''
         UNION SELECT NULL, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'item'
           AND TABLE_COMMENT <> ''""",
}
DEFINED = """
    SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, COLLATION_NAME, EXTRA FROM information_schema.COLUMNS
     WHERE TABLE_SCHEMA = %s AND TABLE_NAME = 'item' ORDER BY ORDINAL_POSITION"""


@pytest.fixture(params=[("mariadb", "postgresql"), ("mysql", "mariadb"), ("mariadb", "mysql")], ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams a table, with the comments that it has."""
    return streams(request.param, TABLES, APPLY, is_built=True)


def _comments(here: JobHere) -> dict[str, str]:
    """Return the target's comments, the table's own under ""."""
    kind = "postgresql" if here.made.target.server.name == "postgresql" else "mysql"
    query = COMMENTS[kind]
    return {name or "": text for name, text in here.made.target.query(query, [here.made.there] * query.count("%s"))}


def _defined(here: JobHere) -> object:
    return [] if here.made.target.server.name == "postgresql" else here.made.target.query(DEFINED, [here.made.there])


def _streams(here: JobHere) -> None:
    here.stream()
    assert here.made.states()["item"] == "streaming", here.made.reason("item")
    here.made.assert_identical("item")


OF_J = ", MODIFY j JSON COMMENT 'of j'"
STATEMENTS = (
    "ALTER TABLE item COMMENT='it''s \u00e9', ROW_FORMAT=DYNAMIC",
    "INSERT INTO item (id) VALUES (3)",
    f"ALTER TABLE item MODIFY d DECIMAL(9,2) DEFAULT 1.5 COMMENT 'of d'{OF_J}",
    "INSERT INTO item (id, e) VALUES (4, 'a')",
    "ALTER TABLE item MODIFY v VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'it''s', ADD c INT COMMENT 'of c',"
    " MODIFY w DATETIME(3) NOT NULL DEFAULT '2020-01-01 00:00:00' COMMENT 'a \\\\ b'",
    "INSERT INTO item (id, v, c) VALUES (5, 'five', 5)",
    "ALTER TABLE item MODIFY d DECIMAL(11,2) DEFAULT 1.5 COMMENT 'wide'",
    "INSERT INTO item (id, d) VALUES (6, 100000000.25)",
)
BEHIND = {"": "it's \u00e9", "j": "of j", "c": "of c", "w": "a \\ b", "d": "wide"}


def _statements(here: JobHere) -> list[str]:
    """Return the statements, without that which a MariaDB may lose a check by."""
    is_mariadb = here.made.source.server.name == "mariadb"
    return [one.replace(OF_J, "") if is_mariadb else one for one in STATEMENTS]


def _of(here: JobHere, comments: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in comments.items() if name != "j" or here.made.source.server.name == "mysql"}


@pytest.mark.one_case("mariadb to postgresql", "mariadb to mysql")
def test_comments_come_with_those_of_the_source_and_change_nothing_else(here: JobHere) -> None:
    assert _comments(here) == {"": "items", "v": "of v"}
    planned = here.job.plan_ddl("ALTER TABLE item COMMENT='new', MODIFY d DECIMAL(9,2) DEFAULT 1.5 COMMENT 'of d'")
    assert planned.outcome is Outcome.ALTERED and planned.altering and len(planned.altering.statements) == 2
    before = _defined(here)
    here.made.source.execute(*_statements(here)[:4])
    _streams(here)
    assert _defined(here) == before, "a comment is all that is another"
    here.made.source.execute(*_statements(here)[4:])
    _streams(here)
    assert _comments(here) == _of(here, BEHIND)
    noted = here.job.ddl_changes()
    assert {one.outcome for one in noted} == {Outcome.ALTERED} and not any(one.why for one in noted)
    assert noted[0].rule == noted[1].rule == DdlRule("[ddl] comments", "apply")


@pytest.mark.one_case("mariadb to postgresql", "mysql to mariadb")
def test_rule_17_a_kill_on_the_way_of_a_comment_is_made_good(here: JobHere) -> None:
    for place in ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed"):
        here.made.source.execute(f"ALTER TABLE item COMMENT='{place}'", "UPDATE item SET d = d + 1")
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.capture()
            here.apply()
        except failpoints.FailpointReached:
            pass
        finally:
            failpoints.arm({})
        _streams(here)
        assert _comments(here)[""] == place
    assert [one.outcome for one in here.job.ddl_changes()] == [Outcome.ALTERED] * 4


@pytest.mark.one_case("mariadb to postgresql")
def test_comments_are_left_alone_where_the_file_says_nothing(here: JobHere) -> None:
    here.made.write_job("")
    for some in (_statements(here)[:4], _statements(here)[4:]):  # a column has changed once only when it is read
        here.made.source.execute(*some)
        _streams(here)
    written = {} if here.made.target.server.name == "postgresql" else {"d": "wide"}  # with its type
    assert _comments(here) == {"": "items", "v": "of v", "c": "of c", **written}
    table, column, *rest = here.job.ddl_changes()
    assert table.outcome is Outcome.IGNORED and table.rule == DdlRule("[ddl] comments", "ignore")
    assert (
        column.outcome is Outcome.ALTERED
        and column.why.startswith('comments = "ignore": ')
        and "comment of d" in column.why
    )
    assert [one.outcome for one in rest] == [Outcome.ALTERED] * 2
