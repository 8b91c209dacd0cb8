"""A schema history that was lost is put back, on the machine that the job has moved to, and rows between definitions come."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import StateError, TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.trail.history import FILE
from rigs.job_here import JobHere
from rigs.scenario import Scenario

DROPS = '[ddl]\ndrop_column = "apply"\n'


def _reached(place: str, act: Callable[[], object]) -> None:
    failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
    try:
        with pytest.raises(failpoints.FailpointReached):
            act()
    finally:
        failpoints.arm({})


def _moved(here: JobHere, to: Path) -> JobHere:
    """The job on another machine: its home and its file, copied as a whole."""
    shutil.copytree(here.made.directory, to)
    there = JobHere(Scenario(here.made.source, here.made.target, to, name=here.made.name))
    there.made.write_job(DROPS)
    return there


def test_rule_19_a_lost_history_comes_back_on_another_machine_and_only_if_it_is_all_of_it(
    mysql: Server, postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    source, target = source_database(mysql), create_database(postgresql, "history")
    source.execute("CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO item VALUES (1, 'one')")
    (tmp_path / "first").mkdir()
    here = JobHere(Scenario(source, target, tmp_path / "first", name=unique_name("job")))
    here.made.write_job(DROPS)
    here.load()
    here.stream()
    (old := tmp_path / "old").write_text(here.job.export_schema_history())
    assert here.job.import_schema_history(old) is False

    # apply dies between two definitions, of which the target has one, and the trail moves without its history
    source.execute(
        "INSERT INTO item VALUES (2, 'two')",
        "ALTER TABLE item ADD COLUMN n INT DEFAULT 5",
        "INSERT INTO item VALUES (3, 'three', 6)",
        "ALTER TABLE item DROP COLUMN v",
        "INSERT INTO item VALUES (4, 7)",
    )
    _reached("apply.altered", here.stream)
    (new := tmp_path / "new").write_text(here.job.export_schema_history())
    there = _moved(here, tmp_path / "second")
    (there.job.trail / FILE).unlink()
    with pytest.raises(TrailCorrupt, match="schema import FILE JOB"):
        there.stream()
    with pytest.raises(TrailCorrupt, match="altered or parked since is not known"):
        there.job.import_schema_history(old)
    _reached("trail.history.restored", lambda: there.job.import_schema_history(new))
    with pytest.raises(TrailCorrupt, match="missing"):
        there.stream()
    assert there.job.import_schema_history(new) is True
    _reached("apply.committed", there.stream)
    there.stream()
    there.made.assert_identical("item")
    assert there.made.states()["item"] == "streaming" and there.verify().identical
    assert [one.came for one in there.job.schema_versions(f"{source.name}.item")] == [
        "first seen",
        "altered",
        "altered",
    ]

    # the home that stayed behind has a history of its own, which the target has left
    source.execute("ALTER TABLE item ADD COLUMN late INT", "INSERT INTO item VALUES (5, 8, 9)")
    there.stream()
    (here.job.trail / FILE).unlink()
    with pytest.raises(StateError, match=r"no version 4 of .*item as the target knows it"):
        here.job.import_schema_history(new)
    assert not (here.job.trail / FILE).exists()
    there.job.drop(execute=True)
    drop_database(target)


def test_rule_19_a_lost_history_is_made_anew_of_what_the_target_knows_at_the_trail_s_end(
    mysql: Server, postgresql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    source, target = source_database(mysql), create_database(postgresql, "rebuilt")
    for name in ("item", "other"):
        source.execute(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))", f"INSERT INTO {name} VALUES (1, 'one')"
        )
    here = JobHere(Scenario(source, target, tmp_path, name=unique_name("job")))
    here.made.write_job(DROPS)
    here.load()
    here.stream()
    assert here.job.import_schema_history(None) is False
    source.execute("ALTER TABLE item ADD COLUMN n INT", "INSERT INTO item VALUES (2, 'two', 2)")
    source.execute("ALTER TABLE other CHANGE v w VARCHAR(9)", "INSERT INTO other VALUES (2, 'two')")  # parks
    here.stream()
    (here.job.trail / FILE).write_bytes(b"nothing that is a history\n")
    _reached("trail.history.restored", lambda: here.job.import_schema_history(None))
    assert here.job.import_schema_history(None) is True and here.job.import_schema_history(None) is False
    source.execute(
        "INSERT INTO item VALUES (4, 'four', 4)",
        "ALTER TABLE item DROP COLUMN v",
        "INSERT INTO item VALUES (5, 5)",
        "INSERT INTO other VALUES (3, 'three')",
    )
    here.stream()
    here.made.assert_identical("item")
    assert here.made.states() == {"item": "streaming", "other": "parked", "scenario_mark": "streaming"}
    here.load(TableId(source.name, "other"), recreate=True)
    source.execute("INSERT INTO other VALUES (4, 'four')")
    here.stream()
    here.made.assert_identical()
    assert here.verify().identical
    assert [one.schema.version for one in here.job.schema_versions(f"{source.name}.item")] == [2, 3]

    # a target that has not come to the trail's end may know an older definition than that of the rows behind it
    source.execute("ALTER TABLE item ADD COLUMN late INT", "INSERT INTO item VALUES (6, 6, 6)")
    here.capture()
    (here.job.trail / FILE).unlink()
    with pytest.raises(StateError, match=r"the target has \d+ of the trail, which ends at \d+"):
        here.job.import_schema_history(None)
