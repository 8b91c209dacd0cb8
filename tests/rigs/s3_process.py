"""The process of `s3_server.py`: moto's server, which does one request after another, so that a conditional put is one step."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class InTurn:
    """Hand requests to an application one after another. `ignores_conditions`: without what they demand of what is there."""

    def __init__(self, application: Any, ignores_conditions: bool) -> None:
        self._application, self._ignores = application, ignores_conditions
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if self._ignores:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        with self._turn:
            return [b"".join(self._application(environ, start_response))]


def main(port: int, ignores_conditions: bool, cert: str, key: str) -> None:
    """Serve, by TLS if a certificate is given."""
    application = InTurn(DomainDispatcherApplication(create_backend_app), ignores_conditions)
    tls = (cert, key) if cert else None
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler, ssl_context=tls)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "1", *sys.argv[3:5])
