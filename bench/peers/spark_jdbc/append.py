"""The program: a table read by JDBC is appended to one of the same name. A job of its own, in its own process."""

from __future__ import annotations

import json
import os
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    settings: dict[str, Any] = json.loads(os.environ["BENCH_SETTINGS"])
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", settings["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    rows = spark.read.format("jdbc").options(**settings["source"], dbtable=settings["table"]).load()
    into = rows.write.format("jdbc").options(**settings["target"], dbtable=settings["table"])
    into.mode("append").save()
    java = spark.sparkContext._gateway
    spark.stop()
    java.shutdown()
    java.proc.stdin.close()
    java.proc.wait()  # so that what it used counts


if __name__ == "__main__":
    main()
