"""A trail goes to another place by files, while the source is written to and capture runs. Without Spark."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]


def test_a_captured_trail_crosses_an_air_gap(mariadb: Server, scenario: Make, tmp_path: Path) -> None:
    """Parcels are carried by hand, the second half before the first: what is imported is what was captured."""
    made = scenario(mariadb, *SCHEMA, *fill(1))
    made.write_job("[capture]\nsegment_mb = 1\n")
    out, medium, replica = tmp_path / "out", tmp_path / "medium", tmp_path / "replica"
    key, public = keys(tmp_path)
    capture = made.capture()
    exporting = ("trail", "export", str(out), "--size", "100kB", "--sign-key", str(key))
    importing = ("import", medium, "--into", replica, "--verify-key", public)
    with Writer(made.source, seed=5, workers=3, rate=300):
        for _ in range(2):
            there = len(made.trail_rows("tick"))
            wait_until(
                lambda there=there: len(made.trail_rows("tick")) > there + 60, 60, "ticks", capture.tail, capture
            )
            made.cli(*exporting)
    made.source.execute("ALTER TABLE tick ADD COLUMN note VARCHAR(20) NOT NULL DEFAULT 'none'")
    made.captured(capture)
    made.cli(*exporting)
    carry(out, medium, lambda number: number > 1)
    assert "parcel 1 is missing, parcel 2 is there" in elsewhere(*importing, code=7)
    carry(out, medium, lambda number: number == 1)
    told = elsewhere(*importing)
    assert told.startswith("parcel 1: ") and told.count("imported") == len(list(out.iterdir())) > 2
    assert "every checksum is right" in elsewhere("check", replica)
    assert rows(replica) == rows(made.trail)
    with TrailReader(made.trail) as ours, TrailReader(replica) as theirs:
        assert theirs.end() == ours.end() and theirs.history.entries == ours.history.entries
    assert elsewhere("show", replica) == made.cli("trail", "show").stdout
    capture.stop()


def elsewhere(*arguments: object, code: int = 0) -> str:
    """`anabranch trail …` where there is no job file."""
    line = [sys.executable, "-m", "anabranch", "trail", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def keys(folder: Path) -> tuple[Path, Path]:
    """A private key and its public one, as openssl makes them."""
    key, public = folder / "key.pem", folder / "key.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    key.chmod(0o600)
    return key, public


def carry(out: Path, medium: Path, is_wanted: Callable[[int], bool]) -> None:
    for folder in out.iterdir():
        if is_wanted(int(folder.name)):
            shutil.copytree(folder, medium / folder.name)


def rows(trail: Path) -> list[str]:
    with TrailReader(trail) as reader:
        return [str(row) for row in show(reader, after=reader.first() - 1)]
