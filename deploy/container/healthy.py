"""Ends with 0 where the manager of this container answers: it leads, stands by, or waits for its store.

Standard library alone."""

import http.client
import os
import ssl
import sys
from urllib.parse import urlsplit

URL = os.environ.get("ANABRANCH_HEALTH_URL", "https://127.0.0.1:8420/healthz")
# Who stands by is well, and so is one whose store is away while its jobs go on: neither is to be killed.
WELL = ((200, b"ok"), (503, b"standby"), (503, b"degraded: store away"))


def main() -> int:
    """Ask once. What the certificate says does not matter on this machine's own address."""
    place = urlsplit(URL)
    try:
        if place.scheme == "https":
            unverified = ssl._create_unverified_context()
            line = http.client.HTTPSConnection(place.netloc, timeout=4, context=unverified)
        else:
            line = http.client.HTTPConnection(place.netloc, timeout=4)
        line.request("GET", place.path)
        answer = line.getresponse()
        return 0 if (answer.status, answer.read(64).strip()) in WELL else 1
    except (OSError, http.client.HTTPException) as error:
        print(f"nobody answers at {URL}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
