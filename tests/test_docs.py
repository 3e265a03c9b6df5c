"""The documentation lists what the package has."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_docstrings import PUBLIC

DOCS = Path(__file__).parent.parent / "docs"


def test_the_api_reference_lists_every_public_object() -> None:
    listed: set[str] = set()
    module = ""
    for line in (DOCS / "reference" / "api.md").read_text().splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            listed.add(f"{module}.{found[1]}")
    assert listed == set(PUBLIC)


def test_every_tutorial_is_executed_and_listed() -> None:
    """Sphinx executes pages with this head, and fails if a cell raises an error."""
    index = (DOCS / "tutorials" / "index.md").read_text()
    pages = [path for path in (DOCS / "tutorials").glob("*.md") if path.stem != "index"]
    assert len(pages) >= 8
    for path in pages:
        text = path.read_text()
        assert text.startswith("---\nfile_format: mystnb\nkernelspec:\n  name: python3\n---\n"), path
        assert text.count("```{code-cell}") >= 2, path
        assert f"[]({path.name})" in index, path


def test_every_page_opens_with_who_needs_it() -> None:
    """The first paragraph names the reader."""
    for folder in ("tutorials", "how-to", "reference", "background"):
        for path in (DOCS / folder).glob("*.md"):
            opening = f"\n{path.read_text()}".split("\n# ")[1].split("\n\n")[1]
            reader = r"This (tutorial|guide|page|section) is for "
            assert path.stem == "index" or re.match(reader, opening), path
