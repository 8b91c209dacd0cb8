"""Parcels that were changed, mixed up, left out, signed by somebody else or put together by hand: nothing of them comes in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import (
    ConfigError,
    ParcelDamaged,
    ParcelMissing,
    ParcelRefused,
    TrailCorrupt,
    TrailError,
    TrailKeyMissing,
)
from anabranch.trail import exports, parcel
from anabranch.trail.exporting import Exporter
from anabranch.trail.format import ENCRYPTED
from anabranch.trail.importing import FILE, Importer, verify
from anabranch.trail.reader import TrailReader
from anabranch.trail.signing import signer_of_environment, signer_of_file, verifier
from anabranch.trail.writer import TrailWriter
from rigs.parcels import changed, export, flip, rows_of, same, take_in, write


@pytest.fixture
def paths(open_writer, tmp_path: Path) -> tuple[Path, Path, Path]:
    """A trail of 20 transactions that is exported, and imported up to the second parcel."""
    trail, out, copy = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    write(open_writer(), 1, 20)
    (trail / "load/t").mkdir(parents=True)
    (trail / "load/t/manifest.json").write_text("of a load" * 20)
    export(trail, out)
    return trail, out, copy


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    """Two pairs of keys, as openssl makes them: `a`, `a.pub`, `b`, `b.pub`."""
    found = {}
    for name in ("a", "b"):
        found[name], found[f"{name}.pub"] = tmp_path / f"{name}.pem", tmp_path / f"{name}.pub.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", found[name]], check=True)
        found[name].chmod(0o600)
        subprocess.run(["openssl", "pkey", "-in", found[name], "-pubout", "-out", found[f"{name}.pub"]], check=True)
    return found


def test_a_place_that_cannot_be_written_is_named_not_the_trails_disk(paths: tuple[Path, Path, Path]) -> None:
    trail, _, copy = paths
    copy.write_text("a file, in which no directory can be made")
    with pytest.raises(TrailError, match="cannot write the directory") as failed:
        Exporter(trail, copy / "out", name="other")
    assert str(copy / "out") in failed.value.hint and "disk of the trail" not in failed.value.hint


def two_taken_in(out: Path, copy: Path) -> dict[int, Any]:
    with Importer(out, copy) as importer:
        assert [importer.next().number, importer.next().number] == [1, 2]
    return rows_of(copy)


def refused(out: Path, copy: Path, kind: type[TrailError], match: str, keys: Any = None) -> None:
    """See that the next parcel is refused, by --check as well where it alone tells, and that readers see nothing of it."""
    before = rows_of(copy)
    with Importer(out, copy, keys=keys) as importer, pytest.raises(kind, match=match):
        importer.next()
    assert rows_of(copy) == before
    with TrailReader(copy) as reader:
        assert reader.check().problems == []


def test_imported_twice_is_said_and_nothing_happens(paths):
    trail, out, copy = paths
    take_in(out, copy)
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"}
    with Importer(out, copy) as importer:
        assert list(importer.had()) == parcel.numbers(out) and importer.next() is None and list(importer.had()) == []
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file() and path.name != "lock"} == before
    same(trail, copy)


def test_out_of_order_and_one_missing_name_the_number(paths):
    trail, out, copy = paths
    away = out.with_name("away")
    away.mkdir()
    for name in ("000001", "000003", "000004"):
        (out / name).rename(away / name)
    with Importer(out, copy) as importer, pytest.raises(ParcelMissing, match="parcel 1 is missing, parcel 2 is there"):
        importer.next()
    (away / "000001").rename(out / "000001")
    with Importer(out, copy) as importer:
        assert [importer.next().number, importer.next().number] == [1, 2]
        with pytest.raises(ParcelMissing, match="parcels 3 to 4 are missing, parcel 5 is there"):
            importer.next()
    with pytest.raises(ParcelMissing, match="parcels 3 to 4 are missing, parcel 5 is there"):
        verify(out, None, lambda manifest: None)
    assert rows_of(copy).keys() == set(range(1, max(rows_of(copy)) + 1))
    for name in ("000003", "000004"):
        (away / name).rename(out / name)
    take_in(out, copy)
    same(trail, copy)


def test_one_changed_bit_of_any_file_is_refused_by_its_name(paths):
    trail, out, copy = paths
    two_taken_in(out, copy)
    names = [path for path in (out / "000003").rglob("*") if path.is_file() and path.name != parcel.MANIFEST]
    for path in names:
        size = path.stat().st_size
        for at in {0, size // 3, size // 2, size - 1}:
            flip(path, at)
            name = path.relative_to(out / "000003").as_posix()
            match = f"parcel 3: {name} is not the file that was exported"
            refused(out, copy, ParcelDamaged, match)
            with pytest.raises(ParcelDamaged, match=match):
                verify(out, None, lambda manifest: None)
            flip(path, at)
    take_in(out, copy)
    same(trail, copy)


def test_a_file_that_is_longer_shorter_or_gone_is_refused_by_its_name(paths):
    trail, out, copy = paths
    two_taken_in(out, copy)
    (path,) = (out / "000003").glob("*.segment")
    whole = path.read_bytes()
    path.write_bytes(whole + b"x")
    refused(out, copy, ParcelDamaged, f"parcel 3: {path.name} is not the file that was exported")
    path.write_bytes(whole[:100])
    refused(out, copy, ParcelMissing, f"parcel 3: {path.name} has 100 of {len(whole)} bytes")
    path.unlink()
    refused(out, copy, ParcelMissing, f"parcel 3: {path.name} is not there")
    path.symlink_to("/etc/passwd")
    refused(out, copy, ParcelRefused, "is neither file nor directory")
    path.unlink()
    path.write_bytes(whole)
    take_in(out, copy)
    same(trail, copy)


def test_a_manifest_that_was_changed_breaks_the_chain(paths):
    """Of parcels without signatures, too: the next one has its digest."""
    _, out, copy = paths
    changed(out / "000002", created="yesterday")
    two_taken_in(out, copy)
    refused(out, copy, ParcelRefused, "parcel 3 does not follow this parcel 2: its digest is another")
    with pytest.raises(ParcelRefused, match="parcel 3 does not follow this parcel 2"):
        verify(out, None, lambda manifest: None)


@pytest.mark.parametrize(
    ("facts", "match"),
    [
        ({"kind": "something else"}, "parcel 3: manifest.json cannot be read: it is of no parcel"),
        ({"format": 9}, "parcel 3: manifest.json has format 9, this release knows 1"),
        ({"job_uuid": "other"}, r"parcel 3 is of job shop \(other\), the replica of shop \(uuid-1"),
        ({"trail_format": 99}, "parcel 3 has format 99 of trails, this release knows"),
        ({"chain": "other"}, "parcel 3 is of another export than the parcels before it"),
        ({"number": 4}, "says that it is parcel 4"),
        ({"first": 1}, "parcel 3 begins at sequence 1, the replica ends at"),
        ({"first": "1"}, "a number is none"),
        ({"last": -1}, "a number is none"),
        ({"last": 10**6}, r"parcel 3: .*segment is not as its manifest says"),
        ({"segment": None}, "it has other segments than it says"),
        ({"history": {"after": 5, "length": 9, "before": "x"}}, "another history than it says"),
        ({"files": [{"name": "../../x", "size": 1, "sha256": ""}]}, "it names files that no parcel has"),
        ({"files": [{"name": "load/../../x", "size": 1, "sha256": ""}]}, "it names files that no parcel has"),
        ({"files": [{"name": "/etc/x", "size": 1, "sha256": ""}]}, "it names files that no parcel has"),
        ({"files": [{"name": "trail.json", "size": 1, "sha256": ""}]}, "it names files that no parcel has"),
        ({"files": 7}, "cannot be read"),
        ({"nobody": 7}, "cannot be read"),
    ],
)
def test_a_manifest_made_by_hand_is_refused(paths, facts, match):
    _, out, copy = paths
    two_taken_in(out, copy)
    changed(out / "000003", **facts)
    refused(out, copy, TrailError, match)
    assert not (out.parent / "x").exists()


def test_a_manifest_that_is_half_there_or_none_is_waited_for_or_refused(paths):
    _, out, copy = paths
    two_taken_in(out, copy)
    file = out / "000003" / parcel.MANIFEST
    whole = file.read_bytes()
    file.write_bytes(whole[:-40])
    refused(out, copy, ParcelMissing, "parcel 3: manifest.json ends in its middle")
    file.write_bytes(b"{]\n")
    refused(out, copy, ParcelDamaged, "parcel 3: manifest.json cannot be read")
    file.write_bytes(b"[]\n")
    refused(out, copy, ParcelDamaged, "parcel 3: manifest.json cannot be read")
    file.unlink()
    refused(out, copy, ParcelMissing, "parcel 3: manifest.json is not there")
    shutil.copytree(out / "000002", out / "0000002")
    with pytest.raises(ParcelRefused, match="has parcel 2 twice"):
        Importer(out, copy)


def test_a_segment_or_a_history_of_another_trail_is_refused_though_its_digest_is_right(paths, tmp_path, samples):
    _, out, copy = paths
    two_taken_in(out, copy)
    with TrailWriter.open(tmp_path / "alien", **{**samples.JOB, "job_uuid": "uuid-2"}, pack=False) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        write(writer, 1, 20)
    alien = export(tmp_path / "alien", tmp_path / "theirs", name="theirs")[2]
    shutil.rmtree(out / "000003")
    shutil.copytree(tmp_path / "theirs/000003", out / "000003")
    refused(out, copy, ParcelRefused, r"parcel 3 is of job shop \(uuid-2\), the replica of shop \(uuid-1")
    ours, _ = parcel.read_manifest(out / "000002")
    _, digest = parcel.read_manifest(out / "000002")
    changed(out / "000003", job_uuid=ours.job_uuid, chain=ours.chain, previous=digest)
    refused(out, copy, ParcelDamaged, rf"parcel 3: {alien.segment.file} is not as its manifest says")


def test_parcels_of_an_export_begun_anew_go_on_only_where_the_copy_ends(paths):
    trail, out, copy = paths
    second = out.with_name("second")
    taken = two_taken_in(out, copy)
    export(trail, second, name="second")
    with (
        Importer(second, copy) as importer,
        pytest.raises(
            ParcelRefused,
            match=rf"parcel 1 begins at sequence 1, the replica ends at {max(taken)} — export it anew with --from",
        ),
    ):
        importer.next()
    third = out.with_name("third")
    export(trail, third, name="third", start=max(taken) + 1)
    take_in(third, copy)
    assert rows_of(copy) == rows_of(trail)
    with TrailReader(copy) as reader:
        assert reader.check().problems == []
    with (
        Importer(out, copy) as importer,
        pytest.raises(ParcelRefused, match="begins at sequence 1, the replica ends at 20"),
    ):
        importer.next()


def test_a_trail_that_was_restored_from_a_backup_gives_no_segment_a_number_twice(paths):
    trail, out, copy = paths
    taken = two_taken_in(out, copy)
    (trail / "exports/segments").unlink()
    export(trail, out.with_name("third"), name="third", start=max(taken) + 1)
    with (
        Importer(out.with_name("third"), copy) as importer,
        pytest.raises(ParcelRefused, match="parcel 1 has segment 1, the replica has 2 already"),
    ):
        importer.next()


def test_a_parcel_that_was_written_twice_is_told_from_the_one_that_came(paths):
    _, out, copy = paths
    take_in(out, copy)
    changed(out / "000002", created="yesterday")
    with (
        Importer(out, copy) as importer,
        pytest.raises(ParcelRefused, match="parcel 2 is another than the parcel 2 that"),
    ):
        list(importer.had())


def test_signatures_are_those_of_openssl_and_each_key_is_checked(paths, keys, tmp_path):
    trail, _, copy = paths
    out = tmp_path / "signed"
    export(trail, out, name="signed", signer=signer_of_file(keys["a"]))
    for number in parcel.numbers(out):
        folder = parcel.folder_of(out, number)
        checked = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", keys["a.pub"], "-rawin"]
        subprocess.run([*checked, "-in", folder / "manifest.json", "-sigfile", folder / "manifest.sig"], check=True)
    ours, theirs = verifier([keys["a.pub"]]), verifier([keys["b.pub"]])
    with (
        Importer(out, copy, keys=theirs) as importer,
        pytest.raises(ParcelRefused, match=r"is none of manifest\.json by key"),
    ):
        importer.next()
    assert not (copy / "trail.json").exists()
    take_in(out, copy, verifier([keys["b.pub"], keys["a.pub"]]))
    same(trail, copy)
    verify(out, ours, lambda manifest: None)
    with pytest.raises(ParcelRefused, match="by key"):
        verify(out, theirs, lambda manifest: None)


def test_any_change_of_a_signed_manifest_or_of_its_signature_is_refused(paths, keys, tmp_path):
    trail, _, copy = paths
    out, accepted = tmp_path / "signed", verifier([keys["a.pub"]])
    export(trail, out, name="signed", signer=signer_of_file(keys["a"]))
    with Importer(out, copy, keys=accepted) as importer:
        importer.next()
    for file in (out / "000002/manifest.json", out / "000002/manifest.sig"):
        for at in range(0, file.stat().st_size - 1, 9):
            flip(file, at)
            refused(out, copy, ParcelRefused, r"parcel 2: manifest\.sig is none of manifest\.json by key", accepted)
            flip(file, at)
    signature = (out / "000002/manifest.sig").read_bytes()
    (out / "000002/manifest.sig").write_bytes((out / "000003/manifest.sig").read_bytes())
    refused(out, copy, ParcelRefused, r"parcel 2: manifest\.sig is none of manifest\.json", accepted)
    (out / "000002/manifest.sig").write_bytes(signature + b"x")
    refused(out, copy, TrailError, r"manifest\.sig has more than 64 bytes", accepted)
    (out / "000002/manifest.sig").unlink()
    refused(out, copy, ParcelMissing, r"parcel 2: manifest\.sig is not there", accepted)


def test_what_nobody_has_signed_is_refused_when_a_key_is_given(paths, keys):
    trail, out, copy = paths
    with (
        Importer(out, copy, keys=verifier([keys["a.pub"]])) as importer,
        pytest.raises(ParcelRefused, match=r"parcel 1 is not signed, and key [0-9a-f]{16} was given"),
    ):
        importer.next()
    take_in(out, copy)
    same(trail, copy)


def test_keys_that_are_none_are_refused_with_the_way_to_make_one(keys, tmp_path, monkeypatch):
    rsa, locked = tmp_path / "rsa.pem", tmp_path / "locked.pem"
    subprocess.run(["openssl", "genpkey", "-quiet", "-algorithm", "rsa", "-out", rsa], check=True)
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:x", "-out", locked], check=True
    )
    for path in (rsa, locked):
        path.chmod(0o600)
    with pytest.raises(ConfigError, match="is none of Ed25519 — openssl genpkey -algorithm ed25519"):
        signer_of_file(rsa)
    with pytest.raises(ConfigError, match="needs a passphrase"):
        signer_of_file(locked)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        signer_of_file(tmp_path / "none.pem")
    with pytest.raises(ConfigError, match="has no private key in PEM form"):
        keys["b.pub"].chmod(0o644)  # as it may be: that it had a private key was said of it
        signer_of_file(keys["b.pub"])
    with pytest.raises(ConfigError, match="has no public key in PEM form"):
        verifier([keys["a"]])
    keys["a"].chmod(0o644)
    with pytest.raises(ConfigError, match=r"others than its owner may read it — chmod 600 .*a\.pem"):
        signer_of_file(keys["a"])
    with pytest.raises(ConfigError, match=r"\$NO_KEY is not set"):
        signer_of_environment("NO_KEY")
    monkeypatch.setenv("A_KEY", keys["a"].read_text())
    assert signer_of_environment("A_KEY").name in verifier([keys["a.pub"]]).names
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigError, match=r"which is not installed — pip install '\.\[signatures\]'"):
        signer_of_environment("A_KEY")


def test_a_state_that_cannot_be_read_is_said(paths):
    trail, out, copy = paths
    take_in(out, copy)
    (copy / FILE).write_text("{]")
    with pytest.raises(TrailCorrupt, match=r"imports\.json cannot be read"):
        Importer(out, copy)
    (trail / "exports/out.json").write_text("{]")
    with pytest.raises(TrailCorrupt, match=r"exports/out\.json cannot be read"):
        Exporter(trail, out, "out")
    assert exports.directories(trail) == {}


def test_a_medium_without_links_and_with_files_of_others_is_read(paths):
    trail, out, copy = paths
    (out / ".DS_Store").write_text("x")
    (out / "System Volume Information").mkdir()
    (out / "000000").mkdir()
    (out / "000001/.DS_Store").write_text("x")
    os.mkfifo(out / "000099")
    take_in(out, copy)
    same(trail, copy)


def test_a_trail_that_is_encrypted_is_not_exported_without_a_key(paths: tuple[Path, Path, Path]) -> None:
    trail, out, _ = paths
    said = json.loads((trail / "trail.json").read_text())
    (trail / "trail.json").write_text(json.dumps(said | {"format": ENCRYPTED}))
    before = sorted(os.listdir(out))
    with pytest.raises(TrailKeyMissing, match="is encrypted, and no key is known here"):
        export(trail, out)
    assert sorted(os.listdir(out)) == before
