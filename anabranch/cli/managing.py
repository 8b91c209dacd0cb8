"""Shared by the verbs that speak to the manager's state on this machine: `secret`, `token`, `user`,
`serve`.

What does not live here: the verbs.
"""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError, install_hint

if TYPE_CHECKING:
    from anabranch.manager import Manager
    from anabranch.manager.callers import Caller


def opened() -> Manager:
    """Return the manager of this home. Raises ConfigError where its packages are not installed."""
    try:
        from anabranch.manager import Manager
    except ImportError:
        raise ConfigError("the manager needs packages that are not installed", hint=install_hint("manager")) from None
    return Manager()


def caller() -> Caller:
    """Return whoever has given this command: they can read the manager's file, so they may do everything."""
    from anabranch.manager.callers import Caller, Role

    return Caller(getpass.getuser(), "command line", Role.ADMINISTRATOR)
