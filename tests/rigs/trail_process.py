"""Run as a process to be killed: follows the make-believe source into a trail for ever, the way capture does."""

from __future__ import annotations

import random
import sys

from anabranch.trail.retention import RetentionLimits
from anabranch.trail.writer import TrailWriter
from rigs import trail_source as samples


def main(directory: str, seed: int) -> None:
    dice = random.Random(seed)
    writer = TrailWriter.open(
        directory,
        **samples.JOB,
        segment_bytes=20_000,
        limits=RetentionLimits(3600),
        lock_timeout=120,
        pack=seed % 2 == 0,
    )
    for table in (samples.ORDERS, samples.NOTES):
        writer.schema(samples.definition(table))
    number = int(writer.end.resume or 0)
    print(number, flush=True)
    while True:
        number += 1
        if samples.is_large(number):
            for fragment in samples.large(number):
                writer.append(fragment)
                if dice.random() < 0.3:
                    writer.flush()
        else:
            last = number
            while last - number < dice.randint(0, 30) and not samples.is_large(last + 1):
                last += 1
            writer.append(samples.chunk(number, last))
            number = last
        if dice.random() < 0.1:
            writer.heartbeat(samples.LogMark(f"log:{number}+", str(number), 0))
        if dice.random() < 0.5:
            writer.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
