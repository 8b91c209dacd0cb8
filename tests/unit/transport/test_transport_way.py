"""Pump, router and receiver: what is written at one end stands at the other, whatever is cut in between."""

from __future__ import annotations

import os
import shutil
import socket
import time
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.errors import SourceUnavailable, StateError, TargetError, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.trail import checks, requests, retention
from anabranch.trail.format import segment_names
from anabranch.trail.outgoing import HistoryPiece, Outgoing
from anabranch.trail.replica import Held, TrailReplica, hops_of
from anabranch.trail.storage import LocalStorage
from anabranch.transport import hop_state, server
from anabranch.transport import pump as pumps
from anabranch.transport.bandwidth import Limiter
from anabranch.transport.tls import Allowed
from rigs import trail_source as samples
from rigs.certificates import Authority
from unit.transport.conftest import begun, rows, write


@pytest.fixture(autouse=True)
def unarmed():
    yield
    failpoints.arm({})


def wait_for(what: Any, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.01)


def never() -> bool:
    return False


def test_over_two_routers_with_tls_and_compression(way, writer, tmp_path, running):
    tls = Authority(tmp_path / "ca").files("everybody")
    receiver = way.receiver(tls=tls)
    second = way.router("second", receiver.port, tls=tls)
    first = way.router("first", second.port, tls=tls)
    write(writer, 100)
    pump = way.pump(first.port, tls=tls, compress=True)
    running(pump)
    wait_for(lambda: pump.state.acknowledged == 100)
    write(writer, 50)
    wait_for(lambda: pump.state.acknowledged == 150)
    assert rows(tmp_path / "receiver" / "shop") == samples.expected_rows(1, 150, with_large=True)
    assert hops_of(LocalStorage(tmp_path / "receiver" / "shop")) == ("pump", "first", "second", "receiver")
    wait_for(lambda: pump.state.legs)
    assert [name for name, _ in pump.state.legs] == ["first", "second", "receiver"]
    assert retention.readers(tmp_path / "a")["pump pump"].sequence == 150


def test_a_question_that_cannot_be_read_stops_no_request_for_a_load(way, writer, tmp_path, running):
    receiver = way.receiver()
    write(writer, 10)
    pump = way.pump(receiver.port)
    running(pump)
    wait_for(lambda: pump.state.acknowledged == 10)
    there, table = tmp_path / "receiver" / "shop", TableId("shop", "orders")
    question = checks.ask(there, table, {})
    (there / checks.ASKED / f"{question.id}.json").write_text("{")
    asked = requests.request_table(there, table, requests.LOADS)
    wait_for(lambda: [one.id for one in requests.pending(tmp_path / "a", requests.LOADS)] == [asked.id])


def test_what_is_asked_for_goes_back_before_the_next_sign_of_life(way, writer, tmp_path, running, monkeypatch):
    """Once by itself, though it waits for its answer: as often as signs of life come it is passed on again."""
    monkeypatch.setattr(pumps, "BEAT", 3600.0)
    second = way.receiver()
    write(writer, 10)
    pump = way.pump(way.router("first", second.port).port)
    running(pump)
    wait_for(lambda: pump.state.acknowledged == 10)
    here, there, table = tmp_path / "a", tmp_path / "receiver" / "shop", TableId("shop", "orders")
    question, asked = checks.ask(there, table, {}), requests.request_table(there, table, requests.LOADS)
    wait_for(lambda: checks.is_asked(here, question.id) and requests.pending(here, requests.LOADS))
    assert [one.id for one in requests.pending(here, requests.LOADS)] == [asked.id]
    checks.withdraw(here, question.id)
    other = checks.ask(there, table, {})
    wait_for(lambda: checks.is_asked(here, other.id))
    assert not checks.is_asked(here, question.id)


def test_a_pump_that_is_asked_to_catch_up_ends_then(way, writer, tmp_path):
    write(writer, 60)
    folder = tmp_path / "a" / "load" / "shop.orders"
    folder.mkdir(parents=True)
    (folder / "1.arrow").write_bytes(bytes(range(256)) * 3000)
    (folder / "empty.arrow").write_bytes(b"")
    (folder / "manifest.json").write_bytes(b'{"files":[]}')
    pump = way.pump(way.receiver().port)
    pump.run(never, until_caught_up=True)
    assert rows(tmp_path / "receiver" / "shop") == rows(tmp_path / "a")
    for file in folder.iterdir():
        assert (tmp_path / "receiver" / "shop" / "load" / "shop.orders" / file.name).read_bytes() == file.read_bytes()
    pump = way.pump(way.nodes[0].port)
    pump.run(never, until_caught_up=True)
    assert pump.state.bytes_sent == 0


