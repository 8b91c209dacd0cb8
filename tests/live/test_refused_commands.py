"""A command beside a job that is refused: who gave it is told, and the job's state keeps the error that it has."""

from __future__ import annotations

from contextlib import closing

import pytest

from anabranch.errors import ConfigError, RowRefused, SchemaError
from anabranch.state.store import StateStore
from rigs.streams import Streams

TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, v INT)", "INSERT INTO item VALUES (1, 1)")


@pytest.mark.parametrize("target", ["postgresql", "mysql"])
def test_a_refused_load_of_one_table_leaves_the_error_of_apply_in_the_status(streams: Streams, target: str) -> None:
    here = streams(("mariadb", target), TABLES, "")
    schema = here.made.schema
    with closing(StateStore(here.job.target_home)) as state:
        state.last_error("the row is refused", 6, "apply", facts=RowRefused("it does not fit").facts())
    before = here.job.status()["last_error"]
    assert before["part"] == "apply"
    for table, error in ((f"{schema}.absent", SchemaError), ("another.item", ConfigError)):
        with pytest.raises(error):
            here.job.load(table=table)
        assert here.job.status()["last_error"] == before
