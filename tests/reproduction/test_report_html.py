"""The one page: whole, readable anywhere, and the same as the Markdown."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reproduction.report.build import PARTS, make_report
from tests.reproduction.results_factory import FIGURES


class Outline(HTMLParser):
    """Tags, attributes and text, with a check that tags close in order."""

    VOID = frozenset({"meta", "img", "br", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture(scope="module")
def outline(complete: Path) -> Outline:
    parser = Outline()
    parser.feed((complete / "report" / "report.html").read_text(encoding="utf-8"))
    parser.close()
    return parser


def test_the_page_is_complete_and_self_contained(outline: Outline) -> None:
    assert outline.open == []
    assert not {tag for tag, _ in outline.tags} & {"script", "link", "iframe", "object", "base"}
    pictures = [dict(attributes) for tag, attributes in outline.tags if tag == "img"]
    assert len(pictures) == len(FIGURES) + 1  # and how methods learned
    for picture in pictures:
        kind, _, raw = str(picture["src"]).partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert base64.b64decode(raw).lstrip().startswith(b"<?xml")
        assert picture["alt"]
    identities = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(identities) == len(set(identities))
    links = [str(attributes["href"]) for tag, attributes in outline.tags if tag == "a"]
    assert {link.removeprefix("#") for link in links} <= set(identities)
    assert set(PARTS) <= set(identities)


def test_the_page_fits_small_screens_and_dark_ones(complete: Path, outline: Outline) -> None:
    text = (complete / "report" / "report.html").read_text(encoding="utf-8")
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in [each for _, each in outline.tags]
    assert text.count("<table>") == text.count('<div class="scroll" tabindex="0"><table>') > 10
    assert "@media (max-width: 40rem)" in text  # rows become cards, each value behind the title of its column
    titles = [attributes["data-title"] for tag, attributes in outline.tags if tag == "td"]
    assert {"ours, per frame", "ours − the paper", "verdict", "still improving"} <= set(titles)
    schemes = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    assert len(schemes) == 2
    for scheme in schemes:
        colours = dict(re.findall(r"--(\w+): (#\w{6})", scheme))
        for name in ("ink", "soft", "link", "holds", "fails", "open"):
            assert contrast(colours[name], colours["back"]) >= 4.5, name
            assert contrast(colours[name], colours["band"]) >= 4.5, name


def contrast(first: str, second: str) -> float:
    """Of two colours, by the formula of the Web Content Accessibility Guidelines; 4.5 is wanted for text."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_markdown_and_html_have_the_same_text(complete: Path, outline: Outline) -> None:
    """Every number with three decimals, as often."""
    number = re.compile(r"\d\.\d{3}")
    texts = [(complete / "report" / f"{name}.md").read_text(encoding="utf-8") for name in ("index", *PARTS)]
    pages = re.sub(r"!\[.*?\]\(.*?\)", "", "".join(texts))  # but for pictures' descriptions
    assert sorted(number.findall(pages)) == sorted(number.findall(" ".join(outline.text)))


def test_equal_results_make_equal_bytes(sparse: Path, tmp_path: Path) -> None:
    make_report(sparse / "results", tmp_path)
    for path in tmp_path.rglob("*.*"):
        assert path.read_bytes() == (sparse / "report" / path.relative_to(tmp_path)).read_bytes()
