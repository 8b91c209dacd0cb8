"""The whole way while the source is in use: load, window, stream, restart; both ends identical by our own SQL."""

from __future__ import annotations

from collections.abc import Callable

from scenario import Scenario

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill

Make = Callable[..., Scenario]


def test_load_while_writing_then_caught_up(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, *SCHEMA, *fill(20))
    with Writer(made.source, seed=1, rate=150) as writer:
        made.run_until_caught_up()
    assert writer.committed > 100
    made.run_until_caught_up()
    made.assert_identical()
    assert set(made.states().values()) == {"streaming"}
