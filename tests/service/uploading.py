"""Uploads as the service stores them, and multipart bodies as browsers send them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

from clocs.service.uploads import Upload

BOUNDARY = "----boundary-of-a-test"
TOKEN = "a-token-for-tests-only"


def upload_of(files: dict[str, bytes]) -> Upload:
    content = b"".join(files.values())
    return Upload(
        io.BytesIO(content),
        tuple((name, len(data)) for name, data in files.items()),
        hashlib.sha256(content).hexdigest(),
    )


def multipart(
    files: dict[str, bytes], field: str = "files", fields: Mapping[str, str] | None = None
) -> tuple[bytes, dict[str, str]]:
    """A body and the headers that go with it."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n".encode()
        + data
        + b"\r\n"
        for name, data in files.items()
    ]
    parts += [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in (fields or {}).items()
    ]
    body = b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()
    return body, {"content-type": f"multipart/form-data; boundary={BOUNDARY}", "authorization": f"Bearer {TOKEN}"}
