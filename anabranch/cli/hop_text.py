"""Text of `anabranch status` for a pump."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def lines(found: Mapping[str, Any]) -> Iterable[str]:
    """Return the status of a pump as text; works on what `--json` prints."""
    hop = found["hop"]
    yield f"job         {found['job']}"
    yield f"phase       {found['phase']}" + (f": {hop['state']}" if hop and hop["state"] != "sending" else "")
    yield f"running     {found['running'] or 'no'}"
    yield f"from        {found['source']}"
    yield f"to          {found['target']}"
    if found["registered"] is not None:
        yield f"held from   {found['registered'] + 1}"
    if hop:
        yield from _hop(hop)


def _hop(hop: Mapping[str, Any]) -> Iterable[str]:
    yield f"published   {hop['published']}"
    yield f"sent        {hop['sent']}  {hop['bytes_sent']:,} bytes by this process"
    yield f"durable     {hop['acknowledged']}"
    files = f", {hop['files_left']:,} files of a load" if hop["files_left"] else ""
    yield f"lag         {hop['lag']:.1f} s, {hop['left']:,} bytes{files}"
    for name, seconds in hop["legs"]:
        yield f"hop         {name}  {1000 * seconds:.1f} ms there and back"
    if store := hop.get("store"):
        yield f"store       {_store(store)}"
    yield from _behind(hop["behind"], "")
    if hop["error"]:
        yield f"last error  {hop['error']}"


def _store(store: Mapping[str, Any]) -> str:
    """Show what is in a store of objects, of who writes there; how many pieces are to come, of who reads."""
    number, seconds = store.get("pieces", 0), store.get("seconds")
    which = f" ({store['first']} to {store['last']})" if "first" in store and number else ""
    what = "pieces there" + which if "taken" not in store else f"pieces to take, of {store['last']:,}"
    return f"{number:,} {what}" + (f"; {1000 * seconds:.0f} ms for the last one" if seconds is not None else "")


def _behind(pumps: Iterable[Mapping[str, Any]], indent: str) -> Iterable[str]:
    """Show the pumps that go on from the next store, and those behind them."""
    for one in pumps:
        yield (
            f"goes on     {indent}{one.get('name')} to {one.get('to')}: {one.get('state')}, durable {one.get('acknowledged')}"
            f" of {one.get('published')}, lag {one.get('lag') or 0:.1f} s"
        )
        yield from _behind(one.get("behind") or (), indent + "  ")
