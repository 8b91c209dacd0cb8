"""MySQL's binary JSON, decoded, is the text that a SELECT shows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pymysql
import pytest

from anabranch.errors import UnknownLogEvent
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

EXPRESSIONS = [
    "JSON_ARRAY(CAST('2024-02-29' AS DATE))",
    "JSON_ARRAY(CAST('0001-01-01 00:00:00' AS DATETIME), CAST('2024-02-29 23:59:59.123456' AS DATETIME(6)))",
    "JSON_ARRAY(CAST('-838:59:59' AS TIME), CAST('-00:00:00.000001' AS TIME(6)), CAST('12:00:00' AS TIME))",
    "JSON_OBJECT('stamp', TIMESTAMP '2024-01-01 00:00:00')",
    "JSON_ARRAY(CAST(-1234.50 AS DECIMAL(12,2)), CAST(0 AS DECIMAL(5,0)), CAST(0.000001 AS DECIMAL(6,6)))",
    f"JSON_ARRAY(CAST({'9' * 65} AS DECIMAL(65,0)), CAST(-{'9' * 35}.{'9' * 30} AS DECIMAL(65,30)))",
    "JSON_ARRAY(x'00ff41', CAST('abc' AS BINARY), b'101')",
    "JSON_ARRAY(REPEAT(x'0102', 60), REPEAT(x'01', 57), REPEAT(x'01', 58), REPEAT(x'01', 114), ST_GeomFromText('POINT(1 2)'))",
    "CAST('" + "[" * 99 + "-0.0" + "]" * 99 + "' AS JSON)",
    "CAST('" + '{"k":' * 99 + "1" + "}" * 99 + "' AS JSON)",
    "CAST('null' AS JSON)",
    "CAST('true' AS JSON)",
    'CAST(\'"a \\\\u0000 \\\\"quoted\\\\" \\\\\\\\ / \\\\n \\\\t \\\\u001f \\\\u007f é 😀"\' AS JSON)',
    "CAST('{}' AS JSON)",
    "CAST('[]' AS JSON)",
    "JSON_OBJECT(REPEAT('k', 300), REPEAT('v', 100000), 'a', 1)",
    "JSON_ARRAY(-32768, 32767, 65535, -32769, 65536, -2147483648, 4294967295, -2147483649, 4294967296)",
    "JSON_ARRAY(9223372036854775807, -9223372036854775808, 18446744073709551615)",
]
DOUBLES = [
    "0.0", "-0.0", "1.0", "-1.0", "0.1", "1e0", "1e15", "1e16", "1e17", "1e20", "1e21", "1e22", "1e100", "-1e-5", "1e-4",
    "1e-3", "0.0001", "0.00001", "0.000001", "1.5e-7", "123456789012345680", "12345678901234567", "1.7976931348623157e308",
    "5e-324", "2.2250738585072014e-308", "3.141592653589793", "100000000000000.5", "1234567890123456.7", "1e14", "1.5e15",
    "9007199254740993.0", "0.30000000000000004", "1e-10", "123456.789e3", "4.35", "99999999999999990000.0", "1.25e19",
]  # fmt: skip


@pytest.fixture(params=["mysql", pytest.param("mysql9", marks=pytest.mark.servers)])
def json_server(request: pytest.FixtureRequest) -> Server:
    """MySQL 8, in `make test-servers` also 9. MariaDB's JSON is text."""
    server: Server = request.getfixturevalue(request.param)
    return server


def drawn(draw: random.Random, depth: int = 0) -> Any:
    kind = draw.randint(0, 8 if depth < 4 else 5)
    if kind == 0:
        return draw.choice([None, True, False])
    if kind == 1:
        return draw.randint(-(2 ** draw.randint(1, 63)), 2 ** draw.randint(1, 64) - 1)
    if kind in (2, 3):
        return draw.uniform(-1, 1) * 10 ** draw.randint(-30, 30)
    if kind in (4, 5):
        return "".join(draw.choice("abé€😀\"\\\n /'") for _ in range(draw.choice([0, 3, 20, 200])))
    if kind == 6:
        return [drawn(draw, depth + 1) for _ in range(draw.choice([0, 1, 5, 40]))]
    return {f"k{draw.randint(0, 99)}" * draw.randint(1, 3): drawn(draw, depth + 1) for _ in range(draw.randint(0, 12))}


