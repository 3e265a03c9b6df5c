"""Marked blocks in pages that people write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clocs.core.errors import ConfigError
from reproduction.report.build import make_report
from reproduction.report.estimates import Estimates
from reproduction.report.marked_blocks import BLOCKS, fill
from reproduction.report.results import Results


def test_blocks_are_filled_and_the_rest_is_unchanged(complete: Path) -> None:
    estimates = Estimates(Results(complete / "results"))
    text = "# Title\n\n<!-- results:paper -->\nold\n<!-- /results -->\n\nEnd.\n"
    found = fill(text, estimates)
    assert found.startswith("# Title\n\n<!-- results:paper -->\n|  | Chapman | Chapman, the paper |")
    assert found.endswith("|\n<!-- /results -->\n\nEnd.\n")
    assert "old" not in found
    assert fill(found, estimates) == found
    assert fill("nothing marked\n", estimates) == "nothing marked\n"


def test_the_readme_has_four_methods(complete: Path) -> None:
    *_, cmsc, cmsmlc, simclr, random = BLOCKS["paper"](Estimates(Results(complete / "results"))).splitlines()
    assert re.fullmatch(
        r"\| CMSC \| 0\.\d{3} ± 0\.\d{3} \(3 seeds\) \| 0\.896 ± 0\.005 \| 0\.\d{3} ± 0\.\d{3} \(3 seeds\) "
        r"\| 0\.715 ± 0\.033 \|",
        cmsc,
    )
    assert [line.split(" | ")[0] for line in (cmsmlc, simclr, random)] == ["| CMSMLC", "| SimCLR", "| random weights"]


@pytest.mark.parametrize("name", list(BLOCKS))
def test_every_block_can_be_filled(complete: Path, sparse: Path, name: str) -> None:
    made = [BLOCKS[name](Estimates(Results(folder / "results"))) for folder in (complete, sparse)]
    assert all(made)
    assert not any(text.endswith("\n") for text in made)


def test_an_invalid_mark_is_rejected(sparse: Path) -> None:
    estimates = Estimates(Results(sparse / "results"))
    with pytest.raises(ConfigError, match=r"README.md: no block 'papre'.*Did you mean 'paper'"):
        fill("<!-- results:papre --><!-- /results -->", estimates, "README.md")
    for text in ("<!-- results:paper -->", "<!-- results:paper --> <!-- results:learning --> <!-- /results -->"):
        with pytest.raises(ConfigError, match="needs '<!-- /results -->' after it"):
            fill(text, estimates)


def test_a_missing_page_is_rejected(sparse: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.md cannot be read"):
        make_report(sparse / "results", tmp_path, [tmp_path / "none.md"])
