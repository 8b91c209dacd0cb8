"""The schema history as a file to keep: it is put back where a trail's own is lost, and only where it is all of it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch import failpoints
from anabranch.errors import StateError, TrailCorrupt, TrailError
from anabranch.failpoints import FailpointReached
from anabranch.lifecycle import restoring_history
from anabranch.model.table_life import Life, TableState, park
from anabranch.trail import headers, history_file, identity
from anabranch.trail.history import FILE, Entry
from anabranch.trail.reader import TrailReader
from anabranch.trail.storage import LocalStorage


@pytest.fixture
def grown(open_writer, samples, kill, tmp_path):
    """A trail of two definitions, one of which was altered; closed, with its history as it was exported."""
    writer = open_writer()
    writer.append(samples.chunk(1, 1))
    writer.alter(samples.definition(version=2), "ALTER TABLE orders ADD ü INT")
    writer.append(samples.chunk(2, 2))
    writer.flush()
    kill(writer)
    return LocalStorage(tmp_path / "trail")


def put_back(storage: LocalStorage, text: str) -> bytes:
    came = history_file.lines_of(storage, text, "kept")
    data, _ = history_file.restored(storage, came, "kept")
    history_file.put_back(storage, data)
    return data


def file_of(storage: LocalStorage) -> Path:
    return Path(storage.path(FILE))


def further(open_writer, samples, kill, flush: bool = True, **noted: str) -> None:
    """One more definition and a transaction, published or not."""
    writer = open_writer()
    writer.alter(samples.definition(version=3), "ALTER 3")
    writer.append(samples.chunk(3, 3))
    if flush:
        writer.flush()
    kill(writer)


def test_a_lost_history_comes_back_byte_by_byte(grown, open_writer, samples):
    before, text = file_of(grown).read_bytes(), history_file.exported(grown)
    head, *lines = (json.loads(line) for line in text.splitlines())
    assert head["sequence"] == 2 and {one["kind"] for one in lines} == {"job", "schema"}
    assert history_file.is_whole(grown)
    file_of(grown).unlink()
    assert not history_file.is_whole(grown)
    assert put_back(grown, text) == before == file_of(grown).read_bytes()
    assert TrailReader(grown.path("")).check().problems == []
    writer = open_writer()
    assert writer.history.latest(samples.ORDERS) == samples.definition(version=2)


def test_rule_19_what_came_since_is_taken_from_the_damaged_file_or_refused(grown, open_writer, samples, kill):
    text = history_file.exported(grown)
    further(open_writer, samples, kill)
    whole = file_of(grown).read_bytes()
    file_of(grown).write_bytes(whole[:40] + b"#" + whole[41:])  # one byte is another
    assert not history_file.is_whole(grown)
    assert put_back(grown, text) == whole and (Path(grown.path("")) / history_file.DAMAGED).read_bytes()[40:41] == b"#"

    newer = history_file.exported(grown)
    for damaged in (
        None,
        whole[:-1],
        b"".join(whole.splitlines(keepends=True)[1:]),
        whole[:60] + whole[61:],
        b"\n" * len(whole),
    ):
        file_of(grown).unlink() if damaged is None else file_of(grown).write_bytes(damaged)
        with pytest.raises(TrailCorrupt, match=r"what was altered or parked since is not known|the line is not"):
            put_back(grown, text)
        assert (file_of(grown).read_bytes() if damaged is not None else None) == damaged
        assert put_back(grown, newer) == whole


def test_rule_19_a_trail_with_more_than_was_published_has_perhaps_more_history(grown, open_writer, samples, kill):
    further(open_writer, samples, kill, flush=False)
    text = history_file.exported(grown)
    whole = file_of(grown).read_bytes()
    file_of(grown).unlink()
    with pytest.raises(TrailCorrupt, match="more than was published"):
        put_back(grown, text)
    file_of(grown).write_bytes(whole.replace(b"ORDERS", b"orders").replace(b"job", b"jab", 1))
    assert put_back(grown, text) == whole  # what was noted and not published stands behind it


def test_another_job_or_another_file_is_refused(grown, open_writer, samples, kill, tmp_path):
    text = history_file.exported(grown)
    head, rest = text.split("\n", 1)
    other = json.dumps(json.loads(head) | {"job_uuid": "of-another"}) + "\n" + rest
    for wrong, error, why in (
        (other, StateError, "is the history of job"),
        (head + "\n" + rest.replace('"INT"', '"int"').replace("ALTER", "alter"), TrailCorrupt, "checksum"),
        ("\n".join(text.splitlines()[:-1]), TrailCorrupt, "checksum"),
        (
            json.dumps(json.loads(head) | {"sequence": 3}) + "\n" + rest,
            TrailCorrupt,
            "at sequence 3, the trail has come to 2",
        ),
        (json.dumps(json.loads(head) | {"format": 2}) + "\n" + rest, TrailError, "has format 2"),
        ("", TrailError, "no schema history"),
        ("[1]\n", TrailError, "no schema history"),
    ):
        with pytest.raises(error, match=why):
            put_back(grown, wrong)
    with pytest.raises(TrailError, match="there is no trail"):
        history_file.exported(LocalStorage(tmp_path / "nowhere"))

    kept = file_of(grown).read_bytes()
    further(open_writer, samples, kill)
    newer = history_file.exported(grown)
    file_of(grown).write_bytes(kept)
    with pytest.raises(TrailCorrupt):  # cut: nobody exports what is not whole
        history_file.exported(grown)
    assert put_back(grown, newer).startswith(kept)


def test_a_kill_between_leaves_what_can_be_done_again(grown):
    text = history_file.exported(grown)
    whole = file_of(grown).read_bytes()
    file_of(grown).write_bytes(b"nothing")
    try:
        failpoints.arm({failpoints.VARIABLE: "trail.history.restored=raise"})
        with pytest.raises(FailpointReached):
            put_back(grown, text)
    finally:
        failpoints.arm({})
    assert file_of(grown).read_bytes() == b"nothing"
    assert put_back(grown, text) == whole


@pytest.mark.parametrize("copies", [1, 2, 9])
def test_rule_19_a_history_made_anew_has_a_line_that_ends_where_readers_were_told(grown, open_writer, samples, copies):
    """Also one that is longer than the lost one was: readers see the rest once the next writer has published."""
    published = file_of(grown).stat().st_size
    file_of(grown).unlink()
    entries = [Entry("schema", 3, schema=samples.definition(version=1 + number)) for number in range(copies)]
    data = history_file.made_anew(grown, entries)
    assert len(data) >= published and data[:published].endswith(b"\n")
    history_file.put_back(grown, data)
    assert history_file.is_whole(grown)
    assert TrailReader(grown.path("")).history.names_its_job
    writer = open_writer()
    assert writer.history.latest(samples.ORDERS) == samples.definition(version=copies)
    writer.append(samples.chunk(3, 3))
    writer.flush()
    assert TrailReader(grown.path("")).history.latest(samples.ORDERS) == samples.definition(version=copies)


def test_rule_19_no_history_is_made_anew_where_the_trail_has_more_than_was_published(grown, open_writer, samples, kill):
    further(open_writer, samples, kill, flush=False)
    file_of(grown).unlink()
    with pytest.raises(TrailCorrupt, match="more than was published"):
        history_file.made_anew(grown, [])


def test_a_trail_of_two_servers_needs_its_own_history(grown, open_writer, samples):
    """Only the history says that rows of the former server belong to it."""
    writer = open_writer()
    writer.adopt_identity("server-2")
    writer.append(samples.chunk(3, 3))
    writer.close()
    job, ours = SimpleNamespace(label="shop"), identity.load(grown)
    assert ours is not None and headers.other_sources(grown, ours) == {"server-1"}
    file_of(grown).unlink()
    with pytest.raises(StateError, match="the trail has rows of server-1") as refused:
        restoring_history._refuse_former_sources(job, grown)
    assert "anabranch schema import FILE JOB" in str(refused.value.hint)
    with pytest.raises(TrailCorrupt, match="missing"), TrailReader(grown.path("")) as reader:
        [reader.load(ref) for ref in reader.descriptors(0)]


@pytest.mark.parametrize("parks", ["north", "south"])
def test_a_history_is_not_made_anew_where_one_target_streams_what_another_has_parked(samples, monkeypatch, parks):
    """It would be parked in the trail, and stop at the other without a word."""
    streams = TableState(samples.ORDERS, samples.ORDERS, Life.STREAMING, schema=samples.definition())
    states = dict.fromkeys(("north", "south"), streams)
    states[parks] = park(streams, "a row that the target refuses", 3)

    @contextmanager
    def store_of(one):
        tables = SimpleNamespace(tables=lambda _: {samples.ORDERS: states[one.label]})
        jobs = SimpleNamespace(checkpoint=lambda _: SimpleNamespace(position=SimpleNamespace(sequence=7)))
        yield SimpleNamespace(exists=lambda: True, jobs=jobs, states=tables)

    monkeypatch.setattr(restoring_history, "store_of", store_of)
    ends = [SimpleNamespace(label=name, config=SimpleNamespace(name="shop")) for name in states]
    job = SimpleNamespace(label="shop", config=SimpleNamespace(name="shop"), targets=lambda: ends)
    with pytest.raises(StateError, match=r"one target has parked .*, which another streams"):
        restoring_history._known_by_all(job, 7)
    states["north"] = states["south"] = states[parks]
    assert restoring_history._known_by_all(job, 7) == ({}, {samples.ORDERS: samples.definition()})
