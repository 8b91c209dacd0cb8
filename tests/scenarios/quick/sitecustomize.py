"""Python runs this at its start where the folder is in PYTHONPATH: load and apply do what Spark would do in their own
processes, as under torture (anabranch/testing/torture/local.py). For scenarios that are about processes, not about Spark.
"""

from anabranch.job import parts
from anabranch.testing.torture.local import LocalEngine, Small


class _Local(LocalEngine):
    def __init__(self, factory: object, runner: str = "") -> None:
        super().__init__(Small())


parts.SparkEngine = _Local  # type: ignore[misc,assignment]  # in its place
