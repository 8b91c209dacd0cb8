"""The support bundle: what is in it, what is never in it, and what becomes of it where something is away, or damaged."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from anabranch.cli import main as shell
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target.store import MemoryStore, keep_ddl
from anabranch.errors import ConfigError
from anabranch.job import Job
from anabranch.job.bundle import pieces
from anabranch.job.bundle.cutting import Cutter, kind_of, type_of
from anabranch.job.bundle.secrets import Secrets
from anabranch.model.ddl_changes import PARKS, DdlChange, Outcome
from anabranch.model.position import Position
from anabranch.model.schema import Check
from anabranch.model.table_life import TableState
from anabranch.state.store import FILE, StateStore
from anabranch.state.trace import Trace
from anabranch.trail.writer import TrailWriter
from rigs import trail_source

PASSWORD, LITERAL, TOKEN = "S3cr&t/ä pw+1'q", "l1teral@p/ss", "tok-marker-99"
SECRETS = (PASSWORD, LITERAL, TOKEN, "marker_user", "other_user", "conf-marker-7")
VALUES = (
    *("ROWMARK", "Zoltán", "918273645", "rowmark@shop.example", "2031-07-09", "DEFMARK", "COMMARK", "LABELMARK"),
    *("CHECKMARK", "STMTMARK", "FILTERMARK", "FLIPMARK", "TOMLMARK", "PERSONMARK"),
)
ALTER = "ALTER TABLE orders ADD n VARCHAR(9) DEFAULT 'STMTMARK' COMMENT 'COMMARK', DROP COLUMN ROWMARK"
ROW = "column name of the row with id=918273645, name=Zoltán ROWMARK holds bytes that are no text"
DRIVER = (
    f"(1045, \"Access denied for user 'marker_user'@'10.0.0.1' (using password: {PASSWORD})\"); "
    f"mysql://marker_user:{quote(PASSWORD, safe='')}@db/x?token={TOKEN}; "
    "Duplicate entry '918273645-ROWMARK' for key 'PRIMARY'; "
    f"DETAIL: Key (mail)=(rowmark@shop.example) already exists; Failing row contains (918273645, Zoltán, 2031-07-09); "
    f"Authorization: Basic {base64.b64encode(f'marker_user:{PASSWORD}'.encode()).decode()} password={LITERAL}"
)
JOB = f"""# TOMLMARK: a note of somebody
name = "shop"
[source]
url = "mysql://marker_user:${{SHOP_PASSWORD}}@127.0.0.1:9?ssl_mode=disabled"  # {LITERAL}
[[targets]]
name = "north"
url = "memory:///bundle-north"
[[targets]]
name = "south"
url = "postgresql://other_user:{quote(LITERAL, safe="")}@127.0.0.1:9/db?ssl_mode=disabled"
[[rules]]
include = ["shop.*"]
[[tables]]
name = "shop.orders"
where = "name <> 'FILTERMARK' AND id < 918273645"
[spark]
conf = {{ "spark.executor.memory" = "4g", "spark.hadoop.fs.s3a.access" = "conf-marker-7" }}
[cutover]
flip = ["/opt/flip", "--as", "FLIPMARK"]
"""


def _schema() -> Any:
    first = trail_source.definition()
    columns = [replace(one, comment="COMMARK", default="DEFMARK", has_default=True) for one in first.columns]
    columns[-1] = replace(columns[-1], native="enum('LABELMARK','x')")
    return replace(first, columns=tuple(columns), comment="COMMARK", checks=(Check("c1", "name <> 'CHECKMARK'"),))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    """A job whose source and one target are away, with secrets and values wherever somebody could have written them."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setenv("SHOP_API_TOKEN", TOKEN)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.toml"
    file.write_text(JOB)
    made = Job.from_file(file)
    home = made.config.home
    with TrailWriter.open(home / "trail", **trail_source.JOB, pack=False) as writer:
        writer.schema(_schema())
        writer.schema(trail_source.definition(trail_source.NOTES))
        writer.append(trail_source.chunk(1, 2))
        writer.alter(_schema().with_version(2), ALTER)
        writer.append(trail_source.chunk(3, 3))
        writer.flush()
    (home / "logs").mkdir()
    (home / "logs" / "traceback-20261129-070000-x.txt").write_text(
        f'Traceback\n  File "/x/y.py", line 7, in apply\n    raise ValueError("{ROW}")\nValueError: {DRIVER}\n'
    )
    for place in (home, made.on("north").target_home):
        store = StateStore(place)
        store.part("apply", 1, "elsewhere")
        store.phase("waiting", DRIVER, "target", {"code": "row_refused", "side": "target", "message": ROW})
        store.passed("apply", 0, Position(3, "log:3"), 1, 2, {"epoch": 1, "changes": {"shop.orders": 2}})
        store.seen("apply")
        store.last_error(
            f"{ROW}; {DRIVER}", 6, "apply", facts={"code": "row_refused", "table": "shop.orders", "hint": ROW}
        )
        store.close()
    trace = Trace(home, "shop/apply")
    trace.note("error", "part_failed", DRIVER, state="failed", code="row_refused", row={"id": 918273645}, why=ROW)
    trace.note("info", "command", "parked release=1 key={'id': '918273645', 'name': 'Zoltán'}", user="PERSONMARK")
    trace.note("warning", "statement", ALTER, sql=ALTER, url=f"https://x:{LITERAL}@h/p")
    target = MemoryStore(database("bundle-north"))
    target.prepare()
    orders = trail_source.ORDERS
    target.save_table("shop", TableState(orders, orders, "parked", reason=f"{ROW}; {DRIVER}", schema=_schema()), None)
    note = DdlChange(3, "3@log.1:5", 0, orders, orders, ALTER, PARKS, Outcome.PARKED, why=ROW, by="PERSONMARK@h")
    keep_ddl(database("bundle-north").job("shop"), note)
    yield made
    forget()


