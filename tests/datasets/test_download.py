"""Downloads from a local server that can interrupt, alter and refuse files."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest

from clocs.core.errors import ConfigError, DownloadError
from clocs.core.hashes import file_hash
from clocs.datasets import DATASETS, Dataset
from clocs.datasets import download as module
from clocs.datasets.dataset import Download
from clocs.datasets.download import LISTING, download, read_sums
from clocs.datasets.transfer import FIRST_USE

BIG = bytes(range(256)) * 4096
KEPT = f"p-1.0-{LISTING}"
"""The listing of the project at /files/p/1.0/, in a folder."""
PROJECT = {
    "RECORDS": b"a\nb\n",
    "training/one/A 1.hea": b"A 1 1 500 5000\n",
    "training/one/A 1.mat": BIG,
    "training/two/B1.hea": b"B1 1 500 5000\n",
}


@dataclass
class Server:
    """State of the server: its files, its faults and the requests it received."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    """Paths for which the connection ends halfway."""
    status: dict[str, int] = field(default_factory=dict)
    chunked: bool = False
    ranges: Literal["kept", "ignored", "wrong"] = "ignored"
    """Response to a request for the rest of a file."""
    asked: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    """Content of files by path."""


class Quiet(ThreadingHTTPServer):
    """A server that ignores clients that close the connection."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            held.asked[self.path] += 1
            data = held.files.get(self.path)
            status = held.status.get(self.path, 200 if data is not None else 404)
            data = data or b""
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-"))
            if begin and status == 200 and held.ranges != "ignored":
                status = 206 if begin < len(data) else 416
                data = data[begin:]
            self.send_response(status)
            if status == 206:
                self.send_header("Content-Range", f"bytes {begin if held.ranges == 'kept' else 0}-/*")
            self.send_header(
                *(("Transfer-Encoding", "chunked") if held.chunked else ("Content-Length", str(len(data))))
            )
            self.end_headers()
            body = data[: len(data) // 2] if self.path in held.cut else data
            if held.chunked:
                body = b"%x\r\n%s\r\n" % (len(body), body) + (b"" if self.path in held.cut else b"0\r\n\r\n")
            held.sent += len(body)
            self.wfile.write(body)
            self.close_connection = self.path in held.cut

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))
    with Quiet(("127.0.0.1", 0), Handler) as http:
        held = Server(f"http://127.0.0.1:{http.server_port}")
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield held
        http.shutdown()
        thread.join()


