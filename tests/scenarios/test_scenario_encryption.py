"""An encrypted trail on real servers: rows come to the target, no file of the trail tells one, its key changes meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.servers import Server
from rigs.hop_files import asked
from rigs.hops import applying, capturing, hops
from rigs.scenario import Scenario, wait_until
from rigs.scenario_postgresql import FromPostgres

WORDS = "a-word-nobody-else-has"
SMALL_CHUNKS = str(Path(__file__).parents[1] / "rigs" / "small_chunks")
FILL = "INSERT INTO item SELECT g, '" + WORDS + "' || repeat('w', 100) FROM generate_series({}, {}) g"


@pytest.mark.quick
@pytest.mark.one_family
def test_rows_are_encrypted_on_their_way_and_the_key_changes_while_they_flow(
    mysql_family: Server, scenario: Callable[..., Scenario]
) -> None:
    item = "CREATE TABLE item (id INT PRIMARY KEY, words VARCHAR(200))"
    made = scenario(mysql_family, item, f"INSERT INTO item VALUES (1, '{WORDS}')")
    one, other = keys(made.directory)
    made.write_job(f'[trail]\nencrypt = {{ key_file = "{one}" }}\n')
    running = made.start("run")
    made.wait_streaming(running)
    made.source.execute(*[f"INSERT INTO item VALUES ({n}, '{WORDS} {n}')" for n in range(2, 40)])
    made.sync(running)
    made.write_job(f'[trail]\nencrypt = {{ key_file = "{other}", former = [{{ key_file = "{one}" }}] }}\n')
    found = made.cli("trail", "rekey", "--json").json
    assert list(found["keys"]) == [found["key"]] and not found["plain"]
    made.source.execute(*[f"UPDATE item SET words = '{WORDS} again' WHERE id = {n}" for n in range(2, 20)])
    made.sync(running)
    one.unlink()
    made.write_job(f'[trail]\nencrypt = {{ key_file = "{other}" }}\n')
    made.cli("trail", "rekey")
    made.source.execute(f"INSERT INTO item VALUES (100, '{WORDS}')")
    made.sync(running)
    status = made.status()["encryption"]
    assert (status["key"], list(status["keys"]), status["not_encrypted"]) == (found["key"], [found["key"]], 0)
    assert status["keys"][found["key"]] > sum(found["keys"].values()), "a segment was begun by the other key"
    running.stop()
    made.assert_identical()
    assert made.cli("trail", "check", "--json").json["problems"] == []
    assert len(made.trail_rows("item")) >= 38 and files_with_rows(made.trail) == []
    other.rename(other.with_suffix(".away"))
    refused = made.cli("trail", "check", code=7)
    assert f"is encrypted by key {found['key']}, which is not there" in refused.stdout


@pytest.mark.quick
def test_rows_of_a_large_open_transaction_wait_encrypted(
    logical_postgresql: Server, scenario: Callable[..., FromPostgres]
) -> None:
    made = scenario(logical_postgresql, "CREATE TABLE item (id int PRIMARY KEY, words text)", FILL.format(1, 10))
    one, _ = keys(made.directory)
    made.write_job(f'[capture]\nstreaming = true\nmemory_limit_mb = 1\n[trail]\nencrypt = {{ key_file = "{one}" }}\n')
    running = made.start("run")
    made.wait_streaming(running)
    with closing(made.source.connect(autocommit=False)) as large:
        large.execute(FILL.format(1001, 30_000))
        wait_until(lambda: list(made.trail.glob("staging/*.kept")), 30, "rows wait beside the trail", running.tail)
        assert files_with_rows(made.trail) == []
        running.kill()
        running = made.start("run")
        large.execute(FILL.format(30_001, 40_000))
        large.commit()
    made.sync(running)
    running.stop()
    made.assert_identical()
    assert len(made.target_rows("item")) == 39_010 and files_with_rows(made.trail) == []


@pytest.mark.quick
def test_an_encrypted_trail_goes_by_parcels_with_the_rows_of_its_load(
    mariadb: Server, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    """The import reads by the key that is given, the job that applies by its own; the key changes between two parcels, and
    no row stands in any file of the way."""
    item = f"CREATE TABLE item (id INT PRIMARY KEY, words VARCHAR(200) DEFAULT '{WORDS}')"
    made = scenario(mariadb, item, f"INSERT INTO item SELECT seq, '{WORDS}' FROM seq_1_to_2000")
    out, replica = tmp_path / "out", tmp_path / "replica"
    one, other = keys(made.directory)
    encrypt = '[trail]\nencrypt = {{ key_file = "{}" }}\n'.format
    changed = f'[trail]\nencrypt = {{ key_file = "{other}", former = [{{ key_file = "{one}" }}] }}\n'
    way = hops(made, encrypt(one), encrypt(one), trail=replica)
    way.here.run_until_caught_up()
    way.here.cli("trail", "export", str(out))
    wrong = asked("trail", "import", out, "--into", replica, "--trail-key", other)
    assert wrong.returncode == 7 and "parcel 1 is encrypted by key" in wrong.stderr
    assert asked("trail", "import", out, "--into", replica, "--trail-key", one).returncode == 0
    way.there.run_until_caught_up()
    made.assert_identical()
    made.source.execute(f"ALTER TABLE item ADD COLUMN more VARCHAR(100) NOT NULL DEFAULT '{WORDS}'")
    made.source.execute(
        f"UPDATE item SET words = '{WORDS} again' WHERE id % 2 = 0", "DELETE FROM item WHERE id % 3 = 0"
    )
    capturing(made, changed)
    way.here.cli("trail", "rekey")
    way.here.run_until_caught_up()
    way.here.cli("trail", "export", str(out))
    applying(made, replica, changed)
    taken = asked("trail", "import", out, "--into", replica, "--trail-key", other, "--trail-key", one)
    assert taken.returncode == 0, taken.stderr
    way.there.run_until_caught_up()
    made.assert_identical()
    assert asked("trail", "check", replica).returncode == 0
    assert files_with_rows(made.directory) == files_with_rows(tmp_path) == []


@pytest.mark.quick
def test_a_trail_between_jobs_tells_no_row_of_its_load_and_is_read_by_the_key(
    mariadb: Server, scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows, and keys where chunks end, stand in no file of either job, of the trail or of a temporary directory, also while
    a load is killed and goes on. Without its key the job that applies says so once, and loads what it finds by it."""
    item = f"CREATE TABLE item (id VARCHAR(100) PRIMARY KEY, words VARCHAR(200) DEFAULT '{WORDS}' COMMENT '{WORDS}')"
    rows = ", ".join(f"('{WORDS}-key-{number:05}', '{WORDS} {number}')" for number in range(5000))
    made = scenario(mariadb, item, f"INSERT INTO item VALUES {rows}")
    temporary = made.directory / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("PYTHONPATH", f"{SMALL_CHUNKS}:{os.environ.get('PYTHONPATH', '')}")
    one, other = keys(made.directory)
    encrypt = '[trail]\nencrypt = {{ key_file = "{}" }}\n'.format
    way = hops(made, encrypt(one), encrypt(other))
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.load.file=exit@2")
    running = way.here.start("run")
    wait_until(lambda: list(way.trail.glob("load/*/manifest.json")), 120, "a manifest", running.tail, running)
    wait_until((way.trail / "load" / "complete.json").exists, 120, "the load's end", running.tail, running)
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    made.source.execute(f"UPDATE item SET words = '{WORDS} again' WHERE id < '{WORDS}-key-00100'")
    away = one.rename(one.with_suffix(".away"))
    refused = way.there.cli("run", "--until-caught-up", code=7)
    assert "is encrypted by key" in refused.stderr and "which is not there" in refused.stderr, refused.stderr
    away.rename(one)
    applying(made, way.trail, encrypt(one))
    applied = way.there.start("run")
    way.there.wait_streaming(applied)
    way.there.sync(applied)
    made.source.execute(f"INSERT INTO item VALUES ('{WORDS}-new', '{WORDS}')")
    way.there.sync(applied)
    assert files_with_rows(made.directory) == []
    found = way.here.cli("trail", "rekey", "--json", code=0).json
    assert list(found["keys"]) == [found["key"]] and found["keys"][found["key"]] > 2, "files of the load are counted"
    assert "is that of the job that captures into it" in way.there.cli("trail", "rekey", code=2).stderr
    assert applied.stop().code == 0 and running.stop().code == 0
    made.assert_identical()
    assert files_with_rows(made.directory) == []


def keys(folder: Path) -> tuple[Path, Path]:
    """Two key files beside the homes of jobs."""
    found = folder / "one.key", folder / "other.key"
    for number, path in enumerate(found):
        path.touch(mode=0o600)
        path.write_text(bytes([number + 1] * 32).hex() + "\n")
    return found


def files_with_rows(trail: Path) -> list[str]:
    """Every file below the trail in which the words of the rows can be read."""
    return [str(path) for path in trail.rglob("*") if path.is_file() and WORDS.encode() in path.read_bytes()]
