"""The page that is shown where there is none.

What does not live here: how errors become pages (`showing.py`).
"""

from __future__ import annotations

from fastapi import APIRouter, HTTPException

from anabranch.console.showing import PageRoute

routes = APIRouter(route_class=PageRoute)


@routes.get("/{path:path}")
def lost(path: str) -> None:
    """Answer what no other route takes. Raises 404."""
    raise HTTPException(404, "nothing is at this address")
