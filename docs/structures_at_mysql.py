"""The page of definitions at MySQL and MariaDB as targets, made of what `schema print` printed for each of its rows
(structures_at_mysql.json, which tests/live/test_structures_at_mysql.py holds at real servers)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("structures_at_mysql.json")
SOURCE = "docs/structures_at_mysql.json, which a test holds at real servers"
TITLES = {"mysql": "From MySQL", "mariadb": "From MariaDB", "postgresql": "From PostgreSQL"}
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
_WRAPPED = re.compile(r"CREATE TABLE \{t\} \(\{own\}(?:, (.*))?\)", re.DOTALL)
_HEAD = """What `anabranch schema print JOB` prints of a definition, for a MySQL and for a MariaDB, each tried at the
servers: *exact* means the same there, *otherwise* differs as it is printed or noted, *left out* is not made, and preflight,
`schema print` and `status` name it with the reason. Types of columns have a fidelity of their own ([types](types-at-mysql.md)).

Each row is of a table `t` that has `id int PRIMARY KEY, a int, b int NOT NULL, c varchar(20)`, or of the whole statement.
Every table is an InnoDB with `ROW_FORMAT=DYNAMIC`. Columns of MySQL and MariaDB keep their character set and collation, those
of a PostgreSQL have the table's: `utf8mb4_0900_bin`, `utf8mb4_nopad_bin` at a MariaDB
([collations](types-at-mysql.md#collations)). Printed is what is right for the newest release; a load asks the server which one
it is. Views, triggers, routines, events, rights and sequences are not carried over. Why: [what becomes of
definitions](../explanation/definitions.md).
"""


def structures_at_mysql() -> Iterator[str]:
    """Yield the page, but for its title."""
    yield from _HEAD.splitlines()
    data: dict[str, list[dict[str, Any]]] = json.loads(DATA.read_text())
    for source, title in TITLES.items():
        yield ""
        yield f"## {title}"
        yield ""
        yield f"| | at the source | {' | | '.join(NAMES.values())} | | |"
        yield "|---|---|---|---|---|---|---|"
        yield from map(_row, data[source])
    yield ""


def _row(row: dict[str, Any]) -> str:
    made = "; ".join(one for one in map(_clause, row["made"]) if one).replace("{t}", "t")
    cells = [row["what"], _code(made)]
    for family in NAMES:
        is_same = (
            family != "mysql" and row[family] == row["mysql"] and row["fidelity"][family] == row["fidelity"]["mysql"]
        )
        told = "as MySQL" if is_same else "; ".join(map(_told, row[family]))
        cells += [told, row["fidelity"][family]]
    return f"| {' | '.join([*cells, row['note']])} |"


def _clause(statement: str) -> str:
    found = _WRAPPED.fullmatch(statement)
    return found[1] or "" if found else statement


def _told(text: str) -> str:
    """Show a statement as code, and what is left out in words."""
    if not text.startswith("-- "):
        return _code(text.replace("`", ""))
    what, _, why = text.removeprefix("-- ").partition(": ")
    return f"*{_plain(what)}*: {_plain(why)}" if why else f"*{_plain(what)}*"


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"``{escaped}``" if "`" in escaped else f"`{escaped}`"


def _plain(text: str) -> str:
    return re.sub(r"([|*_<~^])", r"\\\1", text.replace("`", ""))
