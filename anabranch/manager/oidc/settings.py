"""Settings of the provider: the file, with the client's secret, which a job's process never gets.

What does not live here: the file's form (`config/oidc_file.py`).
"""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

from anabranch.config.hop_files import load_hop_file
from anabranch.config.oidc_file import OidcFile
from anabranch.errors import ConfigError

CALLBACK = "/login/oidc/callback"


@dataclass(frozen=True)
class Settings:
    """The provider of one manager. `secret`: that of the environment; one of a file is read each time, as of then."""

    file: OidcFile
    secret: str | None = field(default=None, repr=False)

    @property
    def back(self) -> str:
        """Return the address to which the provider sends browsers back."""
        return self.file.public_url.rstrip("/") + CALLBACK

    @property
    def host(self) -> str:
        """Return the name under which browsers reach the console."""
        return urlsplit(self.file.public_url).hostname or ""

    @property
    def is_secure(self) -> bool:
        """Return whether browsers reach the console by HTTPS."""
        return self.file.public_url.startswith("https:")

    def client_secret(self) -> str | None:
        """Return the client's secret, None of a client without one. Raises ConfigError for a file that cannot be read."""
        return self.secret if self.file.client_secret_file is None else _read(Path(self.file.client_secret_file))

    def trust(self) -> ssl.SSLContext:
        """Return how the provider's certificate is judged. Raises ConfigError for a file that is none of authorities."""
        try:
            return ssl.create_default_context(cafile=self.file.ca_file)
        except OSError as error:  # SSLError is one
            what = f"ca_file {self.file.ca_file} cannot be used: {error.strerror or error}"
            raise ConfigError(what, hint="it has to have certificates (PEM)") from None


def load_settings(path: Path, environment: MutableMapping[str, str] = os.environ) -> Settings:
    """Read the file, and take the secret's variable out of the environment, which jobs inherit. Raises ConfigError."""
    file = load_hop_file(OidcFile, path)
    secret = None
    if file.client_secret_env is not None:
        secret = environment.pop(file.client_secret_env, "").strip()
        if not secret:
            raise ConfigError(
                f"{path}: the variable {file.client_secret_env} is not set", hint="it has the client's secret"
            )
    found = Settings(file, secret)
    found.client_secret()
    found.trust()
    return found


def _read(path: Path) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXO | stat.S_IWGRP):
                raise ConfigError(
                    f"others may read the client's secret in {path}", hint=f"chmod 600 {quote(str(path))}"
                )
            found = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"the client's secret {path} cannot be read: {said}", hint="look at the file") from None
    if not found:
        raise ConfigError(f"the client's secret {path} is empty", hint="put the secret there")
    return found
