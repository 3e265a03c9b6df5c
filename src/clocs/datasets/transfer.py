"""Transfer of one file over HTTP: resumed, hashed on the way and compared with its checksum."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clocs.core.errors import DownloadError

if TYPE_CHECKING:
    import requests

FIRST_USE = "SHA256SUMS"
"""Name of the file with the hashes of first downloads, in the format of ``sha256sum --check``."""
_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = (30, 60)
_RETRYABLE = (408, 429)
_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE = 206, 416
_ZIP_SUFFIXES = (".zip", ".xlsx")
_PARTIAL_SUFFIX = ".partial"
"""Suffix of an incomplete file with a known checksum. The next call continues it."""


@dataclass
class Transfer:
    """Downloader of one file for pooch: it reports progress, computes the hash and compares it."""

    session: requests.Session
    name: str
    checksum: str
    report: Callable[[int, int], None]
    check: Callable[[Path], object] | None
    max_bytes: int | None = None
    is_started: bool = False

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Write the file at ``url`` to ``output_file``, a temporary name beside the final one."""
        import requests

        self.is_started = True
        target = Path(output_file)
        target.unlink()  # pooch creates it for its owner only; a new file follows the umask
        algorithm, _, expected = self.checksum.partition(":")
        empty = hashlib.new(algorithm or "sha256", usedforsecurity=False)
        partial = target.with_name(f"{Path(self.name).name}{_PARTIAL_SUFFIX}") if expected else target
        digest, done = _resumed_digest(partial, empty)
        headers = {"Range": f"bytes={done}-"} if done else {}
        with self.session.get(url, stream=True, timeout=_TIMEOUT_SECONDS, headers=headers) as response:
            if (
                done
                and response.status_code in (_PARTIAL_CONTENT, _RANGE_NOT_SATISFIABLE)
                and not _continues_at(response, done)
            ):
                partial.unlink()
                raise requests.ConnectionError(f"the server does not continue after {done} bytes")
            _check_response(response, url)
            if response.status_code != _PARTIAL_CONTENT:  # the server sends the complete file
                digest, done = empty, 0
            total = done + _content_length(response)
            with open(partial, "ab" if done else "wb") as file:
                for piece in response.iter_content(_CHUNK_BYTES):
                    done += file.write(piece)
                    digest.update(piece)
                    if self.max_bytes is not None and done > self.max_bytes:
                        raise DownloadError(f"{url}: larger than {self.max_bytes} bytes, so it is not a listing")
                    self.report(done, total)
            if done < total:
                raise requests.ConnectionError(f"the connection ended after {done} of {total} bytes")
        if expected and digest.hexdigest() != expected.lower():
            partial.unlink()
            raise DownloadError(self._mismatch(url, digest.hexdigest()))
        partial.replace(target)
        if not expected and self.name.endswith(_ZIP_SUFFIXES) and not zipfile.is_zipfile(target):
            raise DownloadError(
                f"{url}: not a zip archive. A proxy may have sent an error page: check the network and call again."
            )
        if self.check:
            self.check(target)
        self.report(done, done)

    def _mismatch(self, url: str, received: str) -> str:
        algorithm, _, expected = self.checksum.partition(":")
        return (
            f"{self.name}: wrong checksum from {url}: expected {algorithm} {expected}, received {received}. The file "
            "was deleted. Call again. If the error persists, a proxy or mirror alters the file, or the publisher has "
            f"replaced it: ask the publisher. If the hash was recorded at first use in {FIRST_USE}, remove its line to "
            "accept the new file."
        )


def _resumed_digest(partial: Path, empty: hashlib._Hash) -> tuple[hashlib._Hash, int]:
    """Return the digest and size of the bytes that an earlier attempt received."""
    digest = empty.copy()
    if not partial.exists():
        return digest, 0
    with open(partial, "rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            digest.update(piece)
        return digest, file.tell()


def _continues_at(response: requests.Response, done: int) -> bool:
    """Return whether a response begins after this number of bytes."""
    return response.headers.get("Content-Range", "").startswith(f"bytes {done}-")


def _check_response(response: requests.Response, url: str) -> None:
    """Raise DownloadError for a final error, and the error that pooch retries for a temporary one."""
    if response.status_code < 500 and response.status_code not in (200, _PARTIAL_CONTENT, *_RETRYABLE):
        raise DownloadError(
            f"{url}: the server answers {response.status_code} {response.reason}. The file has moved or needs a "
            "login: see the dataset's homepage, or pass a mirror."
        )
    response.raise_for_status()
    hops = [hop.url for hop in (*response.history, response)]
    if url.startswith("https:") and not all(hop.startswith("https:") for hop in hops):
        raise DownloadError(f"{url}: redirects to an unencrypted address, which is not followed: {hops[-1]}")


def _content_length(response: requests.Response) -> int:
    """Return the number of bytes of a response's body; 0 if it is unknown or compressed."""
    length = response.headers.get("Content-Length", "")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdecimal() and not encoded else 0
