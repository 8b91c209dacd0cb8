"""pgloader 3.6 of Debian, for the load of MySQL and MariaDB: `LOAD DATABASE`, one reader (several exhaust its heap)."""

from __future__ import annotations

from urllib.parse import quote

from anabranch.testing.databases import Database
from bench.peers.install import debian_program
from bench.peers.place import account, check_loaded, timed
from bench.processes import Cost
from bench.stand import Stand

# `datetime` would become a time with a zone: the table is that of the others.
LOAD = """\
LOAD DATABASE FROM mysql://{user}:{password}@{source.server.host}:{source.server.port}/{source.name}
  INTO postgresql://{target.server.user}:{secret}@{target.server.host}:{target.server.port}/{target.name}
  WITH include drop, create tables, create indexes, reset sequences, workers = 2, concurrency = 1
  CAST type datetime to timestamp
  INCLUDING ONLY TABLE NAMES MATCHING 'orders'
  ALTER SCHEMA '{source.name}' RENAME TO 'pgloader';
"""


class Pgloader:
    name = "pgloader"
    table = "pgloader.orders"

    def missing(self, stand: Stand) -> str:
        if stand.at.kind != "postgresql":
            return "writes to PostgreSQL only"
        return "" if stand.name in ("mysql", "mariadb") else "its PostgreSQL source is not compared"

    def load(self, stand: Stand, source: Database, target: Database) -> Cost:
        target.execute("CREATE SCHEMA IF NOT EXISTS pgloader")
        program = debian_program("pgloader", "pgloader")
        place = stand.directory / "peers" / "pgloader"
        place.mkdir(parents=True, exist_ok=True)
        user, password = account(stand.source)
        secret = quote(target.server.password, safe="")
        file = place / "orders.load"
        file.touch(mode=0o600)
        file.write_text(LOAD.format(user=user, password=password, secret=secret, source=source, target=target))
        cost, said = timed([*program, "--root-dir", place, "--on-error-stop", file], {})
        check_loaded(self, source, target, said)
        return cost
