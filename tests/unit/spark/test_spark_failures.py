"""Errors travel out of tasks as values and come up as what they were."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from anabranch.errors import AnabranchError, ConfigError, RowRefused, SourceUnavailable
from anabranch.spark.pieces import _last_line
from anabranch.spark.work import Failure, Outcome, do


@pytest.mark.parametrize(
    "error",
    [
        RowRefused("no", hint="do", job="j", table="s.t", position="1@x"),
        SourceUnavailable("gone"),
        ConfigError("bad", hint="mend"),
    ],
)
def test_an_error_is_the_same_after_the_journey(error: AnabranchError) -> None:
    found = pickle.loads(pickle.dumps(Failure.of(error))).error()
    assert type(found) is type(error) and str(found) == str(error) and found.retry == error.retry


class Broken:
    @contextmanager
    def read(self, piece: str) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        yield b"", self._blocks(piece)

    def _blocks(self, piece: str) -> Iterator[bytes]:
        yield b"1\n"
        if piece == "bad":
            raise SourceUnavailable("the line is cut")

    def finish(self, piece: str, header: bytes, blocks: Iterator[bytes]) -> int:
        return sum(len(block) for block in blocks)


def test_a_piece_gives_an_outcome_whatever_happens() -> None:
    assert do(Broken(), "good") == Outcome("good", 2)
    failed = do(Broken(), "bad")
    assert failed.failure is not None and failed.failure.error().message == "the line is cut"


def test_the_reason_is_found_in_spark_s_long_message() -> None:
    text = "org.apache.spark.SparkException: Job aborted\nTraceback:\n  File x\nKeyError: 'b'\n\n\tat org.apache"
    assert _last_line(Exception(text)) == "KeyError: 'b'"
