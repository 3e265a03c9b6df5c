"""Marked blocks in pages that people write."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from reproduction.report.build import make_report
from reproduction.report.estimates import Estimates
from reproduction.report.marked_blocks import BLOCKS, fill
from reproduction.report.results import Results
from tests.conftest import ROOT


def test_blocks_are_filled_and_the_rest_is_unchanged(complete: Path) -> None:
    estimates = Estimates(Results(complete / "results"))
    text = "# Title\n\n<!-- results:table1-chapman -->\nold\n<!-- /results -->\n\nEnd.\n"
    found = fill(text, estimates)
    assert found.startswith("# Title\n\n<!-- results:table1-chapman -->\n| ")
    assert found.endswith("|\n<!-- /results -->\n\nEnd.\n")
    assert "old" not in found
    assert fill(found, estimates) == found
    assert fill("nothing marked\n", estimates) == "nothing marked\n"


def test_the_benchmark_has_encoder_control_and_published_value(sparse: Path, tmp_path: Path) -> None:
    shutil.copytree(sparse / "results", tmp_path, dirs_exist_ok=True)
    shutil.copyfile(ROOT / "results" / "benchmark.json", tmp_path / "benchmark.json")
    lines = BLOCKS["benchmark"](Estimates(Results(tmp_path))).splitlines()
    assert lines[0] == "| macro AUC | encoder | 1% of labels | 10% of labels | 100% of labels |"
    assert any(re.match(r"\| CPSC 2018, nine findings \| `[\w-]+` \| 0\.\d{3} \(0\.\d{3} to ", line) for line in lines)
    assert any(line.startswith("|  | best control: ") for line in lines)
    value = r"(–|0\.\d{3} \(0\.\d{3} to 0\.\d{3}\)) \| "
    assert any(re.match(rf"\|  \| resnet, trained from scratch \| {value}{value}0\.\d{{3}} \(", line) for line in lines)
    assert any(line.startswith("|  | best published: ECG-JEPA, another split | – | – | 0.975 |") for line in lines)


@pytest.mark.parametrize("name", list(BLOCKS))
def test_every_block_can_be_filled(complete: Path, sparse: Path, name: str) -> None:
    made = [BLOCKS[name](Estimates(Results(folder / "results"))) for folder in (complete, sparse)]
    assert all(made)
    assert not any(text.endswith("\n") for text in made)


def test_an_invalid_mark_is_rejected(sparse: Path) -> None:
    estimates = Estimates(Results(sparse / "results"))
    with pytest.raises(ConfigError, match=r"README.md: no block 'learnin'.*Did you mean 'learning'"):
        fill("<!-- results:learnin --><!-- /results -->", estimates, "README.md")
    for text in (
        "<!-- results:table1-chapman -->",
        "<!-- results:table1-chapman --> <!-- results:learning --> <!-- /results -->",
    ):
        with pytest.raises(ConfigError, match="needs '<!-- /results -->' after it"):
            fill(text, estimates)


def test_a_missing_page_is_rejected(sparse: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.md cannot be read"):
        make_report(sparse / "results", tmp_path, [tmp_path / "none.md"])
