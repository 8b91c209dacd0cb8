"""`hop`, a trail over loopback TLS: a pump into a receiver's replica, against `openssl s_client` into `openssl s_server` and a
file, of the same bytes in turns; and what hops add to the time until a transaction can be read.

Both sides of each are processes of their own, and both make durable what they have written: the receiver as it always does,
the other side with one fsync at its end. The servers of the stand have no part in it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyarrow as pa

from anabranch.job.hopping import PumpJob
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.chunk import Chunk, Op, Shape, TableRows
from anabranch.rows.chunk_schema import META_FIELDS, TRANSACTION_SCHEMA
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from bench.figures import Figure, Side
from bench.processes import Cost
from bench.stand import Stand

MEGABYTES, ROWS = 1000, 20_000
LOOKS, BEFORE = 200, 20  # of a latency, and how many before it is measured
TABLE = TableId("shop", "orders")
GOAL, MOST_MS = 0.8, 20.0
PATIENCE = 600.0


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    place = stand.directory / "hop"
    place.mkdir()
    _certificate(place)
    size = _trail(place / "trail", int(MEGABYTES * scale * 1_000_000))
    ours, peers = list[Cost](), list[Cost]()
    for turn in range(repeat):
        peers.append(_openssl(place, size))
        ours.append(_pumped(place, turn))
    sides = [
        Side("anabranch", "pump and receiver", size, ours),
        Side("ceiling", "openssl s_client into s_server and a file", size, peers),
    ]
    ratio = sides[0].rate / sides[1].rate
    rate = Figure("hop rate", "trail", "ratio", ratio, GOAL, facts={"mb": size // 1_000_000}, sides=sides)
    return [rate, *_latencies(place)]


def _trail(directory: Path, size: int) -> int:
    """Write a trail of so many bytes that nothing compresses much; return how many it has become."""
    id_, note = (
        Column("id", LogicalType(Kind.INT64), "bigint", nullable=False),
        Column("note", LogicalType(Kind.TEXT), "text"),
    )
    names = pa.schema([*META_FIELDS, pa.field("id", pa.int64()), pa.field("note", pa.string())])
    given = {"id": range(ROWS), "_ordinal": range(ROWS), "note": [os.urandom(400).hex() for _ in range(ROWS)]}
    same = {"_op": int(Op.INSERT), "_tx": 0, "_shape": 0}
    arrays = [pa.array(given.get(field.name, [same.get(field.name)] * ROWS), field.type) for field in names]
    rows = TableRows(TABLE, 1, pa.RecordBatch.from_arrays(arrays, schema=names), (Shape((True, True)),))
    with TrailWriter.open(directory, job="hop", job_uuid="hop", source_identity="none", pack=False) as writer:
        writer.schema(TableSchema(TABLE, (id_, note), ("id",), version=1))
        while writer.bytes_written < size:
            writer.append(_chunk(writer.next_sequence, (rows,)))
    return sum(file.stat().st_size for file in directory.glob("*.segment"))


def _chunk(sequence: int, tables: tuple[TableRows, ...] = ()) -> Chunk:
    rows = sum(one.batch.num_rows for one in tables)
    facts = [{"native": f"at {sequence}", "gtid": None, "commit_time": sequence, "rows": rows, "origin": None}]
    return Chunk(pa.RecordBatch.from_pylist(facts, TRANSACTION_SCHEMA), tables, resume=str(sequence))


def _certificate(place: Path) -> None:
    """Make an authority that is its own certificate, for 127.0.0.1."""
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=hop -addext"
    command = ["openssl", *asked.split(), "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=place, check=True, capture_output=True)


def _openssl(place: Path, size: int) -> Cost:
    """Send all segments through one connection into a file, and wait until that is durable."""
    port, got = _free_port(), place / "got"
    serve = [
        "openssl",
        "s_server",
        "-accept",
        str(port),
        "-cert",
        "cert.pem",
        "-key",
        "key.pem",
        "-quiet",
        "-naccept",
        "1",
    ]
    connect = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet", "-no_ign_eof", "-nocommands"]
    with got.open("wb") as out:
        server = subprocess.Popen(serve, cwd=place, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL)
        time.sleep(1.0)  # its start is not measured
        begin, cpu = time.perf_counter(), _children()
        client = subprocess.Popen(connect, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert client.stdin
        for file in sorted((place / "trail").glob("*.segment")):
            with file.open("rb") as data:
                while piece := data.read(1 << 20):
                    client.stdin.write(piece)
        client.stdin.close()
        client.wait(PATIENCE)
        while got.stat().st_size < size and server.poll() is None:
            time.sleep(0.001)
        os.fsync(out.fileno())
        seconds = time.perf_counter() - begin
        server.kill()
        server.wait()
    if got.stat().st_size != size:
        raise RuntimeError(f"openssl has written {got.stat().st_size} of {size} bytes")
    got.unlink()
    return Cost(seconds, _children() - cpu, 0.0)


def _pumped(place: Path, turn: int) -> Cost:
    """Send the trail into an empty replica, until the last byte is acknowledged. The replica is removed, as the other side's
    file is: a disk that grows as it is written to takes far longer for blocks that it has never had."""
    with _receiver(place, f"in{turn}") as port:
        job = PumpJob(_file(place, place / "trail", port, f"turn{turn}"))
        begin, cpu = time.perf_counter(), time.process_time()
        job.run(until_caught_up=True, seconds=PATIENCE)
        cost = Cost(time.perf_counter() - begin, time.process_time() - cpu, 0.0)
    shutil.rmtree(place / f"in{turn}")
    return cost


def _latencies(place: Path) -> Iterator[Figure]:
    """Yield the time from the moment at which a transaction is published to that at which the replica has it, without and with
    a router in between."""
    for hops in (1, 2):
        with _receiver(place, f"late{hops}") as port:
            if hops == 1:
                yield _latency(place, port, hops)
            else:
                with _router(place, port) as router:
                    yield _latency(place, router, hops)


def _latency(place: Path, port: int, hops: int) -> Figure:
    source, replica = place / f"small{hops}", place / f"late{hops}" / "hop"
    found = []
    with TrailWriter.open(source, job="hop", job_uuid="hop", source_identity="none", pack=False) as writer:
        writer.heartbeat(LogMark("at 0", "0", 0))
        writer.flush()
        command = [sys.executable, "-m", "anabranch", "run", str(_file(place, source, port, f"small{hops}"))]
        pump = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            for look in range(LOOKS + BEFORE):
                writer.append(_chunk(writer.next_sequence))
                writer.flush()
                begin = time.perf_counter()
                _until_there(replica, writer.end.position.sequence)
                found += [1000 * (time.perf_counter() - begin)] if look >= BEFORE else []
        finally:
            pump.terminate()
            pump.wait(30)
    facts = {"p99_ms": round(sorted(found)[int(len(found) * 0.99)], 2), "looks": LOOKS}
    name = f"hop latency, {hops} hop{'s' * (hops > 1)}"
    return Figure(name, "trail", "p50_ms", median(found), MOST_MS, True, facts=facts)


def _until_there(replica: Path, sequence: int) -> None:
    until = time.monotonic() + PATIENCE
    while not (replica / "trail.json").exists():
        time.sleep(0.01)
        if time.monotonic() > until:
            raise RuntimeError("the replica was not begun")
    with TrailReader(replica) as trail:
        while trail.end().position.sequence < sequence:
            time.sleep(0.0002)
            if time.monotonic() > until:
                raise RuntimeError(f"transaction {sequence} has not come")


def _file(place: Path, source: Path, port: int, name: str) -> Path:
    """Write the file of a pump."""
    tls = f"ssl_ca={place}/cert.pem&ssl_cert={place}/cert.pem&ssl_key={place}/key.pem"
    file, target = place / f"{name}.toml", f"trail+tls://127.0.0.1:{port}/hop?{tls}"
    file.write_text(f'name = "{name}"\n[source]\nurl = "trail+file://{source}"\n[target]\nurl = "{target}"\n')
    return file


@contextmanager
def _receiver(place: Path, name: str) -> Iterator[int]:
    with _process(place, "receive", name, f'[store]\nurl = "trail+file://{place}/{name}"\n') as port:
        yield port


@contextmanager
def _router(place: Path, port: int) -> Iterator[int]:
    to = f'[[routes]]\ntrail = "*"\nto = "trail+tls://127.0.0.1:{port}"\n'
    with _process(place, "route", "router", to) as own:
        yield own


@contextmanager
def _process(place: Path, verb: str, name: str, text: str) -> Iterator[int]:
    """Run a receiver or router, and yield its port once it listens."""
    port, file = _free_port(), place / f"{verb}-{name}.toml"
    files = (("ca", "cert"), ("cert", "cert"), ("key", "key"))
    tls = "".join(f'tls_{key} = "{place}/{value}.pem"\n' for key, value in files)
    listen = f'[listen]\naddress = "127.0.0.1:{port}"\n{tls}'
    file.write_text(f'name = "{name}"\n{listen}{text}[[allow]]\ntrail = "*"\n')
    command = [sys.executable, "-m", "anabranch", verb, str(file)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        for line in process.stderr:
            if line.startswith("anabranch "):
                break
        yield port
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _children() -> float:
    found = os.times()
    return found.children_user + found.children_system
