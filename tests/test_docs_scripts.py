"""The scripts of ``docs``: generated reference, links, site of all versions, and tutorials on PTB-XL."""

from __future__ import annotations

import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from clocs.augmentations.augmentation import AUGMENTATIONS
from clocs.cli.main import PANELS
from clocs.encoders import ENCODERS
from clocs.methods.method import METHODS
from clocs.training.config import PretrainConfig

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
MARKDOWN = sorted(
    path
    for path in (*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("*/*.md"))
    if path.name not in ("synthetic.md", "command-line.md", "configuration.md") and "api" not in path.parts
)
GENERATED = {"synthetic.md", "command-line.md", "configuration.md"}


@pytest.fixture
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    sys.modules.pop(request.param, None)
    return import_module(request.param)


@pytest.mark.parametrize("script", ["reference_pages"], indirect=True)
def test_the_command_line_page_has_every_command_and_explains_every_option(script: ModuleType) -> None:
    page = script.command_line()
    for name in (name for panel in PANELS.values() for name in panel):
        assert re.search(rf"^### clocs {name}\b", page, re.M), name
    assert "| `--gate` | `on`, `off` | `on` |" in page
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]
    assert not [row for row in rows if len(row) != 4 or not row[3].strip()]


@pytest.mark.parametrize("script", ["reference_pages"], indirect=True)
def test_the_configuration_page_explains_every_key(script: ModuleType) -> None:
    page = script.configuration()
    for registry in (METHODS, ENCODERS, AUGMENTATIONS):
        for name in registry.names():
            if registry.get(name).__module__.startswith("clocs."):
                assert f"\n### {name}\n" in page
    section = page.split("\n## Pre-training\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)`", section, re.M) == list(PretrainConfig.model_fields)
    assert "| `max_epochs` | `400` | integer, ≥ 0 |" in section
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in page.splitlines() if line.startswith("| `")]
    assert not [row for row in rows if len(row) != 4 or not row[3].strip()]


@pytest.mark.parametrize("script", ["check_links"], indirect=True)
def test_missing_pages_and_anchors_are_found(script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="#top">4</a>'
        '<img src="x.png"><a href="https://host.example/">5</a><h1 id="top">A</h1>'
    )
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    assert sorted(link for _, link in script.broken_links(tmp_path)) == ["b.html#gone", "c.html", "x.png"]
    with pytest.raises(Exception, match=r"a\.html: b\.html#gone"):
        script.check_site(tmp_path)


@pytest.mark.parametrize("script", ["make_site"], indirect=True)
def test_a_site_has_all_versions_and_opens_the_newest(script: ModuleType, tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").write_text(version)
        script.pack(tmp_path / version, tmp_path / "archives" / f"docs-{version}.zip")
    url = "https://host.example/clocs"
    assert script.make_site(tmp_path / "archives", tmp_path / "site", url + "/") == ["0.10.0", "0.9.0"]
    listed = json.loads((tmp_path / "site" / "versions.json").read_text())
    assert [(item["version"], item["url"], item["preferred"]) for item in listed] == [
        ("0.10.0", f"{url}/0.10.0/", True),
        ("0.9.0", f"{url}/0.9.0/", False),
    ]
    assert "url=0.10.0/index.html" in (tmp_path / "site" / "index.html").read_text()
    assert (tmp_path / "site" / "0.9.0" / "index.html").read_text() == "0.9.0"


@pytest.mark.parametrize("script", ["run_on_ptbxl"], indirect=True)
def test_tutorials_on_ptbxl_run_the_cells_of_their_page(script: ModuleType) -> None:
    for page, changed in script.CHANGED.items():
        text = (DOCS / "tutorials" / f"{page}.md").read_text()
        assert all(before in text for before in changed), page
        cells = script.cells(page, "STORE")
        assert 'clocs.open_store("STORE")' in "".join(code for _, code in cells)
        assert not re.search(r"clocs\.(ingest|split)\(", "".join(code for _, code in cells))
        assert any(is_result for is_result, _ in cells)
        fragment = DOCS / "tutorials" / "ptbxl" / f"{page}.md"
        assert fragment.exists() == (f"```{{include}} ptbxl/{page}.md" in text)
        if fragment.exists():
            lines = "\n".join(script.changed_lines(page))
            assert lines in fragment.read_text(), f"run python docs/run_on_ptbxl.py STORE {page}"


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.S)):
        if not re.match(r"\w+:", target) and Path(target).name not in GENERATED and "synthetic/" not in target:
            folder = path.parent.parent if path.parent.name == "ptbxl" else path.parent
            assert (folder / target).exists(), target
