"""A person asks what became of one transaction, and hands the job's state to somebody else, while the job runs."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]


@pytest.mark.quick
def test_a_transaction_is_followed_and_a_bundle_has_no_row(mariadb: Server, scenario: Make) -> None:
    made = scenario(
        mariadb,
        "CREATE TABLE item (id INT PRIMARY KEY, note VARCHAR(40) DEFAULT 'Rowmark_default' COMMENT 'Rowmark_comment')",
        "INSERT INTO item VALUES (1, 'Rowmark_loaded')",
    )
    made.write_job()
    run = made.start("run")
    made.wait_streaming(run)
    made.source.execute("INSERT INTO item VALUES (918273645, 'Rowmark_streamed')")
    made.sync(run)
    (row,) = [
        json.loads(line)
        for line in made.cli("trail", "show", "--json").stdout.splitlines()
        if "Rowmark_streamed" in line
    ]

    def followed() -> dict:
        return json.loads(made.cli("trace", "--position", row["position"], "--json").stdout)

    wait_until(lambda: followed()["targets"][0]["epochs"], 60, "the epoch is noted", run.tail, run)
    found = followed()
    (target,) = found["targets"]
    table = f"{made.schema}.item"
    assert target["state"] == "applied" and target["epochs"][-1]["changes"][table] >= 1
    assert found["rows"] == {table: 1} and found["captured"]["state"] == "written"
    assert found["captured"]["written_after"] <= target["epochs"][-1]["committed"]
    by_name = json.loads(made.cli("trace", "--xid", row["gtid"], "--json").stdout)
    assert by_name["position"] == found["position"]
    file = made.home / "bundle.tar.gz"
    told = json.loads(made.cli("bundle", "-o", str(file), "--json").stdout)
    assert told["left_out"] == {}
    run.stop()
    with tarfile.open(file) as archive:
        members = {one.name.split("/")[1]: archive.extractfile(one) for one in archive.getmembers()}
        text = {name: stream.read().decode() for name, stream in members.items() if stream}
    passwords = [value for name, value in made.environment.items() if "PASSWORD" in name and value]
    for mark in ("Rowmark", "918273645", *passwords):
        assert [name for name, content in text.items() if mark.lower() in content.lower()] == []
    assert json.loads(text["status.json"])["state"] == "streaming"
    assert "MariaDB" in text["preflight.json"] and "PostgreSQL" in text["preflight.json"]
