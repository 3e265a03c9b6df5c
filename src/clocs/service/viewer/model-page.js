/** What the model takes, what it knows, how well its probabilities hold, and its card. */

import { element } from "./dom.js";
import { markdown } from "./markdown.js";
import { reliabilityDiagram } from "./reliability.js";
import { FEW } from "./track-record.js";
import { count, megabytes, percent, seconds } from "./wording.js";

export function showModel(place, model) {
    place.replaceChildren(
        element(
            "section",
            { class: "panel", "aria-label": "Summary" },
            element("h2", {}, model.encoder),
            facts(model),
        ),
        element(
            "section",
            { class: "panel", "aria-labelledby": "known-title" },
            element("h2", { id: "known-title" }, "Classes and reliability of their probabilities"),
            element(
                "p",
                { class: "lead-text" },
                "Each dot is a group of validation patients with similar probabilities; larger dots are larger " +
                    "groups. Horizontal: probability; vertical: observed share, in per cent. Dots on the line are " +
                    `perfectly calibrated. Hollow dots: fewer than ${FEW} patients.`,
            ),
            model.classifiers.map(classifierPart),
        ),
        element("section", { class: "panel card", "aria-label": "Model card" }, markdown(model.card)),
    );
}

function facts(model) {
    const rows = [
        [
            "Input",
            `${seconds(model.seconds)} at ${model.sampling_rate} Hz, one lead at a time: ${model.leads.join(", ")}`,
        ],
        ["Output", `embeddings of ${model.embedding_dim} dimensions`],
        ["Classifiers", model.classifiers.map((one) => one.name).join(", ") || "none"],
        [
            "Searchable patients",
            model.index
                ? `${count(model.index.patients, "patient")}, ${count(model.index.recordings, "recording")}`
                : "none: the service was started without an index",
        ],
        ["Identities", model.shows_ids ? "shown: the service was started with --show-ids" : "not shown"],
        ["Maximum file size", `${megabytes(model.limits.upload_bytes)} MB`],
        ["Use", model.notice],
    ];
    return element(
        "dl",
        { class: "model-facts" },
        rows.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))),
    );
}

function classifierPart({ name, title, multi_label: multiLabel, classes, lead_sets: sets, limitations: cannot }) {
    const judged = multiLabel ? "each judged by itself" : "of which one is assumed to be true";
    return element(
        "div",
        {},
        element("h3", {}, name),
        element(
            "p",
            { class: "lead-text" },
            `${count(classes.length, "class", "classes")}, ${judged}. Trained on: ${title || "not stated"}.`,
        ),
        leadSets(sets),
        element(
            "ul",
            { class: "diagrams" },
            classes.map((item) => classItem({ ...item, reliability: sets[0].reliability[item.name] })),
        ),
        element("h4", {}, "Limitations"),
        element(
            "ul",
            { class: "notes" },
            cannot.map((item) => element("li", {}, item)),
        ),
    );
}

/** The results of each set of leads; the diagrams are those of the first. */
function leadSets(sets) {
    const row = ({ leads, validation_auc: validation, test_auc: test }) =>
        element(
            "tr",
            {},
            [leads.join(", "), auc(validation), auc(test)].map((text) => element("td", {}, text)),
        );
    const head = ["Leads of the recording", "Macro AUC, validation", "Macro AUC, test"];
    return element(
        "div",
        { class: "card" },
        element(
            "table",
            {},
            element("thead", {}, element("tr", {}, head.map((text) => element("th", { scope: "col" }, text)))),
            element("tbody", {}, sets.map(row)),
        ),
        element("p", { class: "quiet-text" }, `Diagrams: recordings with ${sets[0].leads.join(", ")}.`),
    );
}

const auc = (value) => (value === null ? "not known" : value.toFixed(3));

function classItem(item) {
    return element(
        "li",
        {},
        reliabilityDiagram(item),
        element("p", {}, element("strong", {}, item.name), ` ${item.meaning}`),
        element("p", { class: "quiet-text" }, `${percent(item.prevalence)} of training patients`),
    );
}
