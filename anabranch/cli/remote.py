"""`anabranch --server URL VERB JOB …`: a command that a manager carries out, with its output and exit code here.

What does not live here: what the manager does (`manager/operations.py`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import click

from anabranch.cli.offered import commands
from anabranch.errors import ConfigError, StateError
from anabranch.model.commands import Given

TOKEN = "ANABRANCH_TOKEN"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
HERE = frozenset(("run", "capture", "apply"))  # they are what the manager starts by itself
OF_A_MANAGER = frozenset(("promote",))  # they speak to it themselves
PAUSE_S, ANSWER_S = 0.5, 60.0
PATIENCE_S = 60.0  # of a manager that is away, while it carries something out: it may be started again
TOO_OFTEN = 429
STREAMS = ("stdout", "stderr")
INTERRUPTED = 130


def elsewhere(
    verbs: click.Group, url: str, token_file: str | None, words: Sequence[str], is_said: bool
) -> click.Command | None:
    """Return the command that has a manager carry a command line out; None where it is one of this machine. `verbs`: all that
    there are; `is_said`: the command line itself names the server: then what the manager does not do is refused."""
    if words[0] in OF_A_MANAGER:
        return None
    table = commands(verbs)
    verb = next((verb for verb in (" ".join(words[:2]), words[0]) if verb in table and verb not in HERE), None)
    if verb is None:
        if is_said:
            raise click.UsageError(f"a manager does not carry out {words[0]}: leave --server out")
        return None
    given = table[verb].taken_apart(words[len(verb.split()) :])
    job, *places = given.places or ("",)
    if not job.replace("_", "").replace("-", "").isalnum():
        if is_said:
            raise click.UsageError("with --server, JOB is the name of a job of the manager, not a path")
        return None

    def carry_out() -> int:
        asked = {"verb": verb, "arguments": Given(given.options, tuple(places)).words()}
        return _carried_out(Server.at(url, token_file), job, asked)

    return click.Command(words[0], callback=carry_out)


class _NoRedirect(HTTPRedirectHandler):
    """Follows nobody to another place: the token would go along."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        return None


@dataclass(frozen=True)
class Server:
    """A manager that is spoken to by REST."""

    url: str
    token: str

    @classmethod
    def at(cls, url: str, token_file: str | None) -> Server:
        """Return the manager at an address. Raises ConfigError for an address at which the token would be read by others."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError("--server is no address of a manager", hint="http://127.0.0.1:8420, or https://HOST:PORT")
        if parts.scheme == "http" and parts.hostname not in LOOPBACK:
            raise ConfigError("the token would pass in plain text to another machine", hint="give an https:// address")
        token = Path(token_file).read_text() if token_file else os.environ.get(TOKEN, "")
        if not token.strip():
            raise ConfigError(
                "there is no token", hint=f"--token-file or ${TOKEN}; anabranch token create makes one there"
            )
        return cls(url.rstrip("/"), token.strip())

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask for a path below `/api/v1`. Raises ConfigError for what it refuses, OSError where it is away."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}/api/v1{path}", data, headers, method=method)
        proxies = [ProxyHandler({})] if urlsplit(self.url).hostname in LOOPBACK else []
        while True:
            try:
                with build_opener(_NoRedirect(), *proxies).open(request, timeout=ANSWER_S) as answer:
                    found: dict[str, Any] = json.load(answer)
                    return found
            except HTTPError as error:
                if error.code != TOO_OFTEN:
                    raise _refused(error) from None
                pause(min(float(error.headers.get("Retry-After") or PAUSE_S), PATIENCE_S))
            except HTTPException as error:  # cut off in the middle of an answer
                raise ConnectionError(str(error) or type(error).__name__) from None


def pause(seconds: float) -> None:
    """Wait before the manager is asked again."""
    time.sleep(seconds)


def _refused(error: HTTPError) -> Exception:
    try:
        said = json.load(error)
        message, hint = str(said["detail"]), str(said.get("hint", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        message, hint = f"it answers {error.code} {error.reason}", "is a manager at this address?"
    if error.code >= 500:
        return ConnectionError(message)
    return ConfigError(f"the manager refuses: {message}", hint=hint)


def _carried_out(server: Server, job: str, asked: dict[str, Any]) -> int:
    """Have a command carried out, and show what it says. Returns its exit code. Raises StateError where that is lost."""
    path = f"/jobs/{quote(job, safe='')}/operations"
    try:
        number = server.ask("POST", path, asked)["id"]
    except (URLError, OSError) as error:
        hint = "anabranch serve starts one; look at the address, too"
        raise StateError(f"the manager does not answer: {_why(error)}", hint=hint) from None
    place, offsets = f"{path}/{number}", dict.fromkeys(STREAMS, 0)
    try:
        return _followed(server, place, offsets)
    except (KeyboardInterrupt, SystemExit) as end:  # a second one ends it at once
        server.ask("POST", f"{place}/cancel")
        _followed(server, place, offsets)
        if isinstance(end, SystemExit):
            raise
        return INTERRUPTED


def _followed(server: Server, place: str, offsets: dict[str, int]) -> int:
    """Show what an operation says until it has ended. `offsets`: how much of each stream was shown, kept up to date."""
    last = time.monotonic()
    while True:
        try:
            ended = [_shown(server, place, stream, offsets) for stream in STREAMS]
            if all(ended):
                return _code(server.ask("GET", place))
            last = time.monotonic()
        except (URLError, OSError) as error:
            if time.monotonic() - last > PATIENCE_S:
                what = f"the manager is away ({_why(error)}), and its operation {place} goes on without it"
                raise StateError(what, hint="look at the job before you ask again") from None
        pause(PAUSE_S)


def _shown(server: Server, place: str, stream: str, offsets: dict[str, int]) -> bool:
    """Show what has come on a stream. Returns whether nothing more will."""
    while True:
        piece = server.ask("GET", f"{place}/output?stream={stream}&offset={offsets[stream]}")
        click.echo(piece["text"], nl=False, err=stream == "stderr")
        is_new, offsets[stream] = piece["next"] > offsets[stream], piece["next"]
        if piece["is_complete"]:
            if is_new and piece["left_out"]:
                click.echo(f"({piece['left_out']:,} bytes of {stream} were too many to be kept)", err=True)
            return True
        if not is_new:
            return False


def _code(found: dict[str, Any]) -> int:
    if found["code"] is not None:
        return int(found["code"])
    if found["state"] == "cancelled":
        return INTERRUPTED
    message = f"operation {found['id']} is {found['state']}: nobody knows how it ended"
    raise StateError(message, job=found["job"], hint="look at the job before you ask again")


def _why(error: OSError) -> str:
    return str(error.reason if isinstance(error, URLError) else error)
