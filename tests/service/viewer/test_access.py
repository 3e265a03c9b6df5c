"""The viewer's token dialog and error messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.service.viewer.conftest import Visit

NASTY = "<img src=x onerror='document.title = 1'><script>document.title = 2</script>"


def test_a_token_in_the_address_is_taken_out_of_it(visit: Visit) -> None:
    page = visit.enter()
    page.wait_for_selector("#foot-version:has-text('clocs')")
    assert visit.service.token not in page.url
    assert page.evaluate("sessionStorage.getItem('clocs-token')") == visit.service.token
    assert page.evaluate("localStorage.length") == 0
    assert page.evaluate("document.cookie") == ""
    assert page.is_hidden("#token-dialog")


def test_a_wrong_token_is_refused_and_the_right_one_accepted(visit: Visit) -> None:
    visit.watch.expected.add(401)
    page = visit.page
    page.goto(visit.service.address)
    page.wait_for_selector("#token-dialog[open]")
    assert page.inner_text("#token-refused") == ""
    page.keyboard.type("not-the-token")  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_selector("#token-refused:has-text('rejected this token')")
    page.keyboard.press("Escape")
    page.wait_for_selector("#token-dialog[open]")
    page.fill("#token-input", f"{visit.service.address}/#token={visit.service.token}")  # all that was printed
    page.click("#token-form button")
    page.wait_for_selector("#foot-version:has-text('clocs')")
    assert page.is_hidden("#token-dialog")
    page.click("#open-example")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")


def test_escape_does_not_lead_past_the_token(visit: Visit) -> None:
    """Chromium closes a dialog at the second Escape, whatever the page says."""
    visit.watch.expected.add(401)
    page = visit.page
    page.goto(visit.service.address)
    page.wait_for_selector("#token-dialog[open]")
    for _ in range(3):
        page.keyboard.press("Escape")
        page.wait_for_selector("#token-dialog[open]")
    page.keyboard.type(visit.service.token)
    page.keyboard.press("Enter")
    page.wait_for_selector("#foot-version:has-text('clocs')")


def test_a_token_may_contain_any_character(visit: Visit) -> None:
    """The last has one that no header can carry."""
    visit.watch.expected.add(401)
    page = visit.page
    for token in ("a+b/c==", "50%+more&x=1", "cut-off…"):
        page.goto("about:blank")  # else the same page would stay, and its refusal
        page.goto(f"{visit.service.address}/#token={token}")
        page.wait_for_selector("#token-refused:has-text('rejected this token')")
        assert page.evaluate("sessionStorage.getItem('clocs-token')") == token


def test_an_address_with_another_token_is_taken_by_an_open_page(visit: Visit) -> None:
    visit.watch.expected.add(401)
    page = visit.page
    page.goto(f"{visit.service.address}/#token=old")
    page.wait_for_selector("#token-refused:has-text('rejected this token')")
    page.goto(visit.service.entrance)
    page.wait_for_selector("#foot-version:has-text('clocs')")
    assert visit.service.token not in page.url


KEEP_WAITING = """() => {
    window.waiting = "";
    new MutationObserver(() => {
        window.waiting += document.querySelector("#classes .waiting")?.textContent ?? "";
    }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Script that keeps messages that are shown for a second only."""


def test_a_busy_service_is_waited_for_in_sight(visit: Visit) -> None:
    visit.watch.expected.add(503)
    page = visit.enter()
    refused: list[str] = []

    def busy(route: Route) -> None:
        if len(refused) >= 1:
            route.continue_()
            return
        refused.append(route.request.url)
        body = json.dumps({"title": "The service is busy", "status": 503, "detail": "Full."})
        headers = {"Retry-After": "1", "Content-Type": "application/problem+json"}
        route.fulfill(status=503, headers=headers, body=body)

    page.route("**/api/v1/classify*", busy)
    page.evaluate(KEEP_WAITING)
    page.click("#open-example")
    page.wait_for_selector("#classes .class-row")
    assert "Trying again in 1 s" in page.evaluate("waiting")
    assert len(refused) == 1


def refuse(page: Page, pattern: str, status: int, kind: str, detail: str) -> list[str]:
    """Have a question refused; the list grows by one each time it is asked."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        body = json.dumps({"type": f"/problems/{kind}", "title": "No", "status": status, "detail": detail})
        route.fulfill(status=status, headers={"Content-Type": "application/problem+json"}, body=body)

    page.route(pattern, answer)
    return asked


@pytest.mark.parametrize("kind", ["archive-unavailable", pytest.param("audit-log-unavailable", marks=pytest.mark.slow)])
def test_persistent_errors_are_not_shown_as_busy(visit: Visit, kind: str) -> None:
    visit.watch.expected.add(503)
    page = visit.enter()
    asked = refuse(page, "**/api/v1/similar*", 503, kind, "Gone.")
    visit.open()
    said = page.inner_text("#neighbours")
    assert "busy" not in said
    assert "Tell the operator of the service" in said
    assert len(asked) == 1


def test_advice_fits_the_question(visit: Visit) -> None:
    visit.watch.expected |= {404, 422, 502}
    page = visit.open()
    page.route("**/api/v1/figure*", lambda route: route.fulfill(status=502, body="<html>Bad Gateway</html>"))
    page.click("#save-pdf")
    page.wait_for_selector("#save-message .trouble:has-text('tell the operator of the service')")
    refuse(page, "**/api/v1/figure*", 422, "wrong-option", "seconds: too many")
    page.click("#save-pdf")
    page.wait_for_selector("#save-message .trouble")
    assert "filters" not in page.inner_text("#save-message")
    refuse(page, "**/api/v1/neighbours/*/preview", 404, "unknown-handle", "Search again.")
    page.click(".neighbour:first-child button")
    page.wait_for_selector("#comparison .trouble:has-text('restarted')")
    assert "can add it" not in page.inner_text("#comparison")
    page.click("#comparison button")
    refuse(page, "**/api/v1/similar*", 422, "wrong-option", "no such label")
    page.select_option("#filters [name=sex]", "female")
    page.wait_for_selector("#neighbours .trouble:has-text('Choose other filters.')")


def test_a_stopped_service_is_reported(visit: Visit) -> None:
    page = visit.enter()
    page.wait_for_selector("#foot-version:has-text('clocs')")
    page.route("**/api/v1/preview", lambda route: route.abort())
    visit.watch.expected.add(0)
    page.click("#open-example")
    page.wait_for_selector("#opening-message .trouble:has-text('The service does not respond')")
    visit.watch.errors.clear()  # Chromium writes the broken connection to the console


def test_a_file_that_is_too_large_is_not_even_read(visit: Visit) -> None:
    page = visit.enter()
    page.wait_for_selector("#foot-version:has-text('clocs')")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    page.evaluate("""() => {
        const carried = new DataTransfer();
        carried.items.add(new File([new ArrayBuffer(65 * 2 ** 20)], "large.dcm"));
        File.prototype.arrayBuffer = () => { throw new Error("read in vain"); };
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
    }""")
    page.wait_for_selector("#opening-message .trouble:has-text('65 MB; this service accepts up to 64 MB')")
    assert sent == []


def poison(page: Page, pattern: str, change: dict[str, Any]) -> None:
    """Let the service answer, then put other values into its answer."""

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | change)

    page.route(pattern, answer)


def test_a_service_without_patients_is_not_asked_for_them(visit: Visit) -> None:
    page = visit.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    poison(page, "**/api/v1/model", {"index": None})
    visit.open()
    assert "no patients to compare with" in page.inner_text("#neighbours")
    assert page.is_hidden("#map-side")
    assert not any(url.split("?")[0].endswith(("/api/v1/similar", "/api/v1/map")) for url in asked)


def test_markup_in_an_answer_stays_text(visit: Visit) -> None:
    """The service cleans what it says; the viewer does not rely on it."""
    page = visit.page
    poison(page, "**/api/v1/preview", {"notes": [NASTY], "format": NASTY, "sex": NASTY})
    poison(page, "**/api/v1/classify*", {"notes": [NASTY], "limitations": [NASTY]})
    poison(page, "**/api/v1/similar*", {"notes": [NASTY]})
    poison(page, "**/api/v1/model", {"card": f"# {NASTY}\n\n{NASTY}\n\n| a |\n|---|\n| {NASTY} |\n\n[x](javascript:1)"})
    visit.open()
    page.wait_for_selector("#neighbours .notes")
    for place in ("#recording-notes", "#recording-facts", "#recording-title", "#classes", "#neighbours", "#model"):
        assert NASTY in (page.text_content(place) or "")
    assert page.locator("main img, main script, main a[href^=javascript]").count() == 0
    assert page.title().startswith("clocs")
