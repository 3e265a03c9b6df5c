/** Heart rate, intervals and axes, with their normal ranges, and the median beat with the marks of its waves. */

import { drawing, element } from "./dom.js";
import { capitalized, sentence } from "./wording.js";

const WIDTH = 520; // units of the drawing
const HEIGHT = 210;
const EDGE = 26; // above and below the beat, for the names of the waves
const UNITS = { "/min": " /min", ms: " ms", "%": " %", degrees: "°" };
const LABELS = { p_onset: "P", qrs_onset: "QRS", t_offset: "T end" };
const NONE_HERE = "Normal ranges are for adults of known age.";
const QUIET = "quiet-text";

export function showMeasurements(place, { values, regular, num_beats: beats, paced, beat }) {
    const hasStated = values.some(({ stated }) => stated !== null);
    const judged = values.some(({ low, high }) => low !== null || high !== null);
    place.replaceChildren(
        ...[
            paced && element("p", { class: "finding" }, element("strong", {}, "Paced.")),
            element("p", { class: "lead-text" }, rhythm(regular, beats)),
            element(
                "div",
                { class: "measured" },
                table(values, hasStated),
                beat && element("figure", { class: "median-beat" }, picture(beat), caption(beat)),
            ),
            element("p", { class: `${QUIET} sources` }, judged ? sources(values) : NONE_HERE),
        ].filter(Boolean),
    );
}

/** For a screen reader: what was measured. */
export const spokenMeasurements = ({ values }) =>
    values
        .filter(({ value }) => value !== null)
        .map(({ title, value, unit }) => `${title} ${Math.round(value)} ${unit}`)
        .join(", ") || "nothing could be measured";

function rhythm(regular, beats) {
    if (regular === null) return "No heartbeats were measured.";
    return `${beats} beats, ${regular ? "regular" : "irregular"}. The spread is the standard deviation over beats.`;
}

/** Values with their spread and normal range; beside them what the file states, if it states anything. */
function table(values, hasStated) {
    const names = ["", "Value", "Spread", ...(hasStated ? ["In the file"] : []), "Normal"];
    const titles = names.map((title) => element("th", { scope: "col" }, title));
    return element(
        "table",
        { class: "measurements" },
        element("thead", {}, element("tr", {}, titles)),
        element("tbody", {}, values.map((value) => row(value, hasStated))),
    );
}

function row({ title, unit, value, beat_spread: spread, reason, stated, low, high, position }, hasStated) {
    const name = element("th", { scope: "row" }, capitalized(title));
    const inFile = hasStated && element("td", {}, stated === null ? "" : `${Math.round(stated)}${UNITS[unit]}`);
    if (value === null) {
        const span = hasStated ? "2" : "3";
        const why = element("td", { colspan: span, class: QUIET }, sentence(reason));
        return element("tr", {}, name, why, inFile, hasStated && element("td"));
    }
    const outside = position === "below" || position === "above";
    return element(
        "tr",
        { class: outside ? "outside" : "" },
        name,
        element("td", {}, `${Math.round(value)}${UNITS[unit]}`, outside && element("strong", {}, ` ${position}`)),
        element("td", {}, spread === null ? "" : `± ${Math.round(spread)}`),
        inFile,
        element("td", {}, range(low, high)),
    );
}

function range(low, high) {
    if (low !== null && high !== null) return `${low} to ${high}`;
    return high === null ? "" : `up to ${high}`;
}

function sources(values) {
    const named = new Set(values.flatMap(({ source }) => source.split("; ")).filter(Boolean));
    return `Normal ranges of adults: ${[...named].join("; ")}.`;
}

/** All leads over each other, in one scale, with a line at each mark. */
function picture({ sampling_rate: rate, samples, marks }) {
    const leads = Object.values(samples);
    const all = leads.flat();
    const [low, high] = all.reduce(([least, most], one) => [Math.min(least, one), Math.max(most, one)], [0, 0]);
    const x = (sample) => (sample / (leads[0].length - 1)) * WIDTH;
    const y = (value) => EDGE + ((high - value) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
    const path = (values) =>
        values.map((value, at) => `${at ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
    return drawing(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": spokenMarks(marks, rate) },
        leads.map((values) => drawing("path", { class: "beat-trace", d: path(values) })),
        Object.entries(marks).flatMap(([name, at]) => [
            drawing("line", { class: "beat-mark", x1: x(at), x2: x(at), y1: EDGE / 2 + 6, y2: HEIGHT - EDGE / 2 }),
            LABELS[name] && drawing("text", { class: "beat-label", x: x(at) + 2, y: EDGE / 2 + 2 }, LABELS[name]),
        ]),
    );
}

const spokenMarks = (marks, rate) =>
    `Median beat with ${Object.entries(marks)
        .map(([name, at]) => `${name.replace("_", " ")} at ${Math.round((1000 * at) / rate)} ms`)
        .join(", ")}`;

const caption = ({ samples }) =>
    element(
        "figcaption",
        { class: QUIET },
        `Median beat, all ${Object.keys(samples).length} leads over each other, with the marks that were measured.`,
    );
