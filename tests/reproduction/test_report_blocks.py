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
    table = "<!-- results:table1 -->\nold\n<!-- /results -->"
    found = fill(f"# Title\n\n{table}\n\nBy <!-- results:cmsc-above-simclr -->9<!-- /results -->.\n", estimates)
    assert found.startswith("# Title\n\n<!-- results:table1 -->\n| encoder | data |")
    assert re.search(r"By <!-- results:cmsc-above-simclr -->\+0\.\d{3} per frame \(.*?\) and .*? per recording", found)
    assert "old" not in found
    assert fill(found, estimates) == found
    assert fill("nothing marked\n", estimates) == "nothing marked\n"


@pytest.mark.parametrize("name", list(BLOCKS))
def test_every_block_can_be_filled(complete: Path, sparse: Path, name: str) -> None:
    made = [BLOCKS[name](Estimates(Results(folder / "results"))) for folder in (complete, sparse)]
    assert all(made)
    assert not any(text.endswith("\n") for text in made)


def test_an_invalid_mark_is_rejected(sparse: Path) -> None:
    estimates = Estimates(Results(sparse / "results"))
    with pytest.raises(ConfigError, match=r"README.md: no block 'tabel1'.*Did you mean 'table1'"):
        fill("<!-- results:tabel1 --><!-- /results -->", estimates, "README.md")
    for text in ("<!-- results:table1 -->", "<!-- results:table1 --> <!-- results:table2 --> <!-- /results -->"):
        with pytest.raises(ConfigError, match="needs '<!-- /results -->' after it"):
            fill(text, estimates)


def test_a_missing_page_is_rejected(sparse: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.md cannot be read"):
        make_report(sparse / "results", tmp_path, [tmp_path / "none.md"])
