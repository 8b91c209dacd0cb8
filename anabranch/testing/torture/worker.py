"""A process that runs histories, one after another, as a campaign tells it: JSON, a line each, over its input and output.

It is told once where (`Ground`, directory), then seeds; it answers with results, and asks for servers to be restarted.
What does not live here: which seeds, and what becomes of the results (campaign.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import IO, Any

from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.one import One, concerns_servers


class Worker:
    def __init__(self, asked: IO[str], told: IO[str]) -> None:
        self.asked, self.told = asked, told
        first = json.loads(asked.readline())
        ground, self.directory = Ground.from_json(first["ground"]), Path(first["directory"])
        self.source = ""
        self.one = One(ground, self.directory, first["with_spark"], self.restart)

    def run(self) -> None:
        for line in self.asked:
            self.tell(self.result(json.loads(line)["seed"]))

    def result(self, seed: int) -> dict[str, Any]:
        history, faults = self.one.drawn(seed)
        self.source = self.one.ground.source_of(seed).name
        try:
            with _turn(self.directory, alone=self.one.ground.family.is_alone or concerns_servers(faults)):
                result = self.one.run(history, faults)
        except Exception:  # noqa: BLE001 - told to whoever asked
            return {"seed": seed, "broken": traceback.format_exc()}
        return {
            "seed": seed,
            "source": self.source,
            "failure": str(result.failure) if result.failure else "",
            "committed": result.committed,
            "observations": result.observations,
            "prefixes": result.prefixes,
            "seconds": round(result.seconds, 3),
            "fired": [asdict(fault) for fault in result.fired],
            "hits": sorted(result.hits),
            "targets": result.targets,
        }

    def restart(self, where: str, loses: bool) -> None:
        self.tell({"restart": where, "name": self.source, "loses": loses})
        answer = json.loads(self.asked.readline())
        if "failed" in answer:
            raise RuntimeError(f"the {where} could not be restarted: {answer['failed']}")

    def tell(self, message: Mapping[str, Any]) -> None:
        self.told.write(json.dumps(message) + "\n")
        self.told.flush()


@contextmanager
def _turn(directory: Path, *, alone: bool) -> Iterator[None]:
    """Side by side with others, or alone. Who waits to be alone holds the turnstile, so that nobody passes it."""
    with (directory / "turnstile").open("w") as turnstile, (directory / "running").open("w") as running:
        fcntl.flock(turnstile, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turnstile, fcntl.LOCK_UN)
        yield


def _end(_: int, __: FrameType | None) -> None:
    """End and clear away what runs, on the way out."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything prints is no message of ours
    Worker(sys.stdin, output).run()