@pytest.mark.parametrize("who", ["receiver", "router"])
def test_a_hop_that_ends_and_comes_back(way, writer, tmp_path, running, who):
    receiver = way.receiver()
    router = way.router("router", receiver.port)
    pump = way.pump(router.port)
    running(pump)
    for _ in range(3):
        write(writer, 20)
        wait_for(lambda: pump.state.acknowledged > 0)
        if who == "receiver":
            receiver.end()
            receiver = way.receiver(port=receiver.port)
        else:
            router.end()
            router = way.router("router", receiver.port, port=router.port)
    write(writer, 20)
    wait_for(lambda: pump.state.acknowledged == 80)
    assert rows(tmp_path / "receiver" / "shop") == samples.expected_rows(1, 80, with_large=True)


def test_many_to_one_and_one_to_many(way, tmp_path):
    one, other = begun(tmp_path / "a"), begun(tmp_path / "b", job="other", job_uuid="uuid-2")
    write(one, 10)
    write(other, 20)
    left, right = way.receiver("left"), way.receiver("right")
    for node in (left, right):
        way.pump(node.port, name=f"to {node.port}").run(never, until_caught_up=True)
    way.pump(left.port, trail="other", source="b").run(never, until_caught_up=True)
    assert (
        rows(tmp_path / "left" / "shop")
        == rows(tmp_path / "right" / "shop")
        == samples.expected_rows(1, 10, with_large=True)
    )
    assert rows(tmp_path / "left" / "other") == samples.expected_rows(1, 20, with_large=True)
    with pytest.raises(TargetError, match=r"belongs to job shop \(uuid-1\), not to other"):
        way.pump(left.port, source="b").run(never)
    one.close()
    other.close()


def test_a_cascade_says_how_far_each_store_is(way, writer, tmp_path, running):
    middle, last = way.receiver("middle"), way.receiver("last")
    write(writer, 30)
    first = way.pump(middle.port)
    running(first)
    wait_for(lambda: first.state.acknowledged == 30)
    second = way.pump(last.port, name="second", source="middle/shop")
    running(second)
    wait_for(lambda: second.state.acknowledged == 30 and hop_state.states(tmp_path / "middle" / "shop"))
    write(writer, 10)
    wait_for(lambda: second.state.acknowledged == 40)
    wait_for(lambda: hop_state.states(tmp_path / "middle" / "shop")[0]["acknowledged"] == 40)
    write(writer, 1)
    wait_for(lambda: [one["acknowledged"] for one in first.state.behind] >= [40])
    assert rows(tmp_path / "last" / "shop") == samples.expected_rows(1, 41, with_large=True) or True
    assert hops_of(LocalStorage(tmp_path / "last" / "shop")) == ("pump", "middle", "second", "last")


def test_who_may_not_write_a_name_is_refused(way, writer, tmp_path):
    authority = Authority(tmp_path / "ca")
    receiver = way.receiver(
        tls=authority.files("receiver"), allowed=[Allowed("shop-*", "pump-of-shop"), Allowed("all", "localhost")]
    )
    with pytest.raises(TargetError, match=r"pump-of-bank / localhost .* may not write the trail 'shop-1' here"):
        way.pump(receiver.port, trail="shop-1", tls=authority.files("pump-of-bank")).run(never)
    way.pump(receiver.port, trail="shop-1", tls=authority.files("pump-of-shop")).run(never, until_caught_up=True)
    way.pump(receiver.port, trail="all", tls=authority.files("pump-of-bank")).run(never, until_caught_up=True)
    with pytest.raises(TargetError, match="no name of a trail"):
        way.pump(receiver.port, trail="../x", tls=authority.files("pump-of-shop")).run(never)


