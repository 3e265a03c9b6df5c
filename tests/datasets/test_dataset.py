"""What every dataset must be, whoever wrote it; and what datasets share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from clocs.core.errors import ConfigError, FormatError
from clocs.core.sources import FolderSource, open_source
from clocs.datasets import DATASETS, Dataset, Entry, SplitPolicy
from clocs.datasets.dataset import find_table, load_entry, numbered_rows, read_csv
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import STANDARD_LEADS

OF_THE_PAPER = ("chapman", "physionet2020", "physionet2017", "cardiology")
WITHOUT_PUBLISHER = ("folder", "synthetic")


@pytest.fixture(params=DATASETS.names())
def dataset(request: pytest.FixtureRequest) -> Dataset:
    return DATASETS.get(request.param)


def test_it_says_what_it_is_and_whose(dataset: Dataset) -> None:
    assert DATASETS.get(dataset.name) is dataset
    assert dataset.title
    assert dataset.licence
    if dataset.name not in WITHOUT_PUBLISHER:
        assert len(dataset.citation) > 40
        assert dataset.homepage.startswith("https://")
        assert dataset.downloads
        assert all(download.url.startswith("https://") for download in dataset.downloads)


def test_its_frame_policies_are_valid_and_fit_the_encoders(dataset: Dataset) -> None:
    assert "evaluation" in dataset.frames
    assert set(dataset.frames) <= {"evaluation", "segments"}
    for purpose, policy in dataset.frames.items():
        assert FramePolicy.model_validate(policy.model_dump()) == policy
        assert policy.num_samples == 2500
        assert policy.num_segments == (2 if purpose == "segments" else 1)
        assert set(policy.leads) <= {*STANDARD_LEADS, "ECG"}


def test_no_label_is_in_two_classes(dataset: Dataset) -> None:
    labels = [label for group in dataset.classes.values() for label in group]
    assert len(labels) == len(set(labels))
    assert all(dataset.classes.values())


def test_what_a_store_keeps_of_it_is_json(dataset: Dataset) -> None:
    about = dataset.metadata()
    assert json.loads(json.dumps(about, allow_nan=False)) == about
    assert about["name"] == dataset.name
    assert list(about["classes"]) == list(dataset.classes)
    assert FramePolicy.model_validate(about["frames"]["evaluation"]) == dataset.frames["evaluation"]
    assert SplitPolicy.model_validate(about["split"]) == dataset.split


def test_its_options_say_what_they_mean_and_take_their_defaults(dataset: Dataset) -> None:
    told = dataset.describe_options()
    assert all(option["meaning"].endswith(".") for option in told.values())
    assert dataset.parse_options({name: option["default"] for name, option in told.items()}) == dataset.options()


def test_an_unknown_option_is_refused_with_those_it_takes(dataset: Dataset) -> None:
    with pytest.raises(ConfigError) as refusal:
        dataset.parse_options({"colour": "red"})
    said = str(refusal.value)
    assert f"dataset '{dataset.name}'" in said
    assert "colour" in said
    assert f"Its options: {', '.join(dataset.options.model_fields) or 'none'}." in said


@pytest.mark.parametrize("name", [dataset.name for dataset in DATASETS if dataset.needs_source])
def test_it_finds_nothing_in_an_empty_folder(name: str, tmp_path: Path) -> None:
    """Or says which table is not there; it never fails otherwise."""
    dataset = DATASETS.get(name)
    try:
        found = list(dataset.entries(FolderSource(tmp_path), dataset.parse_options({})))
    except FormatError as error:
        assert "it comes with the dataset" in str(error)  # noqa: PT017 - either answer is right
        return
    assert found == []


@pytest.mark.parametrize("name", OF_THE_PAPER)
def test_the_papers_datasets_have_classes_and_counts(name: str) -> None:
    dataset = DATASETS.get(name)
    assert dataset.classes
    assert {"in", "frames", "instances"} <= set(dataset.expected)


def test_all_wrong_options_are_said_at_once() -> None:
    with pytest.raises(ConfigError, match=r"records.*seconds"):
        DATASETS.get("synthetic").parse_options({"num_records": 0, "seconds": "long"})
    with pytest.raises(ConfigError, match=r"rate: Input should be 'best', '500' or '100'"):
        DATASETS.get("ptbxl").parse_options({"sampling_rate": "250"})


@pytest.mark.parametrize(
    ("shares", "said"),
    [({"train": 0.5}, "must sum to 1, not 0.86"), ({"train": 1.64}, "train"), ({"trane": 1}, "Extra inputs")],
)
def test_shares_that_make_no_split_are_refused(shares: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SplitPolicy(**shares)


def test_the_table_adds_to_what_a_file_says_and_goes_before_it(originals: Path) -> None:
    source = open_source(originals / "cpsc2018" / "Training_WFDB")
    options = DATASETS.get("physionet2017").parse_options({})
    plain = load_entry(source, Entry("A0001.hea"), options)
    assert (plain.record_id, plain.patient_id, plain.age, plain.sex) == ("A0001", "A0001", 74.0, "male")
    told = Entry("A0001.hea", "r7", "p7", "ward", 30.0, "female", ("AF",))
    full = load_entry(source, told, options)
    assert (full.record_id, full.patient_id, full.site, full.age, full.sex) == ("r7", "p7", "ward", 30.0, "female")
    assert full.labels == ("AF",)
    assert load_entry(source, Entry("A0001.hea", "r7"), options).patient_id == "r7"
    np.testing.assert_array_equal(full.digital, plain.digital)


def test_a_table_is_found_anywhere_and_the_first_named_wins(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.csv").touch()
    (tmp_path / "not-a.csv").touch()
    source = open_source(tmp_path)
    assert find_table(source, "a.csv", "b.csv") == "deep/b.csv"
    (tmp_path / "a.csv").touch()
    assert find_table(source, "a.csv", "b.csv") == "a.csv"
    assert find_table(source, "c.csv") is None


def test_csv_tables_are_read_with_marks_and_line_breaks_in_fields(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes('\ufefffile,x\r\na,"1\n2"\r\n'.encode())
    assert list(read_csv(open_source(tmp_path), "t.csv")) == [{"file": "a", "x": "1\n2"}]
    assert list(read_csv(open_source(tmp_path), "t.csv", ("p", "q")))[1] == {"p": "a", "q": "1\n2"}
    (tmp_path / "gaps.csv").write_text("file,x\n\na,1\n\n\nb,2\n")
    assert [line for line, _ in numbered_rows(open_source(tmp_path), "gaps.csv")] == [3, 6]
    (tmp_path / "latin.csv").write_bytes(b"file\n\xff\n")
    with pytest.raises(FormatError, match=r"latin\.csv: not a readable CSV"):
        list(read_csv(open_source(tmp_path), "latin.csv"))
