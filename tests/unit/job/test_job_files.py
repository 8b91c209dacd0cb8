"""A job file's problems, as `Job` tells them: those that need Spark's SQL beside those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.job import Job


def test_filters_are_checked_in_the_same_round_as_values(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        'name = "shop"\n[source]\nurl = "memory:///a"\n[target]\nurl = "memory:///b"\n[[rules]]\ninclude = ["shop.*"]\n'
        '[[tables]]\nname = "shop.a"\nwhere = "id >"\n[load]\nparallel = 0\n'
    )
    with pytest.raises(ConfigError) as caught:
        Job.from_file(file)
    filter_, value = map(str, caught.value.problems)
    assert filter_.startswith("line 10, [[tables]] where: is not Spark SQL")
    assert value.startswith("line 12, [load] parallel: 0 is too small")
