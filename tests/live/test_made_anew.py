"""A target table that a load makes anew keeps what others have given to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

PRIVILEGES = """
SELECT pg_get_userbyid(c.relowner), NULL, a.privilege_type, a.is_grantable, pg_get_userbyid(nullif(a.grantee, 0))
  FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = 'public.item'::regclass AND a.grantee <> c.relowner
UNION SELECT pg_get_userbyid(c.relowner), t.attname, a.privilege_type, a.is_grantable, pg_get_userbyid(nullif(a.grantee, 0))
  FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a WHERE c.oid = 'public.item'::regclass
 ORDER BY 2, 3, 4, 5
"""
TRIGGERS = """SELECT tgname, tgenabled, pg_get_triggerdef(oid) FROM pg_trigger
 WHERE tgrelid = 'public.item'::regclass AND NOT tgisinternal ORDER BY 1"""
KEYS = "SELECT conrelid::regclass::text, conname, convalidated FROM pg_constraint WHERE contype = 'f' ORDER BY 1, 2"
COMMENTS = "SELECT objsubid, description FROM pg_description WHERE objoid = 'public.item'::regclass ORDER BY 1"
TRIGGER = "CREATE TRIGGER {} AFTER {} ON public.item FOR EACH ROW EXECUTE {} public.nothing()"


@pytest.fixture
def roles(postgresql: Server) -> Iterator[tuple[str, str, str]]:
    database, names = create_database(postgresql, "roles"), [unique_name("role") for _ in range(3)]
    database.execute(*(f"CREATE ROLE {name}" for name in names))
    yield names[0], names[1], names[2]
    database.execute(*(f"DROP ROLE {name}" for name in names))
    drop_database(database)


def test_a_table_that_is_made_anew_keeps_owner_privileges_comments_and_triggers(
    mysql: Server,
    postgresql: Server,
    source_database: Callable[[Server], Database],
    roles: tuple[str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = source_database(mysql), create_database(postgresql, "anew")
    source.execute(
        "CREATE TABLE item (id INT PRIMARY KEY, v INT COMMENT 'of the source', goes INT)",
        "CREATE TABLE child (id INT PRIMARY KEY, item INT, FOREIGN KEY (item) REFERENCES item (id))",
        "INSERT INTO item VALUES (1, 1, 1)",
        "INSERT INTO child VALUES (1, 1)",
    )
    here = JobHere(Scenario(source, target, tmp_path, name=unique_name("job")))
    here.load()
    here.stream()
    owner, reader, writer = roles
    version = int(target.query("SHOW server_version_num")[0][0])
    how = "FUNCTION" if version >= 110000 else "PROCEDURE"
    target.execute(
        "CREATE FUNCTION public.nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        f"GRANT SELECT ON item TO {reader} WITH GRANT OPTION",
        "GRANT SELECT (id) ON item TO PUBLIC",
        f"GRANT UPDATE (v), REFERENCES (v) ON item TO {writer}",
        f"GRANT DELETE ON item TO {owner}",
        "COMMENT ON TABLE item IS 'it''s theirs, 100 %'",
        "COMMENT ON COLUMN item.id IS 'key'",
        TRIGGER.format("first_one", "INSERT", how),
        TRIGGER.format("off", "DELETE", how),
        TRIGGER.format('"Always"', "UPDATE OF v", how),
        "ALTER TABLE item DISABLE TRIGGER off",
        'ALTER TABLE item ENABLE ALWAYS TRIGGER "Always"',
        f"GRANT CREATE ON SCHEMA public TO {owner}",
        f"ALTER TABLE item OWNER TO {owner}",
        # what comes by itself now was not given when the table was made
        f"ALTER DEFAULT PRIVILEGES GRANT TRUNCATE ON TABLES TO {writer}",
    )
    target.execute("CREATE TABLE own (item int REFERENCES item (id) ON DELETE CASCADE)", "INSERT INTO own VALUES (1)")
    before = [target.query(text) for text in (PRIVILEGES, TRIGGERS, COMMENTS)]
    keys = target.query(KEYS)
    assert [len(rows) for rows in before] == [4, 3, 3]

    # with a privilege and a trigger on a column that goes; the load dies behind the table
    target.execute(f"GRANT SELECT (goes) ON item TO {reader}", TRIGGER.format("on_goes", "UPDATE OF goes", how))
    source.execute("ALTER TABLE item DROP COLUMN goes", "ALTER TABLE item ADD more INT", "UPDATE item SET more = 2")
    here.stream()
    table = TableId(source.name, "item")
    failpoints.arm({failpoints.VARIABLE: "load.table.created=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            here.load(table, recreate=True)
    finally:
        failpoints.arm({})
    assert [target.query(text) for text in (PRIVILEGES, TRIGGERS, COMMENTS)] == before
    told = capsys.readouterr()
    lost = next(line for line in (told.out + told.err).splitlines() if "table_made_anew_without" in line)
    assert "GRANT SELECT (" in lost and "first_one" not in lost
    assert "trigger on_goes: " in lost and "CREATE TRIGGER" not in lost
    here.load(table, recreate=True)
    here.stream()
    here.apply(is_built=True)
    here.made.assert_identical("item", "child")
    assert target.query(KEYS) == keys
    assert [target.query(text) for text in (PRIVILEGES, TRIGGERS, COMMENTS)] == before

    # row security hides rows from those who have the privilege: such a table is not made anew
    target.execute("CREATE POLICY own ON item USING (id > 5)", "ALTER TABLE item ENABLE ROW LEVEL SECURITY")
    source.execute("ALTER TABLE item DROP COLUMN more")
    here.stream()
    with pytest.raises(TargetError, match="row security"):
        here.load(table, recreate=True)
    assert target.query("SELECT polname FROM pg_policy") == [("own",)]
    target.execute("DROP POLICY own ON item", "ALTER TABLE item DISABLE ROW LEVEL SECURITY")
    here.load(table, recreate=True)
    here.stream()
    here.made.assert_identical("item", "child")
    here.job.drop(execute=True)
    drop_database(target)


def test_a_table_of_a_mysql_that_is_made_anew_keeps_privileges_and_tells_its_triggers(
    mysql: Server,
    mariadb: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = source_database(mariadb), create_database(mysql, "anew")
    source.execute("CREATE TABLE item (id INT PRIMARY KEY, v INT)", "INSERT INTO item VALUES (1, 1)")
    here = JobHere(MysqlToMysql(source, target, tmp_path, name=unique_name("job")))
    here.made.write_job('[apply]\ntriggers = "fire"\n')
    here.load()
    here.stream()
    reader, there = unique_name("role")[:30], here.made.there
    target.execute(
        f"CREATE USER {reader}",
        f"GRANT SELECT (id) ON {there}.item TO {reader}",
        f"GRANT DELETE ON {there}.item TO {reader} WITH GRANT OPTION",
        f"CREATE TRIGGER {there}.`100 % mine` BEFORE INSERT ON {there}.item FOR EACH ROW SET @seen = NEW.id",
    )
    before = target.query(f"SHOW GRANTS FOR {reader}")
    source.execute("ALTER TABLE item DROP COLUMN v")
    here.stream()
    here.load(TableId(source.name, "item"), recreate=True)
    here.stream()
    here.made.assert_identical("item")
    assert target.query(f"SHOW GRANTS FOR {reader}") == before and len(before) == 2
    told = capsys.readouterr()
    lost = next(line for line in (told.out + told.err).splitlines() if "table_made_anew_without" in line)
    assert "trigger 100 % mine" in lost and "SET @seen" not in lost
    target.execute(f"DROP USER {reader}")
    here.job.drop(execute=True)
    drop_database(target)
