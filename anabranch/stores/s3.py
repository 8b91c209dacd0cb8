"""Keep objects in a bucket of S3, or of a server that speaks its protocol, by boto3.

An object is created by a put that the server refuses where the name is taken (`If-None-Match: *`). A server that does not know
such puts overwrites without a word, so one that is not Amazon's is tried first. Nothing is asked twice by the library: what a
second put would answer is not what became of the first.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import count
from typing import Any
from uuid import uuid4

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import ConfigError, Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.names import checked, is_hidden
from anabranch.stores.s3_errors import MISSING, TAKEN, code_of, translated

PROBE = ".probe"  # created once by whoever writes first; no listing shows it
LARGE = 64 << 20  # bytes; what is larger goes in parts
PART = 32 << 20
WRITER = "anabranch-put"  # metadata: which put an object is of
CONFLICTS = (0.05, 0.2, 0.8)  # seconds before a put that met another one is done again: nothing was written
CONNECT_S, READ_S = 10, 60
ADDRESSING = ("auto", "path", "virtual")
AMAZON = re.compile(r"https?://[^/]*\.amazonaws\.com(\.cn)?(:443)?/?")


def open_s3(url: StoreUrl, end: Side) -> S3Store:
    """Open the store of `trail+s3://BUCKET/PREFIX/NAME`. Nothing is asked of the server yet. Raises ConfigError for options
    that do not go together."""
    failures = Failures(end, f"s3://{url.host}/{url.path}")
    with translated(failures):
        return S3Store(url, failures, _client(url, failures))


def _client(url: StoreUrl, failures: Failures) -> Any:
    keys = {
        f"aws_{name}": value
        for name in ("access_key_id", "secret_access_key", "session_token")
        if (value := url.option(name))
    }
    if keys and not {"aws_access_key_id", "aws_secret_access_key"} <= set(keys):
        raise failures.wrong("the URL has a part of a key", "access_key_id and secret_access_key together, or neither")
    if (addressing := url.option("addressing", "auto")) not in ADDRESSING:
        raise failures.wrong(f"there is no addressing {addressing!r}", f"one of {', '.join(ADDRESSING)}")
    if (authority := url.option("ssl_ca")) and not os.access(authority, os.R_OK):
        raise failures.wrong(f"the file {authority} cannot be read", "the option ssl_ca names a file (PEM)")
    if url.host.endswith("--x-s3"):
        raise failures.wrong("a directory bucket lists in no order", "a general purpose bucket")
    config: dict[str, Any] = {
        "retries": {"total_max_attempts": 1},
        "connect_timeout": CONNECT_S,
        "read_timeout": READ_S,
        "s3": {"addressing_style": addressing},
    }
    if url.option("endpoint_url"):  # others do not know Amazon's newest checksums
        config |= {"request_checksum_calculation": "when_required", "response_checksum_validation": "when_required"}
    session = boto3.session.Session(profile_name=url.option("profile") or None, **keys)
    try:
        return session.client(
            "s3",
            region_name=url.option("region") or session.region_name or "us-east-1",
            endpoint_url=url.option("endpoint_url") or None,
            verify=url.option("ssl_ca") or None,
            config=Config(**config),
        )
    except ValueError:
        raise failures.wrong("endpoint_url is no URL of a server", "https://HOST:PORT") from None


class S3Store:
    """Objects with one prefix in a bucket.

    Delivery: a put is answered when the server has it durably; an upload in parts is seen with its last request or not at
    all."""

    def __init__(self, url: StoreUrl, failures: Failures, client: Any) -> None:
        self.bucket, self.prefix = url.host, f"{url.path}/"
        self._failures, self._client = failures, client
        self._is_amazon = bool(AMAZON.fullmatch(client.meta.endpoint_url))
        self._form = {
            key: value
            for key, value in (
                ("ServerSideEncryption", url.option("encryption")),
                ("SSEKMSKeyId", url.option("kms_key")),
            )
            if value
        }

    @cached_property
    def guarantees(self) -> Guarantees:
        """Say what the server can do: of Amazon it is known, others are tried. Without the right to write it is the least."""
        return Guarantees(self._is_amazon or self._refuses_second_puts(), self._is_amazon)

    def path(self, name: str = "") -> str:
        return f"s3://{self.bucket}/{self.prefix}{name}"

    def create(self, name: str, content: bytes) -> None:
        checked(name)
        if not self.guarantees.creates_once and self._is_there(name):
            raise ObjectExists(name)
        mark = uuid4().hex
        for pause in (*CONFLICTS, None):
            with self._asking(name):
                try:
                    self._put(name, content, mark, once=self.guarantees.creates_once)
                    return
                except ClientError as error:
                    if code_of(error) in TAKEN:
                        break
                    if pause is None or code_of(error) != "ConditionalRequestConflict":
                        raise
            time.sleep(pause)
        if not self._is_of(name, mark):
            raise ObjectExists(name)

    def replace(self, name: str, content: bytes) -> None:
        checked(name)
        with self._asking(name):
            self._put(name, content, uuid4().hex, once=False)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        if length == 0 or (length is None and offset == 0):
            return b"" if length == 0 and self.size(name) >= 0 else self._get(name)
        last = "" if length is None else str(offset + length - 1)
        return self._get(name, Range=f"bytes={offset}-{last}")

    def size(self, name: str) -> int:
        with self._asking(name):
            found: int = self._client.head_object(Bucket=self.bucket, Key=self._key(name))["ContentLength"]
            return found

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; a page of at most 1,000 of them is in memory."""
        with self._asking(""):
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self.prefix + prefix):
                for entry in page.get("Contents", ()):
                    name = entry["Key"].removeprefix(self.prefix)
                    if not any(not part or is_hidden(part) for part in name.split("/")):
                        yield Found(name, entry["Size"])

    def delete(self, name: str) -> None:
        with self._asking(name):
            self._client.delete_object(Bucket=self.bucket, Key=self._key(name))

    def close(self) -> None:
        self._client.close()

    def _key(self, name: str) -> str:
        return self.prefix + checked(name)

    def _get(self, name: str, **part: str) -> bytes:
        with self._asking(name):
            try:
                with self._client.get_object(Bucket=self.bucket, Key=self._key(name), **part)["Body"] as body:
                    content: bytes = body.read()
                    return content
            except ClientError as error:
                if code_of(error) == "InvalidRange":  # it begins behind the end
                    return b""
                raise

    def _put(self, name: str, content: bytes, mark: str, *, once: bool) -> None:
        place = {"Bucket": self.bucket, "Key": self.prefix + name}
        condition = {"IfNoneMatch": "*"} if once else {}
        form = {**self._form, "Metadata": {WRITER: mark}}
        if len(content) > LARGE:
            self._put_parts(place, content, form, condition)
        else:
            self._client.put_object(**place, Body=content, **form, **condition)

    def _put_parts(
        self, place: dict[str, str], content: bytes, form: dict[str, Any], condition: dict[str, str]
    ) -> None:
        upload = {**place, "UploadId": self._client.create_multipart_upload(**place, **form)["UploadId"]}
        parts: list[dict[str, Any]] = []
        try:
            for number, offset in zip(count(1), range(0, len(content), PART)):
                body = content[offset : offset + PART]
                answer = self._client.upload_part(**upload, PartNumber=number, Body=body)
                parts.append({"ETag": answer["ETag"], "PartNumber": number})
            self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **condition)
        except (BotoCoreError, ClientError):
            with suppress(BotoCoreError, ClientError):  # what is left of it costs room, and is no object
                self._client.abort_multipart_upload(**upload)
            raise

    def _is_there(self, name: str) -> bool:
        try:
            return self.size(name) >= 0
        except ObjectMissing:
            return False

    def _is_of(self, name: str, mark: str) -> bool:
        """Return whether an object is that of this very put: a router on the way may have sent it twice."""
        with suppress(ObjectMissing), self._asking(name):
            found = self._client.head_object(Bucket=self.bucket, Key=self._key(name))
            return bool(found.get("Metadata", {}).get(WRITER) == mark)
        return False

    def _refuses_second_puts(self) -> bool:
        """Put the probe twice, unless it is there."""
        try:
            with self._asking(PROBE):
                for _ in range(2):
                    self._put(PROBE, b"", uuid4().hex, once=True)
        except ObjectExists:
            return True
        except ConfigError:
            return False
        return False

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Translate the answers of the server about an object."""
        with translated(self._failures):
            try:
                yield
            except ClientError as error:
                if code_of(error) in TAKEN:
                    raise ObjectExists(name) from None
                if code_of(error) in MISSING and name:
                    raise ObjectMissing(name) from None
                raise
