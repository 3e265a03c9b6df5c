"""Sources: folders, zip archives, folders in archives and archives in folders give the same files."""

from __future__ import annotations

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.core.errors import ConfigError, FormatError
from clocs.core.sources import folder_source, source_files
from clocs.core.sources.source import file_size, open_source
from clocs.core.sources.source_files import strip_extension

TREE = {
    "RECORDS": b"data/1\ndata/10\n",
    "data/1.hea": b"one",
    "data/1.dat": bytes(range(256)) * 40,
    "data/10.hea": b"",
    "data/deep/er/Ä b.csv": b"1,2\n",
    "database.csv": b"x",
    "zoo/last": b"z",
}
KINDS = ("folder", "zip", "folder in zip", "zip in folder", "deflated zip")


def write_folder(folder: Path, prefix: str = "") -> None:
    for name, data in TREE.items():
        path = folder / prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_zip(path: Path, prefix: str = "", method: int = zipfile.ZIP_STORED) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.mkdir(prefix or "data")
        for name, data in reversed(TREE.items()):
            archive.writestr(prefix + name, data)
        if prefix:
            archive.writestr("elsewhere/1.hea", b"not this one")
            archive.writestr(prefix.rstrip("/") + "-other/1.hea", b"nor this")
    return path


def make(kind: str, folder: Path) -> tuple[Path, str]:
    """Return the path of a source with the tree, and the prefix of its names."""
    if kind == "folder":
        write_folder(folder / "tree")
        return folder / "tree", ""
    if kind == "zip in folder":
        write_zip(folder / "tree" / "sub" / "set.ZIP")
        return folder / "tree", "sub/set.ZIP/"
    if kind == "folder in zip":
        return write_zip(folder / "set.zip", "in/side/") / "in" / "side", ""
    return write_zip(folder / "set.zip", method=zipfile.ZIP_DEFLATED if kind == "deflated zip" else 0), ""


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_bytes_are_those_of_the_tree(kind: str, tmp_path: Path) -> None:
    path, prefix = make(kind, tmp_path)
    source = open_source(path)
    assert {name: source.read(name) for name in source.names()} == {prefix + name: TREE[name] for name in TREE}
    assert {name: source.size(name) for name in source.names()} == {prefix + name: len(TREE[name]) for name in TREE}
    assert all(source.exists(prefix + name) for name in TREE)


@pytest.mark.parametrize("kind", KINDS)
def test_names_have_the_same_order_in_every_kind_of_source(kind: str, tmp_path: Path) -> None:
    """The order is that of ``os.walk`` with sorted folders, so an archive and its unpacked copy give the same store."""
    write_folder(tmp_path / "walked")
    expected = []
    for folder, folders, files in os.walk(tmp_path / "walked"):
        folders.sort()
        expected += [(Path(folder) / file).relative_to(tmp_path / "walked").as_posix() for file in sorted(files)]
    path, prefix = make(kind, tmp_path)
    assert [name.removeprefix(prefix) for name in open_source(path).names()] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_missing_files_do_not_exist_and_the_error_names_the_source(kind: str, tmp_path: Path) -> None:
    path, prefix = make(kind, tmp_path)
    source = open_source(path)
    for name in (prefix + "data/2.hea", prefix + "data", prefix + "RECORDS/x", "../walked/RECORDS"):
        assert not source.exists(name), name
        with pytest.raises(FormatError, match="no such file in"):
            source.read(name)


@pytest.mark.parametrize("kind", KINDS)
def test_head_reads_only_the_first_bytes(kind: str, tmp_path: Path) -> None:
    path, prefix = make(kind, tmp_path)
    assert open_source(path).head(prefix + "data/1.dat", 5) == bytes(range(5))
    assert open_source(path).head(prefix + "data/1.hea", 100) == b"one"


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_over_the_limit_is_rejected_but_its_head_can_be_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, prefix = make(kind, tmp_path)
    monkeypatch.setattr(source_files, "MAX_FILE_BYTES", 256 * 40)
    assert len(open_source(path).read(prefix + "data/1.dat")) == 256 * 40
    monkeypatch.setattr(source_files, "MAX_FILE_BYTES", 256 * 40 - 1)
    with pytest.raises(FormatError, match=r"data/1.dat: larger than"):
        open_source(path).read(prefix + "data/1.dat")
    assert len(open_source(path).head(prefix + "data/1.dat", 4096)) == 4096


