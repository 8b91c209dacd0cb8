"""Notes of a job's cut-overs: `anabranch.cutover`.

What does not live here: what is noted, and what follows from it (model/cutover.py).
"""

from __future__ import annotations

import json

from anabranch.connectors.mysql.target.jobs import add_once
from anabranch.connectors.mysql.target.state_session import StateSession
from anabranch.errors import Fenced
from anabranch.model.cutover import CutoverNote, Phase, Step

READ = """
SELECT `number`, `step`, `phase`, `noted_at`, `facts` FROM `anabranch`.`cutover` WHERE `job` = %s ORDER BY `number`
"""
ADD = """
INSERT INTO `anabranch`.`cutover` (`job`, `number`, `step`, `phase`, `noted_at`, `facts`) VALUES (%s, %s, %s, %s, %s, %s)
"""
IS_THERE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'cutover'"


class MysqlCutovers:
    """CutoverStore of the target."""

    def __init__(self, session: StateSession) -> None:
        self._session = session

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        if not self._session.rows("look for notes of cut-overs", IS_THERE):
            return []
        rows = self._session.rows("read the notes of cut-overs", READ, job)
        return [CutoverNote(n, Step(step), Phase(phase), at, json.loads(facts)) for n, step, phase, at, facts in rows]

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        facts = json.dumps(dict(note.facts), ensure_ascii=False)
        row = [job, note.number, str(note.step), str(note.phase), note.at, facts]
        with self._session("note a step of the cut-over") as connection:
            is_added = add_once(connection, ADD, row)
        if not is_added:
            raise Fenced("another process is at the same cut-over", job=job, hint="let only one anabranch cutover run")
