"""What a process says of itself in every line, whichever thread writes it."""

from __future__ import annotations

import json
import threading

import pytest

from anabranch import log


def test_every_line_of_every_thread_says_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", json=True)
    with log.about(target="north"):
        thread = threading.Thread(target=lambda: log.get(job="shop").info("from_a_thread"))
        thread.start()
        thread.join()
        log.get().info("other", target="south")
    log.get().info("afterwards")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line.get("target") for line in lines] == ["north", "south", None]
