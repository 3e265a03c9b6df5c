"""Published values against the page of values that were read from their sources."""

from __future__ import annotations

import pytest

from clocs.evaluation.benchmark.published_values import published_values
from tests.conftest import data_folder

TASKS = {
    "CPSC 2018": ("physionet2020", "cpsc2018"),
    "PTB-XL super": ("ptbxl", "super"),
    "PTB-XL sub": ("ptbxl", "sub"),
    "PTB-XL diagnostic": ("ptbxl", "diagnostic"),
    "PTB-XL form": ("ptbxl", "form"),
    "PTB-XL rhythm": ("ptbxl", "rhythm"),
    "PTB-XL all": ("ptbxl", "all"),
    "Chapman rhythm": ("chapman", "chapman-rhythm"),
}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


@pytest.fixture(scope="module")
def peers() -> list[str]:
    page = data_folder().parent / "PEERS.md"
    if not page.exists():
        pytest.skip("the page of published values is not here")
    return page.read_text().splitlines()


@pytest.mark.parametrize("title", TASKS)
def test_linear_probes_of_eight_models(title: str, peers: list[str]) -> None:
    models = cells(next(line for line in peers if line.startswith("| task |")))[1:]
    printed = cells(next(line for line in peers if line.startswith(f"| {title} ") and "/" not in line))[1:]
    found = {
        value.model: value.auc[1.0]
        for value in published_values(*TASKS[title])
        if value.way == "linear" and "arXiv 2509.25095" in value.source
    }
    assert found == {model: float(value) for model, value in zip(models, printed, strict=True)}


@pytest.mark.parametrize(("column", "task"), [(1, ("ptbxl", "super")), (2, ("physionet2020", "cpsc2018"))])
def test_copied_values(column: int, task: tuple[str, str], peers: list[str]) -> None:
    begin = peers.index(next(line for line in peers if line.startswith("| method |")))
    end = next(number for number in range(begin, len(peers)) if not peers[number].startswith("|"))
    rows = [cells(line) for line in peers[begin + 2 : end]]
    printed = {row[0]: [float(text) / 100 for text in row[column].split("/")] for row in rows if "/" in row[column]}
    found = {value.model: [*value.auc.values()] for value in published_values(*task) if "papers copy" in value.source}
    assert found == {model: pytest.approx(values) for model, values in printed.items()}


def test_every_value_states_its_split_and_what_it_has_seen() -> None:
    for task in TASKS.values():
        for value in published_values(*task):
            assert value.seen in {"no", "probably", "unknown"}
            assert value.split
            assert value.is_comparable <= (task[0] == "ptbxl")
