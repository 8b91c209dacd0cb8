"""Tables that gh-ost or pt-online-schema-change change: the statements of the tools, and what becomes of the table at a target.

What does not live here: the tools themselves, which send these statements, and what capture makes of each
(`tests/unit/capture/test_capture_copies.py`).
"""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql
from rigs.streams import Streams

PAIRS = [("mysql", "postgresql"), pytest.param(("mariadb", "mariadb"), marks=pytest.mark.long)]
NEVER = {ColumnChange.CREATE, ColumnChange.PARTITIONS}  # as far as "apply" goes
APPLY = "[ddl]\n" + "".join(f'{kind} = "apply"\n' for kind in ColumnChange if kind not in NEVER)
PLACES = (
    "capture.statement",
    "capture.statement.noted",
    "capture.appended",
    "apply.altering",
    "apply.altered.apart",
    "apply.altered",
    "apply.ddl.noted",
    "apply.committed",
)
APART = ("apply.altering", "apply.altered.apart")  # where the statement commits by itself
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20), goes INT NOT NULL DEFAULT 3, KEY by_v (v))",
    "INSERT INTO item (v) VALUES ('one'), ('two'), ('three')",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT, UNIQUE KEY one (v), KEY pair (v, id))",
    "INSERT INTO other VALUES (1, 1)",
    "CREATE TABLE _left_old (id INT PRIMARY KEY)",  # of a migration of before
)


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    return streams(request.param, TABLES, APPLY)


def _gh_ost(table: str, alter: str, copied: str, *between: str) -> tuple[str, ...]:
    """The statements of gh-ost. `copied`: the columns that both have; `between`: what others, and the tool for them, do."""
    copy, notes, old = (f"`_{table}_{what}`" for what in ("gho", "ghc", "del"))
    return (
        f"create /* gh-ost */ table {notes} (id bigint unsigned auto_increment primary key, hint varchar(64)) comment='gh-ost'",
        f"create /* gh-ost */ table {copy} like `{table}`",
        f"alter /* gh-ost */ table {copy} {alter}",
        f"insert /* gh-ost */ into {notes} (hint) values ('copying')",
        f"insert /* gh-ost */ ignore into {copy} ({copied}) (select {copied} from `{table}`)",
        *between,
        f"create /* gh-ost */ table {old} (id int auto_increment primary key) comment='ghost-cut-over-sentry'",
        f"drop /* gh-ost */ table if exists {old}",
        f"rename /* gh-ost */ table `{table}` to {old}, {copy} to `{table}`",
        f"drop /* gh-ost */ table if exists {notes}",
        f"drop /* gh-ost */ table if exists {old}",
    )


def _pt_osc(here: JobHere, table: str, alter: str, copied: str, *between: str) -> tuple[str, ...]:
    """The statements of pt-online-schema-change, which makes its copy of what the server shows, and keeps it up by triggers."""
    (shown,) = here.made.source.query(f"SHOW CREATE TABLE {table}")
    values = ", ".join(f"NEW.`{name}`" for name in copied.split(", "))
    replace = f"REPLACE INTO `_{table}_new` ({copied}) VALUES ({values})"
    return (
        shown[1].replace(f"CREATE TABLE `{table}`", f"CREATE TABLE `_{table}_new`"),
        f"ALTER TABLE `_{table}_new` {alter}",
        f"CREATE TRIGGER pt_osc_d AFTER DELETE ON {table} FOR EACH ROW DELETE IGNORE FROM `_{table}_new` WHERE id <=> OLD.id",
        f"CREATE TRIGGER pt_osc_u AFTER UPDATE ON {table} FOR EACH ROW {replace}",
        f"CREATE TRIGGER pt_osc_i AFTER INSERT ON {table} FOR EACH ROW {replace}",
        f"INSERT LOW_PRIORITY IGNORE INTO `_{table}_new` ({copied}) SELECT {copied} FROM {table} LOCK IN SHARE MODE",
        *between,
        f"RENAME TABLE {table} TO `_{table}_old`, `_{table}_new` TO {table}",
        f"DROP TABLE IF EXISTS `_{table}_old`",
        *(f"DROP TRIGGER IF EXISTS pt_osc_{what}" for what in "dui"),
    )


