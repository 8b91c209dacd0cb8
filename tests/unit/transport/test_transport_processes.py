"""The commands: pump, router and receiver as processes, killed while a trail grows; files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.failpoints import LOG_VARIABLE, POINTS, VARIABLE
from anabranch.testing.servers import free_port
from anabranch.trail.reader import TrailReader
from rigs import trail_source as samples
from rigs.certificates import Authority
from rigs.hop_files import Process, asked, pump_file, receive_file, route_file, status, url, wait_for
from unit.transport.conftest import begun, rows, write


def end_of(directory: Path) -> int:
    if not (directory / "trail.json").exists():
        return 0
    with TrailReader(directory) as trail:
        return trail.end().position.sequence


def test_kill_9_of_each_while_a_trail_grows(tmp_path: Path) -> None:
    tls = Authority(tmp_path / "ca").files("everybody")
    inner, outer = free_port(), free_port()
    receiver = Process("receive", receive_file(tmp_path, inner, tls), folder=tmp_path)
    router = Process("route", route_file(tmp_path, outer, inner, tls), folder=tmp_path)
    file = pump_file(tmp_path, tmp_path / "a", url(outer, "shop", tls), "[trail]\ncompress = true")
    pump = Process("run", file, folder=tmp_path)
    writer, replica = begun(tmp_path / "a"), tmp_path / "in" / "shop"
    everybody = [receiver, router, pump]
    for one in everybody:
        one.start()
    try:
        for who in everybody:
            write(writer, 30)
            wait_for(lambda: end_of(replica) > writer.end.position.sequence - 30)
            who.kill()
            write(writer, 10)
            who.start()
        wait_for(lambda: end_of(replica) == 120)
        wait_for(lambda: status(file)["registered"] == 120)
        wait_for(lambda: [leg[0] for leg in status(file)["hop"]["legs"]] == ["dmz", "in"])
        wait_for(lambda: "durable     120" in asked("status", file).stdout)
        shown = asked("status", file).stdout
        assert "hop         dmz" in shown and "held from   121" in shown
        assert [one.end() for one in everybody] == [0, 0, 0]
    finally:
        for one in everybody:
            one.kill()
        writer.close()
    assert rows(replica) == samples.expected_rows(1, 120, with_large=True)


@pytest.mark.long  # a dozen processes
@pytest.mark.parametrize("who", ["receive", "run"])
def test_a_hop_that_dies_at_any_failpoint_goes_on_where_it_was(tmp_path: Path, who: str) -> None:
    """Each failpoint of a pump, and of a replica, ends the process once; it is started again until all is there."""
    from anabranch.trail import pack

    names = [name for name in POINTS if name.startswith("trail.replica." if who == "receive" else "pump.")]
    port, reached = free_port(), tmp_path / "reached"
    writer = begun(tmp_path / "a", segment_bytes=30_000)
    write(writer, 60)
    assert pack.pack_all(tmp_path / "a")
    write(writer, 60)
    (tmp_path / "a" / "load" / "t").mkdir(parents=True)
    (tmp_path / "a" / "load" / "t" / "manifest.json").write_text("{}")
    writer.close()
    receiver = Process("receive", receive_file(tmp_path, port), folder=tmp_path)
    pump = Process("run", pump_file(tmp_path, tmp_path / "a", url(port, "shop", None)), folder=tmp_path)
    armed = {VARIABLE: ";".join(f"{name}=exit" for name in names), LOG_VARIABLE: str(reached)}
    receiver.start(**(armed if who == "receive" else {}))
    pump.start(**(armed if who == "run" else {}))
    mortal = receiver if who == "receive" else pump
    try:
        for _ in names:
            assert mortal.process and mortal.process.wait(40) == 137
            mortal.start(**armed)
        wait_for(lambda: end_of(tmp_path / "in" / "shop") == 120)
        wait_for(lambda: (tmp_path / "in" / "shop" / "load" / "t" / "manifest.json").exists())
        assert mortal.end() == 0
    finally:
        receiver.kill()
        pump.kill()
    assert {line.partition("=")[0] for line in reached.read_text().splitlines() if "=" in line} == set(names)
    assert rows(tmp_path / "in" / "shop") == rows(tmp_path / "a") == samples.expected_rows(1, 120, with_large=True)


def test_a_pump_to_a_directory_of_the_same_machine(tmp_path: Path) -> None:
    writer = begun(tmp_path / "a")
    write(writer, 20)
    file = pump_file(tmp_path, tmp_path / "a", f"trail+file://{tmp_path}/b/shop")
    done = asked("run", file, "--until-caught-up", "--seconds", "30")
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "b" / "shop") == rows(tmp_path / "a")
    second = Process("run", file, folder=tmp_path)
    second.start()
    wait_for(lambda: status(file)["running"])
    refused = asked("run", file)
    assert refused.returncode == 7 and "the pump is running: process" in refused.stderr
    assert second.end() == 0
    writer.close()
