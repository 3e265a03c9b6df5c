/** The patients nearest to the query: who may be among them, and a row for each. */

import { element } from "./dom.js";
import { notes } from "./messages.js";
import { count, person } from "./wording.js";

const SEXES = [
    ["", "any"],
    ["female", "female"],
    ["male", "male"],
];
const HOW_MANY = [5, 10, 20, 50];

/** The form of filters; `changed()` is called when another is chosen. */
export function buildFilters(form, { labels, sites }, changed) {
    const pick = (name, text, options) =>
        element(
            "label",
            {},
            text,
            element(
                "select",
                { name },
                options.map(([value, shown]) => element("option", { value }, shown)),
            ),
        );
    const years = (name, text) =>
        element(
            "label",
            {},
            text,
            element("input", { name, type: "number", min: 0, max: 130, step: 1, inputmode: "numeric" }),
        );
    const any = (values) => [["", "any"], ...values.map((value) => [value, value])];
    form.replaceChildren(
        ...[
            pick("label", "Label", any(labels)),
            pick("sex", "Sex", SEXES),
            years("age_from", "Age from"),
            years("age_to", "to"),
            sites.length > 1 ? pick("site", "Site", any(sites)) : null,
            pick(
                "k",
                "Show",
                HOW_MANY.map((many) => [many, `${many}`]),
            ),
        ].filter(Boolean),
    );
    form.elements.k.value = "10";
    form.onsubmit = (event) => event.preventDefault();
    form.onchange = changed;
}

/** What the form shows, as the service takes it. */
export const chosen = (form) => Object.fromEntries(new FormData(form));

/** A row for each neighbour. `open(neighbour, number)` compares; `point(index or null)` when one is pointed at. */
export function showNeighbours(place, found, { open, point }) {
    const rows = found.neighbours.map((neighbour, index) => row(neighbour, index, open, point));
    const text = found.num_hidden
        ? "No patient of the index is similar to this ECG."
        : "No patient of the index matches these filters.";
    const none = element("p", { class: "lead-text" }, text);
    const list = rows.length ? element("ol", { class: "neighbours" }, rows) : none;
    place.replaceChildren(...[list, notes(found.notes, "Notes on the search")].filter(Boolean));
}

/** Mark the row of the neighbour that the map points at. */
export function markRow(place, index) {
    place.querySelectorAll(".neighbour").forEach((node, at) => node.classList.toggle("pointed", at === index));
}

function row(neighbour, index, open, point) {
    const { similarity, labels, age, sex, site, recordings, why } = neighbour;
    const many = recordings > 1 ? `labels of all ${count(recordings, "recording")}` : "";
    const about = [person(age, sex), site, many].filter(Boolean).join(" · ");
    return element(
        "li",
        {
            class: "neighbour",
            mouseenter: () => point(index),
            mouseleave: () => point(null),
            focusin: () => point(index),
            focusout: () => point(null),
        },
        element("span", { class: "neighbour-rank", "aria-hidden": "true" }, `${index + 1}`),
        element(
            "div",
            { class: "neighbour-facts" },
            element(
                "p",
                { class: "neighbour-labels" },
                labels.length
                    ? labels.map((label) => element("span", { class: "chip" }, label))
                    : element("span", { class: "quiet-text" }, "no label"),
            ),
            element("p", { class: "neighbour-about" }, about),
            identifiers(neighbour),
            reasons(why),
        ),
        element(
            "p",
            { class: "neighbour-similarity" },
            element("b", {}, similarity.toFixed(3)),
            element("span", {}, "similarity"),
        ),
        element(
            "button",
            {
                type: "button",
                "aria-label": `Compare with neighbour ${index + 1}, ${labels.join(", ")}`,
                click: () => open(neighbour, index + 1),
            },
            "Compare",
        ),
    );
}

/** Only where the service was started to show them. */
function identifiers({ patient_id: patient, record_id: record }) {
    const known = [patient && `patient ${patient}`, record && `record ${record}`].filter(Boolean);
    return known.length ? element("p", { class: "neighbour-about" }, known.join(" · ")) : null;
}

/** Which leads made the two alike, the most alike first. */
function reasons(why) {
    if (!why?.length) return null;
    return element(
        "ul",
        { class: "reasons", "aria-label": "Alike in" },
        why.map(({ lead, similarity }) => {
            const bar = element("span", { class: "reason-bar", "aria-hidden": "true" });
            bar.style.setProperty("--part", String(Math.max(0, similarity)));
            return element("li", {}, element("span", {}, lead), bar, element("span", {}, similarity.toFixed(2)));
        }),
    );
}
