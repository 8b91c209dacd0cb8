"""The web console: pages that the server makes, of what the manager knows.

`pages.py` has the routes, `templates/` the pages, `static/` the style and htmx. What does not live here: REST (`api/`), what is
done (`manager/`).
"""

from __future__ import annotations

from pathlib import Path

from starlette.staticfiles import StaticFiles

from anabranch.console.pages import routes

__all__ = ["routes", "static_files"]


def static_files() -> StaticFiles:
    """Return the files below `/static`."""
    return StaticFiles(directory=Path(__file__).with_name("static"))
