"""The service with its demonstration, and Chromium as its browser."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from clocs.service.demo import make_demo
from clocs.training.shipped import DEFAULT_ENCODER

RECORDS = 120
TIMEOUT_MS = 1_800_000
"""Milliseconds that a page may take for one step: only a fault takes so long, however busy the machine is."""
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "device_scale_factor": 2}

INIT = """
window.violations = [];
window.drawn = async () => {  // a change of size is drawn in the frame after the one that notices it
    for (let frame = 0; frame < 3; frame += 1) await new Promise(requestAnimationFrame);
};
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""


@dataclass(frozen=True)
class Service:
    """A service that runs."""

    address: str
    token: str

    @property
    def entrance(self) -> str:
        """The address as the service prints it."""
        return f"{self.address}/#token={self.token}"


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """``clocs serve --demo`` as a process of its own; its patients are made beforehand, since fewer are enough."""
    folder = tmp_path_factory.mktemp("viewer")
    made = folder / "made"
    make_demo(made, DEFAULT_ENCODER, RECORDS)
    command = [sys.executable, "-m", "clocs", "serve", "--demo", "--port", "0", "--demo-folder", str(made)]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        assert line, (folder / "log").read_text()
        address = urlsplit(line)
        yield Service(f"{address.scheme}://{address.netloc}", address.fragment.removeprefix("token="))
    finally:
        process.terminate()
        process.communicate()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Headless; without Chromium's own sandbox, which root has not."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=TIMEOUT_MS)
        yield browser
        browser.close()


@dataclass
class Watch:
    """Record of events that must not happen on any page."""

    address: str
    expected: set[int] = field(default_factory=set)
    """Refusals that a test asks for; Chromium writes every one to the console."""
    errors: list[str] = field(default_factory=list)

    def console(self, message: ConsoleMessage) -> None:
        asked_for = any(f"status of {status} " in message.text for status in self.expected)
        if message.type in ("error", "warning") and not asked_for:
            self.errors.append(f"console: {message.text}")

    def request(self, request: Request) -> None:
        if not request.url.startswith((self.address + "/", "blob:", "data:")):
            self.errors.append(f"asked elsewhere: {request.url}")


@dataclass(frozen=True)
class Visit:
    """A page and who watches it."""

    page: Page
    watch: Watch
    service: Service

    def enter(self) -> Page:
        """The viewer, with the token in its address."""
        self.page.goto(self.service.entrance)
        return self.page

    def open(self, *files: Path) -> Page:
        """The viewer with these files opened, or the example if there are none; everything asked is answered."""
        page = self.page if self.page.url.startswith(self.service.address) else self.enter()
        if files:
            page.set_input_files("#file-input", list(files))
        else:
            page.click("#open-example")
        page.wait_for_selector("#workspace")
        page.wait_for_selector("#classes:not(:has([aria-busy=true])) > *")
        page.wait_for_selector("#neighbours[aria-busy=false] > *")
        return page


@contextmanager
def visiting(service: Service, browser: Browser, **settings: Any) -> Iterator[Visit]:
    """A fresh page, 1280 x 900 unless told otherwise; an error, violation or foreign request fails the test."""
    context: BrowserContext = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
    context.set_default_timeout(TIMEOUT_MS)
    context.add_init_script(INIT)
    watch = Watch(service.address)
    page = context.new_page()
    page.on("console", watch.console)
    page.on("pageerror", lambda error: watch.errors.append(f"uncaught: {error}"))
    page.on("request", watch.request)
    yield Visit(page, watch, service)
    assert page.evaluate("window.violations") == []
    context.close()
    assert watch.errors == []


@pytest.fixture
def visit(service: Service, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Visit]:
    """A fresh page, as ``request.param`` says."""
    with visiting(service, browser, **getattr(request, "param", {})) as made:
        yield made


@pytest.fixture
def samples(tmp_path: Path) -> Callable[..., list[Path]]:
    """Named members of an archive, as files."""

    def unpack(archive: Path, *names: str) -> list[Path]:
        with zipfile.ZipFile(archive) as place:
            for name in names:
                (tmp_path / Path(name).name).write_bytes(place.read(name))
        return [tmp_path / Path(name).name for name in names]

    return unpack
