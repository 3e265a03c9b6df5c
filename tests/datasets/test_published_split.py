"""Published splits: folds of PTB-XL, and lists of recordings in the package."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import clocs
from clocs.datasets import DATASETS, PublishedSplit

COUNTS = {"physionet2020": (4401, 1099, 1374), "chapman": (6358, 2119, 2120)}
ID = {"physionet2020": r"A\d{4}", "chapman": r"MUSE_\d{8}_\d{6}_\d{5}"}


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_published_split_has_disjoint_parts(name: str) -> None:
    for split in DATASETS.get(name).splits.values():
        values = split.values()
        assert list(values) == ["train", "validation", "test"]
        assert all(values[part] for part in ("train", "test"))
        assert max(Counter(value for part in values.values() for value in part).values()) == 1


@pytest.mark.parametrize("name", COUNTS)
def test_lists_have_the_counts_of_the_default_split(name: str) -> None:
    values = DATASETS.get(name).splits["clocs"].values()
    assert tuple(map(len, values.values())) == COUNTS[name]
    assert all(re.fullmatch(ID[name], str(each)) for part in values.values() for each in part)


def test_values_of_a_column_are_returned_as_they_are() -> None:
    split = PublishedSplit("made up", column="fold", train=(1, 2), test=("a",))
    assert split.values() == {"train": [1, 2], "validation": [], "test": ["a"]}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "archive"), [("physionet2020", "cpsc2018"), ("chapman", "chapman")])
def test_lists_are_the_default_split_of_the_four_leads(
    name: str, archive: str, real_data: Path, tmp_path: Path
) -> None:
    store = clocs.ingest(name, real_data / f"{archive}.zip", tmp_path / "store", workers=2)
    default, published = clocs.split(store), clocs.split_published(store, "clocs")
    assert published.parts.tolist() == default.parts.tolist()