def test_mysql_live_json_reads_as_select_shows_it(
    json_server: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(json_server)
    database.execute("CREATE TABLE j (id int PRIMARY KEY AUTO_INCREMENT, doc json)")
    follower = follow(database)
    follower.begin()
    draw = random.Random(5)
    documents = [json.dumps(drawn(draw), ensure_ascii=False) for _ in range(300)]
    documents += [json.dumps([draw.uniform(-1, 1) * 10 ** draw.randint(-320, 308) for _ in range(500)])]
    documents += [json.dumps([float(draw.randint(0, 10**p)) / 10 ** draw.randint(0, p) for p in range(1, 25)])]
    documents += [
        f"[{', '.join(DOUBLES)}]",
        json.dumps(list(range(40000))),
        json.dumps({f"k{i}": i for i in range(9000)}),
    ]
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for expression in EXPRESSIONS:
            cursor.execute(f"INSERT INTO j (doc) VALUES ({expression})")
        for document in documents:
            cursor.execute("INSERT INTO j (doc) VALUES (%s)", (document,))
    follower.take()
    shown = dict(database.query("SELECT id, CAST(doc AS CHAR) FROM j"))
    for image in follower.images("j"):
        assert image["doc"] == shown[image["id"]]
    assert len(follower.images("j")) == len(shown) == len(EXPRESSIONS) + len(documents)


def path(draw: random.Random, node: Any) -> tuple[str, Any]:
    """A path to something in the document, and what is there."""
    text = "$"
    while isinstance(node, dict | list) and node and draw.random() < 0.8:
        if isinstance(node, dict):
            key = draw.choice(list(node))
            text, node = f"{text}.{json.dumps(key, ensure_ascii=False)}", node[key]
        else:
            place = draw.randrange(len(node))
            text, node = f"{text}[{place}]", node[place]
    return text, node


MEMBERS = ["n", '"a new one"', "k1", '"ключ"', '"q\\"\\\\"', '"$x"', "k" * 40]
VALUES = ["CAST(%s AS JSON)", "CAST('2024-02-29 23:59:59.5' AS DATETIME(3))", "CAST(-1.50 AS DECIMAL(9,2))", "-0e0"]
OTHERS = ["", ", other = JSON_SET(other, '$[0]', n)", ", n = 1, other = NULL", ", other = '[2]'"]


def changes(draw: random.Random, document: Any) -> tuple[str, list[Any]]:
    """A chain of partial updates of column `doc`."""
    sql, values = "doc", []
    for _ in range(draw.choice([1, 1, 2, 4])):
        where, node = path(draw, document)
        kind = draw.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
        if kind == "JSON_REMOVE" and where != "$":
            sql = f"JSON_REMOVE({sql}, %s)"
            values.append(where)
            continue
        if isinstance(node, dict) and draw.random() < 0.7:
            where += "." + draw.choice(MEMBERS)
        elif isinstance(node, list) and draw.random() < 0.7:
            where += f"[{draw.choice([0, len(node), len(node) + 3])}]"
        new = draw.choice(VALUES)
        sql = f"JSON_SET({sql}, %s, {new})" if kind == "JSON_SET" else f"JSON_REPLACE({sql}, %s, {new})"
        values.append(where)
        if "%s" in new:
            values.append(json.dumps(drawn(draw, 3), ensure_ascii=False))
    return sql, values


def test_pitfall_8_partial_json_updates_are_applied(
    json_server: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """Random documents and changes of them, with every image that has the document; what comes is what a SELECT shows."""
    database = source_database(json_server)
    database.execute("CREATE TABLE j (id int PRIMARY KEY AUTO_INCREMENT, n int, doc json, v varchar(9), other json)")
    follower = follow(database)
    follower.begin()
    draw, documents = random.Random(8), []
    shown: list[tuple[int, str, str]] = []
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for _ in range(60):
            document = {f"k{i}" * draw.randint(1, 3): drawn(draw) for i in range(draw.randint(1, 6))}
            documents.append(draw.choice([document, [document, *range(5)]]))
            cursor.execute("INSERT INTO j (doc, other) VALUES (%s, '[1]')", (json.dumps(documents[-1]),))
        cursor.execute("SET binlog_row_value_options = PARTIAL_JSON")
        for _ in range(500):
            id = draw.randint(1, len(documents))
            sql, values = changes(draw, documents[id - 1])
            try:
                cursor.execute(f"UPDATE j SET doc = {sql}{draw.choice(OTHERS)} WHERE id = %s", (*values, id))
            except pymysql.err.MySQLError as error:  # the whole document, or a cell of what is no array
                assert error.args[0] in (3153, 3165), error
                continue
            cursor.execute("SELECT CAST(doc AS CHAR), CAST(other AS CHAR) FROM j WHERE id = %s", (id,))
            ((doc, other),) = cursor.fetchall()
            documents[id - 1] = json.loads(doc)
            shown.append((id, doc, other))
    start = follower.mark.native.partition(":")
    logged = database.query(f"SHOW BINLOG EVENTS IN '{start[0]}' FROM {start[2]}")
    follower.take()
    assert sum(row[2] == "Update_rows_partial" for row in logged) > 350
    afters = [(i["id"], i["doc"], i["other"]) for i in follower.images("j") if i["_op"].name == "AFTER"]
    assert follower.told("j") == follower.read("j")
    left = iter(shown)
    assert all(after in left for after in afters), "an update that changes nothing is not logged"
    assert len(afters) > 350


def test_pitfall_8_differences_without_the_document_before_stop_by_name(
    json_server: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(json_server)
    database.execute("CREATE TABLE j (id int PRIMARY KEY, n int, doc json)", "CREATE TABLE other LIKE j")
    row = "VALUES (1, 1, JSON_OBJECT('a', REPEAT('x', 1000), 'b', 1))"
    database.execute(f"INSERT INTO j {row}", f"INSERT INTO other {row}")
    follower = follow(database)
    follower.tables = {k: v for k, v in follower.definitions().items() if k.name == "j"}
    follower.begin()
    update = "UPDATE {} SET doc = JSON_SET(doc, '$.b', 2)"
    database.execute(
        "SET binlog_row_value_options = PARTIAL_JSON, binlog_row_image = MINIMAL", update.format("other"),
        "UPDATE j SET n = 2", update.format("j"),
    )  # fmt: skip
    with pytest.raises(UnknownLogEvent, match="differences only") as stopped:
        follower.take()
    assert stopped.value.table == f"{database.name}.j" and "binlog_row_image" in stopped.value.hint
    assert stopped.value.position
