"""Tables that stream and are to be loaded again: apply takes them out between two epochs, and a load brings them back.

The load (`lifecycle/joining.py`) asks for it by a hold with the table's name, and waits. Only apply may do it, because
it keeps the states of the tables that it follows.
"""

from __future__ import annotations

from collections.abc import Callable

from anabranch import log
from anabranch.apply.progress import Progress
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState, build_again, take_out
from anabranch.trail import retention


def let_leave(
    progress: Progress, take_off: Callable[[TableState], None], lets_go: Callable[[TableId], bool] = lambda table: True
) -> None:
    """Take out the tables that a load asks for, as soon as they stream and are not being built (`lets_go`).

    From the next epoch on the rows of such a table are old. Where keys act, `take_off` removes the table's own keys,
    which would hold back parents that are deleted. A table that an earlier attempt took out without getting this far
    loses its keys now.
    """
    directory = progress.trail.directory
    found = {name: progress.settings.names.leaving(name) for name in retention.readers(directory)}
    tables = {name: table for name, table in found.items() if table is not None}
    if not tables:
        return
    progress.look()
    there = [s for table in tables.values() if (s := progress.states.get(table)) and s.is_streaming]
    if leaving := [state for state in there if lets_go(state.source)]:
        progress.park(*[take_out(state) for state in leaving])
        reach("apply.left")
    for state in (progress.states.get(table) for table in tables.values()):
        if state is not None and state.is_taken_out:
            if progress.writer.enforced().keys:
                take_off(state)
            log.get(job=progress.job, table=str(state.source)).info("table_taken_out", why="it is to be loaded again")
    for name, table in tables.items():
        if table not in progress.context.tables:
            retention.unregister(directory, name)


def forget_unbuilt(progress: Progress) -> None:
    """Try once more to build what the target has refused: rows may have been mended since."""
    for state in list(progress.states.values()):
        if state.is_streaming and state.facts.not_built:
            progress.save(build_again(state))
