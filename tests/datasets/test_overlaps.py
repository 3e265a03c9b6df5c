"""Recordings that several datasets publish, by their record ids."""

from __future__ import annotations

import pytest

from clocs.datasets import DATASETS
from clocs.datasets.overlaps import COLLECTIONS, find_shared_recording, incomparable_datasets


@pytest.mark.parametrize(
    ("dataset", "record_id", "collection", "shared_id"),
    [
        ("ptbxl", "00007_hr", "PTB-XL", "7"),
        ("ptbxl", "21837_lr", "PTB-XL", "21837"),
        ("physionet2021", "HR00007", "PTB-XL", "7"),
        ("physionet2020", "A0001", "CPSC 2018", "A0001"),
        ("physionet2021", "A0001", "CPSC 2018", "A0001"),
        ("chapman", "MUSE_20180113_124215_52000", "Chapman-Shaoxing", ""),
        ("ecg-arrhythmia", "JS00001", "Chapman-Shaoxing", "JS00001"),
        ("ecg-arrhythmia", "JS10646", "Chapman-Shaoxing", "JS10646"),
        ("physionet2021", "JS10647", "Ningbo", "JS10647"),
        ("ecg-arrhythmia", "JS45551", "Ningbo", "JS45551"),
    ],
)
def test_a_recording_has_the_same_id_in_all_its_datasets(
    dataset: str, record_id: str, collection: str, shared_id: str
) -> None:
    found = find_shared_recording(dataset, record_id)
    assert found is not None
    assert (found.collection.name, found.record_id) == (collection, shared_id)


@pytest.mark.parametrize(
    ("dataset", "record_id"), [("physionet2021", "E00001"), ("physionet2021", "S0001"), ("folder", "A0001")]
)
def test_other_recordings_are_in_no_collection(dataset: str, record_id: str) -> None:
    assert find_shared_recording(dataset, record_id) is None


def test_every_number_of_the_arrhythmia_database_is_in_one_collection() -> None:
    for number in range(1, 45552):
        found = find_shared_recording("ecg-arrhythmia", f"JS{number:05d}")
        assert found is not None
        assert found.collection.name == ("Chapman-Shaoxing" if number <= 10646 else "Ningbo")


def test_collections_name_registered_datasets() -> None:
    names = {publication.dataset for collection in COLLECTIONS for publication in collection.publications}
    assert names <= set(DATASETS.names())
    assert all(len(collection.publications) > 1 for collection in COLLECTIONS)


def test_datasets_without_common_ids_or_signals_cannot_be_compared() -> None:
    by_name = {collection.name: collection for collection in COLLECTIONS}
    chapman = by_name["Chapman-Shaoxing"]
    assert incomparable_datasets(chapman, "chapman") == ["ecg-arrhythmia", "physionet2021"]
    assert incomparable_datasets(chapman, "ecg-arrhythmia") == ["chapman"]
    assert incomparable_datasets(by_name["PTB-XL"], "ptbxl") == []
    assert incomparable_datasets(by_name["CPSC 2018"], "physionet2020") == []
