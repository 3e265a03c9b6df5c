"""Pictures of every page of the viewer for docs/reference/viewer.md: ``python -m tests.service.viewer.screenshots``.

Both widths, both themes, with the made-up example and the demonstration, so that nobody's ECG is in them.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

IMAGES = Path(__file__).parents[3] / "docs" / "images"
COLOURS = 256
"""Size of a picture's palette, which halves the file without a visible difference."""
WIDTHS = {1280: 860, 390: 844}
THEMES = ("light", "dark")


def _open(page: Page) -> None:
    page.click("#open-example")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    page.wait_for_selector("#classes:not(:has([aria-busy=true])) .class-row")
    page.wait_for_selector("#map .map-key")
    page.mouse.move(0, 0)


def _opening(page: Page) -> bytes:
    return page.screenshot()


def _paper(page: Page) -> bytes:
    _open(page)
    page.wait_for_timeout(300)
    return page.screenshot()


def _calipers(page: Page) -> bytes:
    _open(page)
    page.click("button:has-text('Calipers')")
    page.click("button:has-text('Repeat')")
    page.wait_for_timeout(300)
    return page.locator(".paper-panel").screenshot()


def _classes(page: Page) -> bytes:
    _open(page)
    return page.locator("section[aria-labelledby=classes-title]").screenshot()


def _patients(page: Page) -> bytes:
    _open(page)
    page.select_option("#filters [name=k]", "5")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    page.focus(".neighbour:nth-child(2) button")
    page.wait_for_timeout(300)
    return page.locator("section[aria-labelledby=neighbours-title]").screenshot()


def _comparison(page: Page) -> bytes:
    _open(page)
    page.click(".neighbour:nth-child(4) button")
    page.wait_for_selector("#comparison[open] canvas")
    page.wait_for_timeout(300)
    return page.screenshot()


def _beats(page: Page) -> bytes:
    _open(page)
    page.click(".neighbour:nth-child(4) button")
    page.check("#comparison input[value=beats]", force=True)
    page.check("#comparison input[value=all]", force=True)
    page.wait_for_timeout(300)
    return page.screenshot()


def _model(page: Page) -> bytes:
    page.click("nav >> text=Model")
    page.wait_for_selector("#model .diagram")
    wide = page.viewport_size
    assert wide is not None
    page.set_viewport_size({"width": wide["width"], "height": 1180 if wide["width"] > 600 else 1400})
    return page.screenshot()


def _trouble(page: Page) -> bytes:
    page.set_input_files(
        "#file-input", {"name": "letter.txt", "mimeType": "text/plain", "buffer": b"Dear colleague,\n"}
    )
    page.wait_for_selector("#opening-message .trouble")
    page.locator("#opening-message").scroll_into_view_if_needed()
    return page.screenshot()


def _token(page: Page) -> bytes:
    page.evaluate("sessionStorage.clear()")
    page.reload()
    page.fill("#token-input", "a wrong one")
    page.click("#token-form button")
    page.wait_for_selector("#token-refused:has-text('rejected')")
    return page.screenshot()


PAGES: dict[str, Callable[[Page], bytes]] = {
    "opening": _opening,
    "paper": _paper,
    "calipers": _calipers,
    "classes": _classes,
    "patients": _patients,
    "comparison": _comparison,
    "beats": _beats,
    "model": _model,
    "trouble": _trouble,
    "token": _token,
}


def save(picture: bytes, path: Path) -> None:
    """With a palette, and without anything but the pixels."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE).save(path, optimize=True)


def photograph(browser: Browser, entrance: str, names: list[str]) -> None:
    """Every page that is asked for, at both widths and in both themes."""
    for width, height in WIDTHS.items():
        for theme in THEMES:
            for name in names:
                viewport = {"width": width, "height": height}
                context = browser.new_context(viewport=viewport, color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(entrance)
                page.wait_for_selector("#foot-version:has-text('clocs')")
                save(PAGES[name](page), IMAGES / f"viewer-{name}-{width}-{theme}.png")
                context.close()


def main() -> None:
    """Start the demonstration, take the pictures (all, or those named as arguments), stop it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "clocs", "serve", "--demo", "--port", "0", "--demo-folder", f"{folder}/made"]
        service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert service.stdout is not None
            entrance = service.stdout.readline().strip()
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                photograph(browser, entrance, sys.argv[1:] or list(PAGES))
                browser.close()
        finally:
            service.terminate()
            service.communicate()


if __name__ == "__main__":
    main()
