"""Spark alone, from JDBC to JDBC: what a MySQL or MariaDB is filled with where Spark is there already. `append.py` is the
program, of the Spark that the product uses; one task, as ours.

Rows are streamed from the source and come in batches of 10,000, each of which the driver rewrites into one INSERT
(`rewriteBatchedStatements`). MariaDB is spoken to by MySQL's driver: its own does not rewrite any more, and Spark would quote
names for another kind of server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from anabranch.testing.databases import Database
from anabranch.testing.packages import find_java
from bench.peers.install import jars_of
from bench.peers.place import account, check_loaded, timed
from bench.processes import Cost
from bench.stand import Stand

BATCH = 10_000
MYSQL = "sslMode=DISABLED&allowPublicKeyRetrieval=true&connectionTimeZone=UTC&rewriteBatchedStatements=true"
STREAMED = -(1 << 31)  # MySQL's driver takes that as "row by row", and all rows at once else
FETCH = {"mysql": STREAMED, "mariadb": STREAMED, "postgresql": BATCH}


class SparkJdbc:
    name = "spark-jdbc"
    table = "orders"

    def missing(self, stand: Stand) -> str:
        return "compared at a MySQL or MariaDB only" if stand.at.kind == "postgresql" else ""

    def load(self, stand: Stand, source: Database, target: Database) -> Cost:
        jars = jars_of(self.name, Path(__file__).parent)
        target.execute(f"DROP TABLE IF EXISTS {self.table}", stand.at.orders(self.table))
        settings = {
            "jars": ",".join(map(str, jars)),
            "source": _end(source) | {"fetchsize": str(FETCH[source.server.name])},
            "target": _end(target) | {"batchsize": str(BATCH)},
            "table": self.table,
        }
        variables = {"BENCH_SETTINGS": json.dumps(settings), "JAVA_HOME": str(find_java().parent.parent), "TZ": "UTC"}
        cost, said = timed([sys.executable, Path(__file__).with_name("append.py")], variables)
        check_loaded(self, source, target, said)
        return cost


def _end(database: Database) -> dict[str, str]:
    server = database.server
    user, password = account(server)
    is_postgresql = server.name == "postgresql"
    place = f"{server.host}:{server.port}/{database.name}"
    return {
        "url": f"jdbc:postgresql://{place}" if is_postgresql else f"jdbc:mysql://{place}?{MYSQL}",
        "driver": "org.postgresql.Driver" if is_postgresql else "com.mysql.cj.jdbc.Driver",
        "user": user,
        "password": password,
    }
