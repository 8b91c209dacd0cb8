"""REST: what the manager does, over HTTP, described by OpenAPI.

`app.py` puts it together; `asking.py` says who asks, `problems.py` how errors are told; each other file has the routes of one
thing. What does not live here: pages (`console/`), what is done (`manager/`).
"""

from __future__ import annotations

from anabranch.api.app import create_app

__all__ = ["create_app"]
