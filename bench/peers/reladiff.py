"""reladiff 0.6.0, for the verification of a table: checksums of key ranges on both sides, rows where they differ."""

from __future__ import annotations

import json
from urllib.parse import quote

from anabranch.testing.databases import Database
from bench.peers.install import python_of
from bench.peers.place import account, timed
from bench.processes import Cost, ProgramFailed
from bench.stand import Stand

PACKAGES = ("reladiff==0.6.0", "psycopg2-binary==2.9.11", "mysql-connector-python==9.5.0")
COLUMNS = ("customer_id", "status", "amount", "note", "created_at", "flag", "payload")


class Reladiff:
    name = "reladiff"

    def missing(self, stand: Stand) -> str:
        return ""

    def verify(self, stand: Stand, source: Database, target: Database) -> Cost:
        """Every column of table `orders` at both ends, `public.orders` at a PostgreSQL; with its defaults. Raises ProgramFailed
        when it cannot, or when it finds a difference."""
        python = python_of(self.name, *PACKAGES)
        columns = [part for column in COLUMNS for part in ("-c", column)]
        tables = [*_table(source), *_table(target)]
        cost, said = timed([python, "-m", "reladiff", *tables, "-k", "id", *columns, "--stats", "--json"], {})
        rows = source.query("SELECT count(*) FROM orders")[0][0]
        found = _stats(said)
        if found.get("rows_A") != rows or found.get("unchanged") != rows:
            raise ProgramFailed(f"reladiff found {found or said.strip()}, there are {rows} rows")
        return cost


def _table(database: Database) -> tuple[str, str]:
    server = database.server
    user, password = account(server)
    is_postgresql = server.name == "postgresql"
    place = f"{user}:{quote(password, safe='')}@{server.host}:{server.port}/{database.name}"
    if is_postgresql:
        return f"postgresql://{place}", "public.orders"
    return f"mysql://{place}?ssl_disabled=true", "orders"


def _stats(said: str) -> dict[str, object]:
    """Of the JSON in what it printed, which is broken into lines where the terminal would end."""
    begin, end = said.find("{"), said.rfind("}")
    found: dict[str, object] = json.loads(said[begin : end + 1]) if 0 <= begin < end else {}
    return found
