"""Definitions from a real source as a real PostgreSQL takes them: defaults, checks, identities, comments, indexes with
prefixes and directions, foreign keys with their actions; by the statements that `schema print` shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.main import exit_code
from anabranch.job import Job
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.structures import psql

Make = Callable[[Server], Database]

PARENT = """CREATE TABLE maker (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  code VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'as the maker''s own list has it',
  UNIQUE KEY by_code (code)) COMMENT 'who makes "it";\n-- two lines'"""
THING = """CREATE TABLE thing (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  maker BIGINT UNSIGNED NULL,
  size ENUM('S','L') NOT NULL DEFAULT 'S',
  n INT UNSIGNED NOT NULL DEFAULT 7 CHECK (n >= 3),
  price DECIMAL(10,2) DEFAULT 1.5,
  name VARCHAR(900) CHARACTER SET utf8mb4 COLLATE {nopad} NOT NULL DEFAULT 'it''s \\\\ %s',
  loose VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  body TEXT, raw VARBINARY(300),
  made DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  seen TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP,
  day DATE DEFAULT (CURDATE()), tag CHAR(36) DEFAULT (UUID()),
  sum_of INT DEFAULT (1 + 1), hello VARCHAR(9) DEFAULT (LOWER('A')),
  CONSTRAINT sane CHECK (n + 1 > price AND NOT (size IN ('L') AND n % 2 = 1) OR price IS NULL),
  CONSTRAINT named CHECK (name <> '' AND char_length(name) < 800 AND name LIKE 'i%'),
  CONSTRAINT dated CHECK (day BETWEEN '2000-01-01' AND '2999-12-31'),
  CONSTRAINT `od"d` CHECK (-price < n * 2 AND n NOT IN (5, 6) AND n <=> n),
  CONSTRAINT ci CHECK (loose <> 'x'), CONSTRAINT halved CHECK (price / 2 < 1000), CONSTRAINT re CHECK (name REGEXP 'i'),
  CONSTRAINT moment CHECK (seen > '2000-01-01'),
  KEY down (n DESC, name(5)), KEY beginning (body(20), n), KEY raw_beginning (raw(10)),
  UNIQUE KEY cut (name(12)), FULLTEXT KEY words (body), KEY by_maker (maker),
  CONSTRAINT made_by FOREIGN KEY (maker) REFERENCES maker (id) ON DELETE SET NULL ON UPDATE CASCADE,
  CONSTRAINT outside FOREIGN KEY (price) REFERENCES elsewhere (price)
)"""
BESIDE = (
    "CREATE TABLE elsewhere (price DECIMAL(10,2) PRIMARY KEY)",
    "CREATE VIEW cheap AS SELECT * FROM elsewhere",
    "CREATE TRIGGER upper_code BEFORE INSERT ON maker FOR EACH ROW SET NEW.code = UPPER(NEW.code)",
    "CREATE TRIGGER not_ours BEFORE INSERT ON elsewhere FOR EACH ROW SET NEW.price = 1",
    "CREATE PROCEDURE doubled() SELECT 2",
    "CREATE FUNCTION three() RETURNS INT DETERMINISTIC RETURN 3",
    "CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    "CREATE TABLE spread (id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS 3",
)
NOPAD = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}


@pytest.fixture
def job(
    mysql_family: Server,
    source_database: Make,
    target_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Path, Database]:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    source = source_database(mysql_family)
    source.execute(PARENT, *BESIDE[:1], THING.format(nopad=NOPAD[source.server.name]), *BESIDE[1:])
    if source.server.name == "mariadb":
        source.execute("CREATE SEQUENCE numbers", "ALTER TABLE thing ADD UNIQUE KEY whole (body)")
    if source.server.name == "mysql":
        source.execute("ALTER TABLE thing ADD INDEX computed ((n + 1)), ADD INDEX unseen (price) INVISIBLE")
    path = tmp_path / "things.toml"
    path.write_text(
        f'name = "things"\n[source]\nurl = "{source.server.url()}"\n'
        f'[target]\nurl = "{target_database.url}"\n'
        f'[[rules]]\ninclude = ["{source.name}.*"]\nexclude = ["{source.name}.elsewhere"]\ntarget = "Shop.{{table}}"\n'
        f'[[tables]]\nname = "{source.name}.thing"\ncolumns.rename = {{ n = "how many" }}\n'
    )
    return path, source


def test_the_printed_schema_is_what_postgresql_takes(
    job: tuple[Path, Database], target_database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, source = job
    what_is_left_out(path, source)
    assert exit_code(["schema", "print", str(path)]) == 0
    script = capsys.readouterr().out
    file = tmp_path / "schema.sql"
    file.write_text(script)
    psql(target_database, file)
    what_the_target_has(target_database, source)
    what_it_refuses_and_gives(target_database)
    for left in ("index words", "default of sum_of", "default of hello", "check ci", "check halved", "check re"):
        assert f"-- not carried over: {source.name}.thing: {left}: " in script


def what_the_target_has(target: Database, source: Database) -> None:
    columns = dict(
        target.query(
            "SELECT a.attname, pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_attrdef d"
            " ON d.adrelid = a.attrelid AND d.adnum = a.attnum WHERE a.attrelid = '\"Shop\".thing'::regclass"
        )
    )
    assert columns == {
        "size": "'S'::text",
        "how many": "'7'::bigint",
        "price": "1.50",
        "name": "'it''s \\ %s'::character varying",
        "made": "LOCALTIMESTAMP(3)",
        "seen": "CURRENT_TIMESTAMP(0)",
        "day": "CURRENT_DATE",
        "tag": "(gen_random_uuid())::text",
    }
    checks = dict(
        target.query(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE contype = 'c' AND convalidated AND conrelid = '\"Shop\".thing'::regclass"
        )
    )
    assert {"sane", "named", "dated", 'od"d', "thing_size_check"} < set(checks) and len(checks) == 6
    keys = target.query("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f' AND convalidated")
    assert keys == [('FOREIGN KEY (maker) REFERENCES "Shop".maker(id) ON UPDATE CASCADE ON DELETE SET NULL',)]
    indexes = {
        name: definition.partition(" USING ")[2]
        for name, definition in target.query("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'Shop'")
    }
    expected = {
        "thing_down": 'btree ("how many" DESC, "left"((name)::text, 5))',
        "thing_beginning": 'btree ("left"(body, 20), "how many")',
        "thing_raw_beginning": "btree (raw)",
        "thing_cut": 'btree ("left"((name)::text, 12))',
        "thing_by_maker": "btree (maker)",
        "maker_by_code": "btree (code)",
    }
    if source.server.name == "mysql":
        expected["thing_unseen"] = "btree (price)"
    comments = target.query(
        "SELECT obj_description('\"Shop\".maker'::regclass), col_description('\"Shop\".maker'::regclass, 2)"
    )
    assert comments == [('who makes "it";\n-- two lines', "as the maker's own list has it")]
    plain = {name: text for name, text in indexes.items() if not name.endswith("_pkey")}
    assert expected.items() <= plain.items(), plain


def what_it_refuses_and_gives(target: Database) -> None:
    insert = 'INSERT INTO "Shop".thing (maker, "how many", price) VALUES (NULL, {}, {}) RETURNING id'
    assert target.query(insert.format(8, 2)) == [(1,)]
    for number, price in ((2, 1), (5, 1), (9, 10)):
        with pytest.raises(Exception, match="check constraint"):
            target.query(insert.format(number, price))
    assert target.query("INSERT INTO \"Shop\".maker (code) VALUES ('a') RETURNING id") == [(1,)]
    with pytest.raises(Exception, match="check constraint"):
        target.query('INSERT INTO "Shop".thing ("how many", name) VALUES (8, \'\')')


def what_is_left_out(path: Path, source: Database) -> None:
    report = Job.from_file(path).preflight()
    assert not report.failed
    found: list[dict[str, Any]] = report.to_json()["checks"]
    told = {c["message"].partition(" are ")[0]: list(c["names"]) for c in found if c["check"] == "source.not_carried"}
    name = source.name
    assert told["views"] == [f"{name}.cheap"]
    assert told["triggers"] == [f"{name}.upper_code"]
    assert told["routines"] == [f"{name}.doubled", f"{name}.three"]
    assert told["events"] == [f"{name}.nightly"]
    assert ("sequences" in told) is (source.server.name == "mariadb")
    assert any(c["names"] == (f"{name}.thing.made",) for c in found)
    assert any(c["check"] == "source.partitions" and c["names"] == (f"{name}.spread",) for c in found)
    by_check = {c["check"]: c for c in found if c["verdict"] == "warning" and c["table"] == f"{name}.thing"}
    assert by_check["target.foreign_keys"]["message"].startswith("foreign key outside will not be built: its parent")
    checks = {n for c in found if c["check"] == "target.checks" for n in c["names"]}
    assert checks == {f"{name}.thing.{check}" for check in ("ci", "halved", "re", "moment")}
    defaults = {n for c in found if c["check"] == "target.defaults" for n in c["names"]}
    assert defaults == {f"{name}.thing.{column}" for column in ("sum_of", "hello")}
    indexes = {n for c in found if c["check"] == "target.indexes" for n in c["names"]}
    assert (f"{name}.thing.whole" in indexes) is (source.server.name == "mariadb")
    assert indexes >= {f"{name}.thing.words"} and (f"{name}.thing.computed" in indexes) is (
        source.server.name == "mysql"
    )


def test_one_table_as_json_and_what_is_refused(job: tuple[Path, Database], capsys: pytest.CaptureFixture[str]) -> None:
    path, source = job
    assert exit_code(["schema", "print", str(path), "--table", f"{source.name}.thing", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {s["table"] for s in found["statements"]} == {None, f"{source.name}.thing"}
    assert found["statements"][0] == {
        "when": "before the load",
        "table": None,
        "sql": 'CREATE SCHEMA IF NOT EXISTS "Shop"',
    }
    assert any("REFERENCES" in s["sql"] for s in found["statements"])
    assert exit_code(["schema", "print", str(path), "--table", f"{source.name}.elsewhere"]) == 2
    assert exit_code(["schema", "print", str(path), "--table", f"{source.name}.nothing"]) == 5
    assert Job.from_file(path).rules.includes(TableId(source.name, "nothing"))
    path.write_text(path.read_text().replace("{table}", "one"))
    assert exit_code(["schema", "print", str(path)]) == 2
    assert "several source tables" in capsys.readouterr().err