def test_a_zip_bomb_is_stopped_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros", bytes(20 << 20))
    assert (tmp_path / "bomb.zip").stat().st_size < 1 << 16
    monkeypatch.setattr(source_files, "MAX_FILE_BYTES", 1 << 20)
    with pytest.raises(FormatError, match="larger than 1 MiB"):
        open_source(tmp_path / "bomb.zip").read("zeros")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@settings(max_examples=60)
@given(data=st.data())
def test_a_damaged_archive_gives_its_bytes_or_a_format_error(
    method: int, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    with zipfile.ZipFile(folder / "intact.zip", "w", method) as archive:
        archive.writestr("a", bytes(range(256)) * 4)
    raw = bytearray((folder / "intact.zip").read_bytes())
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    (folder / "a.zip").write_bytes(raw)
    try:
        source = open_source(folder / "a.zip")
        read = [source.read(name) for name in source.names()]
    except FormatError:
        return
    assert all(content in (bytes(range(256)) * 4, b"") for content in read)


def test_the_error_for_a_damaged_member_names_it(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "set.zip")
    raw = path.read_bytes()
    position = raw.index(bytes(range(256))) + 300
    path.write_bytes(raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :])
    source = open_source(path)
    with pytest.raises(FormatError, match=r"data/1.dat: damaged in its archive"):
        source.read("data/1.dat")
    assert source.read("data/1.hea") == b"one"


def test_a_disk_error_is_not_reported_as_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(write_zip(tmp_path / "set.zip"))

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(zipfile.ZipFile, "open", broken)
    with pytest.raises(OSError, match="Input/output error"):
        source.read("RECORDS")


def denied(path: Any, *_: object, **__: object) -> Any:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


@pytest.mark.parametrize(
    ("kind", "module", "function"),
    [("folder", folder_source, "open"), ("folder", os, "stat"), ("zip", zipfile.ZipFile, "open")],
)
def test_the_error_for_a_missing_permission_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: Any, function: str
) -> None:
    """The error is simulated, because tests may run as root, who can read every file."""
    path, _ = make(kind, tmp_path)
    source = open_source(path)
    with monkeypatch.context() as patch:
        patch.setattr(module, function, denied, raising=False)
        with pytest.raises(ConfigError, match=rf"{path}/RECORDS: cannot be read: Permission denied. Give this user"):
            source.read("RECORDS")


def test_an_archive_without_read_permission_is_an_error_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = make("zip in folder", tmp_path)
    monkeypatch.setattr(zipfile, "ZipFile", denied)
    with pytest.raises(ConfigError, match=r"sub/set.ZIP: cannot be read: Permission denied"):
        list(open_source(path).names())


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_a_folder_that_cannot_be_listed_is_an_error_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    write_folder(tmp_path)
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith("deep"):
            raise OSError(code, os.strerror(code), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigError, match=rf"data/deep: this folder cannot be listed: {os.strerror(code)}. Give this"):
        list(open_source(tmp_path).names())


def test_links_to_folders_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    write_folder(tree)
    outside.mkdir()
    (outside / "there.hea").write_bytes(b"far")
    (outside / "back").symlink_to(tree / "data")
    (tree / "data" / "nas").symlink_to(outside)
    (tree / "data" / "self").symlink_to(".")
    (tree / "data" / "up").symlink_to(tmp_path)
    (tree / "twice").symlink_to(tree / "zoo")
    source = open_source(tree)
    linked = {"data/nas/there.hea", "data/up/outside/there.hea", "twice/last"}
    assert set(source.names()) == set(TREE) | linked
    assert source.read("data/nas/there.hea") == b"far"


def test_broken_links_are_listed_but_do_not_exist_and_pipes_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "gone.zip").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.zip")
    source = open_source(tmp_path)
    assert list(source.names()) == ["gone", "gone.zip", "round"]
    for name in ("gone", "round", "pipe", "n" * 300, "nul\0"):
        assert (source.exists(name), file_size(source, name)) == (False, None)
        with pytest.raises(FormatError, match="no such file in"):
            source.head(name, 1)


