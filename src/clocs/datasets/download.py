"""Download datasets from their publishers and verify checksums. A file gets its final name once it is verified.

Checksums come from two sources:

- The dataset, or the publisher's listing (PhysioNet's SHA256SUMS.txt), states a checksum. Every download must match it.
- Without a stated checksum, downloads are **trusted on first use**: the hash of the first download is written to
  ``SHA256SUMS`` in the folder, and later downloads must match it. This detects later changes only.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from clocs.core.errors import ConfigError, DownloadError, StoreError
from clocs.core.hashes import file_hash
from clocs.core.storage.files import write_bytes
from clocs.datasets.dataset import DATASETS, Dataset, Download
from clocs.datasets.transfer import FIRST_USE, Transfer

if TYPE_CHECKING:
    import requests

Progress = Callable[[int, int, str], None]
"""Called with the bytes received, the size of the file (0 if unknown) and a label of the file."""

LISTING = "SHA256SUMS.txt"
"""Name of PhysioNet's listing of the files of a project."""
MAX_LISTING_BYTES = 64 << 20
"""Maximum size of a listing. PTB-XL's 87,203 lines take 9 MB."""
RETRIES = 2
"""Number of retries after a broken connection or a server error. Other errors are final."""

_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S.*)")


def download(
    dataset: str | Dataset,
    folder: str | os.PathLike[str],
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Download the published files of a dataset into a folder and verify their checksums.

    Call it again to continue an interrupted download. Files with the right hash are kept. Zip archives are not
    unpacked, because :func:`clocs.ingest` reads them as they are.

    Args:
        dataset: A dataset or its name.
        folder: Folder of the files.
        mirror: Scheme and host to use instead of the publisher's, such as ``https://mirror.example.org``. The
            checksums stay the publisher's.
        progress: Called with the bytes received, the size of the file (0 if unknown) and a label of the file.

    Returns:
        Paths of the files.

    Raises:
        DownloadError: The dataset cannot be downloaded, the server refuses a file, or a checksum differs.
        ConfigError: The dataset is unknown or the mirror is not an address.

    Example:
        A dataset lists the files that it downloads:

        >>> [file.name for file in clocs.DATASETS.get("chapman").downloads]
        ['ECGDataDenoised.zip', 'Diagnostics.xlsx', 'RhythmNames.xlsx']
        >>> clocs.download("synthetic", "raw")
        Traceback (most recent call last):
        clocs.core.errors.DownloadError: dataset 'synthetic' cannot be downloaded. Ingest your own files instead.
    """
    import requests

    dataset = DATASETS.get(dataset) if isinstance(dataset, str) else dataset
    if not dataset.downloads:
        instead = f"Get its files from {dataset.homepage}" if dataset.homepage else "Ingest your own files instead"
        raise DownloadError(f"dataset '{dataset.name}' cannot be downloaded. {instead}.")
    with _quiet_pooch(), requests.Session() as session:
        session.headers.update({"User-Agent": "clocs", "Accept-Encoding": "identity"})
        fetcher = _Fetcher(Path(folder), session, progress or (lambda done, total, name: None))
        files: list[_File] = []
        for item in dataset.downloads:
            url = _mirror_url(item.url, mirror)
            files += fetcher.listed(item, url) if item.listing else [_single_file(item, url)]
        total = len(files)
        return [fetcher.fetch(file, f"{file.name} ({number} of {total})") for number, file in enumerate(files, 1)]


@dataclass(frozen=True)
class _File:
    """One file to download."""

    name: str
    """Path within the folder."""
    url: str
    """Address of the file."""
    checksum: str = ""
    """``algorithm:digest``; empty for trust on first use."""


class _Fetcher:
    """Download files into one folder by pooch, which renames a file once it is verified."""

    def __init__(self, folder: Path, session: requests.Session, progress: Progress) -> None:
        import pooch

        self._folder = folder.absolute()
        self._session = session
        self._progress = progress
        self._pooch = pooch.create(path=self._folder, base_url="", retry_if_failed=RETRIES)
        record = self._folder / FIRST_USE
        self._first_use = read_sums(record) if record.is_file() else {}

    def fetch(self, file: _File, label: str, check: Callable[[Path], object] | None = None) -> Path:
        """Download a file unless it exists, and return its path. ``check`` validates it before it is renamed."""
        import requests

        recorded = self._first_use.get(file.name)
        checksum = file.checksum or (f"sha256:{recorded}" if recorded else "")
        self._pooch.registry[file.name] = checksum or None
        self._pooch.urls[file.name] = file.url

        def report(done: int, total: int) -> None:
            self._progress(done, total, label)

        max_bytes = MAX_LISTING_BYTES if file.name.endswith(LISTING) else None
        transfer = Transfer(self._session, file.name, checksum, report, check, max_bytes)
        try:
            path = Path(self._pooch.fetch(file.name, downloader=transfer))
            if not checksum:
                self._record_first_use(file.name, file_hash(path))
        except requests.RequestException as error:
            raise DownloadError(
                f"{file.name}: cannot be downloaded from {file.url}: {error}. Check the network, set HTTPS_PROXY or "
                "pass a mirror, then call again: complete files are kept."
            ) from error
        except (OSError, StoreError) as error:
            raise DownloadError(f"{file.name}: cannot be written to {self._folder}: {error}") from error
        if not transfer.is_started:
            report(path.stat().st_size, path.stat().st_size)
        return path

    def listed(self, item: Download, base: str) -> list[_File]:
        """Return the files in a project's listing. The listing is stored beside them and downloaded once."""
        base = base.rstrip("/") + "/"
        listing = _listing_name(base)
        sums = read_sums(self.fetch(_File(listing, base + LISTING, item.checksum), listing, check=read_sums))
        absent = [pattern for pattern in item.only if not any(_matches(name, pattern) for name in sums)]
        if absent:
            raise DownloadError(
                f"{base}{LISTING} does not list {', '.join(absent)}. The files have moved: see the homepage."
            )
        return [
            _File(name, base + quote(name), f"sha256:{digest}")
            for name, digest in sums.items()
            if not item.only or any(_matches(name, pattern) for pattern in item.only)
        ]

    def _record_first_use(self, name: str, digest: str) -> None:
        self._first_use[name] = digest
        lines = (f"{digest}  {name}\n" for name, digest in sorted(self._first_use.items()))
        write_bytes(self._folder / FIRST_USE, "".join(lines).encode())


def _listing_name(url: str) -> str:
    """Return the file name of a project's listing, which contains the name of the project."""
    project = "-".join(part for part in urlsplit(url).path.split("/")[-3:] if part)
    return f"{project}-{LISTING}"


def read_sums(path: Path) -> dict[str, str]:
    """Read the SHA-256 of each file in a listing. Names outside the folder raise an error."""
    if path.stat().st_size > MAX_LISTING_BYTES:
        raise DownloadError(f"{path}: larger than {MAX_LISTING_BYTES} bytes, so it is not a listing of files")
    try:
        lines = path.read_bytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise DownloadError(f"{path}: not a listing of SHA-256 checksums: {error}") from error
    sums: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            match = _LINE.fullmatch(line.rstrip("\r"))
            if match is None:
                raise DownloadError(f"{path}, line {number}: expected a SHA-256 and a file name, got {line[:80]!r}")
            sums[_checked_name(match.group(2))] = match.group(1).lower()
    if not sums:
        raise DownloadError(f"{path}: lists no file")
    return sums


def _checked_name(name: str) -> str:
    """Return a name if it is a path within the folder that does not replace the record of first downloads."""
    if {"", ".", ".."} & set(name.split("/")) or not name.isprintable() or re.search(r"[\\:]", name):
        raise DownloadError(f"{name[:200]!r} is not a plain path within its folder, so it is not downloaded")
    if name == FIRST_USE:
        raise DownloadError(f"{name} would replace the record of first downloads, so it is not downloaded")
    return name


def _single_file(item: Download, url: str) -> _File:
    return _File(_checked_name(item.name or unquote(urlsplit(item.url).path.rpartition("/")[2])), url, item.checksum)


def _matches(name: str, pattern: str) -> bool:
    """Return whether a pattern is this file, or a folder (``folder/``) that holds it."""
    return name == pattern or (pattern.endswith("/") and name.startswith(pattern))


def _mirror_url(url: str, mirror: str | None) -> str:
    if mirror is None:
        return url
    if urlsplit(mirror).scheme not in ("http", "https") or not urlsplit(mirror).netloc:
        raise ConfigError(f"mirror '{mirror}': expected scheme and host, such as https://mirror.example.org")
    parts = urlsplit(url)
    return mirror.rstrip("/") + parts.path + (f"?{parts.query}" if parts.query else "")


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Silence pooch, because ``progress`` and errors carry the same messages."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
