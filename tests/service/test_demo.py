"""The demonstration is created once and removed unless it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.service import demo as module
from clocs.service.demo import demo_index, make_demo
from clocs.similarity.index.patient_index import open_index
from clocs.training.shipped import DEFAULT_ENCODER


def test_a_temporary_demo_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[Path, str]] = []
    monkeypatch.setattr(module, "make_demo", lambda folder, encoder: made.append((folder, encoder)))
    with demo_index(None, None) as index:
        folder = index.parent
        assert folder.is_dir()
        assert made == [(folder, DEFAULT_ENCODER)]
    assert not folder.exists()
    with demo_index(tmp_path, "cmsc-physionet2020") as index:
        assert index == tmp_path / "index"
    assert tmp_path.exists()


def test_an_existing_demo_is_kept(demo: Path) -> None:
    index = open_index(demo / "index")
    assert (len(index), index.manifest.recordings) == (20, 40)
    before = (demo / "index" / "index.json").stat().st_mtime_ns
    make_demo(demo, "cmsc-chapman")
    assert (demo / "index" / "index.json").stat().st_mtime_ns == before


def test_the_demo_has_several_rhythms(demo: Path) -> None:
    table = open_index(demo / "index").snapshot.volumes[0].patients
    assert len({label for labels in table.column("labels").to_pylist() for label in labels}) >= 3
