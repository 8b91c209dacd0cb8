"""The process of a hop that somebody keeps running: it notes itself where a later manager finds it, as `run` of a job does.

A hop needs no home of its own: it has one where the variable names it. What does not live here: what a hop does
(`hopping.py`), who starts it (`manager/`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path

from anabranch.errors import AnabranchError, StateError
from anabranch.state.store import StateStore
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.view.running import RUN, RUN_LOCK

HOME = "ANABRANCH_HOP_HOME"
LOCK_SECONDS = 2.0  # a former process may just be ending
BEAT_S = 2.0


@contextmanager
def noted(environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Note this process in the hop's home meanwhile, and the error that it ends with; nothing without a home. Raises StateError
    where another process runs the hop with this home."""
    named = environment.get(HOME)
    with _noted_in(Path(named)) if named else nullcontext():
        yield


@contextmanager
def _noted_in(home: Path) -> Iterator[None]:
    lock, state, host = _locked(home), StateStore(home), os.uname().nodename
    has_failed, ends = False, threading.Event()
    state.forget_gone()
    state.clear_last_error()
    state.part(RUN, os.getpid(), host)
    state.phase("streaming")  # how far it is, a pump says beside its trail
    beating = threading.Thread(target=_beat, args=(state, ends), name="hop-beat", daemon=True)
    beating.start()
    try:
        yield
    except AnabranchError as error:
        has_failed = True
        state.last_error(str(error), error.exit_code, RUN, error.retry, error.facts())
        raise
    finally:
        ends.set()
        beating.join()
        state.part_ended(RUN, os.getpid(), host, has_failed)
        state.close()
        lock.close()


def _locked(home: Path) -> OsLock:
    try:
        home.mkdir(parents=True, exist_ok=True)
        return OsLock(home / RUN_LOCK, LOCK_SECONDS)
    except LockHeld as held:
        raise StateError(f"the hop with the home {home} is run by {held}", hint="stop that one first") from None
    except OSError as error:
        raise StateError(f"the home {home} cannot be used: {error.strerror}", hint=f"{HOME} says where it is") from None


def _beat(state: StateStore, ends: threading.Event) -> None:
    while not ends.wait(BEAT_S):
        state.seen(RUN)
