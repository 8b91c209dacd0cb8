"""Ask a store of objects, as all tests of stores do: the names in it, and what its errors say.

What does not live here: servers and lines (each store's own rig).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.errors import AnabranchError
from anabranch.stores.contract import ObjectStore


def names_of(store: ObjectStore) -> list[str]:
    """Return the names of all objects, as the store lists them."""
    return [found.name for found in store.names()]


def refused(kind: type[AnabranchError], work: Callable[[], object]) -> str:
    """Return what an error says, which has a hint, and shows nothing of a client library."""
    with pytest.raises(kind) as error:
        work()
    assert error.value.hint and error.value.__cause__ is None
    return str(error.value)