def test_a_folder_may_have_the_extension_of_an_archive(tmp_path: Path) -> None:
    write_zip(tmp_path / "old.zip" / "inner.zip")
    source = open_source(tmp_path)
    names = [f"old.zip/inner.zip/{name}" for name in TREE]
    assert set(source.names()) == set(names)
    assert [source.read(name) for name in names] == list(TREE.values())
    assert [source.size(name) for name in names] == [len(data) for data in TREE.values()]


@pytest.mark.parametrize("inside", ["", "in"])
def test_backslashes_in_an_archive_separate_folders(tmp_path: Path, inside: str) -> None:
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        for name, data in {"in\\": b"", "in\\1.hea": b"one", "in\\deep\\1.dat": b"1", "2.hea": b"two"}.items():
            member = zipfile.ZipInfo("x")
            member.filename = name
            archive.writestr(member, data)
    source = open_source(tmp_path / "set.zip" / inside)
    read = {name: source.read(name) for name in source.names()}
    assert read == ({"1.hea": b"one", "deep/1.dat": b"1"} if inside else
                    {"2.hea": b"two", "in/1.hea": b"one", "in/deep/1.dat": b"1"})  # fmt: skip


def test_an_archive_with_undecodable_names_is_rejected(tmp_path: Path) -> None:
    """Names are flagged as UTF-8 but are not, in the list of members or at the member itself."""
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.writestr("\u00e4.xml", b"<a/>")
    raw = (tmp_path / "set.zip").read_bytes()
    (tmp_path / "set.zip").write_bytes(raw.replace("\u00e4".encode(), b"\xe4x"))
    assert list(open_source(tmp_path).names()) == ["set.zip"]
    with pytest.raises(FormatError, match=r"set.zip is not a readable zip archive"):
        open_source(tmp_path / "set.zip")
    (tmp_path / "set.zip").write_bytes(raw.replace("\u00e4".encode(), b"\xe4x", 1))
    os.utime(tmp_path / "set.zip", (1, 1))
    with pytest.raises(FormatError, match="damaged in its archive"):
        open_source(tmp_path / "set.zip").read("\u00e4.xml")


def test_missing_paths_and_invalid_archives_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_bytes(b"no archive")
    with pytest.raises(FormatError, match=r"text.zip is not a readable zip archive"):
        open_source(tmp_path / "text.zip")
    with pytest.raises(ConfigError, match="no such folder or zip archive"):
        open_source(tmp_path / "absent")


@pytest.mark.parametrize("inside", ["", "in"])
def test_a_rewritten_archive_is_read_again(tmp_path: Path, inside: str) -> None:
    path = tmp_path / "set.zip"
    for age, content in ((100, b"old"), (50, b"new!")):
        path.unlink(missing_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in/a", content)
        os.utime(path, (path.stat().st_mtime - age,) * 2)
        name = "a" if inside else "in/a"
        assert open_source(path / inside).read(name) == content


def test_file_names_that_are_not_utf8_are_read(tmp_path: Path) -> None:
    """Old hospital archives have Latin-1 names, which are listed in UTF-8 and can still be opened."""
    (tmp_path / os.fsdecode(b"M\xfcller.txt")).write_bytes(b"there")
    source = open_source(tmp_path)
    (name,) = source.names()
    assert name == "M\\xfcller.txt"
    name.encode()
    assert (source.exists(name), source.size(name), source.read(name)) == (True, 5, b"there")


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("a/b.c.dcm", "a/b.c"),
        ("a/1.2.840.113619.7", "a/1.2.840.113619.7"),
        ("a.b/c", "a.b/c"),
        ("a.d/.hidden", "a.d/.hidden"),
        (".hidden", ".hidden"),
        ("plain", "plain"),
        ("a.b/c.XML", "a.b/c"),
    ],
)
def test_strip_extension_keeps_numbers_with_dots(name: str, bare: str) -> None:
    assert strip_extension(name) == bare
