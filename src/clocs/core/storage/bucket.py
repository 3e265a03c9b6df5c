"""Requests to a bucket of an object store that speaks S3, with retries, conditional writes and counters.

Credentials come from the whole chain of boto3 (environment, files, web identity, container, instance) and are refreshed
before they expire. They stay in this module: no message, file or pickle has them.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from clocs.core.errors import ConfigError, MissingExtraError, StoreError
from clocs.core.storage.counters import count

RETRY_SECONDS = 120.0
"""Time for which a failed request is repeated."""
LONGEST_PAUSE = 5.0
"""Maximum seconds between two attempts."""
PART_BYTES = 32 << 20
"""Bytes of a download that are requested at a time. An interrupted download continues after the last part."""
LIST_PAGE: Final = 1000
"""Number of objects that a server lists by one request."""
CREDENTIAL_SECONDS = 20
"""Time after which credentials are asked for again. boto3 answers from memory until they have to be refreshed."""
_STATUS = re.compile(r"status code: (\d{3})")
_TEMPORARY_CODES: Final = {"408", "425", "429"}
_CODE = re.compile(r"<Code>(\w+)</Code>")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ObjectInfo:
    """Entry of a listing."""

    key: str
    """Key of the object in its bucket."""
    size: int
    """Size in bytes."""
    etag: str
    """Tag that changes with the content."""
    modified: datetime
    """Time of the write."""


class Bucket:
    """A bucket, with the requests that a store needs. :func:`open_bucket` returns one per process.

    Args:
        name: Name of the bucket.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._process = os.getpid()
        self._store = _connect(name)

    def read(self, key: str, begin: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of an object from ``begin`` to ``end``, by default all.

        Raises:
            FileNotFoundError: There is no such object.
            StoreError: It cannot be read.
        """
        import obstore

        def get() -> bytes:
            if end is not None:
                return bytes(obstore.get_range(self._store, key, start=begin, end=end))
            return bytes(obstore.get(self._store, key).bytes())[begin:]

        data = self._request("read", key, get)
        count("bucket_bytes_read", len(data))
        return data

    def read_parts(self, key: str) -> Iterator[bytes]:
        """Iterate over the bytes of an object in parts. Each is asked for again if its request fails.

        Raises:
            FileNotFoundError: There is no such object.
            StoreError: It cannot be read.
        """
        size = self.info(key).size
        for begin in range(0, size, PART_BYTES):
            yield self.read(key, begin, min(begin + PART_BYTES, size))

    def info(self, key: str) -> ObjectInfo:
        """Return size, tag and time of an object.

        Raises:
            FileNotFoundError: There is no such object.
            StoreError: The server does not answer.
        """
        import obstore

        return _info(self._request("read", key, lambda: obstore.head(self._store, key)))

    def list_all(self, prefix: str) -> Iterator[ObjectInfo]:
        """Iterate over all objects whose keys begin with a prefix, which ends in ``/`` or is empty."""
        import obstore

        last: str | None = None
        chunks: Any = None

        def page() -> Any:
            nonlocal chunks
            stream = iter(obstore.list(self._store, prefix or None, offset=last)) if chunks is None else chunks
            chunks = None  # a stream that failed would end without an error
            found = next(stream, None)
            chunks = stream
            return found

        while (found := self._request("list", prefix, page)) is not None:
            yield from map(_info, found)
            last = found[-1]["path"] if len(found) else last

    def list_page(self, prefix: str, after: str) -> list[ObjectInfo]:
        """Return the first :data:`LIST_PAGE` objects below a prefix whose keys come after a key, by one request."""
        import obstore

        def page() -> Any:
            return next(iter(obstore.list(self._store, prefix or None, offset=after or None, chunk_size=LIST_PAGE)), [])

        return list(map(_info, self._request("list", prefix, page)))

    def list_folder(self, prefix: str) -> tuple[list[ObjectInfo], list[str]]:
        """Return the objects directly below a prefix, and the prefixes of the folders there."""
        import obstore

        found = self._request("list", prefix, lambda: obstore.list_with_delimiter(self._store, prefix or None))
        return [_info(each) for each in found["objects"]], list(found["common_prefixes"])

    def create(self, key: str, data: bytes | Path) -> bool:
        """Write an object unless it exists.

        An answer that is lost on the way can make an own write look like that of another. Compare the content.

        Args:
            key: Key of the object.
            data: Its bytes, or the file that has them.

        Returns:
            False if the object exists.

        Raises:
            StoreError: It cannot be written.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._put(key, data, "create")
        except (AlreadyExistsError, PreconditionError):
            return False
        return True

    def replace(self, key: str, data: bytes | Path, etag: str | None = None) -> str | None:
        """Write an object, also if it exists.

        Args:
            key: Key of the object.
            data: Its bytes, or the file that has them.
            etag: Tag that the existing object must have; None for any or no object.

        Returns:
            The tag of the new object; None if the existing one has another tag.

        Raises:
            StoreError: It cannot be written.
        """
        from obstore.exceptions import PreconditionError

        try:
            return str(self._put(key, data, "overwrite" if etag is None else {"e_tag": etag})["e_tag"])
        except (PreconditionError, FileNotFoundError):
            return None

    def delete(self, key: str) -> None:
        """Delete an object if it exists."""
        import obstore

        self._request("delete", key, lambda: obstore.delete(self._store, key))

    def _put(self, key: str, data: bytes | Path, mode: Any) -> Any:
        """Write an object by one request, so that no part of an upload can be left behind."""
        import obstore

        def put() -> Any:
            return obstore.put(self._store, key, data, mode=mode, use_multipart=False)

        result = self._request("write", key, put)
        count("bucket_bytes_written", len(data) if isinstance(data, bytes) else data.stat().st_size)
        return result

    def _request(self, verb: str, key: str, action: Callable[[], Result]) -> Result:
        """Return the result of a request. Errors of the server and the network are tried again for a while."""
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        if os.getpid() != self._process:
            raise StoreError(
                f"s3://{self.name} was opened before this process was forked, which its connections do not survive. "
                "Start workers with multiprocessing_context='spawn'."
            )
        deadline, pause = time.monotonic() + RETRY_SECONDS, 0.1
        while True:
            count("bucket_requests")
            try:
                return action()
            except (AlreadyExistsError, PreconditionError):
                raise
            except FileNotFoundError as error:
                if "<Code>NoSuchBucket" in str(error):
                    raise StoreError(f"There is no bucket '{self.name}'. Create it, or correct the name.") from None
                raise FileNotFoundError(errno.ENOENT, "no such object", f"s3://{self.name}/{key}") from None
            except BaseError as error:
                if _is_final(error) or time.monotonic() + pause > deadline:
                    raise StoreError(self._message(verb, key, error)) from None
            count("bucket_retries")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _message(self, verb: str, key: str, error: Exception) -> str:
        """Return a message with the server's code only, because its text may repeat parts of the request."""
        code = _CODE.search(str(error))
        status = _STATUS.search(str(error))
        reason = code.group(1) if code else f"status {status.group(1)}" if status else "no answer"
        target = f"s3://{self.name}/{key}"
        if status and status.group(1) in ("401", "403"):
            return (
                f"{target}: access denied ({reason}). Check the credentials that the AWS tools find (environment, "
                "profile or role) and the permissions of the bucket."
            )
        return (
            f"Cannot {verb} {target}: {reason}. Check the network, the endpoint and the name of the bucket, then call "
            "again to continue."
        )


def _is_final(error: Exception) -> bool:
    """Return whether a repeated request would fail in the same way."""
    status = _STATUS.search(str(error))
    return status is not None and status.group(1).startswith("4") and status.group(1) not in _TEMPORARY_CODES


def _info(found: Any) -> ObjectInfo:
    return ObjectInfo(found["path"], int(found["size"]), str(found["e_tag"]), found["last_modified"])


def open_bucket(name: str) -> Bucket:
    """Return a bucket. Its connections are shared by this process.

    Args:
        name: Name of the bucket.

    Raises:
        ConfigError: There are no credentials, or the file of certificates cannot be read.
        MissingExtraError: The extra ``cloud`` is not installed.
    """
    settings = tuple(os.environ.get(variable, "") for variable in _SETTINGS)
    return _open_bucket(name, settings)


_SETTINGS: Final = (
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
"""Variables after whose change a bucket is connected again."""


@functools.lru_cache(maxsize=16)
def _open_bucket(name: str, _settings: tuple[str, ...]) -> Bucket:
    return Bucket(name)


def _connect(name: str) -> Any:
    try:
        import boto3  # type: ignore[import-untyped]
        from obstore.auth.boto3 import Boto3CredentialProvider
        from obstore.store import S3Store
    except ImportError:
        raise MissingExtraError("cloud", f"s3://{name}") from None
    from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]

    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            raise ConfigError(
                f"No credentials for s3://{name}. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or run "
                "on a machine with a role."
            )
        region = session.region_name or "us-east-1"
        endpoint = str(session.client("s3", region_name=region).meta.endpoint_url)
    except (BotoCoreError, ValueError) as error:
        raise ConfigError(f"s3://{name}: invalid AWS settings ({type(error).__name__}).") from None
    client: dict[str, Any] = {"timeout": "600s", "read_timeout": "60s", "connect_timeout": "10s"}
    if endpoint.startswith("http://"):
        client["allow_http"] = True
    if certificates := os.environ.get("AWS_CA_BUNDLE"):
        try:
            client["root_certificate"] = Path(certificates).read_bytes()
        except OSError as error:
            raise ConfigError(f"AWS_CA_BUNDLE={certificates}: cannot be read ({error.strerror}).") from error
    return S3Store(
        name,
        endpoint=None if endpoint.endswith(".amazonaws.com") else endpoint,
        region=region,
        client_options=cast(Any, client),
        retry_config={"max_retries": 0},
        credential_provider=Boto3CredentialProvider(session, ttl=timedelta(seconds=CREDENTIAL_SECONDS)),
    )
