"""Files of an upload: nothing else can be reached through them."""

from __future__ import annotations

import io
import zipfile

import pytest

from clocs.core.errors import FormatError
from clocs.service.parsing.memory_source import MemorySource, upload_source


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_files_by_name() -> None:
    source = MemorySource({"b.dat": b"12345", "a.hea": b"xyz"})
    assert list(source.names()) == ["a.hea", "b.dat"]
    assert (source.read("a.hea"), source.head("b.dat", 2), source.size("b.dat")) == (b"xyz", b"12", 5)
    assert not source.exists("c")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "c"])
def test_other_files_are_not_there(name: str) -> None:
    source = upload_source({"a.hea": b"x"})
    assert not source.exists(name)
    with pytest.raises(FormatError, match="no such file in the upload"):
        source.read(name)


def test_an_archive_is_looked_into() -> None:
    source = upload_source({"x.ZIP": zipped({"deep/a.hea": b"xyz", "../../b": b"1"})})
    assert sorted(source.names()) == ["../../b", "deep/a.hea"]
    assert source.read("deep/a.hea") == b"xyz"


def test_an_archive_comes_alone() -> None:
    with pytest.raises(FormatError, match="alone"):
        upload_source({"x.zip": zipped({}), "a.hea": b""})


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", b"no archive", zipped({"a": b"1"})[:-5]],
    ids=["empty", "a beginning", "something else", "without its end"],  # a zip's bytes hold the time
)
def test_a_broken_archive_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="the upload is not a readable zip"):
        upload_source({"x.zip": data})
