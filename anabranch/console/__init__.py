"""The web console: pages that the server makes, of what the manager knows.

`*pages.py` have the routes, `showing.py` makes pages of `templates/`; `static/` has the style, htmx and our only script. What
does not live here: REST (`api/`), what is done (`manager/`).
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.staticfiles import StaticFiles

from anabranch.console import (
    action_pages,
    file_pages,
    inside_pages,
    job_pages,
    lost_pages,
    oidc_pages,
    operation_pages,
    pages,
    people_pages,
    promote_pages,
    record_pages,
    secret_pages,
    settings_pages,
    status_pages,
    table_pages,
)
from anabranch.console.showing import refused_page

__all__ = ["PARTS", "refused_page", "routes", "static_files"]

PARTS = (
    pages,
    oidc_pages,
    job_pages,
    status_pages,
    table_pages,
    inside_pages,
    action_pages,
    operation_pages,
    file_pages,
    promote_pages,
    record_pages,
    people_pages,
    secret_pages,
    settings_pages,
    lost_pages,  # it takes what no other one takes
)
routes = APIRouter()
for _part in PARTS:
    routes.include_router(_part.routes)


def static_files() -> StaticFiles:
    """Return the files below `/static`."""
    return StaticFiles(directory=Path(__file__).with_name("static"))
