"""What the log says of a table's key, where it is not what the definition calls the primary key."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

UNIQUE_ONLY = (
    "CREATE TABLE {} (g int, v varbinary(40), u smallint NOT NULL, UNIQUE KEY (g), UNIQUE KEY (u))",
    "CREATE TABLE {} (a int NOT NULL, b varchar(9) NOT NULL, c int, UNIQUE KEY (b, a))",
    "CREATE TABLE {} (a int NOT NULL, t varchar(50) NOT NULL, UNIQUE KEY (t(5)))",
)


def test_torture_seed_102_a_unique_key_in_place_of_a_primary_one(
    mysql_family: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    """The log calls it the primary key; the table was parked for that."""
    database = source_database(mysql_family)
    database.execute(*(made.format(f"t{number}") for number, made in enumerate(UNIQUE_ONLY)))
    follower = follow(database)
    follower.begin()
    follower.run(
        "INSERT INTO t0 VALUES (1, 'x', 7)", "INSERT INTO t1 VALUES (1, 'b', 2)", "INSERT INTO t2 VALUES (1, 'abcdefg')"
    )
    assert not [barrier for chunk in follower.chunks() for barrier in chunk.barriers]
    for number in range(len(UNIQUE_ONLY)):
        assert follower.told(f"t{number}") == follower.read(f"t{number}")
