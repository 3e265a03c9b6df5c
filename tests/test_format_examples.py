"""The committed examples of stores, archives, indexes and encoders are read, and give what they gave."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clocs
from tests.make_examples import EXAMPLES, FORMATS


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, because opening may write locks and caches."""
    return Path(shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("examples") / "copy"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text())
    return found


def folders(kind: str) -> list[str]:
    return sorted(path.name for path in EXAMPLES.glob(f"clocs-{kind}-*"))


@pytest.mark.parametrize("kind", FORMATS)
def test_the_current_format_has_an_example(kind: str) -> None:
    assert FORMATS[kind] in folders(kind), "run python -m tests.make_examples"


@pytest.mark.parametrize("name", folders("store"))
def test_a_store(name: str, examples: Path, expected: dict[str, Any]) -> None:
    store = clocs.open_store(examples / name)
    assert clocs.verify(store) == []
    assert store.sha256 == expected[name]["sha256"]
    assert store.split().sha256 == expected[name]["split"]
    np.testing.assert_allclose([recording.signal.sum() for recording in store], expected[name]["sums"], rtol=1e-5)


@pytest.mark.parametrize("name", folders("archive"))
def test_an_archive(name: str, examples: Path, expected: dict[str, Any]) -> None:
    np.testing.assert_array_equal(
        clocs.open_archive(examples / name).vectors(), np.array(expected[name]["vectors"], np.float32)
    )


@pytest.mark.parametrize("name", folders("index"))
def test_an_index(name: str, examples: Path, expected: dict[str, Any]) -> None:
    vectors = np.array(expected[name]["vectors"], np.float32)
    nearest = clocs.open_index(examples / name).search(vectors, 1)
    np.testing.assert_allclose(nearest.cosines[:, 0], 1, atol=1e-5)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("name", folders("encoder"))
def test_an_encoder(name: str, device: str | None, examples: Path, expected: dict[str, Any]) -> None:
    encoder = clocs.load_encoder(examples / name, device=device)
    recording = clocs.open_store(examples / FORMATS["store"]).recording(0)
    np.testing.assert_allclose(encoder.embed(recording).pooled(), expected[name]["pooled"], atol=1e-5)
