"""The routes of operations: long work on a job, asked for, watched, cancelled.

What does not live here: what is done (`manager/operations.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.jobs import Name
from anabranch.api.repeating import RepeatKey, tell_repeat
from anabranch.manager.operations import Operation, Output

routes = APIRouter(prefix="/jobs/{name}/operations", tags=["operations"], route_class=AskedRoute)
Number = Annotated[int, Path(description="An operation's number.", ge=1, lt=2**62)]


@dataclass(frozen=True)
class OperationAsked:
    """A command and its arguments without the job, as the command line takes them: `verify` and `["--tables", "shop.*"]`.
    Commands of a group have two words: `parked ls`."""

    verb: str
    arguments: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class OperationPage:
    """Some operations, the newest first. `next`: what to give as `before` for older ones; None where there is none."""

    operations: list[Operation]
    next: int | None


@routes.post("", status_code=202)
def ask(
    manager: TheManager, caller: Asks, name: Name, body: OperationAsked, response: Response, key: RepeatKey = None
) -> Operation:
    """Have a command carried out for a job, as a process beside it. `Location` is where to look for it."""
    found, is_repeat = manager.operations.ask_once(caller, name, body.verb, body.arguments, key)
    tell_repeat(response, is_repeat)
    response.headers["Location"] = f"/api/v1/jobs/{name}/operations/{found.id}"
    return found


@routes.get("")
def operations(
    manager: TheManager,
    caller: Asks,
    name: Name,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    before: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
) -> OperationPage:
    """List the operations of a job, the newest first."""
    found = manager.operations.all(caller, name, limit + 1, before)
    return OperationPage(found[:limit], found[limit - 1].id if len(found) > limit else None)


@routes.get("/{number}")
def operation(manager: TheManager, caller: Asks, name: Name, number: Number) -> Operation:
    """Return one operation. It has ended when its `state` is done, failed, cancelled or lost."""
    return manager.operations.operation(caller, name, number)


@routes.get("/{number}/output")
def output(
    manager: TheManager,
    caller: Asks,
    name: Name,
    number: Number,
    stream: Literal["stdout", "stderr"] = "stdout",
    offset: Annotated[int, Query(ge=0, lt=2**62)] = 0,
) -> Output:
    """Return a piece of what an operation has said, from a byte on, to whoever may ask for it. Ask again with `next` until it
    `is_complete`."""
    return manager.operations.output(caller, name, number, stream, offset)


@routes.post("/{number}/cancel", status_code=202)
def cancel(manager: TheManager, caller: Asks, name: Name, number: Number) -> Operation:
    """Ask an operation to end. It has ended when its `state` says so."""
    return manager.operations.cancel(caller, name, number)


@routes.delete("/{number}", status_code=202)
def delete(manager: TheManager, caller: Asks, name: Name, number: Number) -> Operation:
    """Ask an operation to end, as `cancel` does. What it has said is kept."""
    return manager.operations.cancel(caller, name, number)
