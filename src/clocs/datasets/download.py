"""Fetch a dataset from its publisher, with checksums; what is under its final name is whole and right.

Whose word a checksum is:

- A checksum stated with the dataset, or by the publisher's listing (PhysioNet's SHA256SUMS.txt), is held
  to from the first download on.
- Where the publisher states none, and for a listing no checksum is known of, this is **trust on first
  use**: the first download is believed, its hash is written to ``SHA256SUMS`` in the folder, and later
  downloads are held to it. This shows a later change; it cannot show that the first one was right.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from clocs.core.errors import ConfigError, DownloadError, StoreError
from clocs.core.files import file_hash, write_bytes
from clocs.datasets.dataset import DATASETS, Dataset, Download

if TYPE_CHECKING:
    import requests

Progress = Callable[[int, int, str], None]
"""Told the bytes that are there, the bytes of the file (0: not yet known), and which file it is."""

FIRST_USE = "SHA256SUMS"
"""Hashes of first downloads, as ``sha256sum --check`` reads them."""
LISTING = "SHA256SUMS.txt"
"""PhysioNet's list of a project's files."""
MAX_LISTING_BYTES = 64 << 20
"""PTB-XL's 87,203 lines take 9 MB."""
RETRIES = 2
"""After a broken connection or a server's own error; a wrong checksum or a refusal is final."""

_CHUNK = 1 << 18
_TIMEOUT = (30, 60)
_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?(\S.*)")
_PASSING = (408, 429)
_PARTIAL, _NO_SUCH_RANGE = 206, 416
_ZIPS = (".zip", ".xlsx")
_BEGUN = ".partial"
"""Behind the name of a file that did not arrive whole, and will be held to a checksum when it does."""