def made(*downloads: Download) -> Dataset:
    return Dataset("made", "", "", "", "", entries=lambda source, options: iter(()), downloads=downloads)


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def listing_of(files: dict[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()} {name}\n" for name, data in files.items()).encode()


def hold_project(server: Server) -> None:
    server.files |= {f"/files/p/1.0/{name.replace(' ', '%20')}": data for name, data in PROJECT.items()}
    server.files[f"/files/p/1.0/{LISTING}"] = listing_of(PROJECT)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("checksum", [sha256(BIG), sha256(BIG).upper().replace("SHA256", "sha256"), "md5"])
def test_file_with_checksum_arrives_and_is_not_fetched_again(server: Server, tmp_path: Path, checksum: str) -> None:
    server.files["/a/big.dat"] = BIG
    checksum = f"md5:{hashlib.md5(BIG).hexdigest()}" if checksum == "md5" else checksum
    dataset = made(Download(f"{server.url}/a/big.dat", checksum=checksum))
    for _ in range(2):
        assert download(dataset, tmp_path / "new") == [tmp_path / "new/big.dat"]
    assert tree(tmp_path) == {"new/big.dat": BIG}
    assert server.asked == {"/a/big.dat": 1}


def test_damaged_file_is_downloaded_again_with_normal_permissions(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = BIG
    (tmp_path / "a").write_bytes(BIG[:-1])
    [path] = download(made(Download(f"{server.url}/a", checksum=sha256(BIG))), tmp_path)
    assert tree(tmp_path) == {"a": BIG}
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


def test_project_keeps_its_folders(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    dataset = made(Download(f"{server.url}/files/p/1.0/", listing=True))
    assert download(dataset, tmp_path) == [tmp_path / name for name in PROJECT]
    found = tree(tmp_path)
    assert found.pop(KEPT) == listing_of(PROJECT)
    assert read_sums(tmp_path / FIRST_USE) == {KEPT: file_hash(tmp_path / KEPT)}
    del found[FIRST_USE]
    assert found == PROJECT
    asked = server.asked.copy()
    download(dataset, tmp_path)
    assert server.asked == asked
    assert set(asked.values()) == {1}


def test_two_projects_in_one_folder(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    server.files |= {"/files/q/2.0/other.csv": b"other", f"/files/q/2.0/{LISTING}": listing_of({"other.csv": b"other"})}
    for number in (0, 1):
        one = made(Download(f"{server.url}/files/p/1.0/", listing=True))
        assert download(one, tmp_path) == [tmp_path / name for name in PROJECT], number
        other = made(Download(f"{server.url}/files/q/2.0/", listing=True, only=("other.csv",)))
        assert download(other, tmp_path) == [tmp_path / "other.csv"], number


def test_only_selected_files_of_a_project(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    dataset = made(Download(f"{server.url}/files/p/1.0", listing=True, only=("training/one/", "RECORDS")))
    download(dataset, tmp_path)
    assert set(tree(tmp_path)) == {FIRST_USE, KEPT, "RECORDS", "training/one/A 1.hea", "training/one/A 1.mat"}
    with pytest.raises(DownloadError, match=r"does not list training/three/, training\. "):
        download(
            made(Download(f"{server.url}/files/p/1.0", listing=True, only=("training/three/", "training"))), tmp_path
        )


def test_listing_must_match_its_checksum(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    download(made(Download(f"{server.url}/files/p/1.0/", listing=True, checksum=sha256(listing_of(PROJECT)))), tmp_path)
    assert set(tree(tmp_path)) == {KEPT, *PROJECT}
    with pytest.raises(DownloadError, match=f"{LISTING}: wrong checksum"):
        download(made(Download(f"{server.url}/files/p/1.0/", listing=True, checksum=sha256(b""))), tmp_path / "other")


def test_project_continues_where_it_stopped(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    server.cut.add("/files/p/1.0/training/one/A%201.mat")
    dataset = made(Download(f"{server.url}/files/p/1.0/", listing=True))
    with pytest.raises(DownloadError, match=r"training/one/A 1\.mat"):
        download(dataset, tmp_path)
    assert set(tree(tmp_path)) == {FIRST_USE, KEPT, "RECORDS", "training/one/A 1.hea", "training/one/A 1.mat.partial"}
    server.cut.clear()
    download(dataset, tmp_path)
    assert PROJECT.items() <= tree(tmp_path).items()
    assert server.asked.pop("/files/p/1.0/training/one/A%201.mat") == 1 + module.RETRIES + 1
    assert set(server.asked.values()) == {1}


@pytest.mark.parametrize("name", ["../out", "a/../../out", "/etc/out", "a//b", "./a", "a\\b", "C:out", "a\x07b", "a/"])
def test_listing_cannot_write_outside_its_folder(server: Server, tmp_path: Path, name: str) -> None:
    server.files = {"/p/SHA256SUMS.txt": listing_of({"fine": b"", name: b"bad"})}
    with pytest.raises(DownloadError, match="not downloaded"):
        download(made(Download(f"{server.url}/p/", listing=True)), tmp_path / "in")
    assert tree(tmp_path) == {}
    assert server.asked == {"/p/SHA256SUMS.txt": 1}


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        (b"<html>log in</html>", "line 1: expected a SHA-256"),
        (b"\xff\xfe", "not a listing"),
        (b"\n", "lists no file"),
        (listing_of({FIRST_USE: b""}), "replace the record"),
        (listing_of({"many": b""}) * 50, "larger than 1000 bytes"),
    ],
)
def test_invalid_listing_raises_an_error_and_is_deleted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: bytes, message: str
) -> None:
    monkeypatch.setattr(module, "MAX_LISTING_BYTES", 1000)
    server.files["/p/SHA256SUMS.txt"] = listing
    with pytest.raises(DownloadError, match=message):
        download(made(Download(f"{server.url}/p/", listing=True)), tmp_path)
    assert tree(tmp_path) == {}


def test_first_use_is_recorded_then_enforced(server: Server, tmp_path: Path) -> None:
    server.files["/f/7"] = b"first"
    dataset = made(Download(f"{server.url}/f/7", name="table.csv"))
    [path] = download(dataset, tmp_path)
    download(dataset, tmp_path)
    assert server.asked == {"/f/7": 1}
    assert (tmp_path / FIRST_USE).read_text() == f"{hashlib.sha256(b'first').hexdigest()}  table.csv\n"
    subprocess.run(["sha256sum", "--check", "--strict", FIRST_USE], cwd=tmp_path, check=True, capture_output=True)

    server.files["/f/7"] = b"other"
    path.unlink()
    with pytest.raises(DownloadError, match=r"table\.csv: wrong checksum.*SHA256SUMS, remove its line"):
        download(dataset, tmp_path)
    assert not path.exists()
    (tmp_path / FIRST_USE).unlink()
    download(dataset, tmp_path)
    assert path.read_bytes() == b"other"


def test_html_page_instead_of_a_zip_raises_an_error(server: Server, tmp_path: Path) -> None:
    server.files["/f/7"] = b"<html>blocked</html>"
    dataset = made(Download(f"{server.url}/f/7", name="set.zip"))
    with pytest.raises(DownloadError, match="not a zip archive"):
        download(dataset, tmp_path)
    assert tree(tmp_path) == {}
    archive = io.BytesIO()
    zipfile.ZipFile(archive, "w").close()
    server.files["/f/7"] = archive.getvalue()
    assert download(dataset, tmp_path)[0].read_bytes() == archive.getvalue()


def test_wrong_checksum_message_has_file_hashes_and_advice(server: Server, tmp_path: Path) -> None:
    server.files["/a/big.dat"] = b"false"
    with pytest.raises(DownloadError) as caught:
        download(made(Download(f"{server.url}/a/big.dat", checksum=sha256(BIG))), tmp_path)
    text = str(caught.value)
    assert "big.dat" in text
    assert hashlib.sha256(BIG).hexdigest() in text
    assert hashlib.sha256(b"false").hexdigest() in text
    assert "Call again" in text
    assert tree(tmp_path) == {}
    assert server.asked == {"/a/big.dat": 1}


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("checksum", ["", sha256(BIG)])
def test_interrupted_transfer_leaves_no_file(server: Server, tmp_path: Path, checksum: str, chunked: bool) -> None:
    server.files["/a"], server.cut, server.chunked = BIG, {"/a"}, chunked
    dataset = made(Download(f"{server.url}/a", checksum=checksum))
    with pytest.raises(DownloadError, match="a: cannot be downloaded"):
        download(dataset, tmp_path)
    assert tree(tmp_path).keys() == ({"a.partial"} if checksum else set())
    assert server.asked["/a"] == 1 + module.RETRIES
    server.cut.clear()
    assert download(dataset, tmp_path)[0].read_bytes() == BIG


def test_interrupted_transfer_is_resumed(server: Server, tmp_path: Path) -> None:
    """Each attempt receives half of the rest, in full chunks: 512 KB of a megabyte, then 256 KB."""
    server.files["/a"], server.cut, server.ranges = BIG, {"/a"}, "kept"
    dataset = made(Download(f"{server.url}/a", checksum=sha256(BIG)))
    with pytest.raises(DownloadError, match="a: cannot be downloaded"):
        download(dataset, tmp_path)
    left = len(BIG) - (tmp_path / "a.partial").stat().st_size
    assert left == len(BIG) // 4
    server.cut.clear()
    server.sent = 0
    download(dataset, tmp_path)
    assert server.sent == left
    assert tree(tmp_path) == {"a": BIG}


@pytest.mark.parametrize("ranges", ["ignored", "wrong", "kept"])
@pytest.mark.parametrize("begun", [b"of another file", BIG, BIG + b"more"])
def test_partial_file_that_does_not_fit_is_discarded(
    server: Server, tmp_path: Path, begun: bytes, ranges: Literal["kept", "ignored", "wrong"]
) -> None:
    """The checksum fails at the end, or the server cannot send the rest."""
    server.files["/a"], server.ranges = BIG, ranges
    (tmp_path / "a.partial").write_bytes(begun)
    dataset = made(Download(f"{server.url}/a", checksum=sha256(BIG)))
    if ranges == "kept" and len(begun) < len(BIG):
        with pytest.raises(DownloadError, match="wrong checksum"):
            download(dataset, tmp_path)
    download(dataset, tmp_path)
    assert tree(tmp_path) == {"a": BIG}


def test_interruption_by_the_user_leaves_no_file(server: Server, tmp_path: Path) -> None:
    def stop(done: int, total: int, name: str) -> None:
        raise KeyboardInterrupt

    server.files["/a"] = BIG
    with pytest.raises(KeyboardInterrupt):
        download(made(Download(f"{server.url}/a")), tmp_path, progress=stop)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (202, 1), (429, 3), (503, 3)])
def test_server_error(server: Server, tmp_path: Path, status: int, tries: int) -> None:
    server.files["/a"], server.status["/a"] = BIG, status
    with pytest.raises(DownloadError, match=str(status)):
        download(made(Download(f"{server.url}/a")), tmp_path)
    assert tree(tmp_path) == {}
    assert server.asked["/a"] == tries


def test_no_network(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="Check the network"):
        download(made(Download("https://nobody.invalid/a")), tmp_path, mirror="http://127.0.0.1:1")


def test_folder_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    server.files["/a"] = BIG
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match="cannot be written"):
        download(made(Download(f"{server.url}/a")), tmp_path / "taken")


@pytest.mark.parametrize("chunked", [False, True])
def test_progress_ends_with_the_size_of_each_file(server: Server, tmp_path: Path, chunked: bool) -> None:
    server.files |= {"/a": BIG, "/b": b""}
    server.chunked = chunked
    dataset = made(Download(f"{server.url}/a"), Download(f"{server.url}/b"))
    first: list[tuple[int, int, str]] = []
    again: list[tuple[int, int, str]] = []
    download(dataset, tmp_path, progress=lambda *call: first.append(call))
    download(dataset, tmp_path, progress=lambda *call: again.append(call))
    ends = [(len(BIG), len(BIG), "a (1 of 2)"), (0, 0, "b (2 of 2)")]
    assert again == ends
    of_a = [call for call in first if call[2] == "a (1 of 2)"]
    assert [of_a[-1], first[-1]] == ends
    assert len(of_a) > 2
    assert of_a == sorted(of_a)
    assert {total for _, total, _ in of_a[:-1]} == {0 if chunked else len(BIG)}


def test_mirror_replaces_scheme_and_host(server: Server, tmp_path: Path) -> None:
    hold_project(server)
    server.files["/ndownloader/7?x=1"] = b"table"
    dataset = made(
        Download("https://publisher.invalid/files/p/1.0/", listing=True),
        Download("https://other.invalid/ndownloader/7?x=1", name="table"),
    )
    download(dataset, tmp_path, mirror=server.url + "/")
    assert PROJECT.items() <= tree(tmp_path).items()
    assert (tmp_path / "table").read_bytes() == b"table"
    server.files = {f"/physionet{path}": data for path, data in server.files.items()}
    download(dataset, tmp_path / "second", mirror=server.url + "/physionet")
    assert PROJECT.items() <= tree(tmp_path / "second").items()


@pytest.mark.parametrize("mirror", ["mirror.example.org", "ftp://mirror.example.org", "https://"])
def test_mirror_without_scheme_or_host(tmp_path: Path, mirror: str) -> None:
    with pytest.raises(ConfigError, match="expected scheme and host"):
        download(made(Download("https://publisher.invalid/a")), tmp_path, mirror=mirror)


def test_dataset_without_downloads_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="cannot be downloaded"):
        download(made(), tmp_path)
    with pytest.raises(DownloadError, match="'synthetic' cannot be downloaded"):
        download("synthetic", str(tmp_path))


def test_a_dataset_by_agreement_names_its_homepage(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"Get its files from https://physionet\.org/content/echonext/1\.1\.0/\."):
        download("echonext", tmp_path)


def test_pooch_is_silent_and_its_log_level_is_restored(
    server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.files["/a"] = BIG
    before = logging.getLogger("pooch").level
    download(made(Download(f"{server.url}/a")), tmp_path)
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("pooch").level == before


def test_pooch_is_imported_only_to_download() -> None:
    code = "import sys, clocs.datasets.download; sys.exit('pooch' in sys.modules or 'requests' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("name", [dataset.name for dataset in DATASETS if dataset.downloads])
def test_catalogue_has_complete_addresses_and_checksums(name: str) -> None:
    for item in DATASETS.get(name).downloads:
        assert item.url.startswith("https://")
        assert item.url.endswith("/") == item.listing
        algorithm, _, digest = item.checksum.partition(":")
        assert (algorithm, len(digest)) in (("", 0), ("sha256", 64), ("md5", 32))
        assert item.listing or not item.only
