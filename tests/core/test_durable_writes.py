"""In core, store and training, only ``core/storage/disk.py`` changes files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "clocs"
DISK_MODULE = "core/storage/disk.py"
EXCEPTIONS = {
    "core/privacy/pseudonyms.py": {"open", "fdopen", "fsync"},
    "core/storage/bounded_cache.py": {"open", "replace", "mkdir", "unlink"},
    "core/storage/object_cache.py": {"open", "replace", "mkdir", "makedirs", "unlink"},
}
"""A key file needs special permissions and is never replaced, so it is not written through the disk object. A copy of
an object need not survive a power loss."""
OS_FUNCTIONS = {
    *("fdopen", "fsync", "fdatasync", "replace", "rename", "renames", "link", "symlink", "truncate"),
    *("mkdir", "makedirs", "unlink", "remove", "rmdir", "removedirs"),
}
WRITING_METHODS = {
    *("mkdir", "unlink", "rmdir", "touch", "write_text", "write_bytes", "rename", "symlink_to", "hardlink_to"),
    *("tofile", "save_file", "OSFile", "FileOutputStream", "memory_map", "copyfile", "copytree", "rmtree", "move"),
}
WRITE_MODES = set("wax+")
WRITE_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def writes(source: str) -> Iterator[str]:
    """Iterate over the calls in Python source that change files."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
        owner = called.value.id if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name) else ""
        if owner in ("disk", "file"):  # the disk object, and files that it has opened
            continue
        of_system = owner == "os" and (name in OS_FUNCTIONS or (name == "open" and WRITE_FLAGS & _names(node)))
        of_path = isinstance(called, ast.Attribute) and name in WRITING_METHODS and not _reads(node, name)
        opened = name == "open" and owner != "os" and WRITE_MODES & set(_mode(node, isinstance(called, ast.Attribute)))
        renamed = name == "replace" and owner != "os" and len(node.args) == 1 and not node.keywords  # a Path's
        if of_system or of_path or opened or renamed:
            yield name


def _names(node: ast.Call) -> set[str]:
    return {item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)}


def _mode(node: ast.Call, is_method: bool) -> str:
    """Return the mode of an open call. A computed mode counts as writing, except for methods."""
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"]
    modes += node.args[0 if is_method else 1 :][:1]
    if not modes:
        return "r"
    computed = "r" if is_method else "w"
    return modes[0].value if isinstance(modes[0], ast.Constant) and isinstance(modes[0].value, str) else computed


def _reads(node: ast.Call, name: str) -> bool:
    """Return whether an Arrow function opens a file for reading, which is its default."""
    return name in ("OSFile", "memory_map") and len(node.args) < 2 and not node.keywords


def files() -> list[Path]:
    return [path for folder in ("core", "store", "training") for path in sorted((PACKAGE / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", files(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_only_the_disk_module_writes(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    found = set(writes(path.read_text()))
    if name == DISK_MODULE:
        assert found >= {"open", "fsync", "replace", "mkdir", "unlink", "rmdir"}
    else:
        assert found <= EXCEPTIONS.get(name, set())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("os.fsync(3)", True),
        ("os.replace(a, b)", True),
        ("path.replace(other)", True),
        ("text.replace('a', 'b')", False),
        ("replace(each, lead=1)", False),
        ("open(path, 'w')", True),
        ("open(path, mode='ab')", True),
        ("open(path, mode)", True),
        ("open(path)", False),
        ("archive.open(member)", False),
        ("os.open(path, os.O_RDONLY)", False),
        ("os.open(path, os.O_WRONLY | os.O_CREAT)", True),
        ("open(path, 'rb')", False),
        ("path.open('w')", True),
        ("path.mkdir(parents=True)", True),
        ("path.write_bytes(b'')", True),
        ("write_bytes(path, b'')", False),
        ("disk.remove(path)", False),
        ("np.save(raw, keys)", False),
        ("pa.memory_map(path)", False),
        ("pa.OSFile(path, 'wb')", True),
        ("shutil.rmtree(path)", True),
    ],
)
def test_what_counts_as_writing(source: str, found: bool) -> None:
    assert bool(list(writes(source))) is found