def download(
    dataset: str | Dataset,
    folder: str | os.PathLike[str],
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Fetch the published files of a dataset, or of one by its name, into a folder; where they are, zips left as zips.

    Call it again to continue: a file that is there with the right hash is not fetched. ``mirror`` takes
    the place of scheme and host in every address, for networks that reach the publishers only through
    a server of their own; the checksums stay the publishers'.
    """
    import requests

    dataset = DATASETS.get(dataset) if isinstance(dataset, str) else dataset
    if not dataset.downloads:
        raise DownloadError(f"dataset '{dataset.name}' is not published anywhere; point clocs at your own files")
    with _quiet_pooch(), requests.Session() as session:
        session.headers.update({"User-Agent": "clocs", "Accept-Encoding": "identity"})
        fetcher = _Fetcher(Path(folder), session, progress or (lambda done, total, name: None))
        files: list[_File] = []
        for item in dataset.downloads:
            url = _mirrored(item.url, mirror)
            files += fetcher.listed(item, url) if item.listing else [_single(item, url)]
        count = len(files)
        return [fetcher.fetch(file, f"{file.name} ({place} of {count})") for place, file in enumerate(files, 1)]


@dataclass(frozen=True)
class _File:
    """One file to fetch."""

    name: str
    """Path within the folder."""
    url: str
    checksum: str = ""
    """``algorithm:digest``; empty: trust on first use."""


class _Fetcher:
    """Brings files into one folder through pooch, which keeps a file off its final name until it is right."""

    def __init__(self, folder: Path, session: requests.Session, progress: Progress) -> None:
        import pooch

        self._folder = folder.absolute()
        self._session = session
        self._progress = progress
        self._pooch = pooch.create(path=self._folder, base_url="", retry_if_failed=RETRIES)
        record = self._folder / FIRST_USE
        self._first_use = read_sums(record) if record.is_file() else {}

    def fetch(self, file: _File, label: str, check: Callable[[Path], object] | None = None) -> Path:
        """The file's place, once it is there; ``check`` may refuse its content before it gets its name."""
        import requests

        recorded = self._first_use.get(file.name)
        checksum = file.checksum or (f"sha256:{recorded}" if recorded else "")
        self._pooch.registry[file.name] = checksum or None
        self._pooch.urls[file.name] = file.url

        def report(done: int, total: int) -> None:
            self._progress(done, total, label)

        transfer = _Transfer(self._session, file.name, checksum, report, check)
        try:
            path = Path(self._pooch.fetch(file.name, downloader=transfer))
            if not checksum:
                self._remember(file.name, file_hash(path))
        except requests.RequestException as error:
            raise DownloadError(
                f"{file.name}: cannot be fetched from {file.url}: {error}. Check the network (a proxy is taken "
                "from HTTPS_PROXY; a mirror can be given) and call again: files that have arrived whole are kept."
            ) from error
        except (OSError, StoreError) as error:
            raise DownloadError(f"{file.name}: cannot be written to {self._folder}: {error}") from error
        if not transfer.begun:
            report(path.stat().st_size, path.stat().st_size)
        return path

    def listed(self, item: Download, base: str) -> list[_File]:
        """The files of a project by its listing, which is kept beside them, so it is fetched once."""
        base = base.rstrip("/") + "/"
        own = _kept_listing(base)
        sums = read_sums(self.fetch(_File(own, base + LISTING, item.checksum), own, check=read_sums))
        absent = [wanted for wanted in item.only if not any(_is_in(name, wanted) for name in sums)]
        if absent:
            raise DownloadError(f"{base}{LISTING} lists no {', '.join(absent)}; the publisher has moved its files")
        return [
            _File(name, base + quote(name), f"sha256:{digest}")
            for name, digest in sums.items()
            if not item.only or any(_is_in(name, wanted) for wanted in item.only)
        ]

    def _remember(self, name: str, digest: str) -> None:
        self._first_use[name] = digest
        lines = (f"{digest}  {name}\n" for name, digest in sorted(self._first_use.items()))
        write_bytes(self._folder / FIRST_USE, "".join(lines).encode())


@dataclass
class _Transfer:
    """How pooch gets one file: over a connection that is kept, counted, hashed on the way, then checked."""

    session: requests.Session
    name: str
    checksum: str
    report: Callable[[int, int], None]
    check: Callable[[Path], object] | None
    begun: bool = False

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        """Write the file at ``url`` to ``output_file``, a temporary name beside the final one."""
        import requests

        self.begun = True
        target = Path(output_file)
        target.unlink()  # pooch makes it private to its owner; made anew, it follows the umask
        algorithm, _, expected = self.checksum.partition(":")
        fresh = hashlib.new(algorithm or "sha256", usedforsecurity=False)
        begun = target.with_name(f"{Path(self.name).name}{_BEGUN}") if expected else target
        digest, done = _absorbed(begun, fresh)
        asked = {"Range": f"bytes={done}-"} if done else {}
        with self.session.get(url, stream=True, timeout=_TIMEOUT, headers=asked) as response:
            if done and response.status_code in (_PARTIAL, _NO_SUCH_RANGE) and not _follows(response, done):
                begun.unlink()
                raise requests.ConnectionError(f"the server does not go on after {done} bytes")
            _refuse(response, url)
            if response.status_code != _PARTIAL:  # it sends all of it, whatever it was asked for
                digest, done = fresh, 0
            total = done + _length(response)
            with open(begun, "ab" if done else "wb") as file:
                for piece in response.iter_content(_CHUNK):
                    done += file.write(piece)
                    digest.update(piece)
                    if self.name.endswith(LISTING) and done > MAX_LISTING_BYTES:
                        raise DownloadError(f"{url}: over {MAX_LISTING_BYTES} bytes, which no listing of files needs")
                    self.report(done, total)
            if done < total:
                raise requests.ConnectionError(f"the connection ended after {done} of {total} bytes")
        if expected and digest.hexdigest() != expected.lower():
            begun.unlink()
            raise DownloadError(self._mismatch(url, digest.hexdigest()))
        begun.replace(target)
        if not expected and self.name.endswith(_ZIPS) and not zipfile.is_zipfile(target):
            raise DownloadError(f"{url}: not a zip archive; a proxy may have sent a page of its own instead")
        if self.check:
            self.check(target)
        self.report(done, done)

    def _mismatch(self, url: str, received: str) -> str:
        algorithm, _, expected = self.checksum.partition(":")
        return (
            f"{self.name}: wrong checksum from {url}: expected {algorithm} {expected}, received {received}. It was "
            "not kept. Call again; if it stays so, a proxy or mirror alters the file, or the publisher has "
            f"replaced it: ask them which is right. (A hash recorded here at first use stands in {FIRST_USE}; "
            "remove its line to accept the new file.)"
        )


def _kept_listing(url: str) -> str:
    """The name of a project's listing in a folder, where another project's may be, too."""
    project = "-".join(part for part in urlsplit(url).path.split("/")[-3:] if part)
    return f"{project}-{LISTING}"


def read_sums(path: Path) -> dict[str, str]:
    """File name -> sha256 of a checksum listing; a name that would leave the folder is refused."""
    if path.stat().st_size > MAX_LISTING_BYTES:
        raise DownloadError(f"{path}: over {MAX_LISTING_BYTES} bytes, which no listing of files needs")
    try:
        lines = path.read_bytes().decode().split("\n")
    except UnicodeDecodeError as error:
        raise DownloadError(f"{path}: not a listing of sha256 checksums: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            match = _LINE.fullmatch(line.rstrip("\r"))
            if match is None:
                raise DownloadError(f"{path}, line {number}: not a sha256 and a file name: {line[:80]!r}")
            found[_safe(match.group(2))] = match.group(1).lower()
    if not found:
        raise DownloadError(f"{path}: lists no file")
    return found


def _safe(name: str) -> str:
    """A name that stays within the folder and does not replace the record there."""
    if {"", ".", ".."} & set(name.split("/")) or not name.isprintable() or re.search(r"[\\:]", name):
        raise DownloadError(f"refused: {name[:200]!r} is not a plain path within its folder")
    if name == FIRST_USE:
        raise DownloadError(f"refused: a file named {name} would replace the record of first downloads")
    return name


def _single(item: Download, url: str) -> _File:
    return _File(_safe(item.name or unquote(urlsplit(item.url).path.rpartition("/")[2])), url, item.checksum)


def _is_in(name: str, wanted: str) -> bool:
    """Whether a listed file is the wanted one, or lies below the wanted folder (``folder/``)."""
    return name == wanted or (wanted.endswith("/") and name.startswith(wanted))


def _mirrored(url: str, mirror: str | None) -> str:
    if mirror is None:
        return url
    if urlsplit(mirror).scheme not in ("http", "https") or not urlsplit(mirror).netloc:
        raise ConfigError(f"mirror '{mirror}': give scheme and host, such as https://mirror.example.org")
    parts = urlsplit(url)
    return mirror.rstrip("/") + parts.path + (f"?{parts.query}" if parts.query else "")


def _absorbed(begun: Path, fresh: hashlib._Hash) -> tuple[hashlib._Hash, int]:
    """The digest, begun with what an earlier attempt left of a file, and how many bytes that is."""
    digest = fresh.copy()
    if not begun.exists():
        return digest, 0
    with open(begun, "rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
        return digest, file.tell()


def _follows(response: requests.Response, done: int) -> bool:
    """Whether what comes begins after so many bytes."""
    return response.headers.get("Content-Range", "").startswith(f"bytes {done}-")


def _refuse(response: requests.Response, url: str) -> None:
    """Stop where trying again is no use; raise what pooch retries where it is."""
    if response.status_code < 500 and response.status_code not in (200, _PARTIAL, *_PASSING):
        raise DownloadError(
            f"{url}: the server answers {response.status_code} {response.reason}. The file has moved or needs a "
            "login: see the dataset's homepage, or give a mirror that holds it."
        )
    response.raise_for_status()
    hops = [hop.url for hop in (*response.history, response)]
    if url.startswith("https:") and not all(hop.startswith("https:") for hop in hops):
        raise DownloadError(f"{url}: refused, as it redirects to an unencrypted address: {hops[-1]}")


def _length(response: requests.Response) -> int:
    """Bytes to come; 0 where the server does not say, or sends them compressed after all."""
    length = response.headers.get("Content-Length", "")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    return int(length) if length.isdecimal() and not encoded else 0


@contextmanager
def _quiet_pooch() -> Iterator[None]:
    """Keep pooch's messages off the user's screen; ours say the same through ``progress`` and errors."""
    import pooch

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
