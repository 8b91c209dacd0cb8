"""Secrets of a manager: what `${NAME}` in job files stands for, sealed in the store, and shown to nobody.

Each is sealed (AES-256-GCM) together with its name and the jobs that may use it, so that nobody who can write into the store
alone moves it to another name or job. What does not live here: the keys (`secret_keys.py`), what a process gets
(`environment.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from anabranch.errors import ConfigError, UnknownName
from anabranch.manager.audit import Audit
from anabranch.manager.callers import EVERY_JOB, Caller, Role
from anabranch.manager.secret_keys import Key, Keys
from anabranch.manager.store import ManagerStore, now

NAME = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
LARGEST = 32_768  # bytes of a value: a variable of a process has 128 KB at most
# What the system, Python, Java and this product read themselves: a job's process would become another one.
_TAKEN = re.compile(
    r"(?:ANABRANCH|LD|SPARK|PYSPARK|JAVA|JDK|MALLOC|GLIBC|XDG|LC)_.*|PYTHON.*|SSL_CERT_(?:FILE|DIR)"
    r"|PATH|HOME|USER|LOGNAME|SHELL|LANG|TZ|TMPDIR|TEMP|TMP|IFS|PWD|OLDPWD|HOSTNAME|TERM|[A-Za-z]+_PROXY"
)


@dataclass(frozen=True)
class Secret:
    """A secret as it is listed: without its value. `jobs`: patterns on the names of jobs that may use it; `used_by`: jobs that
    name it in their files; `is_readable`: whether the key that sealed it is there."""

    name: str
    jobs: tuple[str, ...]
    at: str
    by: str
    used_by: tuple[str, ...]
    is_readable: bool


class Secrets:
    """The secrets of one manager. Each method for somebody raises NotAllowed for who is no administrator of all jobs."""

    def __init__(self, store: ManagerStore, keys: Keys, audit: Audit) -> None:
        self._store, self._keys, self._audit = store, keys, audit

    def all(self, caller: Caller) -> list[Secret]:
        """Return all secrets by name. Raises ConfigError where the keys cannot be read."""
        caller.require(Role.ADMINISTRATOR)
        query = (
            "SELECT job.name, text FROM job JOIN job_version ON job = job.name AND job_version.version = job.version"
        )
        texts = {row["name"]: row["text"] for row in self._store.rows(f"{query} ORDER BY job.name")}
        known = {key.id for key in self._keys.all()}
        return [_listed(row, texts, known) for row in self._store.rows("SELECT * FROM secret ORDER BY name")]

    def key_place(self, caller: Caller) -> str:
        """Return where the key is that seals."""
        caller.require(Role.ADMINISTRATOR)
        return self._keys.place

    def secret(self, caller: Caller, name: str) -> Secret:
        """Return one secret. Raises UnknownName."""
        found = next((one for one in self.all(caller) if one.name == name), None)
        if found is None:
            raise _unknown(name)
        return found

    def set(self, caller: Caller, name: str, value: str, jobs: tuple[str, ...] | None = None) -> Secret:
        """Give a secret a value, from the next start of each process on. `jobs`: None lets them as they are, all of a new one.

        Raises ConfigError for what is no name or value, and where the key is gone that others were sealed with.
        """
        caller.require(Role.ADMINISTRATOR)
        _refuse_wrong(name, value)
        ring = self._keys.of_ring(is_anew=True)  # outside: it may take its time
        with self._store.writing() as connection:  # the file's key is read inside: it may be replaced at the moment
            row = connection.execute("SELECT jobs FROM secret WHERE name = ?", (name,)).fetchone()
            patterns = " ".join(jobs) if jobs is not None else row["jobs"] if row else EVERY_JOB
            key = self._sealing(bool(connection.execute("SELECT 1 FROM secret LIMIT 1").fetchone()), ring)
            sealed = key.seal(value.encode(), _place(name, patterns))
            connection.execute("DELETE FROM secret WHERE name = ?", (name,))  # the new row has an id of its own: `mark`
            connection.execute(
                "INSERT INTO secret (name, jobs, sealed, key, at, by) VALUES (?, ?, ?, ?, ?, ?)",
                (name, patterns, sealed, key.id, now(), caller.name),
            )
            self._audit.note(caller, "secret_set", before=name if row else None, after=f"{name}: jobs {patterns}")
        return self.secret(caller, name)

    def remove(self, caller: Caller, name: str) -> None:
        """Forget a secret; what runs keeps it until it ends. Raises UnknownName."""
        caller.require(Role.ADMINISTRATOR)
        with self._store.writing() as connection:
            done = connection.execute("DELETE FROM secret WHERE name = ?", (name,))
            if not done.rowcount:
                raise _unknown(name)
            self._audit.note(caller, "secret_removed", before=name)

    def rotate(self, caller: Caller) -> int:
        """Seal every secret with another key: a new one in the file, or the first of the environment. Returns how many there
        are. Raises ConfigError where one cannot be read, and changes nothing then.

        Killed anywhere, it leaves a file with which every secret can be read: the former key goes when nothing needs it.
        """
        caller.require(Role.ADMINISTRATOR)
        ring = self._keys.of_ring(is_anew=True)
        with self._store.writing() as connection:
            rows, known = connection.execute("SELECT * FROM secret").fetchall(), self._keys.all(ring)
            values = [(row, self._opened(dict(row), known)) for row in rows]
            if not self._keys.are_given:
                self._keys.write([Key.made(), *self._keys.of_file()])
            key = self._keys.all(ring)[0]
            for row, value in values:
                sealed = key.seal(value.encode(), _place(row["name"], row["jobs"]))
                connection.execute("UPDATE secret SET sealed = ?, key = ? WHERE id = ?", (sealed, key.id, row["id"]))
            self._audit.note(caller, "secrets_rotated", after=f"{len(rows)} secrets, key {key.id}")
        if not self._keys.are_given:
            self._drop_unused()
        return len(rows)

    def find(self, name: str, job: str) -> str | None:
        """Return the value of a secret for a job; None where there is none that the job may use. Raises ConfigError where it
        cannot be read."""
        row = self._store.row("SELECT * FROM secret WHERE name = ?", (name,))
        if row is None or not any(fnmatchcase(job, pattern) for pattern in row["jobs"].split()):
            return None
        return self._opened(row, self._keys.all())

    def mark(self) -> tuple[int, int]:
        """Return what differs as soon as a secret has come, changed or gone."""
        # An id comes once, so the same greatest one and the same number of rows are the same rows.
        row = self._store.row("SELECT coalesce(max(id), 0) AS last, count(*) AS n FROM secret") or {"last": 0, "n": 0}
        return int(row["last"]), int(row["n"])

    def _drop_unused(self) -> None:
        """Take the keys out of the file that nothing is sealed with, but for the first."""
        with self._store.writing() as connection:
            used = {row["key"] for row in connection.execute("SELECT DISTINCT key FROM secret")}
            first, *others = self._keys.of_file()
            self._keys.write([first, *(key for key in others if key.id in used)])

    def _sealing(self, are_some: bool, ring: list[Key]) -> Key:
        """Return the key that seals. The first secret of all makes one."""
        if not (keys := self._keys.all(ring)):
            if are_some:
                raise ConfigError(
                    f"there is no key in {self._keys.file}, and other secrets were sealed with one",
                    hint="put that key back, or remove these secrets: anabranch secret rm",
                )
            keys = [Key.made()]
            self._keys.write(keys)
        return keys[0]

    def _opened(self, row: dict[str, Any], keys: list[Key]) -> str:
        name = row["name"]
        key = next((one for one in keys if one.id == row["key"]), None)
        if key is None:
            raise ConfigError(
                f"the secret {name} was sealed with the key {row['key']}, which is not there",
                hint=f"put that key into {self._keys.file}, or set the secret again",
            )
        value = key.open(row["sealed"], _place(name, row["jobs"]))
        if value is None:
            raise ConfigError(
                f"the secret {name} was changed in the manager's state by something else", hint="set the secret again"
            )
        return value.decode()


def _listed(row: dict[str, Any], texts: dict[str, str], known: set[str]) -> Secret:
    name, jobs = row["name"], tuple(row["jobs"].split())
    users = (job for job, text in texts.items() if f"${{{name}}}" in text)
    used_by = tuple(job for job in users if any(fnmatchcase(job, pattern) for pattern in jobs))
    return Secret(name, jobs, row["at"], row["by"], used_by, row["key"] in known)


def _refuse_wrong(name: str, value: str) -> None:
    if not re.fullmatch(NAME, name):
        raise ConfigError(f"{name!r} is no name of a secret", hint="letters, digits and _, as ${NAME} has them")
    if _TAKEN.fullmatch(name.upper()):
        raise ConfigError(f"{name} is a variable that programs read themselves", hint="choose another name")
    if not value or "\0" in value or len(value.encode(errors="replace")) > LARGEST:
        raise ConfigError(f"the value of a secret is text of 1 to {LARGEST} bytes", hint="without a byte of zero")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("the value of a secret is no UTF-8", hint="write bytes in base64, say") from None


def _place(name: str, jobs: str) -> str:
    return f"{name}\n{jobs}"


def _unknown(name: str) -> UnknownName:
    return UnknownName(f"there is no secret {name}", hint="anabranch secret ls lists them")
