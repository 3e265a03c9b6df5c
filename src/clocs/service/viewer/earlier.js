/** The other ECGs of the patient whose ECG is open: when, what was measured, and how it went on. */

import { drawing, element } from "./dom.js";
import { measured, shownMeasurements } from "./recordings-page.js";
import { count, dateTime, interval } from "./wording.js";

const UPLOADED =
    "This ECG was opened from a file. A file's patient is not known here, so no earlier ECGs can be shown. " +
    "Open an ECG from the page Recordings to see those of the same patient.";
const NOBODY = "The store does not say whose ECG this is, so no earlier ECGs can be shown.";
const ALONE = "The store has no other ECG of this patient.";
const WIDTH = 220;
const HEIGHT = 64;
const INSET = 7;

/** The least range of a trend's height, by measurement: less is how beats and electrodes vary from day to day. */
const LEAST_RANGE = { heart_rate: 30, pr_interval: 60, qrs_duration: 40, qtc_fridericia: 60, qrs_axis: 60 };

export function sayUnknownPatient(place) {
    place.replaceChildren(element("p", { class: "lead-text" }, UPLOADED));
}

/** `own` is the row of the open ECG; `compare(row)` opens another beside it. */
export function showEarlier(place, { recordings, measurements }, own, compare) {
    if (recordings.length < 2) {
        place.replaceChildren(element("p", { class: "lead-text" }, own.known_patient ? ALONE : NOBODY));
        return;
    }
    const columns = shownMeasurements(measurements);
    const mark = (row) => row.handle === own.handle;
    const listed = recordings.length < own.recordings ? `The newest ${recordings.length} of ` : "";
    place.replaceChildren(
        element("p", { class: "lead-text" }, `${listed}${count(own.recordings, "ECG")} of this patient.`),
        element(
            "ul",
            { class: "trends", "aria-label": "Trend of the measurements" },
            columns.map((column) => trend(column, recordings, mark)),
        ),
        table(recordings, columns, own, mark, compare),
    );
}

function table(recordings, columns, own, mark, compare) {
    const head = ["Recorded", "From this ECG", ...columns.map(({ title, unit }) => `${title}, ${unit}`), ""];
    return element(
        "table",
        { class: "recordings" },
        element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
        element(
            "tbody",
            {},
            recordings.map((row) => {
                const when = row.acquired ? dateTime(row.acquired) : "time unknown";
                const apart = mark(row) ? "this ECG" : apartFrom(row, own);
                return element(
                    "tr",
                    { class: mark(row) && "is-open" },
                    element("th", { scope: "row" }, when),
                    element("td", { class: "recording-apart", "data-name": "From this ECG" }, apart),
                    columns.map(({ name, title, unit }) =>
                        element("td", { "data-name": `${title}, ${unit}` }, measured(row.measurements[name])),
                    ),
                    element(
                        "td",
                        {},
                        !mark(row) &&
                            element(
                                "button",
                                {
                                    type: "button",
                                    "aria-label": `Compare with the ECG of ${when}`,
                                    click: () => compare(row),
                                },
                                "Compare",
                            ),
                    ),
                );
            }),
        ),
    );
}

/** "412 days earlier"; empty where a time is unknown. */
export const apartFrom = (row, own) => (row.acquired && own.acquired ? interval(row.acquired, own.acquired) : "");

/** A curve over time, true to the intervals; ECGs without a time or a value are left out. */
function trend({ name, title, unit }, recordings, mark) {
    const points = recordings
        .filter((row) => row.acquired && Number.isFinite(row.measurements[name]))
        .map((row) => ({ at: Date.parse(`${row.acquired}Z`), value: row.measurements[name], own: mark(row) }))
        .reverse();
    const text = points.map(({ value }) => measured(value)).join(", ");
    const head = element("p", {}, element("strong", {}, title), ` ${unit}`);
    if (points.length < 2) return element("li", {}, head, element("p", { class: "quiet-text" }, "too few values"));
    const scale = (values, low, high, range) => {
        const [least, most] = [Math.min(...values), Math.max(...values)];
        const [middle, whole] = [(least + most) / 2, Math.max(most - least, range)];
        return (value) => (low + high) / 2 + ((value - middle) / whole) * (high - low);
    };
    const x = scale(points.map(({ at }) => at), INSET, WIDTH - INSET, 1);
    const y = scale(points.map(({ value }) => value), HEIGHT - INSET, INSET, LEAST_RANGE[name]);
    return element(
        "li",
        {},
        head,
        drawing(
            "svg",
            {
                class: "trend",
                viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
                role: "img",
                "aria-label": `${title}, oldest first: ${text} ${unit}`,
            },
            drawing("polyline", { points: points.map(({ at, value }) => `${x(at)},${y(value)}`).join(" ") }),
            points.map(({ at, value, own }) =>
                drawing("circle", { cx: x(at), cy: y(value), r: own ? 5 : 3.5, class: own ? "is-open" : false }),
            ),
        ),
        element(
            "p",
            { class: "trend-ends" },
            [points[0], points.at(-1)].map(({ value }) => element("span", {}, measured(value))),
        ),
    );
}
