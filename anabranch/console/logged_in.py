"""The user of a page: by the session's cookie, else the page leads to `/login`.

What does not live here: sessions (`manager/sessions.py`).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Form, HTTPException, Request

from anabranch.api.asking import caller_of, session_of
from anabranch.manager.callers import Caller
from anabranch.manager.sessions import Session


@dataclass(frozen=True)
class Visitor:
    """A person who looks at a page, with the session."""

    caller: Caller
    session: Session


def visiting(request: Request) -> Visitor:
    """Return who looks. Leads to `/login` without a session, to `/password` where the password was for one time."""
    found = session_of(request)
    if found is None and "HX-Request" in request.headers:  # a part of a page: the whole page is to go there
        raise HTTPException(401, "log in first", {"HX-Redirect": "/login"})
    if found is None:
        raise HTTPException(303, "log in first", {"Location": f"/login?next={quote(request.url.path)}"})
    if found.user.must_change and request.url.path != "/password":
        raise HTTPException(303, "choose a password first", {"Location": "/password"})
    return Visitor(caller_of(request, found), found)


def acting(visitor: Annotated[Visitor, Depends(visiting)], csrf: Annotated[str, Form()] = "") -> Visitor:
    """Return who sent a form. Raises 403 for one that this session's pages have not made."""
    if not hmac.compare_digest(csrf.encode(), visitor.session.csrf.encode()):
        raise HTTPException(403, "this form is of another session: load the page again")
    return visitor


Visits = Annotated[Visitor, Depends(visiting)]
Acts = Annotated[Visitor, Depends(acting)]
