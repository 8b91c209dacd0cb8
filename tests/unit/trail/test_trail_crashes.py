"""Writers that die: nothing a reader saw disappears, no sequence ever comes with other content (K11)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, StateError, TrailCorrupt, TrailError, TrailLocked
from anabranch.model.position import Position
from anabranch.testing.in_time import in_time
from anabranch.trail import identity, published
from anabranch.trail.reader import TrailReader
from anabranch.trail.storage import LocalStorage


class Follower(threading.Thread):
    """A reader that looks all the time and complains about everything."""

    def __init__(self, directory: Path, samples) -> None:
        super().__init__()
        self.directory, self.samples = directory, samples
        self.is_stopped = False
        self.at = 0
        self.complaint = ""
        self.is_done = False

    def run(self) -> None:
        try:
            with TrailReader(self.directory) as reader:
                while not self.is_stopped:
                    self.look(reader)
        except (AssertionError, AnabranchError, OSError) as error:
            self.complaint = repr(error)
        else:
            self.is_done = True

    def look(self, reader: TrailReader) -> None:
        end = reader.wait(self.at, 0.05).position
        native = f"log:{end.sequence}" if end.sequence else ""  # nothing is published yet
        if end.sequence < self.at or not end.native.startswith(native):
            raise AssertionError(f"the end is {end}, {self.at} was seen")
        refs = reader.descriptors(self.at, end.sequence)
        found = self.samples.found_rows([reader.load(ref) for ref in refs])
        if found != self.samples.expected_rows(self.at + 1, end.sequence, with_large=True):
            raise AssertionError(f"wrong rows behind {self.at}")
        self.at = end.sequence


def test_rule_11_killed_writers_take_nothing_back(tmp_path, samples):
    directory = tmp_path / "trail"
    dice = random.Random(11)
    follower = Follower(directory, samples)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    starts = []
    for life in range(5):
        command = [sys.executable, "-m", "rigs.trail_process", str(directory), str(life)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout
        starts.append(int(process.stdout.readline()))
        if not life:
            follower.start()
        until_at(follower, starts[-1] + 50)
        time.sleep(dice.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
    until_at(follower, 250)
    follower.is_stopped = True
    follower.join()
    assert follower.complaint == "" and follower.is_done
    assert starts == sorted(starts) and follower.at > 200
    with TrailReader(directory) as reader:
        assert reader.check().problems == []
        last = reader.end().position.sequence
        assert last >= follower.at
        read = [reader.load(ref) for ref in reader.descriptors(0)]
        assert samples.found_rows(read) == samples.expected_rows(1, last, with_large=True)


def until_at(follower: Follower, sequence: int) -> None:
    give_up = time.monotonic() + 120
    while follower.at < sequence and not follower.complaint:
        in_time(give_up, follower.at)
        time.sleep(0.005)


def last_segment(directory: Path) -> Path:
    return sorted(directory.glob("*.segment"))[-1]


def test_torn_tail_is_left_behind(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 5))
    writer.flush()
    reader = open_reader()
    seen = [reader.load(r) for r in reader.descriptors(0)]
    writer.append(samples.chunk(6, 9))
    kill(writer)
    path = last_segment(tmp_path / "trail")
    os.truncate(path, path.stat().st_size - 7)
    writer = open_writer()
    assert writer.end.position == Position(5, "log:5") and writer.end.resume == "5"
    assert writer.append(samples.chunk(6, 8)).first_sequence == 6
    writer.flush()
    assert [reader.load(r) for r in reader.descriptors(0, 5)] == seen
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == samples.expected_rows(1, 8)
    assert reader.check().problems == []


def test_body_that_never_reached_the_disk_is_left_behind(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 5))
    writer.flush()
    writer.append(samples.chunk(6, 9))
    kill(writer)
    with open(last_segment(tmp_path / "trail"), "r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(bytes(20))
    writer = open_writer()
    assert writer.end.position.sequence == 5
    writer.append(samples.chunk(6, 6))
    writer.flush()
    reader = open_reader()
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == samples.expected_rows(1, 6)
    assert reader.check().problems == []


def test_whole_frames_behind_an_old_record_are_adopted(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer(segment_bytes=3000)
    record = tmp_path / "trail" / published.FILE
    for n in range(1, 4):
        writer.append(samples.chunk(n, n))
        writer.flush()
    old = record.read_bytes()
    for n in range(4, 20):
        writer.append(samples.chunk(n, n))
        writer.flush()
    writer.heartbeat(samples.LogMark("log:19+", "19+", 0))
    writer.flush()
    former = writer.end
    kill(writer)
    record.write_bytes(old)
    writer = open_writer()
    assert writer.end == former and writer.end.version > former.version
    record_lost = bytes(published.SIZE)
    kill(writer)
    record.write_bytes(record_lost)
    writer = open_writer()
    assert writer.end == former
    reader = open_reader()
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == samples.expected_rows(1, 19)


def test_unfinished_large_transaction_is_dropped(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer(segment_bytes=1500)
    writer.append(samples.chunk(1, 6))
    writer.flush()
    fragments = list(samples.large(7))
    for fragment in fragments[:-1]:
        writer.append(fragment)
    kill(writer)
    assert len(list((tmp_path / "trail").glob("*.segment"))) > 1
    writer = open_writer(segment_bytes=1500)
    assert writer.end.position.sequence == 6
    for fragment in fragments:
        writer.append(fragment)
    writer.append(samples.chunk(8, 8))
    writer.flush()
    reader = open_reader()
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(0)])
    assert found == samples.expected_rows(1, 8, with_large=True)
    assert reader.check().problems == []


def test_large_transaction_that_is_whole_on_disk_is_adopted(open_writer, samples, kill):
    writer = open_writer(segment_bytes=1500)
    writer.append(samples.chunk(1, 6))
    writer.flush()
    for fragment in samples.large(7):
        writer.append(fragment)
    kill(writer)
    assert open_writer().end.position == Position(7, "log:7")


@pytest.mark.parametrize("where", ["head", "body"])
def test_flipped_bit_is_found(open_writer, open_reader, samples, tmp_path, where):
    writer = open_writer()
    for n in range(1, 6):
        writer.append(samples.chunk(n, n))
    writer.flush()
    refs = open_reader().descriptors(0)
    place = refs[2].offset + (60 if where == "head" else refs[2].length - 9)
    path = last_segment(tmp_path / "trail")
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 16]))
    fresh = open_reader()
    with pytest.raises(TrailCorrupt, match=f"segment {path.name}, offset {refs[2].offset}"):
        [fresh.load(r) for r in fresh.descriptors(0)]
    assert any(f"offset {refs[2].offset}" in p for p in open_reader().check().problems)


def test_flipped_bit_in_a_segment_whose_writer_died_is_a_gap(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer()
    for n in range(1, 6):
        writer.append(samples.chunk(n, n))
    writer.flush()
    ref = open_reader().descriptors(0)[2]
    path = last_segment(tmp_path / "trail")
    kill(writer)
    writer = open_writer()
    writer.append(samples.chunk(6, 6))
    writer.flush()
    with open(path, "r+b") as file:
        file.seek(ref.offset + 5)
        file.write(b"\xff")
    with pytest.raises(TrailCorrupt):
        open_reader().descriptors(0)
    assert open_reader().check().problems


def test_missing_segment_is_refused(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer(segment_bytes=1500)
    for n in range(1, 20):
        writer.append(samples.chunk(n, n))
    writer.flush()
    names = sorted((tmp_path / "trail").glob("*.segment"))
    names[1].unlink()
    with pytest.raises(TrailCorrupt):
        open_reader().descriptors(0)
    kill(writer)
    names[-1].unlink()
    with pytest.raises(TrailCorrupt, match="is missing"):
        open_writer()


def test_ref_that_lies_is_refused(open_writer, open_reader, samples):
    from dataclasses import replace

    writer, reader = open_writer(), open_reader()
    writer.append(samples.chunk(1, 5))
    writer.flush()
    (ref,) = reader.descriptors(0)
    for wrong in (replace(ref, rows=ref.rows + 1), replace(ref, first_sequence=2), replace(ref, last_sequence=4)):
        with pytest.raises(TrailCorrupt, match=r"not the announced ones|do not agree"):
            reader.load(wrong)


def test_second_writer_is_refused_with_pid_and_host(open_writer, kill):
    writer = open_writer()
    with pytest.raises(TrailLocked, match=f"process {os.getpid()} on {os.uname().nodename}"):
        open_writer()
    begin = time.monotonic()
    with pytest.raises(TrailLocked):
        open_writer(lock_timeout=0.2)
    assert time.monotonic() - begin >= 0.2
    writer.close()
    open_writer()


def test_another_job_or_source_is_refused_with_both_values(open_writer, open_reader, samples):
    writer = open_writer()
    writer.append(samples.chunk(1, 2))
    writer.close()
    with pytest.raises(StateError, match=r"uuid-1.*uuid-2"):
        open_writer(job_uuid="uuid-2")
    with pytest.raises(StateError, match=r"server-1.*server-2"):
        open_writer(source_identity="server-2")
    writer = open_writer()
    writer.adopt_identity("server-2")
    assert writer.append(samples.chunk(3, 4)).first_sequence == 3
    writer.close()
    assert open_reader().identity.source_identity == "server-2"
    with pytest.raises(StateError):
        open_writer()
    assert open_writer(source_identity="server-2").end.position.sequence == 4
    assert open_reader().check().problems == []


def test_newer_format_is_refused(open_writer, tmp_path):
    open_writer().close()
    path = tmp_path / "trail" / "trail.json"
    path.write_text(path.read_text().replace('"format":2', '"format":4'))
    with pytest.raises(TrailError, match="format 4, this release knows 3"):
        open_writer()
    with pytest.raises(TrailError, match="format 4"):
        TrailReader(tmp_path / "trail")
    path.unlink()


def test_segments_without_their_trail_file_are_refused(open_writer, samples, tmp_path):
    writer = open_writer()
    writer.append(samples.chunk(1, 1))
    writer.close()
    (tmp_path / "trail" / "trail.json").unlink()
    with pytest.raises(TrailCorrupt, match="segments without"):
        open_writer()


def test_torture_seed_105_a_trail_may_begin_between_two_looks(open_writer, samples, tmp_path):
    """Somebody looks for the file and finds none; before it looks for segments, capture has begun."""

    class Beginning(LocalStorage):
        def names(self, folder: str = "") -> list[str]:
            if not (self.directory / identity.FILE).exists():
                writer = open_writer()
                writer.append(samples.chunk(1, 1))
                writer.close()
            return super().names(folder)

    found = identity.load(Beginning(tmp_path / "trail"))
    assert found is not None and found == identity.load(LocalStorage(tmp_path / "trail"))


def test_versions_only_grow(open_writer, samples, kill):
    last = 0
    for _ in range(4):
        writer = open_writer()
        assert writer.end.version > last
        n = writer.end.position.sequence + 1
        writer.append(samples.chunk(n, n))
        writer.flush()
        last = writer.end.version
        kill(writer)
