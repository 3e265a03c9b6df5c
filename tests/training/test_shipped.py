"""Folders of encoders."""

from __future__ import annotations

from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from clocs.training.shipped import find_encoder_folder, shipped_encoders


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a package with two encoders, and a folder without one."""
    models = tmp_path / "package" / "models"
    for name in ("cmsc-chapman", "byol-ptbxl"):
        (models / name).mkdir(parents=True)
        (models / name / "config.json").write_text("{}")
    (models / "notes").mkdir()
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path / "package")
    monkeypatch.chdir(tmp_path)
    return models


def test_shipped_encoders_go_by_name(shipped: Path) -> None:
    assert shipped_encoders() == {name: shipped / name for name in ("byol-ptbxl", "cmsc-chapman")}
    assert find_encoder_folder("cmsc-chapman") == shipped / "cmsc-chapman"
    with pytest.raises(ConfigError, match=r"byol-ptbxl, cmsc-chapman\). Did you mean 'cmsc-chapman'"):
        find_encoder_folder("cmsc-chapmann")
    with pytest.raises(ConfigError, match="neither a folder") as caught:
        find_encoder_folder("zzz")
    assert "Did you mean" not in str(caught.value)


def test_the_folder_of_a_run_or_of_an_encoder_is_found(shipped: Path, tmp_path: Path) -> None:
    best = tmp_path / "run" / "best"
    best.mkdir(parents=True)
    assert find_encoder_folder(tmp_path / "run") == tmp_path / "run", "nothing is best yet"
    (best / "config.json").write_text("{}")
    assert find_encoder_folder(tmp_path / "run") == find_encoder_folder(str(best)) == best
