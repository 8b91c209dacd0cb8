"""A fault of a line counts where something met it."""

from __future__ import annotations

import socket
import time

from anabranch.testing.faults import Proxy


def test_what_a_fault_of_a_line_met_is_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Proxy("127.0.0.1", server.getsockname()[1]) as proxy:
        proxy.cut()
        assert not proxy.is_used and proxy.disturbed == 0
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            there, _ = server.accept()
            client.sendall(b"one")
            assert there.recv(3) == b"one" and proxy.is_used and proxy.disturbed == 0
            proxy.stall()
            client.sendall(b"two")
            until = time.monotonic() + 120
            while not proxy.disturbed and time.monotonic() < until:
                time.sleep(0.001)
            assert proxy.disturbed == 1
            proxy.restore()
            assert there.recv(3) == b"two"
            proxy.cut()
            assert proxy.disturbed == 3  # both ends of the line
            there.close()
