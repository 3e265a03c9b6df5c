"""What the tests of the paper's numbers share: its names, and its tables column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from reproduction.paper_numbers import Result, results, settings

CLOCS = ("cmsc", "cmlc", "cmsmlc")
SELF_SUPERVISED = ("mtssl", "byol", "simclr", *CLOCS)
LINEAR = range(7, 15)
DATASET_NAMES = {
    "chapman": "Chapman",
    "physionet2020": "PhysioNet 2020",
    "physionet2017": "PhysioNet 2017",
    "cardiology": "Cardiology",
}
METHOD_NAMES = {
    "random": "Random Init.",
    "supervised": "Supervised",
    "mtssl": "MT-SSL",
    "byol": "BYOL",
    "simclr": "SimCLR",
    "cmsc": "CMSC",
    "cmlc": "CMLC",
    "cmsmlc": "CMSMLC",
}


def told(subject: str, name: str) -> int:
    (setting,) = settings(subject=subject, name=name)
    assert isinstance(setting.value, int)
    return setting.value


def columns(tables: Iterable[int]) -> dict[tuple[int, str, int], list[Result]]:
    """Results that compete with each other, by table, part and column."""
    found: dict[tuple[int, str, int], list[Result]] = defaultdict(list)
    for number in tables:
        for result in results(table=number):
            found[result.table, result.part, result.column].append(result)
    return found
