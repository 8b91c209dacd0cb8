"""A kill -9 at each place of an export and of an import, then the same again: the same end, nothing lost, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import ParcelMissing
from anabranch.failpoints import EXIT_CODE, POINTS, VARIABLE
from anabranch.trail import parcel
from rigs.parcels import export, same, take_in, write
from rigs.trail_loads import a_load

ROOT = Path(__file__).parents[3]
RUN = """
import sys
from pathlib import Path
from rigs.parcels import export, take_in
trail, out, copy = map(Path, sys.argv[2:5])
given = [{"key_file": one} for one in sys.argv[5:]]
export(trail, out) if sys.argv[1] == "export" else take_in(out, copy, remove=True, trail_keys=given)
"""


def killed(what: str, action: str, *paths: Path) -> None:
    """Run it in a process of its own that ends as after SIGKILL."""
    environment = {**os.environ, VARIABLE: action, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    done = subprocess.run([sys.executable, "-c", RUN, what, *map(str, paths)], env=environment, capture_output=True)
    assert done.returncode == EXIT_CODE, done.stderr.decode()


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("parcel.export.")])
def test_an_export_that_is_killed_goes_on_with_the_same_parcels(open_writer, tmp_path, point):
    trail, out, copy = paths = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    write(open_writer(), 1, 12)
    killed("export", f"{point}=exit@2", *paths)
    assert [number for number in parcel.numbers(out) if not (out / f"{number:06d}/manifest.json").exists()] == []
    export(trail, out)
    assert sorted(path.name for path in out.iterdir()) == [f"{number:06d}" for number in parcel.numbers(out)]
    assert take_in(out, copy) == list(range(1, max(parcel.numbers(out)) + 1))
    same(trail, copy)


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("parcel.")])
def test_parcels_of_an_encrypted_trail_are_as_whole_after_a_kill(open_writer, tmp_path, point):
    """Kill the export, then the import: each goes on with what it had, and no file has a row in plain text."""
    trail, out, copy = paths = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    key = tmp_path / "one.key"
    key.touch(mode=0o600)
    key.write_bytes(bytes(32))
    writer = open_writer(encrypt={"current": {"key_file": str(key)}, "former": []})
    write(writer, 1, 12)
    a_load(trail)
    what = point.split(".")[1]
    if what == "import":
        export(trail, out)
    killed(what, f"{point}=exit@2", *paths, *([key] if what == "import" else []))
    write(writer, 13, 14)
    export(trail, out)
    take_in(out, copy, trail_keys=[{"key_file": str(key)}], remove=True)
    same(trail, copy)
    assert not [path for path in copy.rglob("*") if path.is_file() and b"note 3/1" in path.read_bytes()]
    assert not (copy / "arriving").exists()


@pytest.mark.parametrize("point", [name for name in POINTS if name.startswith("parcel.import.")])
def test_an_import_that_is_killed_ends_as_one_that_was_not(open_writer, tmp_path, point):
    trail, out, copy = paths = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    writer = open_writer()
    write(writer, 1, 12)
    (trail / "load/t").mkdir(parents=True)
    for name in ("1.rows", "manifest.json"):
        (trail / "load/t" / name).write_text(name * 100)
    export(trail, out)
    for nth in (1, 2):
        killed("import", f"{point}=exit@{nth}", *paths)
        write(writer, 12 + nth, 12 + nth)
        export(trail, out)
    take_in(out, copy, remove=True)
    same(trail, copy)
    assert (copy / "load/t/manifest.json").read_text() == "manifest.json" * 100
    assert list(out.iterdir()) == [] and not (copy / "arriving").exists()


def test_a_parcel_that_is_nowhere_after_a_kill_is_not_written_twice_without_being_asked(open_writer, tmp_path):
    trail, out, copy = paths = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    write(open_writer(), 1, 12)
    killed("export", "parcel.export.renamed=exit@2", *paths)
    taken = out.rename(out.with_name("taken"))
    with pytest.raises(ParcelMissing, match=r"parcel 2 was about to be put into .*out when export out was interrupted"):
        export(trail, out)
    taken.rename(out)
    export(trail, out)
    take_in(out, copy)
    same(trail, copy)


def test_asked_for_it_is_written_anew(open_writer, tmp_path):
    trail, out, copy = paths = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    write(open_writer(), 1, 12)
    killed("export", "parcel.export.noted=exit@2", *paths)
    (partial,) = out.glob(".*.partial")
    (partial / "manifest.json").unlink()
    with pytest.raises(ParcelMissing, match="--again"):
        export(trail, out)
    export(trail, out, again=True)
    take_in(out, copy)
    same(trail, copy)
