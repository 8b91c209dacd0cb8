"""Asks the system's keyring, by a thread of its own: one that prompts somebody, or hangs, holds nobody up for long.

What does not live here: keys (`secret_keys.py`).
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

from anabranch.errors import ConfigError, install_hint

WAIT_S = 5.0  # how long an answer is waited for, by all who want it together
KEPT_S = 5.0  # how long an answer counts
_mutex = threading.Lock()
_under_way: dict[tuple[str, str], tuple[Future[str], float]] = {}  # what is asked for: the answer, and since when
_kept: dict[tuple[str, str], tuple[str, float]] = {}


def password(service: str, user: str, hint: str, is_anew: bool = False) -> str:
    """Return a password, "" where there is none. `is_anew`: no answer of before counts. Raises ConfigError where the keyring
    cannot be read, or does not answer; while it does not, nobody asks it again, and nobody waits a second time."""
    what = (service, user)
    with _mutex:
        text, at = _kept.get(what, ("", 0.0))
        if what in _kept and not is_anew and time.monotonic() - at < KEPT_S:
            return text
        if what not in _under_way:
            _under_way[what] = Future(), time.monotonic()
            threading.Thread(target=_ask, args=(what, hint), name="anabranch-keyring", daemon=True).start()
        answer, since = _under_way[what]
    try:
        return answer.result(max(since + WAIT_S - time.monotonic(), 0.0))
    except TimeoutError:
        said = f"the keyring ({service}, {user}) has not answered within {WAIT_S:.0f} s"
        raise ConfigError(said, hint=hint) from None


def _ask(what: tuple[str, str], hint: str) -> None:
    found, wrong = "", None
    try:
        found = _read(*what, hint)
    except ConfigError as error:
        wrong = error
    with _mutex:
        answer, _ = _under_way.pop(what)
        if wrong is None:
            _kept[what] = found, time.monotonic()
    if wrong is None:
        answer.set_result(found)
    else:
        answer.set_exception(wrong)


def _read(service: str, user: str, hint: str) -> str:
    place = f"the keyring ({service}, {user})"
    try:
        import keyring  # an extra of its own
    except ImportError:
        raise ConfigError(f"{place} needs a package that is not installed", hint=install_hint("keyring")) from None
    try:
        return keyring.get_password(service, user) or ""
    except Exception as error:  # noqa: BLE001 - a keyring is code of others, chosen by the user: whatever it raises is told
        raise ConfigError(f"{place} cannot be read: {type(error).__name__}", hint=hint) from None
