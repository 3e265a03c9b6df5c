"""What every evaluation refuses before it computes anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import clocs
from clocs.core.errors import ConfigError
from clocs.datasets.dataset import SplitPolicy
from clocs.evaluation.finetune import finetune
from clocs.evaluation.probe import probe
from tests.evaluation.conftest import make_store


def test_a_store_without_classes_is_rejected_with_working_advice(tmp_path: Path) -> None:
    """Whatever labels it has. Ingested again as the message says, the same folder can be evaluated."""
    bare = make_store(tmp_path / "store", {}, num_records=120, leads=1)
    for evaluate in (probe, finetune):
        with pytest.raises(ConfigError, match="has no classes"):
            evaluate("random", bare, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    labels = {label for number in range(len(bare)) for label in bare.recording(number).labels}
    dataset = replace(clocs.DATASETS.get("synthetic"), classes={label: (label,) for label in labels})
    again = clocs.ingest(dataset, None, tmp_path / "store", options={"num_records": 120, "leads": 1})
    assert list(again.shards) == list(bare.shards)
    clocs.split(again, "again")
    found = probe("random", again, clocs.ProbeConfig(representation="frames", split="again"), runs=tmp_path / "runs")
    assert set(found["test"]["recording"]["classes"]) == labels


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_an_empty_part_is_rejected(part: str, tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", num_records=20, leads=1)
    shares = {name: 0.0 if name == part else 0.5 for name in ("train", "validation", "test")}
    clocs.split(store, "lacking", policy=SplitPolicy(**shares, remainder="test" if part == "train" else "train"))
    said = rf"split 'lacking' of {store.folder} has no patient in its {part} part"
    with pytest.raises(ConfigError, match=said):
        probe("random", store, clocs.ProbeConfig(representation="frames", split="lacking"), runs=tmp_path / "runs")
    with pytest.raises(ConfigError, match=said):
        finetune("random", store, clocs.FinetuneConfig(split="lacking"), runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_scoring_the_validation_part_needs_no_test_part(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", num_records=120, leads=1)
    clocs.split(store, "lacking", policy=SplitPolicy(train=0.7, validation=0.3, test=0))
    asked = clocs.ProbeConfig(representation="frames", split="lacking", part="validation")
    assert "validation" in probe("random", store, asked, runs=tmp_path / "runs")


def test_recordings_without_any_class_are_noted(tmp_path: Path) -> None:
    """Of five rhythms, two make classes here: the others cannot be told from missing labels."""
    store = make_store(tmp_path / "store", {"AFIB": ("AFIB",), "SR": ("SR",)}, num_records=120, leads=1)
    found = probe("random", store, clocs.ProbeConfig(representation="frames"), runs=tmp_path / "runs")
    test = store.split().mask("test")
    none = sum(not {"AFIB", "SR"} & set(store.recording(int(number)).labels) for number in test.nonzero()[0])
    assert found["notes"][0].startswith(f"{none} of {test.sum()} recordings have frames without any")
