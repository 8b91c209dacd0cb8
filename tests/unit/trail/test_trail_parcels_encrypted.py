"""Parcels of an encrypted trail: no row is read in them, and with the key only what its holder has exported is believed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import AnabranchError, ParcelDamaged, ParcelRefused, TrailCorrupt, TrailKeyMissing
from anabranch.trail import keys, parcel, parcel_seals, published, rekeying, sealing
from anabranch.trail.exporting import Exporter
from anabranch.trail.format import ENCRYPTED, SegmentName
from anabranch.trail.importing import Importer, verify
from anabranch.trail.keys import key_id
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica_files import KEYS
from anabranch.trail.signing import signer_of_file, verifier
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter
from rigs.parcels import changed, export, flip, rows_of, same, take_in, write
from rigs.trail_loads import a_load

OpenWriter = Callable[..., TrailWriter]
SECRET = b"a-value-nobody-else-has"
PLAINTEXT = (b"note 3/1", b"note 12/", b"large 7", SECRET)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Data keys that an earlier test has unwrapped are not known."""
    sealing.forget()
    yield


def key(folder: Path, number: int = 1) -> dict[str, str]:
    path = folder / f"{number}.key"
    path.touch(mode=0o600)
    path.write_bytes(bytes([number] * 32))
    return {"key_file": str(path)}


def said(folder: Path, number: int = 1, *former: int) -> dict[str, Any]:
    return {"current": key(folder, number), "former": [key(folder, one) for one in former]}


@pytest.fixture
def writer(open_writer: OpenWriter, samples: Any, tmp_path: Path) -> TrailWriter:
    """A trail of 20 transactions, encrypted, whose table was altered by a statement with a secret."""
    found = open_writer(segment_bytes=6000, encrypt=said(tmp_path))
    found.alter(samples.definition(version=2), f"ALTER TABLE orders COMMENT '{SECRET.decode()}'")
    write(found, 1, 20)
    return found


@pytest.fixture
def paths(writer: TrailWriter, tmp_path: Path) -> tuple[Path, Path, Path]:
    """The trail, its parcels, and where they go."""
    found = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    a_load(found[0])
    assert len(export(found[0], found[1])) > 3
    return found


def refused(out: Path, copy: Path, kind: type[AnabranchError], match: str, *given: dict[str, str]) -> str:
    """See that a parcel is refused, and that nothing of it comes in behind those before it."""
    sealing.forget()
    with pytest.raises(kind, match=match) as caught:
        take_in(out, copy, trail_keys=given)
    number = re.search(r"\b0*(\d+)\b", caught.value.message.partition("parcel")[2] or caught.value.message)
    assert number and caught.value.hint
    imports = copy / "imports.json"
    assert (json.loads(imports.read_text())["number"] if imports.exists() else 0) < int(number[1])
    assert published_number(copy) < int(number[1])
    return f"{caught.value.message} {caught.value.hint}"


def published_number(copy: Path) -> int:
    """Return the number of the segment that is published, which is that of its parcel here; 0 for none."""
    if published.FILE not in LocalStorage(copy).names():
        return 0
    cell = published.opened(LocalStorage(copy))
    try:
        return published.read(cell).number
    finally:
        cell.close()


def again(folder: Path, **facts: Any) -> None:
    """Write the manifest of a parcel anew for the files that are in it now, as somebody can who has no key."""
    found = json.loads((folder / parcel.MANIFEST).read_text())
    for file in found["files"]:
        content = (folder / file["name"]).read_bytes()
        file |= {"size": len(content), "sha256": sha256(content).hexdigest()}
    changed(folder, files=found["files"], **facts)