def _streams(here: JobHere) -> None:
    here.stream()
    assert here.made.states() == dict.fromkeys(("item", "other", "scenario_mark"), "streaming"), here.made.status()
    here.made.assert_identical("item", "other")


def _at_target(here: JobHere) -> set[str]:
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
    return {str(name) for (name,) in here.made.target.query(query, [here.made.there])}


def test_pitfall_30_swaps_of_both_tools_are_followed(here: JobHere) -> None:
    """In a backlog, with rows of each definition between, and one that is read in the middle; then the job dies at every
    place on the way of a swap. Nothing is loaded again, and no table of a tool comes to the target."""
    made, source = here.made, here.made.source
    between = (
        "INSERT INTO item (v) VALUES ('four')",
        "UPDATE item SET v = 'other' WHERE id = 1",
        "DELETE FROM item WHERE id = 2",
    )
    gh = [one.replace("item", "_item_gho") for one in between]
    source.execute(
        *_gh_ost("item", "ADD n INT NOT NULL DEFAULT 5, ADD INDEX by_n (n)", "id, v, goes", *between, *gh),
        "UPDATE item SET n = 6 WHERE id = 1",
        "INSERT INTO item (v, n) VALUES ('five', 7)",
    )
    source.execute(
        *_pt_osc(
            here,
            "item",
            "DROP COLUMN goes, ADD (a TEXT, z INT NOT NULL DEFAULT 2), MODIFY v VARCHAR(30)",
            "id, v, n",
            *between[1:],
        ),
        "UPDATE item SET a = 'behind', z = 1 WHERE id = 1",
        *_gh_ost("other", "ENGINE=InnoDB", "id, v"),
        "INSERT INTO other VALUES (2, 2)",
    )
    _streams(here)
    assert here.verify().identical
    assert {"item", "other"} <= _at_target(here) and not any(name.startswith("_") for name in _at_target(here))
    statements = _gh_ost("item", "ADD late INT DEFAULT 1", "id, v, n, a, z")
    for statement in statements:
        source.execute(statement)
        here.capture()
    _streams(here)
    met = []
    for number, place in enumerate(PLACES):
        columns = ", ".join(("id, v, n, a, z, late", *(f"c{n}" for n in range(number))))
        *before, swap, drop, last = _gh_ost("item", f"ADD c{number} INT NOT NULL DEFAULT {number}", columns)
        source.execute(*before)
        here.capture()
        source.execute(swap, drop, last, f"UPDATE item SET c{number} = -1 WHERE id = 1")
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
    noted = here.job.ddl_changes(f"{made.schema}.item")
    assert {one.outcome for one in noted} == {Outcome.ALTERED} and len(noted) == 3 + len(PLACES)
    assert (
        noted[0].rule == DdlRule("[ddl] online_swap, add_column, indexes", "apply") and "rename" in noted[0].statement
    )
    (same,) = here.job.ddl_changes(f"{made.schema}.other")
    assert (same.outcome, same.why, same.rule.setting) == (Outcome.ALTERED, "", "[ddl] online_swap")