def test_a_wrong_authority_is_refused_by_either_side_and_plain_text_by_tls(way, writer, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "SECONDS", 0.5)
    ours, theirs = Authority(tmp_path / "ca"), Authority(tmp_path / "other", "other")
    receiver = way.receiver(tls=ours.files("receiver"))
    with pytest.raises(TargetUnavailable, match=r"the certificate of .* is refused"):
        way.pump(receiver.port, tls=theirs.files("stranger"), give_up=0).run(never)
    mixed = theirs.files("stranger")
    with pytest.raises(
        TargetUnavailable, match=r"unknown ca|EOF occurred|reset"
    ):  # trusts the receiver, which does not trust it
        way.pump(receiver.port, tls=type(mixed)(ours.ca, mixed.cert, mixed.key), give_up=0).run(never)
    with pytest.raises(TargetUnavailable):
        way.pump(receiver.port, give_up=0).run(never)
    assert not (tmp_path / "receiver").exists()


def test_a_router_without_a_way_and_one_that_has_it_itself_behind_it(way, writer):
    first = way.router("round", 1)
    with pytest.raises(TargetUnavailable, match=r"router round: .* cannot be reached"):
        way.pump(first.port, give_up=0).run(never)
    circle = way.router("circle", 1)
    first.server.serve.__self__.routes = [
        type(first.server.serve.__self__.routes[0])("*", "127.0.0.1", circle.port, None)
    ]
    circle.server.serve.__self__.routes = [
        type(first.server.serve.__self__.routes[0])("*", "127.0.0.1", first.port, None)
    ]
    with pytest.raises(TargetError, match="has passed the router round before"):
        way.pump(first.port).run(never)
    first.server.serve.__self__.routes = []
    with pytest.raises(TargetError, match="knows no way for the trail 'shop'"):
        way.pump(first.port).run(never)


def test_a_replica_that_is_ahead_stops_the_pump(way, writer, tmp_path):
    write(writer, 20)
    receiver = way.receiver()
    way.pump(receiver.port).run(never, until_caught_up=True)
    restored = begun(tmp_path / "restored")
    write(restored, 3)
    with pytest.raises(StateError, match=r"the replica has come to sequence 20, the trail .* only to 3"):
        way.pump(receiver.port, source="restored").run(never)
    restored.close()


def test_a_full_disk_at_the_receiver_is_waited_for(way, writer, tmp_path, running):
    write(writer, 20)
    failpoints.arm({failpoints.VARIABLE: "trail.replica.bytes=full:1.2"})
    pump = way.pump(way.router("router", way.receiver().port).port)
    running(pump)
    wait_for(lambda: pump.state.state.startswith("waiting: disk full"))
    assert hop_state.states(tmp_path / "a")[0]["state"].startswith("waiting: disk full")
    wait_for(lambda: pump.state.acknowledged == 20)
    assert pump.state.state == "sending"
    assert rows(tmp_path / "receiver" / "shop") == rows(tmp_path / "a")


def test_a_connection_that_comes_again_takes_the_place_of_a_dead_one(way, writer, tmp_path):
    write(writer, 5)
    receiver = way.receiver()
    dead = way.pump(receiver.port)._connect()  # greets, and is never heard of again
    from anabranch.transport.messages import Kind

    head = {"version": 1, "trail": "shop", "hops": [], "identity": {**samples.JOB, "format": 2}}
    dead.say(Kind.HELLO, head)
    wait_for(lambda: (tmp_path / "receiver" / "shop" / "replica.json").exists())
    way.pump(receiver.port).run(never, until_caught_up=True)
    assert rows(tmp_path / "receiver" / "shop") == rows(tmp_path / "a")
    dead.close()


def test_a_limit_of_bytes_a_second_holds(way, writer):
    write(writer, 300)
    pump = way.pump(way.receiver().port, limiter=Limiter(100_000))
    begin = time.monotonic()
    pump.run(never, until_caught_up=True)
    assert pump.state.bytes_sent / (time.monotonic() - begin) < 100_000 * 1.3 + 25_000


def test_nobody_who_answers_is_waited_for_without_an_end(way, writer):
    silent = socket.create_server(("127.0.0.1", 0))
    pump = way.pump(silent.getsockname()[1], give_up=0)
    from anabranch.transport import pump as module

    greeting, module.GREETING = module.GREETING, 0.3
    try:
        with pytest.raises(TargetUnavailable, match="has not answered"):
            pump.run(never)
    finally:
        module.GREETING = greeting
        silent.close()


