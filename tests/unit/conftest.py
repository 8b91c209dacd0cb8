"""What all tests without servers share: passwords of a manager's users are hashed in no time."""

from __future__ import annotations

import sys

import argon2
import pytest

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)  # the product's takes 64 MiB, and its time


@pytest.fixture(autouse=True)
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a manager that is made in this process hash cheaply; those that are processes of their own do not."""
    if (accounts := sys.modules.get("anabranch.manager.accounts")) is not None:
        monkeypatch.setattr(accounts, "HASHER", CHEAP)