def test_the_same_trail_comes_and_nothing_of_a_row_is_in_a_parcel(
    paths: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    trail, out, copy = paths
    assert take_in(out, copy, trail_keys=[key(tmp_path)]) == parcel.numbers(out)
    same(trail, copy)
    assert [one.name for one in (copy / "load").rglob("*.arrow")]
    for path in filter(Path.is_file, [*out.rglob("*"), *copy.rglob("*")]):
        assert not [text for text in PLAINTEXT if text in path.read_bytes()], path
    for folder in out.iterdir():
        manifest, _ = parcel.read_manifest(folder)
        assert manifest.seal and json.loads((folder / parcel.MANIFEST).read_text())["format"] == parcel.SEALED
    verify(out, None, lambda manifest: None, [key(tmp_path)])


def test_without_the_key_they_are_taken_in_unopened_and_read_by_it_later(
    paths: tuple[Path, Path, Path], writer: TrailWriter, tmp_path: Path
) -> None:
    trail, out, copy = paths
    take_in(out, copy)
    sealing.forget()
    with pytest.raises(TrailKeyMissing, match=f"is encrypted by key {key_id(bytes([1] * 32))}, which is not there"):
        rows_of(copy)
    keys.note_reader(LocalStorage(copy), said(tmp_path))
    same(trail, copy)
    write(writer, 21, 30)
    export(trail, out)
    assert take_in(out, copy), "the key is noted by now, and opens what comes"
    same(trail, copy)


def test_a_wrong_key_and_one_that_is_gone_are_said_once(paths: tuple[Path, Path, Path], tmp_path: Path) -> None:
    trail, out, copy = paths
    one, other = key_id(bytes([1] * 32)), key_id(bytes([2] * 32))
    told = refused(out, copy, TrailKeyMissing, "parcel 1 is encrypted by key", key(tmp_path, 2))
    assert told.count(one) == 1 and f"keys there: {other}" in told and "--trail-key" in told
    Path(key(tmp_path)["key_file"]).unlink()
    told = refused(out, copy, TrailKeyMissing, "No such file", {"key_file": str(tmp_path / "1.key")})
    assert "parcel 1 is encrypted by key" in told
    sealing.forget()
    wanted = parcel.numbers(out)
    with pytest.raises(TrailKeyMissing):
        export(trail, tmp_path / "other", name="other")
    assert take_in(out, copy, trail_keys=[key(tmp_path, 1), key(tmp_path, 2)]) == wanted


def test_no_bit_of_a_file_changes_also_where_a_manifest_is_made_for_it(
    paths: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    """Flip a bit of each file: its digest differs, and a manifest made to fit is not the one that was sealed. An import without
    the key takes such a manifest, and its reader refuses the frame then."""
    _, out, copy = paths
    names = [path for folder in out.iterdir() for path in folder.rglob("*") if path.is_file()]
    for path in names:
        folder = next(one for one in out.iterdir() if one in path.parents)
        whole = {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        number, name = int(folder.name), path.relative_to(folder).as_posix()
        shutil.rmtree(copy, ignore_errors=True)
        if name != parcel.MANIFEST:
            flip(path, path.stat().st_size // 2)
            refused(out, copy, ParcelDamaged, f"parcel {number}: {name} is not", key(tmp_path))
            again(folder)
        else:
            changed(folder, created="2020-01-01T00:00:00Z")
        shutil.rmtree(copy, ignore_errors=True)
        told = refused(out, copy, ParcelRefused, f"parcel {number}: ", key(tmp_path))
        assert "not what was written" in told or "not the one that was sealed" in told, told
        for one, content in whole.items():
            one.write_bytes(content)


def test_a_plain_parcel_among_encrypted_ones_is_refused(
    paths: tuple[Path, Path, Path], open_writer: OpenWriter, writer: TrailWriter, tmp_path: Path
) -> None:
    """Somebody without the key makes a parcel of rows of his own, with a manifest that fits in every respect."""
    trail, out, copy = paths
    last, _ = parcel.read_manifest(out / f"{max(parcel.numbers(out)):06d}")
    writer.close()
    (trail / "readers").rename(tmp_path / "away")
    forged = tmp_path / "forged"
    os.rename(trail, tmp_path / "real")
    (tmp_path / "encryption.json").rename(tmp_path / "real.json")
    write(open_writer(), 1, 25)
    export(trail, forged)
    (folder,) = [one for one in forged.iterdir() if parcel.read_manifest(one)[0].last == 25]
    number = last.number + 1
    name = SegmentName.parse(parcel.read_manifest(folder)[0].segment.file)  # type: ignore[union-attr] # it has one
    assert name
    changed(folder, number=number, chain=last.chain, first=last.last + 1)
    shutil.copytree(folder, out / f"{number:06d}")
    for given in ([key(tmp_path)], []):
        take_in_all_but_the_last(out, copy, number, given)
        told = refused(out, copy, ParcelRefused, f"parcel {number} ", *given)
        assert "not encrypted" in told or "begins at" in told or "does not follow" in told
        previous = parcel.read_manifest(out / f"{number - 1:06d}")[1]
        changed(out / f"{number:06d}", previous=previous)
        assert "not encrypted" in refused(out, copy, ParcelRefused, f"parcel {number} ", *given)
        shutil.rmtree(copy)
        (tmp_path / ".copy.encryption.json").unlink(missing_ok=True)


def take_in_all_but_the_last(out: Path, copy: Path, number: int, given: list[dict[str, str]]) -> None:
    away = out.with_name("one")
    (out / f"{number:06d}").rename(away)
    take_in(out, copy, trail_keys=given)
    away.rename(out / f"{number:06d}")


def test_a_seal_is_of_one_parcel(paths: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """One that is put from another manifest into this one, cut, or of a shape that none has."""
    _, out, copy = paths
    first, second = (json.loads((out / name / parcel.MANIFEST).read_text()) for name in ("000001", "000002"))
    seals = (
        second["seal"],
        {**first["seal"], "facts": second["seal"]["facts"]},
        {**first["seal"], "proof": second["seal"]["proof"]},
        {**first["seal"], "proof": first["seal"]["proof"][:-4]},
        {**first["seal"], "proof": None},
        {"facts": first["seal"]["facts"]},
        {"facts": [], "proof": ""},
        {"facts": {"encryption": 1}, "proof": ""},
        {"facts": {"encryption": first["seal"]["facts"]["encryption"]}, "proof": first["seal"]["proof"]},
        *(with_other(first["seal"], "data", text) for text in ("AAAA", "nö", "", swapped(first["seal"], "data"))),
        *(with_other(first["seal"], "tag", text) for text in ("tög", "\ud800", "", swapped(first["seal"], "tag"))),
    )
    for seal in seals:
        changed(out / "000001", seal=seal)
        refused(out, copy, ParcelRefused, "parcel 1: ", key(tmp_path))
    changed(out / "000001", seal="text")
    refused(out, copy, ParcelDamaged, "parcel 1: manifest.json cannot be read", key(tmp_path))
    changed(out / "000001", seal=None, format=1)
    refused(out, copy, ParcelRefused, "parcel 1 is not encrypted", key(tmp_path))
    changed(out / "000001", seal=None, format=2)
    refused(out, copy, ParcelRefused, "parcel 1: manifest.json has format 2", key(tmp_path))


def with_other(seal: dict[str, Any], name: str, text: str) -> dict[str, Any]:
    """Return a seal whose data key is said otherwise."""
    facts = seal["facts"]
    return {**seal, "facts": {**facts, "encryption": {**facts["encryption"], name: text}}}


def swapped(seal: dict[str, Any], name: str) -> str:
    """Return what a seal says of its data key with another first character."""
    text: str = seal["facts"]["encryption"][name]
    return ("b" if text[0] == "a" else "a") + text[1:]


def test_the_tag_of_a_segment_may_be_any_text(paths: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """It is compared as what it is, and never believed."""
    seal, header = sealing.made({"number": 1}, keys.service_of(key(tmp_path)))
    storage = LocalStorage(paths[0])
    found = sealing.opened(storage, header, "a file")
    assert found and found.has_tag(seal.tag)
    for tag in ("tög", "\ud800", ""):
        changed_header = {**header, "encryption": {**header["encryption"], "tag": tag}}
        with pytest.raises(sealing.Tampered, match="its tag is wrong"):
            sealing.opened(storage, changed_header, "a file")


def test_swapped_cut_and_former_parcels_are_refused(
    paths: tuple[Path, Path, Path], writer: TrailWriter, tmp_path: Path
) -> None:
    _, out, copy = paths
    segment = next(path for path in (out / "000002").iterdir() if SegmentName.parse(path.name))
    whole = segment.read_bytes()
    segment.write_bytes(whole[: len(whole) - 40])
    again(out / "000002")
    assert refused(out, copy, ParcelRefused, "parcel 2: ", key(tmp_path))
    segment.write_bytes(whole)
    again(out / "000002")
    os.rename(out / "000003", out / "000099")
    os.rename(out / "000002", out / "000003")
    os.rename(out / "000099", out / "000002")
    refused(out, copy, ParcelRefused, "says that it is parcel 3", key(tmp_path))
    changed(out / "000002", number=2)
    refused(out, copy, ParcelRefused, "parcel 2", key(tmp_path))


def test_a_plain_segment_in_a_copy_is_refused(
    paths: tuple[Path, Path, Path], open_writer: OpenWriter, writer: TrailWriter, tmp_path: Path
) -> None:
    """In place of one that was imported, with the same name: the copy knows from where on all is encrypted."""
    trail, out, copy = paths
    take_in(out, copy, trail_keys=[key(tmp_path)])
    same(trail, copy)
    writer.close()
    os.rename(trail, tmp_path / "real")
    (tmp_path / "encryption.json").rename(tmp_path / "real.json")
    write(open_writer(), 1, 20)
    export(trail, tmp_path / "plain")
    plain = {path.name: path for path in (tmp_path / "plain").rglob("*.segment")}
    replaced = [path for path in copy.glob("*.segment") if path.name in plain]
    assert replaced
    shutil.copyfile(plain[replaced[0].name], replaced[0])
    sealing.forget()
    with pytest.raises(TrailCorrupt, match="it is not encrypted, and was to be"):
        rows_of(copy)


def test_another_key_while_parcels_go(paths: tuple[Path, Path, Path], writer: TrailWriter, tmp_path: Path) -> None:
    """Data keys that were wrapped anew go along, also where loads do not; an older file of them takes no newer one's place."""
    trail, out, copy = paths
    take_in(out, copy, trail_keys=[key(tmp_path)])
    rekeying.rekey(trail, said(tmp_path, 2, 1))
    write(writer, 21, 25)
    made = export(trail, out, with_load=False)
    assert KEYS in [file.name for one in made for file in one.files]
    assert "not there" in refused(out, copy, TrailKeyMissing, f"parcel {made[0].number} is encrypted by key")
    take_in(out, copy, trail_keys=[key(tmp_path, 2), key(tmp_path)])
    same(trail, copy)
    assert json.loads((copy / KEYS).read_text()) == json.loads((trail / KEYS).read_text())
    newer = {"number": 9, "keys": {}}
    (copy / KEYS).write_text(json.dumps(newer))
    rekeying.rekey(trail, said(tmp_path, 2, 1))
    write(writer, 26, 27)
    export(trail, out, with_load=False)
    take_in(out, copy)
    assert json.loads((copy / KEYS).read_text()) == newer


def test_another_key_of_the_copy_alone(paths: tuple[Path, Path, Path], writer: TrailWriter, tmp_path: Path) -> None:
    """Data keys that came in parcels are wrapped anew there; then the former key may go, parcels that come are read on."""
    trail, out, copy = paths
    take_in(out, copy, trail_keys=[key(tmp_path)])
    rekeying.rekey(trail, said(tmp_path, 2, 1))
    rekeying.rekey(copy, said(tmp_path, 2, 1))
    found = rekeying.rekey(copy, said(tmp_path, 2))
    assert (found.others, found.plain) == (0, 0)
    noted = tmp_path / ".copy.encryption.json"
    content = json.loads(noted.read_text())
    assert content["imported"] == 1
    noted.write_text(json.dumps(content | {"readers": []}))
    Path(key(tmp_path)["key_file"]).unlink()
    keys.save(LocalStorage(trail), said(tmp_path, 2), may_turn=False)
    sealing.forget()
    same(trail, copy)
    write(writer, 21, 25)
    export(trail, out)
    assert take_in(out, copy, trail_keys=[key(tmp_path, 2)])
    sealing.forget()
    same(trail, copy)


def test_encryption_that_is_turned_on_and_off_again(open_writer: OpenWriter, tmp_path: Path) -> None:
    """Parcels from before are plain, all later ones are encrypted, also by a key that is no longer used."""
    trail, out, copy = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    for first, encrypt in ((1, None), (11, said(tmp_path)), (21, {"current": None, "former": [key(tmp_path)]})):
        writer = open_writer(encrypt=encrypt)
        write(writer, first, first + 9)
        writer.close()
        export(trail, out)
    sealed = [bool(parcel.read_manifest(out / f"{number:06d}")[0].seal) for number in parcel.numbers(out)]
    assert sealed == sorted(sealed) and set(sealed) == {False, True}
    told = refused(out, copy, ParcelRefused, "parcel 1 is not encrypted", key(tmp_path))
    assert "without --trail-key" in told
    assert take_in(out, copy) == parcel.numbers(out)
    keys.note_reader(LocalStorage(copy), said(tmp_path))
    same(trail, copy)


def test_encryption_and_keys_that_change_while_an_export_goes_on(open_writer: OpenWriter, tmp_path: Path) -> None:
    """One export writes plain parcels, encrypted ones once that is turned on, and by another key once the trail has it, also
    when the former one is destroyed. Each parcel is by the key of its moment, and all of them are taken in."""
    trail, out, copy = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    writer = open_writer()
    write(writer, 1, 5)
    ids = [key_id(bytes([number] * 32)) for number in (1, 2)]
    with Exporter(trail, out, "out") as exporter:
        assert parcel_seals.key_of(one_more(exporter)) == ""
        writer.close()
        writer = open_writer(encrypt=said(tmp_path))
        write(writer, 6, 10)
        made = one_more(exporter)
        assert (parcel_seals.key_of(made), made.trail_format) == (ids[0], ENCRYPTED)
        rekeying.rekey(trail, said(tmp_path, 2, 1))
        write(writer, 11, 15)
        assert parcel_seals.key_of(one_more(exporter)) == ids[1]
        keys.save(LocalStorage(trail), said(tmp_path, 2), may_turn=False)
        one = Path(key(tmp_path)["key_file"])
        one.rename(tmp_path / "away")
        sealing.forget()
        write(writer, 16, 20)
        made = one_more(exporter)
        assert (parcel_seals.key_of(made), made.last) == (ids[1], 20)
    (tmp_path / "away").rename(one)
    sealing.forget()
    with Importer(out, copy) as importer:
        assert importer.next()
    assert take_in(out, copy, trail_keys=[key(tmp_path, 2), key(tmp_path)]) == [2, 3, 4]
    sealing.forget()
    same(trail, copy)


def one_more(exporter: Exporter) -> parcel.Manifest:
    """Export what is new, which is one parcel."""
    made = exporter.next()
    assert made and exporter.next() is None
    return made


def test_a_copy_is_carried_further(paths: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """By who has the key: the rows of a copy never stand in parcels of their own without encryption."""
    trail, out, copy = paths
    take_in(out, copy)
    with pytest.raises(TrailKeyMissing, match="no key is known here"):
        export(copy, tmp_path / "on", name="on")
    keys.note_reader(LocalStorage(copy), said(tmp_path))
    export(copy, tmp_path / "on", name="on")
    assert take_in(tmp_path / "on", tmp_path / "third", trail_keys=[key(tmp_path)])
    same(trail, tmp_path / "third")
    for path in filter(Path.is_file, (tmp_path / "on").rglob("*")):
        assert not [text for text in PLAINTEXT if text in path.read_bytes()], path


def test_signed_and_encrypted(writer: TrailWriter, tmp_path: Path) -> None:
    """The signature is of the manifest with its seal: who has no key of the trail checks that nothing was changed."""
    trail, out, copy = tmp_path / "trail", tmp_path / "out", tmp_path / "copy"
    private, public = tmp_path / "a.pem", tmp_path / "a.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    private.chmod(0o600)
    export(trail, out, signer=signer_of_file(str(private)))
    whole = (out / "000001" / parcel.MANIFEST).read_bytes()
    changed(out / "000001", seal=None, format=1)
    with pytest.raises(ParcelRefused, match=r"manifest.sig is none of manifest.json"):
        take_in(out, copy, verifier([public]))
    (out / "000001" / parcel.MANIFEST).write_bytes(whole)
    assert take_in(out, copy, verifier([public])) == parcel.numbers(out)
    keys.note_reader(LocalStorage(copy), said(tmp_path))
    same(trail, copy)


def test_a_trail_between_jobs_has_its_keys_beside_it(paths: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """Note beside a copy where its key is, never the key; the note stays when another job notes its own."""
    _, out, copy = paths
    take_in(out, copy, trail_keys=[key(tmp_path)])
    noted = json.loads((tmp_path / ".copy.encryption.json").read_text())
    assert noted["readers"] == [key(tmp_path)] and noted["imported"] == 1
    keys.note_reader(LocalStorage(copy), said(tmp_path, 3))
    assert json.loads((tmp_path / ".copy.encryption.json").read_text())["imported"] == 1
    with TrailReader(copy) as reader:
        assert reader.check().problems == []