def unpacked(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        found = {Path(one.name).name: archive.extractfile(one) for one in archive.getmembers()}
        return {name: stream.read() for name, stream in found.items() if stream}


def written(text: str) -> Iterator[str]:
    """Yield a text as it may stand in a file."""
    yield from (text, json.dumps(text)[1:-1], quote(text), quote(text, safe=""), text.encode().hex())
    data = text.encode()
    yield from (base64.b64encode(bytes(n) + data).decode()[-(-n * 8 // 6) : (n + len(data)) * 8 // 6] for n in range(3))


@pytest.mark.parametrize("offline", [False, True])
def test_pitfall_89_no_secret_and_no_value_is_in_a_bundle(job: Job, offline: bool, tmp_path: Path) -> None:
    made = job.bundle(tmp_path / "x.tar.gz", offline=offline)
    found = unpacked(made.file)
    assert {"manifest.json", "job.toml", "state.json", "trail.json", "schema.json", "trace.jsonl", "disks.json"} <= set(
        found
    )
    assert ("status.json" in found) is ("preflight.json" in found) is ("ddl.json" in found) is not offline
    everything = {name: content.decode() for name, content in found.items()}
    seen = {
        (name, marker)
        for name, text in everything.items()
        for marker in (*SECRETS, *VALUES)
        for form in written(marker)
        if form.lower() in text.lower()
    }
    assert seen == set()


def test_a_bundle_says_what_somebody_who_helps_has_to_know(job: Job, tmp_path: Path) -> None:
    made = job.bundle(tmp_path / "x.tar.gz")
    found = unpacked(made.file)
    manifest = json.loads(found["manifest.json"])
    assert manifest["files"].keys() == found.keys() - {"manifest.json"} and manifest["left_out"] == {} == made.left_out
    for name, facts in manifest["files"].items():
        assert facts == {"sha256": hashlib.sha256(found[name]).hexdigest(), "bytes": len(found[name])}
    assert stat.S_IMODE(made.file.stat().st_mode) == 0o600
    state = json.loads(found["state.json"])["of"]["job"]
    assert state["is"] == "whole" and state["told"]["errors"]["apply"]["facts"]["code"] == "row_refused"
    message = state["told"]["errors"]["apply"]["message"]
    assert "Access denied for user" in message and "Duplicate entry" in message and "1045" in message
    text = found["job.toml"].decode()
    assert 'url = "mysql://…@127.0.0.1:9?ssl_mode=disabled"' in text and '"spark.executor.memory" = "4g"' in text
    versions = json.loads(found["schema.json"])["versions"]
    second = versions[-1]
    assert len(versions) == 3 and second["statement"] == "ALTER TABLE …, ADD …, DROP COLUMN …"
    assert second["columns"][-1]["type"] == "enum('…','…')" and second["checks"] == ["c1"]
    (note,) = json.loads(found["ddl.json"])["targets"]["north"]
    assert note["outcome"] == "parked" and note["position"] == "3@log.1:5"
    assert "error" in json.loads(found["ddl.json"])["targets"]["south"]
    trail = json.loads(found["trail.json"])
    assert trail["headers"] == {"checked": 1, "problems": []} and trail["segments"][0]["rows"] > 0
    (epoch,) = map(json.loads, found["epochs.jsonl"].splitlines())
    assert epoch["target"] == "north" and epoch["facts"]["changes"] == {"shop.orders": 2}
    events = [json.loads(line)["event"] for line in found["trace.jsonl"].splitlines()]
    assert events == ["part_failed", "command", "statement"]
    assert found["tracebacks.txt"].decode().splitlines()[1:] == ['  File "/x/y.py", line 7, in apply', "ValueError"]
    assert "SHOP_PASSWORD" in json.loads(found["environment.json"])["names"]
    assert b"anabranch_job_state" in found["metrics.txt"]


def test_a_damaged_state_and_no_trail_are_told_inside(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = job.config.home / FILE
    file.write_bytes(b"no database" * 100)
    (job.config.home / "trail" / "job").unlink(missing_ok=True)
    for segment in (job.config.home / "trail").iterdir():
        segment.unlink()
    code = shell.exit_code(["bundle", str(job.path), "--offline", "--json", "-o", "x.tar.gz"])
    told = json.loads(capsys.readouterr().out)
    assert code == 0 and {"trail.json", "schema.json", "status.json"} <= told["left_out"].keys()
    state = json.loads(unpacked(tmp_path / "x.tar.gz")["state.json"])["of"]
    assert state["job"]["is"] == "damaged" and state["north"]["is"] == "whole"
    assert file.read_bytes().startswith(b"no database")


def test_nothing_is_left_where_it_is_broken_off(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, and a place that takes no file; a former bundle of this name stays until the next one is whole."""
    place = tmp_path / "x.tar.gz"
    place.write_bytes(b"the former one")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = set(tmp_path.iterdir())
    with monkeypatch.context() as patched:
        patched.setattr(pieces, "versions", interrupt)
        assert shell.exit_code(["bundle", str(job.path), "--offline", "-o", str(place)]) == shell.INTERRUPTED
    assert set(tmp_path.iterdir()) == before and place.read_bytes() == b"the former one"
    with pytest.raises(ConfigError, match="cannot be written"):
        job.bundle(tmp_path / "no" / "x.tar.gz")
    assert job.bundle(offline=True).file.name.startswith("shop-bundle-")


def test_a_piece_that_cannot_be_made_leaves_the_others(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise RuntimeError(DRIVER)

    monkeypatch.setattr(pieces, "versions", fails)
    found = unpacked(job.bundle(tmp_path / "x.tar.gz", offline=True).file)
    left = json.loads(found["manifest.json"])["left_out"]["versions.json"]
    assert "RuntimeError" in left and "ROWMARK" not in left and "disks.json" in found


def test_state_of_another_release_is_not_made_anew(job: Job, tmp_path: Path) -> None:
    file = job.config.home / FILE
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    found = unpacked(job.bundle(tmp_path / "x.tar.gz", offline=True).file)
    assert json.loads(found["state.json"])["of"]["job"]["version"] == 99
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (99,)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("the target refuses 12 rows of shop.orders", "the target refuses 12 rows of shop.orders"),
        ("position 17@mysql-bin.000003:15499 is gone", "position 17@mysql-bin.000003:15499 is gone"),
        ("binlog_expire_logs_seconds=3600 is short", "binlog_expire_logs_seconds=3600 is short"),
        ("column 'name' holds 'Ann'", "column 'name' holds '…'"),
        ("name=Ann", "name=…"),
        ("the encoding is UTF8", "the encoding is UTF8"),
        ("Key (id, name)=(1, Ann) already exists", "Key … already exists"),
        ("the source's log doesn't say 4711", "the source's log doesn't say …"),
        ("no row (row id = 7, name = open table) — mend it", "no row (row …) — mend it"),
        ("is too long; key name=open table", "is too long; key …"),
        ("column a of the row with name=open table holds what", "column a of the row with … holds what"),
        ("the value of the row name=open, table", "the value of the row …"),
        ("it has name = open table, and waits", "it has name=…, and waits"),
        ("Duplicate entry 'it's open' for key 'b'", "Duplicate entry '…' for key '…'"),
        ("Key (name)=(open (table)) already exists", "Key … already exists"),
        ("zzyzx Qwerfdsa 4711-0815", "…"),
    ],
)
def test_texts_keep_words_names_and_counts(text: str, seen: str) -> None:
    assert Cutter(("shop.orders", "name")).cut(text) == seen


def test_short_secrets_are_hidden_as_words() -> None:
    secrets = Secrets(frozenset(("pw",)))
    assert secrets.hide("pw is in pwned: 'pw'") == "… is in pwned: '…'"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CREATE UNIQUE INDEX a ON t (b)", "CREATE INDEX …"),
        ("/* x */ alter table `t` change a b enum('ADD COLUMN')", "ALTER TABLE …, CHANGE …"),
        ("INSERT INTO t VALUES (1)", ""),
        ("grant x", ""),
    ],
)
def test_a_statement_is_cut_to_its_kind(statement: str, kind: str) -> None:
    assert kind_of(statement) == kind


def test_a_type_has_no_labels() -> None:
    assert type_of("enum('a','it''s')") == "enum('…','…')" and type_of("set('a") == "set"
