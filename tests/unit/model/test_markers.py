"""Origins that are jobs, how a statement says one, and which writers a job leaves out (K21)."""

from __future__ import annotations

import pytest

from anabranch.connectors.sql.loops import loop
from anabranch.contracts import PreflightContext
from anabranch.model.ids import TableId
from anabranch.model.markers import comment, commented, jobs_among, native_among, origin_of
from anabranch.model.writers import SourceWriter, is_left_out, origins_as_text, origins_of_text

T = TableId("s", "t")


def test_origins_are_told_apart() -> None:
    origins = ["anabranch:shop", "77", "north", "anabranch:b-1"]
    assert jobs_among(origins) == {"shop", "b-1"} and native_among(origins) == {"77", "north"}
    assert origins_of_text(origins_as_text(origins)) == frozenset(origins) and origins_of_text(None) == frozenset()


@pytest.mark.parametrize("job", ["a", "shop_2-b", "A" * 63])
def test_a_statement_says_its_job(job: str) -> None:
    assert commented(f"TRUNCATE TABLE `x`.`y` {comment(job)}") == job
    assert commented(f"TRUNCATE TABLE `x`.`y` {comment(job)} \n") == job


@pytest.mark.parametrize(
    "text",
    ["TRUNCATE t", "TRUNCATE t /* anabranch: */", "TRUNCATE t /* anabranch:a b */", "/* anabranch:a */ TRUNCATE t"],
)
def test_other_statements_say_none(text: str) -> None:
    assert commented(text) == ""


def context(*leave_out: str) -> PreflightContext:
    return PreflightContext("back", {}, {}, {}, leave_out=frozenset(leave_out))


def writer(*leaves_out: str, through: str = "") -> SourceWriter:
    return SourceWriter("the job out", "1", ((T, T),), through, leaves_out=frozenset(leaves_out))


def test_rule_21_two_jobs_that_leave_each_other_out_are_no_loop() -> None:
    assert loop(context("anabranch:out"), writer("anabranch:back"), [T]) is None
    assert loop(context("anabranch:out", "9"), writer("x", "anabranch:back"), [T]) is None


def test_rule_21_both_have_to_leave_the_other_out() -> None:
    message, hint = loop(context(), writer("anabranch:back"), [T]) or ("", "")
    assert message == "the job out brings back what is written here to s.t, which this job reads"
    assert 'leave_out = ["anabranch:out"] here' in hint and 'leave_out = ["anabranch:back"] there' in hint
    message, hint = loop(context("anabranch:out"), writer("anabranch:other"), [T]) or ("", "")
    assert message.endswith("and does not leave out what this job has written")
    assert hint.startswith('[source] leave_out = ["anabranch:back"] in its job file')


def test_rule_21_what_comes_over_a_job_that_is_left_out_is_left_out_with_it() -> None:
    far = writer(through="the job out")
    assert is_left_out(far, {origin_of("out")}) and not is_left_out(far, {origin_of("other")})
    assert loop(context("anabranch:out"), far, [T]) is None
    message, hint = loop(context("anabranch:more"), far, [T]) or ("", "")
    assert message.startswith("the job out, over the job out, brings back") and "as a chain" in hint
