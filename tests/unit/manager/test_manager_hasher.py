"""How the product hashes passwords, in a process that no test has changed. No server."""

from __future__ import annotations

import subprocess
import sys

SAYS = """
from anabranch.manager.accounts import HASHER as h
print(h.type.name, h.time_cost, h.memory_cost, h.parallelism, h.hash_len, h.salt_len)
"""


def test_passwords_cost_whoever_guesses_what_rfc_9106_says() -> None:
    """The second recommendation: Argon2id, three passes, four lanes, 64 MiB, a salt of 128 bits, 256 bits of result."""
    told = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True).stdout.split()
    assert told == ["ID", "3", str(64 * 1024), "4", "32", "16"]
