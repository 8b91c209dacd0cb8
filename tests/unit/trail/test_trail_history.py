"""Schema history: durable before the trail passes it, taken back when the trail never did (K19)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.apply.same_trail import refuse_other_trail
from anabranch.capture.definitions import alone
from anabranch.errors import StateError, TrailCorrupt, TrailError
from anabranch.model.column_changes import Untold
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.schema import Partition
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.trail.divided import change, changed
from anabranch.trail.history import Entry, SchemaHistory, parse


def test_rule_19_definitions_are_there_before_the_rows(open_writer, open_reader, samples, kill):
    writer, reader = open_writer(), open_reader()
    assert reader.history.in_force() == {}
    writer.append(samples.chunk(1, 1))
    writer.flush()
    assert reader.history.in_force() == {t: samples.definition(t) for t in (samples.ORDERS, samples.NOTES)}
    writer.schema(samples.definition(version=2))
    assert reader.history.latest(samples.ORDERS) == samples.definition()
    writer.flush()
    assert reader.history.latest(samples.ORDERS) == samples.definition(version=2)
    assert reader.history.at(samples.ORDERS, 1) == samples.definition()
    assert reader.history.valid_from(samples.ORDERS, 2) == 2
    with pytest.raises(KeyError):
        reader.history.at(samples.ORDERS, 3)
    kill(writer)
    assert open_writer().history.in_force() == reader.history.in_force()


def test_definition_that_nothing_followed_stays(open_writer, samples, kill):
    writer = open_writer()
    writer.flush()
    kill(writer)
    assert set(open_writer().history.in_force()) == {samples.ORDERS, samples.NOTES}


def test_reader_adds_the_lines_that_are_new_to_those_that_it_knows(open_writer, open_reader, samples, monkeypatch):
    writer, reader, parsed = open_writer(), open_reader(), list[int]()
    from_facts = Entry.from_facts
    monkeypatch.setattr(Entry, "from_facts", lambda facts: parsed.append(len(facts)) or from_facts(facts))
    writer.append(samples.chunk(1, 1))
    writer.flush()
    known, before = reader.history, len(parsed)
    for version in range(2, 5):
        writer.alter(samples.definition(version=version), f"ALTER {version}")
        writer.append(samples.chunk(version, version))
        writer.flush()
        assert reader.history.latest(samples.ORDERS) == samples.definition(version=version)
    assert len(parsed) - before == 3  # of some that are there already none again
    assert known.latest(samples.ORDERS) == samples.definition() and not known.altered_between(0, 9)
    assert reader.history.altered_between(0, 9) == [2, 3, 4]
    whole = open_reader().history
    assert whole.entries == reader.history.entries and whole.in_force() == reader.history.in_force()


def test_reader_reads_a_history_that_is_another_one_from_its_beginning(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    writer.flush()
    assert reader.history.in_force()
    path = writer.directory / "history"
    data = path.read_bytes()
    at = data.rindex(b"\n", 0, len(data) - 1) + 1
    path.write_bytes(data[:at] + data[at:].replace(b"schema", b"Schema", 1))
    writer.schema(samples.definition(version=2))
    writer.flush()
    with pytest.raises(TrailCorrupt, match="checksum"):
        _ = reader.history


def test_rule_15_park_and_join(open_writer, open_reader, samples, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 1))
    writer.park(samples.ORDERS, "ALTER changed it", "ALTER TABLE orders …")
    writer.append(samples.chunk(2, 2))
    writer.flush()
    kill(writer)
    writer = open_writer()
    assert writer.history.parked() == {samples.ORDERS: "ALTER changed it"}
    entry = writer.history.parked_by(samples.ORDERS)
    assert entry and (entry.statement, entry.sequence) == ("ALTER TABLE orders …", 2)
    assert set(writer.history.in_force()) == {samples.NOTES}
    assert writer.history.latest(samples.ORDERS) == samples.definition()
    writer.schema(samples.definition(version=2), joined=True)
    writer.append(samples.chunk(3, 3))
    writer.flush()
    kill(writer)
    assert open_writer().history.in_force()[samples.ORDERS].version == 2 and open_reader().history.parked() == {}


def test_park_whose_chunk_never_came_is_taken_back(open_writer, open_reader, samples, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 1))
    writer.flush()
    writer.park(samples.ORDERS, "first")
    writer.flush()
    assert open_reader().history.parked() == {samples.ORDERS: "first"}
    kill(writer)
    writer = open_writer()
    assert writer.history.parked() == {} == open_reader().history.parked()
    writer.append(samples.chunk(2, 2))
    writer.flush()
    kill(writer)
    writer = open_writer()
    assert writer.history.parked() == {}


def test_rewind_takes_back_what_no_chunk_followed(open_writer, open_reader, samples, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 1))
    writer.schema(samples.definition(samples.TableId("shop", "plain")))
    writer.park(samples.ORDERS, "DROP")
    assert writer.rewind().position.sequence == 1
    assert writer.history.parked() == {} and len(writer.history.in_force()) == 3
    count = len(writer.history.entries)
    writer.rewind()
    assert len(writer.history.entries) == count
    writer.park(samples.ORDERS, "DROP again")
    writer.append(samples.chunk(2, 2))
    writer.rewind()
    writer.flush()
    assert writer.history.parked() == {samples.ORDERS: "DROP again"} == open_reader().history.parked()
    kill(writer)
    assert open_writer().history.parked() == {samples.ORDERS: "DROP again"}


def test_join_whose_chunk_never_came_is_taken_back(open_writer, samples, kill):
    writer = open_writer()
    writer.park(samples.ORDERS, "DROP")
    writer.append(samples.chunk(1, 1))
    writer.schema(samples.definition(version=2), joined=True)
    writer.flush()
    kill(writer)
    writer = open_writer()
    assert writer.history.parked() == {samples.ORDERS: "DROP"}
    assert writer.history.latest(samples.ORDERS) == samples.definition()
    other = samples.definition(version=2)
    writer.schema(other, joined=True)
    assert writer.history.at(samples.ORDERS, 2) == other


def test_definition_of_lost_transactions_is_taken_back(open_writer, samples, kill):
    writer = open_writer()
    writer.flush()
    writer.append(samples.chunk(1, 3))
    writer.schema(samples.definition(version=2))
    segment = writer._segment
    kill(writer)
    assert segment
    import os

    path = writer.directory / str(segment.name)
    os.truncate(path, path.stat().st_size - 1)
    assert open_writer().history.latest(samples.ORDERS).version == 1


def test_same_definition_twice_is_one(open_writer, samples):
    writer = open_writer()
    count = len(writer.history.entries)
    writer.schema(samples.definition())
    assert len(writer.history.entries) == count
    with pytest.raises(TrailError, match="not newer"):
        writer.schema(samples.definition().__class__(samples.ORDERS, samples.definition().columns[:1]))


@pytest.mark.parametrize("keep", [0, 1, 8, 9, 30, -1])
def test_torn_last_line_is_written_over(open_writer, open_reader, samples, tmp_path, kill, keep):
    writer = open_writer()
    writer.flush()
    path = tmp_path / "trail" / "history"
    whole = path.stat().st_size
    writer.schema(samples.definition(samples.TableId("shop", "third")))
    kill(writer)
    content = path.read_bytes()
    path.write_bytes(content[: whole + keep] if keep >= 0 else content[:-1])
    writer = open_writer()
    assert len(writer.history.in_force()) == 2
    writer.schema(samples.definition(samples.TableId("x", "y")))
    writer.flush()
    assert len(open_reader().history.in_force()) == 3
    kill(writer)
    assert len(open_writer().history.in_force()) == 3


def test_damaged_line_is_refused(open_writer, open_reader, tmp_path, kill):
    writer = open_writer()
    writer.flush()
    kill(writer)
    path = tmp_path / "trail" / "history"
    data = bytearray(path.read_bytes())
    data[50] ^= 1
    path.write_bytes(data)
    with pytest.raises(TrailCorrupt, match="schema history is damaged at byte 0"):
        open_writer()
    with pytest.raises(TrailCorrupt):
        _ = open_reader().history
    assert "schema history is damaged" in open_reader().check().problems[0]


def test_damage_is_not_taken_for_a_torn_end(samples):
    lines = [Entry("schema", 1, schema=samples.definition(version=v)).to_line() for v in (1, 2, 3)]
    for damaged in (0, 1):
        broken = [bytearray(line) for line in lines]
        broken[damaged][20] ^= 4
        with pytest.raises(TrailCorrupt):
            parse(b"".join(broken), 0, SchemaHistory())
    history = SchemaHistory()
    assert parse(b"".join(lines[:2]) + lines[2][:-4], 0, history) == len(lines[0] + lines[1])
    assert history.latest(samples.ORDERS) == samples.definition(version=2)


def test_entry_survives_its_line(samples):
    for entry in (
        Entry("schema", 7, schema=samples.definition(samples.NOTES), joined=True),
        Entry("park", 8, table=samples.NOTES, reason="why\nso", statement="DROP TABLE `ü`"),
        Entry("recovered", 3),
        Entry("schema", 9, schema=samples.definition(), statement="ALTER TABLE orders ADD n INT", altered=True),
        Entry("schema", 9, schema=samples.definition(), statement="…", altered=True, renamed=(("a", "b"), ("c", "d"))),
        Entry("source", 4, reason="server-2", statement="server-1"),
    ):
        assert Entry.from_line(entry.to_line()[:-1]) == entry


def test_an_altered_table_goes_on_with_its_transaction_or_not_at_all(open_writer, open_reader, samples, kill):
    writer = open_writer()
    writer.append(samples.chunk(1, 2))
    writer.alter(samples.definition(version=2), "ALTER TABLE orders ADD n INT")
    writer.flush()
    kill(writer)
    writer = open_writer()
    assert writer.history.latest(samples.ORDERS).version == 1 and writer.history.altered_between(0, 99) == []
    for version in (2, 3):
        untold = Untold((("a", f"b{version}"),), swapped=version == 3)
        writer.alter(samples.definition(version=version), "ALTER TABLE orders ADD n INT", untold=untold)
        writer.append(samples.chunk(version + 1, version + 1))
    writer.flush()
    history = open_reader().history
    assert history.altered_between(0, 99) == [3, 4] and history.altered_between(3, 4) == [4]
    assert history.altered_between(4, 99) == []
    assert [history.renamed(samples.definition(version=v)) for v in (1, 2, 3)] == [{}, {"a": "b2"}, {"a": "b3"}]
    assert [history.was_swapped(samples.definition(version=v)) for v in (1, 2, 3)] == [False, False, True]
    assert history.altered_since(samples.ORDERS, 1, 3) and not history.altered_since(samples.ORDERS, 2, 3)
    assert history.latest(samples.ORDERS).version == 3 and history.in_force()[samples.ORDERS].version == 3


def test_a_copy_of_a_table_is_known_until_it_is_none_any_more(open_writer, open_reader, samples, kill):
    writer, copy, other = open_writer(), TableId("shop", "_orders_gho"), TableId("shop", "_notes_gho")
    writer.append(samples.chunk(1, 2))
    writer.copy(copy, samples.definition(), "log:5")
    writer.copy(copy, samples.definition(), "log:9", (("n", "0"),), "emptied")
    writer.copy(other, samples.definition(), "log:9")
    writer.copy(other, None, "log:12")
    writer.flush()
    kill(writer)
    (found,) = open_writer().history.copies().values()
    assert found == open_reader().history.copies()[copy] and found.schema == samples.definition()
    assert (found.table, found.at, found.filled, found.reason) == (copy, "log:9", (("n", "0"),), "emptied")
    assert open_reader().history.in_force()[samples.ORDERS] == samples.definition(), "no definition of its own"


@pytest.mark.parametrize("statement", ["", "ALTER TABLE orders ADD n INT"])
def test_a_definition_that_no_statement_brings_is_no_transaction(open_writer, open_reader, samples, kill, statement):
    """It has the place of that transaction's commit. A target may be already at that up to which the log was read, behind the
    transaction before it."""
    at = Position(2, "log:5")
    writer = open_writer()
    writer.append(samples.chunk(1, 2))
    writer.heartbeat(LogMark(at.native, "5", 5))
    schema = samples.definition(version=2)
    writer.alter(schema, "relation message", "log:7")
    barrier = Barrier(0, 0, BarrierKind.ALTER, samples.ORDERS, statement, schema=schema)
    writer.append(alone([barrier], LogMark(at.native, "5", 5), None))
    writer.flush()
    kill(writer)
    writer, reader = open_writer(), open_reader()
    former = {table: [one.version for one in some] for table, some in writer.history.altered_at("log:7").items()}
    assert (
        former == {samples.ORDERS: [1]}
        and not writer.history.altered_at(at.native)
        and writer.history.altering() == {"log:7"}
    )
    if not statement:
        refuse_other_trail("shop", reader, at)
        return
    with pytest.raises(StateError, match="another copy"):
        refuse_other_trail("shop", reader, at)


def test_partitions_are_known_behind_a_kill_and_are_no_new_version(open_writer, open_reader, samples, kill):
    first, second = (Partition(f"s.p{n}", TableId("s", f"p{n}"), oid=n, told_by=7) for n in (1, 2))
    writer, reader = open_writer(), open_reader()
    writer.append(samples.chunk(1, 1))
    schema = samples.definition()
    writer.divide(replace(schema, partitions=(first,)))
    writer.divide(replace(samples.definition(version=2), partitions=(second,)))  # which is not in force
    writer.flush()
    assert reader.history.in_force()[samples.ORDERS].partitions == (first,)
    assert (
        reader.history.in_force()[samples.ORDERS].version == schema.version
        and len(reader.history.of(samples.ORDERS)) == 1
    )
    writer.divide(replace(schema, partitions=(first, second)))
    kill(writer)
    again = open_writer()
    assert again.history.in_force()[samples.ORDERS].partitions in (
        (first,),
        (first, second),
    )  # that line was not published
    again.divide(replace(schema, partitions=(second,)))
    again.flush()
    assert reader.history.in_force()[samples.ORDERS].partitions == (second,)
    assert reader.history.copy().in_force()[samples.ORDERS].partitions == (second,)
    again.schema(samples.definition(version=2), joined=True)
    again.append(samples.chunk(2, 2))
    again.flush()
    assert reader.history.in_force()[samples.ORDERS].partitions == ()


def test_each_partition_that_comes_or_goes_is_noted_by_itself(open_writer, open_reader, samples):
    """A table may have many, and get another one every hour: the others are not written again."""
    parts = tuple(Partition(f"s.p{n}", TableId("s", f"p{n}"), bound=f"FROM ({n})", oid=n) for n in range(1, 722))
    writer, reader = open_writer(), open_reader()
    writer.append(samples.chunk(1, 1))
    schema = samples.definition()
    writer.divide(replace(schema, partitions=parts[:720]))
    writer.flush()
    before = reader.history.entries[-1].to_line()
    writer.divide(replace(schema, partitions=parts[:720]))  # nothing has changed
    told = replace(parts[720], told_by=7)
    for now in ((*parts[:720], told), parts, parts[1:]):
        writer.divide(replace(schema, partitions=now))
        writer.flush()
        assert reader.history.in_force()[samples.ORDERS].partitions == now
    lines = [entry.to_line() for entry in reader.history.entries if entry.kind == "parts"]
    assert lines[0] == before and len(lines) == 4 and all(len(line) < 500 for line in lines[1:])
    facts = json.loads(lines[1][9:])
    assert facts.keys() == {
        "kind",
        "sequence",
        "table",
        "statement",
    }  # which a release of before reads, and passes over
    again = SchemaHistory()
    for entry in reader.history.entries:
        again.add(Entry.from_line(entry.to_line().rstrip()))
    assert again.in_force()[samples.ORDERS].partitions == parts[1:]


def test_a_partition_that_goes_with_its_rows_is_noted_by_itself(open_writer, open_reader, samples, kill):
    """Each is a version of its own, which knows its partitions, also behind a restart, a kill and a copy of the lines. One that
    is taken back leaves the version before it."""
    parts = tuple(Partition(f"s.p{n}", TableId("s", f"p{n}"), bound=f"FROM ({n})", oid=n) for n in range(1, 722))
    writer, reader, schema = open_writer(), open_reader(), samples.definition()
    writer.append(samples.chunk(1, 1))
    writer.divide(replace(schema, partitions=parts))

    def goes(writer, left, number):
        now = replace(schema, partitions=left).with_version(number)
        writer.alter(now, "DROP", untold=Untold(rows_went=True))
        return now

    expected = []
    for number, left in enumerate(
        (parts[1:], parts[2:], parts[2:]), 2
    ):  # the last of a source that tells no partitions
        expected.append(goes(writer, left, number))
        writer.append(samples.chunk(number, number))
        writer.close()
        writer = open_writer()
    file = Path(writer.directory, "history")
    sizes = [len(line) for line in file.read_bytes().splitlines()]
    assert max(sizes) > 50_000 and all(size < 1_000 for size in sizes[-3:]), sizes
    goes(writer, parts[3:], 5)
    kill(writer)
    again = open_writer()
    for history in (again.history, reader.history, reader.history.copy(), SchemaHistory()):
        if not history.entries:
            for entry in reader.history.entries:
                history.add(Entry.from_line(entry.to_line().rstrip()))
        assert [history.at(samples.ORDERS, one.version) for one in expected] == expected
        assert history.in_force()[samples.ORDERS] == expected[-1] and all(map(history.lost_rows, expected))
        assert history.altered_between(0, 9) == [2, 3, 4]
    more = replace(expected[-1], comment="another one").with_version(5)
    again.alter(more, "ALTER", untold=Untold(rows_went=True))
    again.append(samples.chunk(5, 5))
    again.flush()
    assert reader.history.in_force()[samples.ORDERS] == more
    assert reader.history.at(samples.ORDERS, 5).comment == "another one", "which is written whole"
    (line,) = [line for line in file.read_bytes().splitlines(keepends=True) if b'"parts":' in line][:1]
    with pytest.raises(TrailCorrupt, match="does not follow those before it"):
        parse(line, 0, SchemaHistory())


def test_parents_stay_before_their_partitions(samples):
    child = Partition("s.p1", TableId("s", "p1"), oid=1, told_by=7)
    parent = Partition("s.p", TableId("s", "p"), key="RANGE (id)", oid=2)
    other = Partition("s.o", TableId("s", "o"), oid=3)
    then = replace(samples.definition(), partitions=(other, child))
    now = (parent, other, replace(child, parent="s.p", told_by=0))
    found = changed(then, change(then, now)).partitions
    assert set(found) == set(now) and found.index(parent) < found.index(now[2])
    renamed = replace(then, partitions=now)
    latest = (other, replace(parent, name="s.q"), replace(now[2], parent="s.q"))
    assert set(changed(renamed, change(renamed, latest)).partitions) == {*latest}
    later = (replace(parent, bound="b"), other, now[2])
    assert changed(renamed, change(renamed, later)).partitions == later
    assert changed(replace(renamed, version=renamed.version + 1), change(renamed, later)).partitions == now
