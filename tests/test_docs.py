"""The documentation lists what the package has."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_docstrings import PUBLIC

DOCS = Path(__file__).parent.parent / "docs"


def test_the_api_reference_lists_every_public_object() -> None:
    listed: set[str] = set()
    module = ""
    for line in (DOCS / "api.md").read_text().splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            listed.add(f"{module}.{found[1]}")
    assert listed == set(PUBLIC)
