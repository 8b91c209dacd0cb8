"""Ask once per process whether a cluster lets us in: what a listener refuses is told to a client beside its calls alone, and
they wait for brokers as if these were away.

What does not live here: what we may do there, and the words for what a broker refuses.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from anabranch import log
from anabranch.brokers.codes import LOGIN, of

ROUND_S = 0.5  # that one question waits for an answer
ASKING_S = 3.0  # between two words that nobody answers
MEETS_S = 1.0  # that a new client may take to know the brokers, before it is used in any case
REFUSED_ROUNDS = 2  # without an answer beside a refusal: one broker of several may refuse, and another one answer
_entered = set[tuple[tuple[str, str], ...]]()


def answers(told: dict[str, Any], logger: Any, until: float) -> str:
    """Return "" once a broker answers, else, at `until` (monotonic seconds), what was told of it last. Warns while it waits."""
    heard = list[Any]()
    client = AdminClient(told | {"error_cb": heard.append}, logger=logger)
    while (left := until - time.monotonic()) > 0:
        try:
            client.list_topics(timeout=min(left, ASKING_S))
        except KafkaException as error:
            client.poll(0)  # which brings what was told meanwhile
            heard = heard or [of(error)]
            if (left := round(until - time.monotonic())) > 0:
                log.get().warning("no_broker_answers_yet", brokers=told["bootstrap.servers"], waits_s=left)
        else:
            return ""
    return str(heard[-1].str())


def enter(told: dict[str, Any], logger: Any, seconds: float) -> None:
    """Return once a broker answers who knows us, or after `seconds` without a word of anybody: the call that comes then waits,
    and says what it met. Raises KafkaException where a listener refuses user, password or certificate, or we refuse its own."""
    key = tuple(sorted((name, str(value)) for name, value in told.items()))
    if key in _entered or told["security.protocol"] == "PLAINTEXT":  # where nobody is asked who comes
        return
    heard = list[Any]()
    client = AdminClient(told | {"error_cb": heard.append}, logger=logger)
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        try:
            client.list_topics(timeout=ROUND_S)
        except KafkaException as error:
            heard.append(of(error))
        else:
            _entered.add(key)
            return
        client.poll(0)  # which brings what was told meanwhile
        refusals = [one for one in heard if one.code() in LOGIN]
        rounds += bool(refusals)
        if rounds == REFUSED_ROUNDS:
            raise KafkaException(refusals[-1])


def knowing(client: AdminClient) -> AdminClient:
    """Return a new client once it knows the brokers: as it learns of them its line to the address that it was given ends, and a
    look for leaders that went over it is sent again three seconds later. Where no broker answers its next call says so."""
    with suppress(KafkaException, TimeoutError):  # no broker answers: the next call says so
        client.describe_cluster(request_timeout=MEETS_S).result(2 * MEETS_S)
    return client
