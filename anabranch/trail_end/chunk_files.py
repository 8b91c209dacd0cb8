"""Rows of a load as column files: an Arrow file for each chunk, compressed, each column with the cells of its lines.

A cell is the text form of a value with its escapes (rows/lines.py), null for NULL: lines that were written come back byte by
byte, in any selection of columns. In a trail that is encrypted the file is, too (`trail/sealed_files.py`). What does not live
here: which files a table has (manifests.py).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, ipc

from anabranch.errors import TrailCorrupt
from anabranch.rows.lines import NULL
from anabranch.trail import keys, sealing
from anabranch.trail.failures import syncing, writing
from anabranch.trail.sealed_files import SealedReader, SealedWriter, header_for, is_sealed
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end.manifests import AGAIN, ChunkFile

NAMES = b"columns"  # the key of the schema's metadata that names the columns
_OPTIONS = csv.ParseOptions(
    delimiter="\t", quote_char=False, double_quote=False, escape_char=False, ignore_empty_lines=False
)


def write(trail: Path, name: str, columns: Sequence[str], blocks: Iterable[bytes]) -> ChunkFile:
    """Write blocks of whole lines into a new file, which is durable and under its name when this returns.

    `name`: below the trail, in a folder that is there. Raises StorageFull, TrailError, and what `blocks` raises; then no file
    of the name is there. Raises TrailKeyMissing for a trail whose key cannot be used.
    """
    path = trail / name
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    rows = 0
    try:
        with writing(f"rows of a load ({name})"), _sink(trail, name, temporary) as sink:
            fields = [pa.field(str(place), pa.binary()) for place in range(max(len(columns), 1))]
            schema = pa.schema(fields, {NAMES: "\t".join(columns).encode()})
            with ipc.new_file(sink, schema, options=ipc.IpcWriteOptions(compression="zstd")) as writer:
                for block in filter(None, blocks):
                    for batch in _batches(block, schema):
                        writer.write_batch(batch)
                        rows += batch.num_rows
        with writing(f"rows of a load ({name})"):
            size, digest = temporary.stat().st_size, _digest(temporary)
        with syncing(f"rows of a load ({name})"):
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return ChunkFile(name, rows, size, digest)


def check(trail: Path, file: ChunkFile) -> None:
    """Raise TrailCorrupt unless the file is there and has just the bytes that were written."""
    path = trail / file.name
    try:
        found = path.stat().st_size, _digest(path)
    except FileNotFoundError:
        raise TrailCorrupt(f"{path} is missing: rows of a load are gone", hint=AGAIN) from None
    if found != (file.bytes, file.sha256):
        raise TrailCorrupt(f"{path} is not the file that was written ({found[0]:,} bytes)", hint=AGAIN)


def read(trail: Path, name: str, columns: Sequence[str]) -> Iterator[list[Any]]:
    """Yield the cells of these columns, an array for each, a piece of the file at a time. Raises TrailCorrupt,
    TrailKeyMissing."""
    try:
        with _content(trail, name) as file, ipc.open_file(file) as reader:
            known = (reader.schema.metadata or {}).get(NAMES, b"").decode().split("\t")
            places = [known.index(column) for column in columns]
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield [batch.column(place) for place in places]
    except FileNotFoundError:
        raise TrailCorrupt(f"{trail / name} is missing: rows of a load are gone", hint=AGAIN) from None
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise TrailCorrupt(f"{trail / name} cannot be read: {error}", hint=AGAIN) from None


def joined(cells: Sequence[Any]) -> bytes:
    """Return the lines of some columns' cells, in their order: one block."""
    wide = [pc.cast(cell, pa.large_binary()) for cell in cells]
    if not len(wide[0]):
        return b""
    tab, end, nothing = (pa.scalar(one, pa.large_binary()) for one in (b"\t", b"\n", b""))
    rows = pc.binary_join_element_wise(*wide, tab, null_handling="replace", null_replacement=NULL)
    ended = pc.binary_join_element_wise(rows, nothing, end)
    _, offsets, data = ended.buffers()
    ends = pa.Array.from_buffers(pa.int64(), len(ended) + 1, [None, offsets], offset=ended.offset)
    return bytes(memoryview(data)[ends[0].as_py() : ends[len(ended)].as_py()])


def _batches(block: bytes, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a block as columns. The reader takes a mark of byte order off the first line, so one of ours is
    there."""
    head = b"\t" * (len(schema) - 1) + b"\n"
    table = csv.read_csv(
        pa.BufferReader(head + block),
        csv.ReadOptions(use_threads=False, block_size=len(head) + len(block) + 1, column_names=schema.names),
        _OPTIONS,
        csv.ConvertOptions(
            check_utf8=False,
            column_types={field.name: field.type for field in schema},
            null_values=[NULL],
            strings_can_be_null=True,
        ),
    ).slice(1)
    yield from table.cast(schema).to_batches()


@contextmanager
def _sink(trail: Path, name: str, temporary: Path) -> Iterator[Any]:
    """Open a new file for who writes one byte behind the other; encrypted, where the trail is."""
    storage = LocalStorage(trail)
    with temporary.open("wb") as file:
        writer = _sealed(storage, name, file)
        if writer is None:
            with pa.OSFile(str(temporary), "wb") as sink:
                yield sink
            return
        with pa.PythonFile(writer, mode="w") as sink:
            yield sink
            sink.flush()
            writer.finish()


def _sealed(storage: LocalStorage, name: str, file: BinaryIO) -> SealedWriter | None:
    """Begin an encrypted file; None where the trail is not encrypted. Its header is in the file before another key may be the
    present one: whoever looks then for what the former key wraps finds it, or the file begins anew."""
    while True:
        stamp = keys.stamp(storage)
        seal, header = sealing.begin(storage, header_for(storage, name))
        writer = None if seal is None else SealedWriter(file, seal, header)
        file.flush()
        if writer is None or keys.stamp(storage) == stamp:
            return writer
        file.seek(0)
        file.truncate()


@contextmanager
def _content(trail: Path, name: str) -> Iterator[Any]:
    """Open the content of a file of rows."""
    if not is_sealed(trail / name):
        with pa.memory_map(str(trail / name)) as file:
            yield file
        return
    with SealedReader(trail / name, LocalStorage(trail), name) as file, pa.PythonFile(file, mode="r") as opened:
        yield opened


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
