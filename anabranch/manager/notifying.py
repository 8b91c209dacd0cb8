"""Sending of messages about alerts: by webhook, e-mail, and a command of this machine, each tried again for some minutes.

Ways are named where the manager is started, never over REST: whoever may set rules cannot make it speak to a host, or run a
program. A message may come twice, where the manager is killed right after sending: `alert` and `event` tell. What does not live
here: when there is one (`alerts.py`).
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import shlex
import smtplib
import ssl
import subprocess
import threading
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

import stamina

from anabranch import log
from anabranch.errors import AnabranchError, ConfigError
from anabranch.manager.store import ManagerStore, now

TIMEOUT_S = 10.0
TRIES, LONGEST_S = 5, 120.0  # of one message
COMMAND_S = 30.0
PASSWORD = "ANABRANCH_SMTP_PASSWORD"
Way = Callable[[Mapping[str, object]], None]


class NotSent(Exception):
    """A message did not arrive, and may at the next try."""


class Refused(Exception):
    """A message was refused, and would be again."""


FAILURES = (NotSent, OSError, http.client.HTTPException, smtplib.SMTPException, subprocess.SubprocessError)


class Notifier:
    """The messages of one manager. `ways`: by name, which is set before `begin`; one that is slow holds up no other."""

    def __init__(self, store: ManagerStore) -> None:
        self.ways: dict[str, Way] = {}
        self._store, self._ends, self._threads = store, threading.Event(), list[threading.Thread]()

    def begin(self) -> None:
        """Begin to send, also what an earlier manager has left."""
        for name in self.ways:
            thread = threading.Thread(target=self._run, args=(name,), name=f"alerts {name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def end(self) -> None:
        """End: what has not been sent is left for the next manager."""
        self._ends.set()
        for thread in self._threads:
            thread.join(1.0)

    @property
    def has_died(self) -> bool:
        """Return whether one of its threads is no more."""
        return not all(thread.is_alive() for thread in self._threads)

    def send_next(self, name: str) -> bool:
        """Send the oldest message of a way. Returns whether there was one."""
        query = "SELECT id, body FROM alert_message WHERE way = ? AND sent IS NULL AND given_up IS NULL ORDER BY id"
        row = self._store.row(f"{query} LIMIT 1", (name,))
        if row is None:
            return False
        error = self._sent(self.ways[name], json.loads(row["body"]))
        if not self._ends.is_set():
            column = "given_up" if error else "sent"
            with self._store.writing() as connection:
                connection.execute(
                    f"UPDATE alert_message SET {column} = ?, error = ? WHERE id = ?", (now(), error, row["id"])
                )
        return True

    def _sent(self, way: Way, body: Mapping[str, object]) -> str:
        """Return "" for a message that has arrived, else why it was given up."""
        try:
            for attempt in stamina.retry_context(on=self._again, attempts=TRIES, timeout=LONGEST_S, wait_max=30.0):
                with attempt:
                    way(body)
        except (Refused, *FAILURES) as error:
            told = f"{type(error).__name__}: {error}"[:500]
            log.get().warning("alert_not_sent", alert=body["alert"], error=told)
            return told
        return ""

    def _again(self, error: Exception) -> bool:
        return isinstance(error, FAILURES) and not self._ends.is_set()

    def _run(self, name: str) -> None:
        while not self._ends.is_set():
            try:
                was_one = self.send_next(name)
            except (AnabranchError, OSError) as error:  # a full disk, say: tried again
                log.get().error("alerts_not_sent", error=str(error))
                was_one = False
            if not was_one:
                self._ends.wait(1.0)


def webhook(url: str) -> tuple[str, Way]:
    """Return the way that posts JSON to a URL: https, or http on this machine. No redirect is followed. Raises ConfigError."""
    parts = _parts(url, ("https", "http"))
    if parts.scheme == "http" and not _is_here(parts.hostname or ""):
        raise ConfigError(
            "--alert-webhook would tell alerts in plain text", hint="https://…, or http:// on this machine"
        )

    def send(body: Mapping[str, object]) -> None:
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", target, json.dumps(body), {"Content-Type": "application/json"})
            status = connection.getresponse().status
        finally:
            connection.close()
        if status >= 500 or status in (408, 429):
            raise NotSent(f"it answered {status}")
        if not 200 <= status < 300:
            raise Refused(f"it answered {status}")

    return f"webhook {parts.hostname}", send  # the rest of a URL is often its secret


def mail(url: str, password: str | None) -> tuple[str, Way]:
    """Return the way that sends an e-mail: `smtps://USER@HOST:PORT/TO?from=FROM`, or `smtp://…`, which begins TLS by STARTTLS;
    only on this machine it does without. Raises ConfigError."""
    parts = _parts(url, ("smtp", "smtps"))
    to, host = unquote(parts.path.strip("/")), parts.hostname or ""
    sender = parse_qs(parts.query).get("from", [to])[0]
    if "@" not in to or any(sign in to + sender for sign in "\r\n"):
        raise ConfigError(
            "--alert-mail names nobody", hint="smtps://USER@HOST/ops@example.com?from=anabranch@example.com"
        )

    def send(body: Mapping[str, object]) -> None:
        message = EmailMessage()
        message["From"], message["To"] = sender, to
        message["Subject"] = f"anabranch: {body['rule']} {body['event']} {body['job']}".strip()
        message.set_content(f"{body['text']}\n\n{json.dumps(body, indent=1)}\n")
        secure = ssl.create_default_context()
        if parts.scheme == "smtps":
            server: smtplib.SMTP = smtplib.SMTP_SSL(host, parts.port or 465, timeout=TIMEOUT_S, context=secure)
        else:
            server = smtplib.SMTP(host, parts.port or 587, timeout=TIMEOUT_S)
        with server:
            if parts.scheme == "smtp" and not _is_here(host):
                server.starttls(context=secure)
            if parts.username and password is not None:
                server.login(unquote(parts.username), password)
            server.send_message(message)

    return f"mail {to}", send


def command(text: str) -> tuple[str, Way]:
    """Return the way that starts a program, without a shell, with the message as JSON on its standard input.
    `text`: the program and its arguments, quoted as for a shell. Raises ConfigError."""
    try:
        argv = shlex.split(text)
    except ValueError:
        argv = []
    if not argv:
        raise ConfigError(f"--alert-command {text!r} is no command", hint="a program and its arguments")

    def send(body: Mapping[str, object]) -> None:
        done = subprocess.run(
            argv, input=json.dumps(body).encode(), timeout=COMMAND_S, capture_output=True, check=False
        )
        if done.returncode:
            raise NotSent(f"it ended with {done.returncode}: {done.stderr.decode(errors='replace')[-200:]}")

    return f"command {argv[0]}", send


def _parts(url: str, schemes: tuple[str, ...]) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_one = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one or parts.password or any(sign <= " " for sign in url):
        raise ConfigError(
            f"an alert cannot be sent there: the URL must begin with {' or '.join(schemes)} and name a host",
            hint=f"a password is taken from {PASSWORD}, not from the URL",
        )
    return parts


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
