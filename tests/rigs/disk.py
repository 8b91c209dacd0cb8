"""A file system that is soon full, for tests of what happens then."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

IS_ROOT = os.geteuid() == 0
NAME_SPACE = ("unshare", "--user", "--map-root-user", "--mount")


@contextmanager
def small_disk(place: Path, megabytes: int, owner: int = 0) -> Iterator[Path]:
    """A file system of this size over the directory `place`, its root owned by this user: the path by which every process
    of ours finds it. Who may not mount does so in a name space of a process of his own, into which /proc leads."""
    mount = f'mount -t tmpfs -o size={megabytes}m,uid={owner},mode=700 anabranch "{place}"'
    if IS_ROOT:
        tried = subprocess.run(mount, shell=True, capture_output=True, text=True)
        if tried.returncode:
            pytest.fail(f"no small file system to be had: {tried.stderr}", pytrace=False)
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)
        return
    mount = f'mount -t tmpfs -o size={megabytes}m,mode=700 anabranch "{place}"'
    holder = subprocess.Popen([*NAME_SPACE, "sh", "-c", f'{mount} && touch "{place}/ready" && exec sleep 3600'])
    inside = Path(f"/proc/{holder.pid}/root{place}")
    try:
        give_up = time.monotonic() + 240
        while not (inside / "ready").exists():
            if holder.poll() is not None or time.monotonic() > give_up:
                pytest.fail("no small file system to be had: allow mounts, or user name spaces", pytrace=False)
            time.sleep(0.02)
        (inside / "ready").unlink()
        yield inside
    finally:
        holder.kill()
        holder.wait()


def fill(ballast: Path) -> None:
    """To the last byte, whoever else writes meanwhile."""
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
