"""Bytes that a bucket keeps beside its objects: older versions, locked objects, and parts of unfinished uploads."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from clocs.core.errors import StoreError
from clocs.core.storage.locations import ObjectPath

_UNSET = {"ObjectLockConfigurationNotFoundError", "NotImplemented", "NoSuchObjectLockConfiguration"}


class UnfinishedUpload(NamedTuple):
    """A multipart upload of any program that was neither completed nor aborted."""

    path: ObjectPath
    """The object that it would have made."""
    upload_id: str
    """Id of the upload."""


def warn_of_kept_versions(folder: ObjectPath) -> None:
    """Warn if the bucket keeps what is deleted, because of versioning or object lock."""
    client, name = _client(folder.bucket), folder.bucket
    kept = []
    if _answer(lambda: client.get_bucket_versioning(Bucket=name).get("Status")) == "Enabled":
        kept.append("versioning")
    if _answer(lambda: client.get_object_lock_configuration(Bucket=name).get("ObjectLockConfiguration")):
        kept.append("object lock")
    if kept:
        warnings.warn(
            f"s3://{name} keeps older versions of its objects ({' and '.join(kept)}), so deleted recordings are still "
            "there. Delete the noncurrent versions, for example by a lifecycle rule of the bucket.",
            stacklevel=3,
        )


def unfinished_uploads(folder: ObjectPath, grace: timedelta) -> Iterator[UnfinishedUpload]:
    """Iterate over the unfinished multipart uploads below a folder that began before a grace period."""
    client, limit = _client(folder.bucket), datetime.now(UTC) - grace
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=folder.bucket, Prefix=folder.prefix)
    for page in _answer(lambda: list(pages)) or []:
        for upload in page.get("Uploads", []):
            if not grace or upload["Initiated"] <= limit:
                yield UnfinishedUpload(ObjectPath(folder.bucket, upload["Key"]), upload["UploadId"])


def abort_upload(upload: UnfinishedUpload) -> None:
    """Abort an upload, which deletes its parts."""
    path, client = upload.path, _client(upload.path.bucket)
    _answer(lambda: client.abort_multipart_upload(Bucket=path.bucket, Key=path.key, UploadId=upload.upload_id))


def _client(bucket: str) -> Any:
    ObjectPath(bucket).opened  # noqa: B018  (checks the settings, with messages)
    import boto3  # type: ignore[import-untyped]

    session = boto3.Session()
    return session.client("s3", region_name=session.region_name or "us-east-1")


def _answer(request: Any) -> Any:
    """Return the result of a request; None if the server does not know it or has nothing."""
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    try:
        return request()
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _UNSET:
            return None
        if code in ("AccessDenied", "403"):
            warnings.warn(
                f"No permission for {error.operation_name}, so it is unknown whether the bucket keeps deleted objects.",
                stacklevel=4,
            )
            return None
        raise StoreError(f"The server refused {error.operation_name} ({code}). Call again to continue.") from None
    except BotoCoreError as error:
        raise StoreError(f"The bucket does not answer ({type(error).__name__}). Call again to continue.") from None
