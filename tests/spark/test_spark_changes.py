"""Changes of a table as a DataFrame of a Spark session, out of a trail of several segments."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.spark.changes import ChangesSource
from anabranch.trail.writer import TrailWriter
from rigs.chunks import ITEMS, chunk_of

ROWS = 40


@pytest.mark.timeout(1200)
def test_changes_come_as_a_dataframe_in_one_partition_for_each_segment(spark: SparkSession, tmp_path: Path) -> None:
    place, who = tmp_path / "trail", {"job": "shop", "job_uuid": "u", "source_identity": "s"}
    with TrailWriter.open(place, **who, segment_bytes=5000, pack=False) as writer:
        writer.schema(ITEMS)
        for key in range(1, ROWS + 1):
            one = {"id": key, "a": key, "b": "x"}
            writer.append(chunk_of([[("i", one), ("u", one, one | {"a": 0})]]))
        writer.flush()
    spark.dataSource.register(ChangesSource)
    changes = spark.read.format("anabranch").option("changes", "shop.items").load(str(place))
    assert changes.rdd.getNumPartitions() > 1
    found = changes.orderBy("`__$start_lsn`", "`__$seqval`", "`__$operation`").collect()
    assert [(row["id"], row["__$operation"], row["a"]) for row in found] == [
        (key, operation, a) for key in range(1, ROWS + 1) for operation, a in ((2, key), (3, key), (4, 0))
    ]
    assert bytes(found[1]["__$update_mask"]) == b"\x02"
    with pytest.raises(PySparkException, match="the trail has no table shop"):
        spark.read.format("anabranch").option("changes", "shop.other").load(str(place))
