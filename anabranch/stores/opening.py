"""Open a store by its URL. What a store needs is imported when one of its kind is opened."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import ConfigError, Side, install_hint
from anabranch.stores.contract import ObjectStore

# Kind of a URL -> the module and function that opens such a store, the installation's extra, and the packages of it.
STORES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "objects": ("anabranch.stores.directory:open_directory", "", ()),
    "s3": ("anabranch.stores.s3:open_s3", "s3", ("boto3", "botocore", "urllib3")),
    "sftp": ("anabranch.stores.sftp:open_sftp", "sftp", ("asyncssh", "cryptography")),
    "ftp": ("anabranch.stores.ftp:open_ftp", "", ()),
    "ftps": ("anabranch.stores.ftp:open_ftp", "", ()),
    "hdfs": ("anabranch.stores.hdfs:open_hdfs", "", ()),
    "kafka": ("anabranch.stores.kafka:open_kafka", "kafka", ("confluent_kafka",)),
}


def open_store(url: StoreUrl, end: Side) -> ObjectStore:
    """Open a store. `end`: which end of a job it is, for its errors. Raises ConfigError for a kind whose packages are not
    installed, and whatever its opener raises."""
    place, extra, packages = STORES[url.kind]
    module, _, name = place.partition(":")
    try:
        opener: Any = getattr(import_module(module), name)
    except ImportError as error:
        if not error.name or error.name.partition(".")[0] not in packages:
            raise
        raise ConfigError(f"{url}: the package {error.name} is not installed", hint=install_hint(extra)) from None
    opened: ObjectStore = opener(url, end)
    return opened
