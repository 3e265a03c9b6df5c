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
            { class: "panel", "aria-label": "In short" },
            element("h2", {}, model.encoder),
            facts(model),
        ),
        element(
            "section",
            { class: "panel", "aria-labelledby": "known-title" },
            element("h2", { id: "known-title" }, "What it knows, and how well its probabilities hold"),
            element(
                "p",
                { class: "lead-text" },
                "Each dot stands for the validation patients who were given about the same probability, larger " +
                    "for more of them: to the right the probability, upwards how many had it, in per cent. On the " +
                    `line, probabilities are what they say. Hollow: fewer than ${FEW} patients.`,
            ),
            model.classifiers.map(classifierPart),
        ),
        element("section", { class: "panel card", "aria-label": "Model card" }, markdown(model.card)),
    );
}

function facts(model) {
    const rows = [
        ["Takes", `${seconds(model.seconds)} at ${model.rate} Hz, one lead at a time: ${model.leads.join(", ")}`],
        ["Gives", `${model.embedding_dim} numbers a lead, which place an ECG among others`],
        ["Classifiers", model.classifiers.map((one) => one.name).join(", ") || "none"],
        [
            "Patients to search",
            model.index
                ? `${count(model.index.patients, "patient")}, ${count(model.index.recordings, "recording")}`
                : "none: the service was started without an index",
        ],
        ["Identities", model.shows_ids ? "shown: the service was started to show patient ids" : "not shown"],
        ["Largest file", `${megabytes(model.limits.upload_bytes)} MB`],
        ["Use", model.notice],
    ];
    return element(
        "dl",
        { class: "model-facts" },
        rows.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))),
    );
}

function classifierPart({ name, title, multi_label: multiLabel, classes, limitations: cannot }) {
    const judged = multiLabel ? "each judged by itself" : "of which one is assumed to be true";
    return element(
        "div",
        {},
        element("h3", {}, name),
        element(
            "p",
            { class: "lead-text" },
            `${count(classes.length, "class", "classes")}, ${judged}. Trained on: ${title || "not said"}.`,
        ),
        element("ul", { class: "diagrams" }, classes.map(classItem)),
        element("h4", {}, "What it cannot recognise"),
        element(
            "ul",
            { class: "notes" },
            cannot.map((item) => element("li", {}, item)),
        ),
    );
}

function classItem(item) {
    return element(
        "li",
        {},
        reliabilityDiagram(item),
        element("p", {}, element("strong", {}, item.name), ` ${item.meaning}`),
        element("p", { class: "quiet-text" }, `${percent(item.prevalence)} of training patients`),
    );
}
