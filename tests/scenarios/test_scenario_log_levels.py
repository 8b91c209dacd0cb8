"""`--log-level debug`: connections, statements, pieces, chunks and epochs; never a value or a secret."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario

VALUE = "a-value-that-nobody-reads"
EVENTS = ("connected", "statement", "piece_copied", "chunk_written", "epoch_committed")


@pytest.mark.quick
@pytest.mark.parametrize("source", ["mariadb", "logical_postgresql"])
def test_debug_tells_what_is_done_and_no_values(
    request: pytest.FixtureRequest, scenario: Callable[..., Scenario], source: str
) -> None:
    server: Server = request.getfixturevalue(source)
    made = scenario(
        server, "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(60))", f"INSERT INTO item VALUES (1, '{VALUE}')"
    )
    running = made.start("run", "--log-level", "debug")
    made.wait_streaming(running)
    made.source.execute(f"INSERT INTO item VALUES (2, '{VALUE}')", f"UPDATE item SET v = 'now {VALUE}' WHERE id = 1")
    made.sync(running)
    text = running.stop().stderr
    assert [event for event in EVENTS if f'"event": "{event}"' not in text] == []
    assert VALUE not in text and made.source.server.password not in text
    assert made.target.server.password not in text and "password" not in text.lower()
    told = made.run_until_caught_up().stderr
    assert [event for event in EVENTS if f'"event": "{event}"' in told] == []
    made.assert_identical()
