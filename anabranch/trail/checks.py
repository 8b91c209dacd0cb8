"""Questions of those who verify where a trail is applied, and the answers of the job that captures: sums and digests
of rows.

A question lies in the trail of who asks, a file for each, and has no values of rows; at a replica it goes back along
the pumps (transport/), each of which puts it into the trail that it reads. Answers stand in one file below `load/`,
which every replica gets; it keeps the last of them and the ids of more, and is sealed where the trail is encrypted,
for keys of rows are in it. What does not live here: what is asked and answered (verify/told.py), who answers
(job/answering.py).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from anabranch.errors import TrailCorrupt
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.trail import sealed_files, sealing
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.replica_files import CHECKS
from anabranch.trail.storage import LocalStorage, read_whole

ASKED = "check_requests"
KEPT, MOST = 8, 16 << 20  # answers, and characters of all of them: more than the last only as long as they are small
WAITING = 100  # questions: of more from elsewhere none is taken
IDS = 1000  # of questions that were answered: they are not answered again
FORMAT, SEALED = 1, 2
HINT = "remove the file and verify again"


@dataclass(frozen=True, slots=True)
class Question:
    """`asked`: seconds since 1970 by the clock of who asks, which orders questions and nothing else."""

    table: TableId
    id: str
    asked: float
    what: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """`said`: what was asked for; {} where `refusal` says why there is none."""

    said: Mapping[str, Any]
    refusal: str = ""


def ask(trail: Path, table: TableId, what: Mapping[str, Any]) -> Question:
    """Put a new question."""
    found = Question(table, uuid.uuid4().hex, time.time(), what)
    put(trail, found)
    return found


def put(trail: Path, question: Question) -> None:
    """Put a question in place that was made here or elsewhere."""
    storage = LocalStorage(trail)
    with writing(f"the question about {question.table}"):
        storage.replace(_file(question.id), to_json(asdict(question) | {"table": str(question.table)}) + b"\n")


def withdraw(trail: Path, id: str) -> None:
    """Forget a question, answered or not."""
    with suppress(FileNotFoundError):  # who asks, who answers and who carries it forget it, each in its time
        LocalStorage(trail).remove(_file(id))


def is_asked(trail: Path, id: str) -> bool:
    """Return whether a question lies there, answered or not."""
    return (trail / _file(id)).exists()


def pending(trail: Path) -> list[Question]:
    """Return the questions that have no answer yet, oldest first; those that have one are forgotten. Raises TrailCorrupt, for
    one that cannot be read where there is no other one."""
    storage = LocalStorage(trail)
    names = [name for name in storage.names(ASKED) if name.endswith(".json")]
    known, found, damage = answered(trail) if names else frozenset[str](), list[Question](), list[TrailCorrupt]()
    for name in names:
        if name.removesuffix(".json") in known:
            withdraw(trail, name.removesuffix(".json"))
            continue
        try:
            question = _question(storage, name)
        except TrailCorrupt as error:
            damage.append(error)
        else:
            found += [] if question is None else [question]
    if damage and not found:
        raise damage[0]
    return sorted(found, key=lambda one: one.asked)


def pass_on(trail: Path, question: Question) -> None:
    """Put a question of a replica into the trail that it is a replica of, unless it is there or was answered. Where many wait
    already nothing is done: it comes again."""
    names = LocalStorage(trail).names(ASKED)
    if len(names) < WAITING and f"{question.id}.json" not in names and question.id not in answered(trail):
        put(trail, question)


def note(trail: Path, id: str, answer: Answer) -> None:
    """Answer a question for all replicas, then forget it. Raises TrailKeyMissing, StorageFull."""
    answers, ids = _kept(trail)
    answers[id] = _as_kept(answer)
    while len(answers) > 1 and (len(answers) > KEPT or sum(len(said) for said, _ in answers.values()) > MOST):
        del answers[next(iter(answers))]
    _save(trail, answers, [*(one for one in ids if one != id), id][-IDS:])
    reach("trail.check.answered")
    withdraw(trail, id)


def forget_answers(trail: Path) -> None:
    """Take the answers out of the trail that nobody has asked for lately; which questions were answered stays known."""
    answers, ids = _kept(trail)
    if answers:
        _save(trail, {}, ids)


def answered(trail: Path) -> frozenset[str]:
    """Return the ids of questions that were answered lately. Needs no key. Raises TrailCorrupt."""
    data = _read(trail)
    return frozenset(map(str, data["ids"])) if data else frozenset()


def answer(trail: Path, id: str) -> Answer | None:
    """Return the answer to a question; None where there is none, or not any more (`answered`). Raises TrailCorrupt,
    TrailKeyMissing."""
    said, digest = _answers(trail, _read(trail)).get(id, ("", ""))
    if not said:
        return None
    if sha256(said.encode()).hexdigest() != digest:
        raise _damage(trail, "an answer is not what was written")
    found = json.loads(said)
    return Answer(found["said"], str(found["refusal"]))


def stamp(trail: Path) -> tuple[int, int, int]:
    """Return what tells one file of answers from the next."""
    try:
        found = (trail / CHECKS).stat()
    except FileNotFoundError:
        return 0, 0, 0
    return found.st_ino, found.st_mtime_ns, found.st_size


Kept = dict[str, tuple[str, str]]
"""Answers by the ids of questions, oldest first: their texts and the SHA-256 of these."""


def _as_kept(answer: Answer) -> tuple[str, str]:
    text = to_json({"said": dict(answer.said), "refusal": answer.refusal}).decode()
    return text, sha256(text.encode()).hexdigest()


def _kept(trail: Path) -> tuple[Kept, list[str]]:
    """Return what the file has; nothing where it is damaged: whoever waits for one of those asks again."""
    try:
        data = _read(trail)
        return _answers(trail, data), [str(one) for one in data["ids"]] if data else []
    except TrailCorrupt:
        return {}, []


def _save(trail: Path, answers: Kept, ids: list[str]) -> None:
    storage = LocalStorage(trail)
    data: dict[str, Any] = {"format": FORMAT, "ids": ids, "answers": answers}
    seal, header = sealing.begin(storage, sealed_files.header_for(storage, CHECKS))
    if seal is not None:
        data = {"format": SEALED, "ids": ids}
        data["sealed"] = {"header": header, "answers": seal.text(to_json(answers), to_json(data))}
    with writing("answers to those who verify"):
        reach("trail.check.answer")
        storage.replace(CHECKS, to_json(data) + b"\n")


def _read(trail: Path) -> dict[str, Any]:
    """Return the file's content, {} where there is none. Raises TrailCorrupt, for a newer format too."""
    try:
        data: dict[str, Any] = json.loads(read_whole(LocalStorage(trail), CHECKS))
        version, _ = int(data["format"]), list(data["ids"])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise _damage(trail, str(error)) from None
    if version > SEALED:
        raise TrailCorrupt(
            f"{trail / CHECKS} has format {version}", hint="use the release that wrote it, or a later one"
        )
    return data


def _answers(trail: Path, data: dict[str, Any]) -> Kept:
    try:
        sealed = data.get("sealed")
        if sealed is None:
            found = data.get("answers", {})
        else:
            seal = sealed_files.opened(LocalStorage(trail), CHECKS, sealed["header"])
            rest = {name: said for name, said in data.items() if name != "sealed"}
            found = json.loads(seal.open_text(str(sealed["answers"]), to_json(rest)))
        return {str(id): (str(text), str(digest)) for id, (text, digest) in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, sealing.Tampered) as error:
        raise _damage(trail, str(error)) from None


def _damage(trail: Path, why: str) -> TrailCorrupt:
    return TrailCorrupt(f"{trail / CHECKS} cannot be read: {why}", hint=HINT)


def _question(storage: LocalStorage, name: str) -> Question | None:
    try:
        data = json.loads(read_whole(storage, f"{ASKED}/{name}"))
        id, what = str(data["id"]), dict(data["what"])
        return Question(TableId.parse(data["table"]), id, float(data["asked"]), what)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise TrailCorrupt(f"{storage.path(f'{ASKED}/{name}')} cannot be read: {error}", hint=HINT) from None


def _file(id: str) -> str:
    return f"{ASKED}/{id}.json"
