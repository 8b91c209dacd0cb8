"""`verify` as it is, with what Spark would do done in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from anabranch.errors import DifferencesFound, StateError
from anabranch.job import Job

if TYPE_CHECKING:
    from anabranch.verify.report import Verification


class LocalRows(list[Any]):
    """A list with the methods of an RDD that verify calls."""

    def flatMap(self, each: Callable[[Any], Iterable[Any]]) -> LocalRows:
        return LocalRows(chain.from_iterable(map(each, self)))

    def groupByKey(self, _: int) -> LocalRows:
        groups: dict[Any, list[Any]] = {}
        for key, value in self:
            groups.setdefault(key, []).append(value)
        return LocalRows(groups.items())


class LocalSpark:
    """An object with the members of a SparkSession and its context that verify uses."""

    defaultParallelism, master = 1, "local"

    @property
    def sparkContext(self) -> LocalSpark:
        return self

    def parallelize(self, tasks: Sequence[Any], _: int) -> LocalRows:
        return LocalRows(tasks)

    def union(self, some: Sequence[LocalRows]) -> LocalRows:
        return LocalRows(chain.from_iterable(some))


def _run(_: Any, outcomes: Sequence[LocalRows], take: Callable[[Any], None], stop: Callable[[], bool]) -> bool:
    for outcome in chain.from_iterable(outcomes):
        take(outcome)
        if stop():
            return False
    return True


def local_spark() -> Callable[[], Any]:
    """Return what gives this process, which does nothing else, a session that is none."""
    from anabranch.spark import pieces

    pieces.run = cast(Any, _run)
    return LocalSpark


def verify_here(job: Job, **wanted: Any) -> Verification:
    """Verify as `Job.verify` does, but no table with a `where`, which is Spark's alone. `wanted`: fields of `Wanted`."""
    from anabranch.job.in_rounds import verify_as_wanted
    from anabranch.verify.wanted import Wanted

    return verify_as_wanted(job, local_spark(), Wanted(**wanted))


def mend(job: Job) -> None:
    """Put right what differs. Raises DifferencesFound for what is left, StateError where a part was away for so long
    that nobody can tell."""
    found = verify_here(job, repairs=True)
    said = "; ".join(str(one) for one in (*found.tables, *found.repaired) if "identical" not in str(one))
    if any(table.differs for table in found.tables):
        raise DifferencesFound(said)
    if not found.identical:
        raise StateError(said)
