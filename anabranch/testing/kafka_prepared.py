"""A Kafka starts in a third of the time: its classes are in an archive, and its storage is written as its own tool does.

Both come of one start, once on a machine for each Java
(https://kafka.apache.org/43/documentation.html#kraft_storage). What does not live here: how a broker is started (kafka.py).
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched
from anabranch.testing.class_archive import FILE, QUIET
from anabranch.testing.packages import Software
from anabranch.testing.processes import give_away

NAME, BOOTSTRAP = "kafka-prepared", "bootstrap.checkpoint"
Start = Callable[[Path, Sequence[str]], Path]  # a broker in a directory, with options of Java, to its end


@cache
def prepared(software: Software, start: Start) -> Path | None:
    """Return the directory with what a start has left; None where that fails. `start` gives the directory of its data."""
    told = subprocess.run([software.program("java"), "-version"], capture_output=True, text=True, check=False).stderr
    name = f"{NAME}-{hashlib.sha256(f'{software.home} {told}'.encode()).hexdigest()[:12]}"

    def make(scratch: Path) -> None:
        """Take seconds and 50 MB; what another Java or Kafka has left goes."""
        for other in cache_directory().glob(f"{NAME}-*"):
            if other.is_dir():
                shutil.rmtree(other, ignore_errors=True)
        server = scratch / "server"
        server.mkdir()
        archive = server / FILE
        data = start(server, [f"-XX:ArchiveClassesAtExit={archive}", *QUIET.split()])
        for file in (archive, data / BOOTSTRAP):
            shutil.copyfile(file, scratch / file.name)
        shutil.rmtree(server)

    try:
        return fetched(name, make)
    except (ServerUnavailable, OSError, subprocess.SubprocessError):
        return None


def java_options(prepared: Path) -> list[str]:
    return [f"-XX:SharedArchiveFile={prepared / FILE}", *QUIET.split()]


def format_storage(prepared: Path, data: Path, cluster: str, node: str) -> None:
    """Make the directory of a broker's data as `StorageTool format` does."""
    own = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    data.mkdir()
    lines = {"version": "1", "cluster.id": cluster, "node.id": node, "directory.id": own}
    (data / "meta.properties").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    shutil.copyfile(prepared / BOOTSTRAP, data / BOOTSTRAP)
    for made in (data, *data.iterdir()):
        give_away(made)
