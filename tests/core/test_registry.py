"""Registries: unknown names, the decorator, and parts of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clocs.core.errors import ConfigError
from clocs.core.registry import Registry

PLUGIN = """
import numpy as np
from clocs.core.recording import Provenance, Recording
from clocs.datasets import Dataset, Entry
from clocs.formats import Format


def read(source, name):
    values = np.array([int(line) for line in source.read(name).split()[1:]], np.int16)
    return Recording(values[None], np.array([1000.0]), np.zeros(1, np.int32), 100.0, ("II",),
                     record_id="thirdparty", provenance=Provenance(name, "lines"))


LINES = Format("lines", "a number a line", lambda head, source, name: head.startswith(b"LINES"), read)
WARD = Dataset(
    name="ward", title="Someone's own ward", licence="private", citation="", homepage="",
    entries=lambda source, options: (Entry(name) for name in source.names() if name.endswith(".lines")),
)
"""


def install(folder: Path, points: str) -> Path:
    """Write an installed package: a module, and a dist-info folder with its entry points."""
    (folder / "ward_plugin.py").write_text(PLUGIN)
    info = folder / "ward_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ward-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    return folder


def python(code: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    before = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *([before] if before else [])])}
    return subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)


def test_a_part_is_found_by_name_in_catalogue_order() -> None:
    parts: Registry[Any] = Registry("nothing", {"encode": "json:dumps", "decode": "json:loads"})
    assert parts.names() == ["encode", "decode"]
    assert parts.get("decode") is json.loads
    assert list(parts) == [json.dumps, json.loads]


def test_the_error_for_an_unknown_name_suggests_a_similar_one_and_lists_all() -> None:
    parts: Registry[Any] = Registry("nothing", {"encode": "json:dumps", "decode": "json:loads"})
    with pytest.raises(
        ConfigError, match=r"Unknown nothing 'encod'. Did you mean 'encode'\? Choose from encode, decode"
    ):
        parts.get("encod")
    with pytest.raises(ConfigError) as raised:
        parts.get("zzz")
    assert "Did you mean" not in str(raised.value)
    assert str(raised.value).endswith("Or import the module, or install the package, that registers it.")


def test_parts_of_an_installed_package_are_listed_and_read(tmp_path: Path) -> None:
    points = "[clocs.datasets]\nward = ward_plugin:WARD\n\n[clocs.formats]\nlines = ward_plugin:LINES\n"
    folder = install(tmp_path, points)
    command = "import sys; from clocs.cli.main import main; sys.argv[0] = 'clocs'; main()"
    listed = python(command, folder, "data", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert rows["ward"] == {"name": "ward", "title": "Someone's own ward", "licence": "private"}
    assert "chapman" in rows

    file = tmp_path / "bed4.lines"
    file.write_text("LINES\n5\n-7\n9\n")
    code = "import sys, clocs; r = clocs.read(sys.argv[1]); print(r.record_id, r.provenance.format, r.digital.tolist())"
    read = python(code, folder, str(file))
    assert read.stdout.split(" ", 2) == ["thirdparty", "lines", "[[5, -7, 9]]\n"], read.stderr


def test_an_entry_point_with_a_taken_name_is_rejected_every_time(tmp_path: Path) -> None:
    folder = install(tmp_path, "[clocs.datasets]\nchapman = ward_plugin:WARD\n")
    code = """
from clocs.core.errors import ConfigError
from clocs.datasets import DATASETS
for _ in range(2):
    try:
        DATASETS.get("chapman")
    except ConfigError as error:
        print(error)
    else:
        print("accepted")
"""
    out = python(code, folder).stdout.splitlines()
    assert len(out) == 2
    for line in out:
        assert "ward_plugin:WARD" in line
        assert "'chapman'" in line
        assert "clocs.datasets.chapman:CHAPMAN" in line


def test_an_entry_point_may_repeat_a_part_of_the_catalogue(tmp_path: Path) -> None:
    folder = install(tmp_path, "[clocs.datasets]\nchapman = clocs.datasets.chapman:CHAPMAN\n")
    out = python("from clocs.datasets import DATASETS; print(DATASETS.names().count('chapman'))", folder)
    assert out.stdout.strip() == "1", out.stderr


def test_the_decorator_registers_a_class_and_replaces_it_when_run_again() -> None:
    parts: Registry[Any] = Registry("nothing", {"encode": "json:dumps"})

    def cell(value: int) -> type[Any]:
        @parts.register("mine")
        class Mine:
            number = value

        return Mine

    cell(1)
    assert parts.names() == ["encode", "mine"]
    assert parts.get("mine") is not cell(2)
    assert parts.get("mine").number == 2
    assert parts.name_of(parts.get("mine")) == "mine"
    assert parts.name_of(json.loads) is None


def test_the_error_for_a_taken_name_names_its_owner() -> None:
    parts: Registry[Any] = Registry("nothing", {"encode": "json:dumps"})

    class Other:
        pass

    with pytest.raises(
        ConfigError, match=r"Other cannot be registered, because .* 'encode' is already registered by json:dump"
    ):
        parts.register("encode")(Other)
    assert parts.get("encode") is json.dumps
    assert parts.register("other")(Other) is Other


def test_a_part_is_checked_when_it_is_registered_or_first_imported() -> None:
    seen: list[str] = []

    def check(name: str, part: Any) -> None:
        seen.append(name)
        if not callable(part):
            raise ConfigError(f"{name} cannot be called")

    parts: Registry[Any] = Registry("nothing", {"good": "json:dumps", "bad": "json:__name__"}, check=check)
    assert seen == []
    parts.get("good")
    parts.get("good")
    assert seen == ["good"]
    for _ in range(2):
        with pytest.raises(ConfigError, match="bad cannot be called"):
            parts.get("bad")
    with pytest.raises(ConfigError, match="third cannot be called"):
        parts.register("third")(3)
    assert "third" not in parts.names()
