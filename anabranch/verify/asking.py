"""Asking the source's site for sums and digests of a table's rows, and waiting for the answer in the trail.

What does not live here: the mailbox (trail/checks.py), what is asked and answered (told.py), who answers (job/answering.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.contracts import ValueRules
from anabranch.trail import checks
from anabranch.trail.checks import Answer, Question
from anabranch.transport.asked import is_short
from anabranch.verify.plan import VerifyTable
from anabranch.verify.told import Asked, Told

POLL = 0.1  # seconds between two looks at the answers
LONG = 10.0  # seconds after which it is said what is waited for
TOO_LONG = "its columns' names are too long to be asked for through a trail"


class Refused(Exception):
    """The source's site tells nothing of the table, for this reason."""


@dataclass
class Asking:
    """`waits`: is called once where an answer takes long."""

    trail: Path
    waits: Callable[[], None]
    _is_told: bool = False

    def ask(
        self, one: VerifyTable, rules: ValueRules, buckets: frozenset[int] | None, is_over: Callable[[], bool]
    ) -> Told | None:
        """Return the answer; None where it is over before. Raises Refused, TrailCorrupt, TrailKeyMissing."""
        what = Asked.of(one, rules, buckets).to_json()
        while not is_over():
            if (answer := self._answered(one, what, is_over)) is not None:
                if answer.refusal:
                    raise Refused(f"at the source's site: {answer.refusal}")
                return Told.from_json(answer.said)
        return None

    def _answered(self, one: VerifyTable, what: Mapping[str, Any], is_over: Callable[[], bool]) -> Answer | None:
        """Ask once; None where it is over, or question or answer is gone before the answer was seen."""
        question = checks.ask(self.trail, one.table.source, what)
        try:
            if not is_short(question):
                raise Refused(TOO_LONG)
            return self._await(question, is_over)
        finally:
            checks.withdraw(self.trail, question.id)

    def _await(self, question: Question, is_over: Callable[[], bool]) -> Answer | None:
        seen, began = None, time.monotonic()
        while not is_over():
            is_asked = checks.is_asked(self.trail, question.id)  # before the answers: those are there first
            stamp = checks.stamp(self.trail)
            if stamp != seen:
                seen = stamp
                if question.id in checks.answered(self.trail):
                    return checks.answer(self.trail, question.id)
            if not is_asked:
                return None
            if not self._is_told and time.monotonic() - began > LONG:
                self._is_told = True
                self.waits()
            time.sleep(POLL)
        return None
