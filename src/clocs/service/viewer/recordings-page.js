/** The recordings of the service's store: a page of rows, newest first, and ways to turn it. */

import { ask } from "./api.js";
import { announce, byId, choice, element } from "./dom.js";
import { fill } from "./filling.js";
import { capitalized, count, dateTime, percent, person, seconds, sentence } from "./wording.js";

export const SHOWN = ["heart_rate", "pr_interval", "qrs_duration", "qtc_fridericia", "qrs_axis"];
const ORDERS = [
    ["acquired", "by time"],
    ["stored", "as stored"],
];
const SHIFTED =
    "Times are shifted by whole weeks, differently for each patient: only times of one patient can be compared. " +
    "Sorted as stored, the latest comes first.";
const UNMEASURED = "No values yet: open it.";

const listed = { page: 1, order: "acquired" };

/** The page that `listed` names, asked for each time: new recordings come in. `open(row)` opens one. */
export async function listRecordings(open, change = {}) {
    Object.assign(listed, change);
    const place = byId("recordings");
    await fill(
        place,
        "Loading the recordings …",
        (wait) => ask("recordings", { query: listed, waiting: wait }),
        (found) => {
            showRecordings(place, found, {
                order: listed.order,
                open,
                turn: (page) => listRecordings(open, { page }),
                sort: (order) => listRecordings(open, { order, page: 1 }),
            });
            announce(`${count(found.recordings.length, "recording")} of ${found.total} listed`);
        },
        { again: () => listRecordings(open) },
    );
}

/** `turn(page)` and `sort(order)` ask for other rows. */
function showRecordings(place, found, { order, open, turn, sort }) {
    const { recordings, page, pages, total, shifted, measurements } = found;
    const columns = shownMeasurements(measurements);
    place.replaceChildren(
        ...[
            element(
                "div",
                { class: "tools" },
                choice("Newest first", ORDERS, order, sort),
                pager(page, pages, turn),
                element("span", { class: "tool-text" }, count(total, "recording")),
            ),
            shifted && element("p", { class: "lead-text" }, SHIFTED),
            recordings.length
                ? table(recordings, columns, open)
                : element("p", { class: "lead-text" }, "There are no recordings on this page."),
        ].filter(Boolean),
    );
}

/** The measurements of a list or a trend, in their order, as titles of columns. */
export const shownMeasurements = (measurements) =>
    SHOWN.map((name) => measurements.find((one) => one.name === name))
        .filter(Boolean)
        .map((one) => ({ ...one, title: capitalized(one.title) }));

/** "72", or a dash; never a number that was not measured. */
export const measured = (value) => (value === null || value === undefined ? "–" : String(Math.round(value)));

function pager(page, pages, turn) {
    const button = (name, sign, to) =>
        element(
            "button",
            { type: "button", "aria-label": name, disabled: to < 1 || to > pages, click: () => turn(to) },
            sign,
        );
    const where = [page, Math.max(1, pages)].map((number) => number.toLocaleString("en-GB")).join(" of ");
    return element(
        "div",
        { class: "tool-group", role: "group", "aria-label": "Pages of the list" },
        button("Newer", "‹", page - 1),
        element("span", { class: "tool-text" }, `page ${where}`),
        button("Older", "›", page + 1),
    );
}

function table(recordings, columns, open) {
    const head = ["Recorded", "Patient", ...columns.map(({ title, unit }) => `${title}, ${unit}`), "Classes", ""];
    return element(
        "table",
        { class: "recordings" },
        element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, recordings.map((row) => line(row, columns, open))),
    );
}

function line(row, columns, open) {
    const when = row.acquired ? dateTime(row.acquired) : "time unknown";
    const length = `${count(row.leads, "lead")}, ${seconds(row.seconds)}`;
    const many = row.recordings > 1 ? count(row.recordings, "ECG") : "";
    return element(
        "tr",
        {},
        element("th", { scope: "row" }, when, element("small", {}, length)),
        cell("Patient", person(row.age, row.sex) || "–", many && element("small", {}, many)),
        columns.map(({ name, title, unit }) => cell(`${title}, ${unit}`, measured(row.measurements[name]))),
        element("td", { class: "recording-classes", "data-name": "Classes" }, classes(row)),
        element(
            "td",
            {},
            element(
                "button",
                { type: "button", "aria-label": `Open the ECG of ${when}`, click: () => open(row) },
                "Open",
            ),
        ),
    );
}

const cell = (name, ...content) => element("td", { "data-name": name }, ...content);

function classes(row) {
    if (row.gate === null) return element("span", { class: "quiet-text" }, UNMEASURED);
    if (row.withheld) return element("span", {}, element("strong", {}, "Withheld: "), sentence(row.withheld));
    if (row.prediction_set) return sentence(row.prediction_set);
    return row.classes.map(({ name, probability }) => `${name} ${percent(probability)}`).join(", ");
}
