"""Settings of librdkafka for an endpoint, whoever speaks with the cluster.

https://github.com/confluentinc/librdkafka/blob/v2.16.0/CONFIGURATION.md describes every setting. What does not live here:
clients, and what each of them is told beside this.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint

SSL_MODES = ("disable", "require", "verify-ca", "verify-full")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USUAL_MECHANISM = "SCRAM-SHA-512"  # which never shows the password, unlike PLAIN
LONGEST = 60.0  # seconds for an answer where the job file sets no limit
# What librdkafka would print comes as an error of a call as well; a line of its own would be beside our log.
SILENT = logging.getLogger("anabranch.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def settings(endpoint: Endpoint) -> dict[str, Any]:
    """Return what every client is told: where the brokers are, who we are, how the line is protected. Raises ConfigError for
    an unknown mechanism."""
    mode = endpoint.option("ssl_mode") or ("verify-full" if endpoint.option("ssl_ca") else "disable")
    if mode not in SSL_MODES:
        raise ConfigError(f"unknown ssl_mode {mode!r} in the URL", hint=f"one of {', '.join(SSL_MODES)}")
    protocol = ("SASL_" if endpoint.user else "") + ("PLAINTEXT" if mode == "disable" else "SSL")
    made: dict[str, Any] = {
        "bootstrap.servers": brokers(endpoint),
        "client.id": "anabranch",
        "security.protocol": protocol,
        "socket.connection.setup.timeout.ms": max(1000, int(endpoint.limits.connect * 1000)),
        "socket.keepalive.enable": True,
        "allow.auto.create.topics": False,
        "log_level": 3,
    }
    if endpoint.user:
        made |= {
            "sasl.mechanism": _mechanism(endpoint),
            "sasl.username": endpoint.user,
            "sasl.password": endpoint.password,
        }
    if mode != "disable":
        made["enable.ssl.certificate.verification"] = mode != "require"
        made["ssl.endpoint.identification.algorithm"] = "https" if mode == "verify-full" else "none"
        files = {"ssl.ca.location": "ssl_ca", "ssl.certificate.location": "ssl_cert", "ssl.key.location": "ssl_key"}
        made |= {name: endpoint.option(option) for name, option in files.items() if endpoint.option(option)}
    return made


def brokers(endpoint: Endpoint) -> str:
    """Return the addresses that the URL names, `a:9092,b:9092`: any of them tells of the others."""
    return endpoint.place


def _mechanism(endpoint: Endpoint) -> str:
    given = endpoint.option("sasl_mechanism", USUAL_MECHANISM).upper().replace("_", "-")
    if given not in MECHANISMS:
        raise ConfigError(f"unknown sasl_mechanism {given!r} in the URL", hint=f"one of {', '.join(MECHANISMS)}")
    return given


def patience(endpoint: Endpoint) -> float:
    """Return the seconds that one answer may take."""
    return LONGEST if math.isinf(endpoint.limits.statement) else max(1.0, endpoint.limits.statement)
