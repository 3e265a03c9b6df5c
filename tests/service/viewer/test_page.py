"""The page at both widths and in both themes: keys, landmarks and contrast."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

import clocs
from tests.service.viewer.conftest import PHONE, Visit

VIEWER = Path(clocs.__file__).parent / "service" / "viewer"

TEXT = [
    *(("ink", ground) for ground in ("ground", "surface", "sunken", "accent-soft", "bad-soft", "warn-soft")),
    *(("muted", ground) for ground in ("ground", "surface", "sunken", "accent-soft", "paper")),
    *(("accent", ground) for ground in ("surface", "accent-soft")),
    ("on-accent", "accent"),
    ("on-accent", "accent-hover"),
    ("warn-ink", "warn-soft"),
    ("warn-ink", "surface"),
    ("bad", "bad-soft"),
    ("bad", "surface"),
    ("other", "surface"),
    ("other", "paper"),
    ("query", "surface"),
]
FIGURES = [
    ("trace", "paper"),
    ("caliper", "paper"),
    ("focus", "surface"),
    ("focus", "ground"),
    ("line-strong", "surface"),
    ("observed", "surface"),
    ("accent", "sunken"),
    *((f"series-{number}", "surface") for number in range(8)),
]


def colours(theme: str) -> dict[str, str]:
    block = re.search(rf'\[data-theme="{theme}"\] \{{(.*?)\n\}}', (VIEWER / "colours.css").read_text(), re.DOTALL)
    assert block
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block[1]))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, two: str) -> float:
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_is_that_of_wcag_aa(theme: str) -> None:
    known = colours(theme)
    found = {pair: round(contrast(known[pair[0]], known[pair[1]]), 2) for pair in TEXT + FIGURES}
    assert {pair: found[pair] for pair in TEXT if found[pair] < 4.5} == {}
    assert {pair: found[pair] for pair in FIGURES if found[pair] < 3} == {}


def too_wide(page: Page) -> list[str]:
    """Return the elements beyond the window's edge if the page can be scrolled sideways."""
    found: list[str] = page.evaluate("""() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        const beyond = [...document.querySelectorAll("body *")].filter((node) => {
            return node.getBoundingClientRect().right > clientWidth;
        });
        return scrollWidth > clientWidth ? beyond.map((node) => node.outerHTML.slice(0, 90)) : [];
    }""")
    return found


@pytest.mark.parametrize("visit", [{}, PHONE], indirect=True, ids=["1280", "390"])
def test_nothing_is_wider_than_the_window(visit: Visit) -> None:
    page = visit.enter()
    assert too_wide(page) == []
    visit.open()
    assert too_wide(page) == []
    page.click(".neighbour:first-child button")
    page.wait_for_selector("#comparison[open] canvas")
    dialog = page.locator("#comparison")
    assert dialog.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    page.keyboard.press("Escape")
    page.click("nav >> text=Model")
    assert too_wide(page) == []


@pytest.mark.parametrize("visit", [{"color_scheme": "dark"}], indirect=True)
def test_the_theme_follows_the_system_until_it_is_switched(visit: Visit) -> None:
    page = visit.open()
    assert page.get_attribute("html", "data-theme") == "dark"
    dark = page.evaluate("document.getElementById('paper').toDataURL()")
    page.click("#theme-switch")
    assert page.get_attribute("html", "data-theme") == "light"
    page.evaluate("drawn()")
    assert page.evaluate("document.getElementById('paper').toDataURL()") != dark
    page.reload()
    assert page.get_attribute("html", "data-theme") == "light"


def test_everything_is_reached_by_the_tab_key(visit: Visit) -> None:
    page = visit.open()
    page.wait_for_selector("#map .map-key")
    page.evaluate("document.activeElement.blur()")
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        name = page.evaluate("""() => {
            const node = document.activeElement;
            return node.id || node.getAttribute("name") || node.getAttribute("aria-label") || node.textContent;
        }""")
        reached.add(name)
    wanted = {"theme-switch", "save-png", "save-pdf", "save-json", "open-another", "paper", "label", "sex", "age_from"}
    assert wanted <= reached
    assert {"Calipers", "Smaller", "Larger", "Fit", "choice-layout", "choice-mm-mv", "choice-mm-s"} <= reached
    assert any(name.startswith("Compare with neighbour 10") for name in reached)
    assert any(name.startswith("Map of patients") for name in reached)


def test_the_page_has_landmarks_names_and_a_voice(visit: Visit) -> None:
    page = visit.open()
    assert page.locator("header, nav, main, footer").count() >= 4
    assert page.locator("h1:visible").count() == 1
    assert page.evaluate("document.activeElement.id") == "recording-title"
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, input, select, canvas")]
        .filter((node) => !node.labels?.length && !node.getAttribute("aria-label") && !node.textContent.trim())
        .map((node) => node.outerHTML)""")
    assert unnamed == []
    page.wait_for_selector("#announcer:has-text('10 neighbours found')", state="attached")
    best = page.locator(".class-name strong").first.inner_text()
    page.wait_for_selector(f"#announcer:has-text('Most probable: {best}')", state="attached")


def test_a_turned_page_has_the_focus_and_its_title(visit: Visit) -> None:
    page = visit.enter()
    first = page.title()
    page.focus("nav [data-page=model]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#model-title:focus")
    assert page.title() == "clocs: the model"
    page.go_back()
    page.wait_for_selector("#opening-title:focus")
    assert page.title() == first


def test_the_viewer_is_made_of_files_that_can_be_read_and_nothing_inline() -> None:
    html = (VIEWER / "index.html").read_text()
    assert not re.search(r"<style|style=|\son\w+=|<script>|https?://(?!127\.0\.0\.1)", html)
    for script in VIEWER.glob("*.js"):
        text = script.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function|document\.write", text)
        assert len(text.splitlines()) < 330
        assert all(len(line) <= 120 for line in text.splitlines())
