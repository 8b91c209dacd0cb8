"""Answers to requests for loads, as a trail carries them to its replicas: what came of each, by the request's id.

A request at a replica goes back along the pumps (transport/), each of which puts it into the mailbox of the trail that it
reads; its answer comes along with the files of the load. What does not live here: the mailbox (requests.py), who carries
requests out.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.errors import TrailCorrupt
from anabranch.trail import requests
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.replica_files import ANSWERS
from anabranch.trail.requests import LOADS, Request
from anabranch.trail.storage import LocalStorage, read_whole

KEPT = 100  # answers: whoever asked looks every few seconds
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """`load`: the number of the table's load that the trail has now, 0 where the request was refused; `refusal` says why."""

    load: int
    refusal: str = ""


def note(trail: Path, id: str, answer: Answer) -> Answer:
    """Keep an answer for replicas, and return the one that stands: a refusal does not replace a load. The load's
    manifest is there already."""
    try:
        known = read(trail)
    except TrailCorrupt:  # whoever waits for one of those is answered when it asks again
        known = {}
    stands = known.get(id)
    if stands is not None and stands.load and answer.refusal:
        return stands
    kept = {**{one: said for one, said in known.items() if one != id}, id: answer}
    last = {one: asdict(said) for one, said in [*kept.items()][-KEPT:]}
    storage = LocalStorage(trail)
    with writing("an answer about a load"):
        storage.make_folder(ANSWERS.rpartition("/")[0])
        storage.replace(ANSWERS, to_json({"format": FORMAT, "answers": last}) + b"\n")
    return answer


def read(trail: Path) -> dict[str, Answer]:
    """Return the answers by the ids of requests, oldest first. Raises TrailCorrupt."""
    storage = LocalStorage(trail)
    try:
        found = json.loads(read_whole(storage, ANSWERS))["answers"]
        return {str(id): Answer(int(said["load"]), str(said["refusal"])) for id, said in found.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "remove the file and ask again"
        raise TrailCorrupt(f"{storage.path(ANSWERS)} cannot be read: {error}", hint=hint) from None


def settle(trail: Path) -> list[Request]:
    """Give the answers that have come to those who asked at this replica; return the requests that have none yet. Raises
    TrailCorrupt."""
    waiting, answers = [], {}
    if asked := requests.pending(trail, LOADS):
        answers = read(trail)
    for request in asked:
        said = answers.get(request.id)
        if said is None:
            waiting.append(request)
        elif said.refusal:
            requests.refuse(trail, request.table, said.refusal, LOADS)
        else:
            requests.done(trail, request.table, said.load, LOADS)
    return waiting


def pass_on(trail: Path, request: Request) -> None:
    """Put a request of a replica into the mailbox of its trail, once: one that is there, or was answered, stays as it is, and
    so does another one for the table, which comes first."""
    known = requests.answer(trail, request.table, LOADS)
    is_free = known is None or (known.id != request.id and not known.is_pending)
    if is_free and request.id not in read(trail):
        requests.put(trail, request, LOADS)
