"""MySQL's binary JSON, decoded, is the text that a SELECT shows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from typing import Any

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
    mysql: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(mysql)
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
