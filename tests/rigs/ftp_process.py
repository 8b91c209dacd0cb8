"""The process of `ftp_server.py`: pyftpdlib's server over one directory."""

from __future__ import annotations

import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler, TLS_FTPHandler
from pyftpdlib.servers import FTPServer


def main(port: int, user: str, password: str, rights: str, certificate: str) -> None:
    """Serve the whole file system, as far as the account may see it; the login's directory is the working one."""
    authorizer = DummyAuthorizer()
    authorizer.add_user(user, password, "/", perm=rights)
    handler: type = type("Handler", (TLS_FTPHandler if certificate else FTPHandler,), {"authorizer": authorizer})
    if certificate:
        settings = {"certfile": certificate, "tls_control_required": True, "tls_data_required": True}
        for name, value in settings.items():
            setattr(handler, name, value)
    FTPServer(("127.0.0.1", port), handler).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:6])