def _indexes(here: JobHere, table: str) -> set[str]:
    """Return the names of the target's indexes, as the source calls them."""
    target = here.made.target
    if target.server.name == "postgresql":
        query = "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND tablename = %s"
    else:
        query = (
            "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        )
    names = {str(name).removeprefix(f"{table}_") for (name,) in target.query(query, [here.made.there, table])}
    return names - {"PRIMARY", "pkey"}


def test_indexes_and_unique_keys_come_and_go_with_the_copy(here: JobHere) -> None:
    """Rows behind the swap have what a key that went would refuse. The note names what the job file does not follow, and
    what is never followed; the target's stay."""
    made = here.made
    made.source.execute(
        "INSERT INTO other VALUES (2, 2)",
        *_gh_ost("other", "DROP INDEX one, DROP KEY pair, ADD INDEX by_v (v DESC), ADD KEY (id, v)", "id, v"),
        "INSERT INTO other VALUES (3, 1), (4, 1)",
    )
    here.capture()
    here.apply(is_built=True)
    _streams(here)
    assert _indexes(here, "other") == {"by_v", "id"}
    (noted,) = here.job.ddl_changes(f"{made.schema}.other")
    assert (noted.outcome, noted.rule.setting) == (Outcome.ALTERED, "[ddl] online_swap, indexes, unique_keys")
    assert noted.why == "built while rows go on: by_v, id"
    made.write_job(APPLY.replace('indexes = "apply"', 'indexes = "ignore"'))
    made.source.execute(
        *_pt_osc(here, "other", "DROP INDEX by_v, ADD INDEX late (v, id)", "id, v"),
        *_gh_ost("item", "ADD FULLTEXT INDEX words (v)", "id, v, goes"),
        "INSERT INTO item (v) VALUES ('behind')",
    )
    here.capture()
    here.apply(is_built=True)
    _streams(here)
    assert _indexes(here, "other") == {"by_v", "id"} and _indexes(here, "item") == {"by_v"}
    last, other = here.job.ddl_changes(f"{made.schema}.item")[-1], here.job.ddl_changes(f"{made.schema}.other")[-1]
    assert other.outcome is Outcome.ALTERED and other.why == 'indexes = "ignore": add index late, drop index by_v'
    assert last.outcome is Outcome.ALTERED and last.why.endswith("as it is: full-text and spatial indexes")


def test_rule_19_a_swap_that_is_not_certain_parks_its_table(here: JobHere) -> None:
    """The tools fill a copy by statements that leave out what a unique key does not take."""
    made = here.made
    made.source.execute(
        "UPDATE item SET v = 'same'",
        *_gh_ost("item", "ADD UNIQUE (v)", "id, v, goes"),
        "CREATE TABLE fresh (id INT PRIMARY KEY, v INT)",
        "RENAME TABLE other TO _other_old, fresh TO other",
    )
    here.stream()
    assert {made.states()[name] for name in ("item", "other")} == {"parked"}
    assert "may keep rows out of it" in made.reason("item") and "rename at the source" in made.reason("other")
    assert len(made.target.query(f"SELECT id FROM {made.there}.item")) == 3
    for name in ("item", "other"):
        here.load(TableId(made.schema, name), recreate=True)
    here.stream()
    made.assert_identical("item", "other")


def test_tables_of_tools_are_left_out_and_the_job_says_so(here: JobHere) -> None:
    made = here.made
    made.source.execute("CREATE TABLE _item_gho LIKE item", "CREATE TABLE _named_new (id INT PRIMARY KEY)")
    left = TableId(made.schema, "_left_old")
    found = {one.table.name: one for one in here.job.chosen_tables().tables}
    assert found["_left_old"].target is None and "[ddl] ghost_tables leaves it out" in found["_left_old"].why
    assert here.job.explain_table(str(left)).by == found["_left_old"].by
    warned = [one.message for one in here.job.preflight().results if "a tool works with" in one.message]
    assert len(warned) == 1 and all(name in warned[0] for name in ("_item_gho", "_left_old", "_named_new"))
    named = f'[[tables]]\nname = "{made.schema}._named_new"\n'
    made.write_job(f"{APPLY}{named}")
    assert here.job.explain_table(f"{made.schema}._named_new").target is not None
    made.write_job(APPLY.replace('online_swap = "apply"', 'online_swap = "park"'))
    assert here.job.explain_table(str(left)).target is not None