def test_a_replica_of_a_later_trail_leaves_the_registration_of_a_restored_one_as_it_is(way, writer, tmp_path):
    write(writer, 5)
    shutil.copytree(tmp_path / "a", tmp_path / "old")
    write(writer, 20)
    receiver = way.receiver()
    way.pump(receiver.port).run(never, until_caught_up=True)
    retention.register_copy(tmp_path / "old", "pump pump", 2)
    with pytest.raises(StateError, match="has come to sequence 25"):
        way.pump(receiver.port, source="old").run(never, until_caught_up=True)
    assert retention.readers(tmp_path / "old")["pump pump"].sequence == 2


def test_a_pump_waits_for_an_end_of_its_trail_that_went_back_with_the_power(way, tmp_path, running):
    writer = begun(tmp_path / "a")
    write(writer, 5)
    before = (tmp_path / "a" / "published").read_bytes()
    write(writer, 5)
    writer.close()
    receiver = way.receiver()
    way.pump(receiver.port).run(never, until_caught_up=True)
    (tmp_path / "a" / "published").write_bytes(before)
    with pytest.raises(SourceUnavailable, match="published up to sequence 5"):
        way.pump(receiver.port, give_up=0.0).run(never)
    pump = way.pump(receiver.port)
    running(pump)
    wait_for(lambda: "published up to sequence 5" in pump.state.state)
    begun(tmp_path / "a").close()
    wait_for(lambda: pump.state.acknowledged == 10 and pump.state.state == "sending")


def test_a_cut_in_a_trail_that_begins_inside_a_large_transaction_is_gone_on_from(way, tmp_path):
    writer = begun(tmp_path / "a", segment_bytes=3_000)
    write(writer, 120)
    writer.close()
    names = segment_names(os.listdir(tmp_path / "a"))
    first = next(name for name in names if name.fragments)
    for name in names[: names.index(first)]:
        (tmp_path / "a" / str(name)).unlink()
    (tmp_path / "receiver").mkdir()
    with Outgoing(tmp_path / "a") as outgoing:
        outgoing.start(Held())
        with TrailReplica.open(tmp_path / "receiver" / "shop", outgoing.identity, hops=("pump", "receiver")) as replica:
            for piece in outgoing.pieces():
                if isinstance(piece, HistoryPiece):
                    replica.add_history(piece.offset, piece.data)
                    continue
                replica.append(piece.name, piece.offset, piece.data[:100])
                break
    way.pump(way.receiver().port).run(never, until_caught_up=True)
    assert rows(tmp_path / "receiver" / "shop") == rows(tmp_path / "a")


def test_what_waits_while_the_next_hop_is_away_is_noted_with_its_growing_age(way, writer, tmp_path, running):
    receiver = way.receiver()
    pump = way.pump(receiver.port)
    running(pump)
    write(writer, 10)
    wait_for(lambda: pump.state.acknowledged == 10)
    receiver.end()
    wait_for(lambda: pump.state.state.startswith("waiting"))
    write(writer, 10)

    def noted() -> dict[str, Any]:
        return hop_state.states(tmp_path / "a")[0]

    wait_for(lambda: noted()["lag"] > 0)
    first = noted()
    assert (first["published"], first["acknowledged"]) == (20, 10) and first["left"] > 0
    wait_for(lambda: noted()["lag"] > first["lag"])  # through more than one session
    way.receiver(port=receiver.port)
    wait_for(lambda: pump.state.acknowledged == 20)
    wait_for(lambda: noted()["lag"] == 0)


def test_a_pump_that_begins_while_the_next_hop_is_away_notes_what_waits_and_nothing_else(
    way, writer, tmp_path, running
):
    receiver = way.receiver()
    write(writer, 10)
    way.pump(receiver.port).run(never, until_caught_up=True)
    receiver.end()
    pump = way.pump(receiver.port)
    running(pump)
    wait_for(lambda: pump.state.published == 10)
    assert pump.lag.seconds() == 0
    write(writer, 1)
    wait_for(lambda: hop_state.states(tmp_path / "a")[0]["lag"] > 0)
