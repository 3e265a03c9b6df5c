/** Class probabilities, each with how often such a probability was right on validation patients. */

import { element } from "./dom.js";
import { notes } from "./messages.js";
import { FEW, trackRecord } from "./track-record.js";
import { verdictForm } from "./verdict.js";
import { percent, sentence } from "./wording.js";

const MOST_SPOKEN = 3;
const NOTES = "Notes";
const SET_COVERAGE = "For 95 % of the validation patients of each class, their class was among those named here.";

/** `classifiers` are {name, title} to choose from; `choose(name)` is called with another. */
export function showClasses(place, found, { classifiers, chosen, choose }) {
    const choice = classifiers.length > 1 && classifierChoice(classifiers, chosen, choose);
    const head = [choice, ...found.findings.map(finding)];
    if (found.withheld.length) {
        place.replaceChildren(...[...head, withheld(found.withheld), notes(found.notes, NOTES)].filter(Boolean));
        return;
    }
    place.replaceChildren(
        ...[
            ...head,
            element("p", { class: "lead-text" }, `${reading(found.multi_label)} ${used(found.leads)}`),
            predictionSet(found.set_statement),
            legend(),
            element("ul", { class: "classes" }, found.classes.map(classRow)),
            cannot(found.limitations),
            verdictForm(found),
            notes(found.notes, NOTES),
        ].filter(Boolean),
    );
}

/** The classes that cannot be excluded, in words. */
function predictionSet(statement) {
    if (!statement) return null;
    return element(
        "div",
        { class: "prediction-set" },
        element("p", {}, element("strong", {}, sentence(statement))),
        element("p", { class: "class-record" }, SET_COVERAGE),
    );
}

const finding = (name) => element("p", { class: "finding" }, element("strong", {}, sentence(name)));

/** Why there are no classes, and no probability. */
function withheld(reasons) {
    return element(
        "div",
        { class: "cannot withheld" },
        element("h3", {}, "No classes are given"),
        element(
            "ul",
            {},
            reasons.map((reason) => element("li", {}, sentence(reason))),
        ),
    );
}

/** For a screen reader: the most probable ones. */
export const spokenClasses = ({ classes, withheld: reasons }) =>
    reasons.length
        ? `No classes are given: ${reasons.join(". ")}`
        : `Most probable: ${classes
              .slice(0, MOST_SPOKEN)
              .map(({ name, probability }) => `${name} ${percent(probability)}`)
              .join(", ")}`;

function classifierChoice(classifiers, chosen, choose) {
    const options = classifiers.map(({ name, title }) =>
        element("option", { value: name, selected: name === chosen }, title ? `${name}: ${title}` : name),
    );
    const select = element("select", { change: () => choose(select.value) }, options);
    return element("label", { class: "classifier" }, "Trained on", select);
}

const reading = (multiLabel) =>
    multiLabel
        ? "Each class is estimated independently; several, or none, may be present."
        : "Exactly one class is assumed to be present, so the probabilities always sum to 100\u00a0%.";

const used = (leads) => `${leads.length === 1 ? "Lead" : "Leads"} used: ${leads.join(", ")}.`;

function legend() {
    const item = (kind, text) =>
        element("li", {}, element("span", { class: `key key-${kind}`, "aria-hidden": "true" }), text);
    return element(
        "ul",
        { class: "legend", "aria-label": "How to read the bars" },
        item("probability", "estimated probability"),
        item("observed", "observed share among validation patients with a similar probability"),
        item("prevalence", "prevalence among training patients"),
    );
}

function classRow({ name, meaning, probability, prevalence, validation, track_record: record, local_record: local }) {
    const told = validation && !local ? trackRecord(validation) : record.replaceAll("%", " %");
    return element(
        "li",
        { class: "class-row" },
        element(
            "p",
            { class: "class-name" },
            element("strong", {}, name),
            element("span", {}, meaning),
            element("b", { class: "class-probability" }, percent(probability)),
        ),
        bar(probability, prevalence, local ? null : validation),
        element("p", { class: "class-record" }, sentence(told), rare(validation)),
        local ? element("p", { class: "class-record class-local" }, sentence(local).replaceAll("%", " %")) : null,
    );
}

function rare(validation) {
    if (!validation || validation.count >= FEW) return null;
    return element("em", {}, " Too few to rely on.");
}

function bar(probability, prevalence, validation) {
    const at = (part, kind) => {
        const mark = element("span", { class: `bar-${kind}` });
        mark.style[kind === "probability" ? "width" : "left"] = `${part * 100}%`;
        return mark;
    };
    return element(
        "div",
        { class: "bar-track", "aria-hidden": "true" },
        at(probability, "probability"),
        at(prevalence, "prevalence"),
        validation && at(validation.observed, "observed"),
    );
}

function cannot(items) {
    if (!items.length) return null;
    return element(
        "div",
        { class: "cannot" },
        element("h3", {}, "Limitations"),
        element(
            "ul",
            {},
            items.map((item) => element("li", {}, item)),
        ),
    );
}
