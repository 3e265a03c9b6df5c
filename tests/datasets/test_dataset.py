"""Every registered dataset satisfies the contract of ``Dataset``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from clocs.core.errors import ConfigError, FormatError
from clocs.core.sources.folder_source import FolderSource
from clocs.core.sources.source import open_source
from clocs.datasets import DATASETS, Dataset, Entry, SplitPolicy
from clocs.datasets.dataset import load_entry
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS

PAPER_DATASETS = ("chapman", "physionet2020", "physionet2017", "cardiology")
WITHOUT_PUBLISHER = ("folder", "synthetic")
WITHOUT_ADDRESSES = ("mimic-iv-ecg", "echonext", "sph")
"""Datasets that need an agreement with their publisher, or whose publisher states no lasting addresses."""


@pytest.fixture(params=DATASETS.names())
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return DATASETS.get(request.param)


def test_a_dataset_has_title_licence_and_publisher(dataset: Dataset) -> None:
    assert DATASETS.get(dataset.name) is dataset
    assert dataset.title
    assert dataset.licence
    if dataset.name not in WITHOUT_PUBLISHER:
        assert len(dataset.citation) > 40
        assert dataset.homepage.startswith("https://")
        assert bool(dataset.downloads) == (dataset.name not in WITHOUT_ADDRESSES)
        assert all(download.url.startswith("https://") for download in dataset.downloads)


def test_frame_policies_are_valid_and_match_the_encoders(dataset: Dataset) -> None:
    assert "evaluation" in dataset.frame_policies
    assert set(dataset.frame_policies) <= {"evaluation", "segments"}
    for name, policy in dataset.frame_policies.items():
        assert FramePolicy.model_validate(policy.model_dump()) == policy
        assert policy.num_samples == 2500
        assert policy.num_segments == (2 if name == "segments" else 1)
        assert set(policy.leads) <= {*STANDARD_LEADS, "ECG"}


def test_no_label_is_in_two_classes(dataset: Dataset) -> None:
    labels = [label for group in dataset.classes.values() for label in group]
    assert len(labels) == len(set(labels))
    assert all(dataset.classes.values())


def test_metadata_is_json(dataset: Dataset) -> None:
    metadata = dataset.metadata()
    assert json.loads(json.dumps(metadata, allow_nan=False)) == metadata
    assert metadata["name"] == dataset.name
    assert list(metadata["classes"]) == list(dataset.classes)
    assert FramePolicy.model_validate(metadata["frame_policies"]["evaluation"]) == dataset.frame_policies["evaluation"]
    assert SplitPolicy.model_validate(metadata["split"]) == dataset.split


def test_options_have_meanings_and_valid_defaults(dataset: Dataset) -> None:
    described = dataset.describe_options()
    assert all(option["meaning"].endswith(".") for option in described.values())
    assert dataset.parse_options({name: option["default"] for name, option in described.items()}) == dataset.options()


def test_an_unknown_option_raises_an_error_that_lists_the_known_ones(dataset: Dataset) -> None:
    with pytest.raises(ConfigError) as caught:
        dataset.parse_options({"colour": "red"})
    message = str(caught.value)
    assert f"dataset '{dataset.name}'" in message
    assert "colour" in message
    assert f"Its options: {', '.join(dataset.options.model_fields) or 'none'}." in message


@pytest.mark.parametrize("name", [dataset.name for dataset in DATASETS if dataset.needs_source])
def test_an_empty_folder_has_no_entries(name: str, tmp_path: Path) -> None:
    """A dataset that needs a table names the missing table instead."""
    dataset = DATASETS.get(name)
    try:
        found = list(dataset.entries(FolderSource(tmp_path), dataset.parse_options({})))
    except FormatError as error:
        assert "with the labels is missing" in str(error)  # noqa: PT017 - either answer is right
        return
    assert found == []


@pytest.mark.parametrize("name", PAPER_DATASETS)
def test_the_papers_datasets_have_classes_and_counts(name: str) -> None:
    dataset = DATASETS.get(name)
    assert dataset.classes
    assert {"in", "frames", "instances"} <= set(dataset.expected)


def test_an_error_lists_all_invalid_options() -> None:
    with pytest.raises(ConfigError, match=r"records.*seconds"):
        DATASETS.get("synthetic").parse_options({"num_records": 0, "seconds": "long"})
    with pytest.raises(ConfigError, match=r"rate: Input should be 'best', '500' or '100'"):
        DATASETS.get("ptbxl").parse_options({"sampling_rate": "250"})


@pytest.mark.parametrize(
    ("fractions", "message"),
    [({"train": 0.5}, "must sum to 1, not 0.86"), ({"train": 1.64}, "train"), ({"trane": 1}, "Extra inputs")],
)
def test_fractions_must_sum_to_one(fractions: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SplitPolicy(**fractions)


def test_an_entry_overrides_the_metadata_of_its_file(originals: Path) -> None:
    source = open_source(originals / "cpsc2018" / "Training_WFDB")
    options = DATASETS.get("physionet2017").parse_options({})
    plain = load_entry(source, Entry("A0001.hea"), options)
    assert (plain.record_id, plain.patient_id, plain.age, plain.sex) == ("A0001", "A0001", 74.0, "male")
    entry = Entry("A0001.hea", "r7", "p7", "ward", 30.0, "female", ("AF",))
    full = load_entry(source, entry, options)
    assert (full.record_id, full.patient_id, full.site, full.age, full.sex) == ("r7", "p7", "ward", 30.0, "female")
    assert full.labels == ("AF",)
    assert load_entry(source, Entry("A0001.hea", "r7"), options).patient_id == "r7"
    np.testing.assert_array_equal(full.digital, plain.digital)
