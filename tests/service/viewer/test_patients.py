"""Class probabilities, neighbours, comparison and map."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Response, Route

from clocs.datasets.synthetic import MEANINGS
from tests.service.viewer.conftest import PHONE, RECORDS, Visit


def test_classes_of_two_classifiers_come_with_their_track_record(visit: Visit) -> None:
    page = visit.page
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/classify?" in answer.url else None)
    visit.open()
    made = {found["classifier"]: found for found in (answer.json() for answer in answers)}
    columns = page.locator(".class-column")
    assert columns.count() == len(made) == 2
    for column in columns.all():
        found = made[column.locator(".classifier select").input_value()]
        rows = column.locator(".class-row")
        assert rows.count() == len(found["classes"])
        for row, item in zip(rows.all(), found["classes"], strict=True):
            text = row.inner_text()
            assert text.startswith(item["name"])
            assert item["track_record"][1:] in text.replace(" %", "%")
            width = row.locator(".bar-probability").evaluate("node => node.style.width")
            assert float(width.removesuffix("%")) == pytest.approx(100 * item["probability"], abs=0.01)
        assert found["limitations"] == column.locator(".cannot li").all_inner_texts()
        assert f"Leads used: {', '.join(found['leads'])}." in column.inner_text()


def test_another_classifier_is_asked_when_it_is_chosen(visit: Visit) -> None:
    page = visit.page
    with page.expect_response("**/api/v1/model") as answered:
        visit.open()
    *suitable, single = answered.value.json()["classifiers"]
    choices = page.locator(".classifier select")
    assert [choice.input_value() for choice in choices.all()] == [item["name"] for item in suitable[:2]]
    shown = choices.first.locator("option").all_inner_texts()
    assert [text.partition(":")[0] for text in shown] == [item["name"] for item in suitable]
    assert [item["leads"] for item in single["lead_sets"]] == [["ECG"]], "not offered: the recording has no such lead"
    second = page.locator(".class-column").last
    for other in suitable:
        with page.expect_response(f"**/api/v1/classify?classifier={other['name']}"):
            choices.last.focus()
            choices.last.select_option(other["name"])
        second.locator(".class-row").first.wait_for()
        assert page.evaluate("document.activeElement.value") == other["name"], "the focus stays on the choice"
        names = second.locator(".class-name strong").all_inner_texts()
        assert set(names) == {item["name"] for item in other["classes"]}
        assert choices.first.input_value() == suitable[0]["name"], "the other column stays"


def test_filters_narrow_the_neighbours(visit: Visit) -> None:
    page = visit.open()
    with page.expect_response("**/api/v1/similar?*") as answered:
        page.select_option("#filters [name=sex]", "female")
    assert "sex=female" in answered.value.url
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    assert all("female" in text for text in page.locator(".neighbour-about").all_inner_texts())
    held: list[Route] = []
    page.route("**/api/v1/similar?*", lambda route: held.append(route))
    with page.expect_request("**/api/v1/similar?*"):
        page.select_option("#filters [name=sex]", "male")
    with page.expect_event("requestfailed"), page.expect_request("**/api/v1/similar?*"):
        page.select_option("#filters [name=sex]", "")
    page.evaluate("drawn()")
    assert page.get_attribute("#neighbours", "aria-busy") == "true", "the first question ended, the second has not"
    held[1].continue_()
    page.unroute("**/api/v1/similar?*")
    page.wait_for_selector("#neighbours[aria-busy=false] .neighbour")
    page.fill("#filters [name=age_from]", "129")
    page.press("#filters [name=age_from]", "Tab")
    page.wait_for_selector("#neighbours[aria-busy=false]:has-text('No patient of the index matches')")


def test_hidden_patients_are_said_to_be_hidden(visit: Visit) -> None:
    page, note = visit.page, "All patients are hidden: their distance is over 0.500, so they are not similar."

    def hide(route: Route) -> None:
        response = route.fetch()
        found = response.json() | {"neighbours": [], "num_hidden": 10, "notes": [note]}
        route.fulfill(response=response, json=found)

    page.route("**/api/v1/similar*", hide)
    shown = visit.open().inner_text("#neighbours")
    assert "No patient of the index is similar to this ECG." in shown
    assert note in shown


def test_no_handle_and_no_id_is_shown(visit: Visit) -> None:
    page = visit.page
    with page.expect_response("**/api/v1/similar*") as answered:
        visit.open()
    handles = [item["handle"] for item in answered.value.json()["neighbours"]]
    assert len(set(handles)) == 10
    assert not any(handle in page.content() for handle in handles)


def compare(page: Page) -> None:
    page.focus(".neighbour:first-child button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#comparison[open] canvas")


def test_a_neighbour_is_compared_by_keys_in_three_ways(visit: Visit) -> None:
    page = visit.open()
    compare(page)
    assert page.locator("#comparison canvas").count() == 2
    assert "aligned at a QRS complex" in page.inner_text("#comparison")
    assert "25 mm/s · 10 mm/mV · 500 Hz" in page.inner_text("#comparison")
    page.evaluate("drawn()")
    sides = [canvas.evaluate("node => node.toDataURL()") for canvas in page.locator("#comparison canvas").all()]
    assert sides[0] != sides[1]
    for view in ("over", "beats"):
        page.check(f"#comparison input[value={view}]", force=True)
        assert page.locator("#comparison canvas").count() == 1
    page.check("#comparison input[value=all]", force=True)
    page.keyboard.press("Escape")
    assert page.is_hidden("#comparison")
    assert page.evaluate("document.activeElement.textContent") == "Compare"


def test_labels_are_the_patients_in_the_list_and_the_recordings_in_a_comparison(visit: Visit) -> None:
    page = visit.page

    def relabel(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"labels": ["PVC"]})

    page.route("**/api/v1/neighbours/*/preview", relabel)
    visit.open()
    assert "labels of all 2 recordings" in page.inner_text(".neighbour:first-child .neighbour-about")
    assert page.inner_text(".map-by option:first-child") == "first label"
    compare(page)
    assert page.inner_text("#comparison .is-other").startswith("Neighbour 1PVC · ")


def test_papers_side_by_side_move_together_and_the_difference_can_be_left_out(visit: Visit) -> None:
    page = visit.open()
    compare(page)
    left, right = page.locator("#comparison canvas").all()
    page.evaluate("drawn()")
    shaded = right.evaluate("node => node.toDataURL()")
    page.uncheck("#comparison input[type=checkbox]")
    page.evaluate("drawn()")
    left, right = page.locator("#comparison canvas").all()
    plain = right.evaluate("node => node.toDataURL()")
    assert plain != shaded
    left.focus()
    page.keyboard.press("ArrowRight")
    page.evaluate("drawn()")
    assert right.evaluate("node => node.toDataURL()") != plain


def test_amplitudes_in_raw_steps_are_not_compared(visit: Visit) -> None:
    page = visit.page

    def in_steps(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=response.json() | {"unit": "adu", "sampling_rate": 400})

    page.route("**/api/v1/neighbours/*/preview", in_steps)
    visit.open()
    compare(page)
    for view, speed in (("beside", 25), ("over", 25), ("beats", 50)):
        page.check(f"#comparison input[value={view}]", force=True)
        said = page.inner_text("#comparison")
        assert f"{speed} mm/s · raw units: amplitude not to scale · 500 and 400 Hz" in said
        assert "Amplitudes in raw units instead of mV are not comparable" in said
        assert "mV" not in said.replace("Amplitudes in raw units instead of mV", "")
        assert page.is_hidden("#comparison input[type=checkbox]")


@pytest.mark.parametrize("visit", [PHONE], indirect=True, ids=["390"])
def test_a_tap_on_the_map_names_the_patient(visit: Visit) -> None:
    """Also when it takes the focus from a row, which then points at nobody."""
    page = visit.page
    page.add_init_script("""
        const { fillText } = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            if (text === "1" && this.canvas.closest("#map")) window.first = { x, y };
            fillText.call(this, text, x, y);
        };
    """)
    visit.open()
    page.wait_for_selector("#map .map-key")
    page.focus(".neighbour:nth-child(4) button")
    page.tap("#map canvas", position=page.evaluate("window.first"))
    assert page.inner_text(".map-facts").startswith("Neighbour 1 · ")
    assert page.locator(".neighbour.pointed .neighbour-rank").inner_text() == "1"
    page.tap("#map canvas", position={"x": 10, "y": 10})
    assert "tap" in page.inner_text(".map-facts")
    assert page.locator(".neighbour.pointed").count() == 0


def test_the_map_is_walked_by_keys_and_points_at_rows(visit: Visit) -> None:
    page = visit.open()
    page.wait_for_selector("#map .map-key")
    page.mouse.move(0, 0)
    page.focus("#map canvas")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".map-facts").startswith("Neighbour 1 · ")
    assert page.locator(".neighbour.pointed .neighbour-rank").inner_text() == "1"
    page.keyboard.press("ArrowRight")
    assert page.locator(".neighbour.pointed .neighbour-rank").inner_text() == "2"
    page.focus(".neighbour:nth-child(4) button")
    assert page.inner_text(".map-facts").startswith("Neighbour 4 · ")


def test_the_map_is_coloured_and_groups_can_be_left_out(visit: Visit) -> None:
    page = visit.open()
    page.wait_for_selector("#map .map-key")
    picture = "() => document.querySelector('#map canvas').toDataURL()"
    page.evaluate("drawn()")
    drawn = [page.evaluate(picture)]
    keys = page.locator(".map-key").all_inner_texts()
    assert len(keys) > 3
    assert {key.split()[0] for key in keys} <= {*MEANINGS, "other"}
    assert sum(int(key.split()[1]) for key in keys) == RECORDS / 2
    page.click(".map-key >> nth=0")
    assert page.get_attribute(".map-key >> nth=0", "aria-pressed") == "false"
    page.evaluate("drawn()")
    drawn.append(page.evaluate(picture))
    page.select_option(".map-by select", "age")
    page.evaluate("drawn()")
    drawn.append(page.evaluate(picture))
    assert len(set(drawn)) == 3
    assert "40 to 59" in page.inner_text(".map-legend")


def test_the_model_page_has_its_card_and_a_diagram_a_class(visit: Visit) -> None:
    page = visit.page
    with page.expect_response("**/api/v1/model") as answered:
        visit.enter()
    model = answered.value.json()
    page.click("nav >> text=Model")
    page.wait_for_selector("#model .diagram")
    many = sum(len(classifier["classes"]) for classifier in model["classifiers"])
    assert page.locator("#model .diagram").count() == many > 0
    assert page.locator("#model table").count() >= 3
    assert "Privacy audit" in page.inner_text("#model")
    assert page.locator("nav [aria-current]").inner_text() == "Model"
    page.go_back()
    assert page.is_visible("#drop-zone")
