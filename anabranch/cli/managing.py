"""Shared by the verbs that speak to the manager's state on this machine: `secret`, `token`, `user`,
`serve`.

What does not live here: the verbs.
"""

from __future__ import annotations

import getpass
import os
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from anabranch.manager import Manager
    from anabranch.manager.callers import Caller
    from anabranch.manager.store_contract import Keeper

STORE = "ANABRANCH_STORE"  # the URL of a store that several machines share


def opened(store: str | None = None) -> Manager:
    """Return the manager of this home. `store`: the URL of the database that has its state, else `$ANABRANCH_STORE` has it,
    else it is a file. That variable, and those that the URL names, are taken out of the environment, which jobs inherit. Raises
    ConfigError where its packages are not installed."""
    try:
        from anabranch.manager import Manager
        from anabranch.manager.environment import variables_in
    except ImportError:
        raise ConfigError("the manager needs packages that are not installed", hint=install_hint("manager")) from None
    url = store or os.environ.get(STORE)
    keeper = _keeper(url) if url else None
    for name in {STORE, *variables_in(url or ""), *variables_in(os.environ.get(STORE, ""))}:
        os.environ.pop(name, None)
    return Manager(keeper=keeper)


def _keeper(url: str) -> Keeper:
    try:
        from anabranch.manager.store_postgresql import PostgresKeeper, endpoint_of
    except ImportError:
        raise ConfigError("the store needs packages that are not installed", hint=install_hint("postgresql")) from None
    return PostgresKeeper(endpoint_of(url, os.environ))


def caller() -> Caller:
    """Return whoever has given this command: they can read the manager's file, so they may do everything."""
    from anabranch.manager.callers import Caller, Role

    return Caller(getpass.getuser(), "command line", Role.ADMINISTRATOR)
