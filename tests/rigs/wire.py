"""A line between two networks: packets wait, get lost, or pass in one direction only.

It does to packets what `tc netem` does, in a thread of ours, because not every kernel has that: each end is a TUN device, so
that the kernels' own TCP sends again, backs off and gives up. https://docs.kernel.org/networking/tuntap.html
"""

from __future__ import annotations

import fcntl
import heapq
import os
import random
import select
import struct
import threading
import time
from dataclasses import dataclass
from itertools import count

from rigs.networks import TUN, Network

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # of linux/if_tun.h
PACKET = 65_536
HELD = 2_000  # packets that are under way in one direction; more are lost, as in any queue
LOOK = 0.05


@dataclass
class Weather:
    """Say what happens to the packets of one direction. `delay`: seconds that each packet is under way; `loss`: the
    share that gets lost; `is_cut`: nothing passes. `passed`, `lost`: packets so far."""

    delay: float = 0.0
    loss: float = 0.0
    is_cut: bool = False
    passed: int = 0
    lost: int = 0


class Wire:
    """A line from `here` to `there`, with addresses 10.77.NUMBER.1 and .2. `forth`, `back`: the weather of each direction,
    which may be changed at any time. `seed`: which packets get lost, as far as their order is the same."""

    def __init__(self, here: Network, there: Network, number: int, *, seed: int = 1) -> None:
        self.forth, self.back = Weather(), Weather()
        self.here, self.there = f"10.77.{number}.1", f"10.77.{number}.2"
        self._dice = random.Random(seed)
        self._ends = [
            _device(network, f"wire{number}", address) for network, address in ((here, self.here), (there, self.there))
        ]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="wire", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        for end in self._ends:
            os.close(end)

    def _carry(self) -> None:
        one, other = self._ends
        packets = select.poll()
        for end in self._ends:
            packets.register(end, select.POLLIN)
        ways = {one: (other, self.forth), other: (one, self.back)}
        under_way: list[tuple[float, int, int, bytes]] = []
        order, held = count(), {one: 0, other: 0}
        while not self._is_over.is_set():
            now = time.monotonic()
            while under_way and under_way[0][0] <= now:
                _, _, end, packet = heapq.heappop(under_way)
                held[end] -= 1
                _put(end, packet)
            pause = under_way[0][0] - now if under_way else LOOK
            for end, _ in packets.poll(min(max(pause, 0.0), LOOK) * 1000):
                packet = os.read(end, PACKET)
                to, weather = ways[end]
                if weather.is_cut or self._dice.random() < weather.loss or held[to] >= HELD:
                    weather.lost += 1
                    continue
                weather.passed += 1
                held[to] += 1
                heapq.heappush(under_way, (time.monotonic() + weather.delay, next(order), to, packet))


def _put(end: int, packet: bytes) -> None:
    try:
        os.write(end, packet)
    except OSError:  # no room at the other end: one more packet that is lost
        return


def _device(network: Network, name: str, address: str) -> int:
    """Make an end in a network; return the handle that has its packets."""

    def make() -> int:
        handle = os.open(TUN, os.O_RDWR | os.O_CLOEXEC)
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
        return handle

    handle = network.inside(make)
    network.run("ip", "address", "add", f"{address}/30", "dev", name)
    network.run("ip", "link", "set", name, "up")
    return handle
