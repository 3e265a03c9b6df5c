/** Another ECG beside the open one: a neighbour's, or another of the same patient. */

import { ask, storedPath } from "./api.js";
import { Comparison } from "./comparison.js";
import { byId, element } from "./dom.js";
import { apartFrom } from "./earlier.js";
import { trouble } from "./messages.js";
import { recordingOf } from "./recording.js";
import { SHOWN, measured } from "./recordings-page.js";
import { dateTime, person } from "./wording.js";

export function compareNeighbour(open, neighbour, number, encoderLeads) {
    const button = byId("neighbours").querySelectorAll(".neighbour button")[number - 1];
    const facts = (query, other) => (rates) => [
        [person(query.age, query.sex), rates[0]],
        [
            other.labels.join(", ") || "no label",
            person(neighbour.age, neighbour.sex),
            rates[1],
            `similarity ${neighbour.similarity.toFixed(3)}`,
        ],
    ];
    const path = `neighbours/${encodeURIComponent(neighbour.handle)}/preview`;
    return openBeside(open, button, path, { name: `Neighbour ${number}`, facts, encoderLeads });
}

/** Another ECG of the patient, with all leads; what was measured stands beside its time. */
export function compareOfPatient(open, row, { recordings, measurements }) {
    const button = document.activeElement;
    const own = recordings.find(({ handle }) => handle === open.stored.handle) ?? open.stored;
    const values = (one) =>
        measurements
            .filter(({ name }) => SHOWN.includes(name) && Number.isFinite(one.measurements[name]))
            .map(({ name, title, unit }) => `${title} ${measured(one.measurements[name])} ${unit}`);
    const when = (one) => (one.acquired ? dateTime(one.acquired) : "time unknown");
    const facts = () => () => [
        [when(own), ...values(own)],
        [when(row), apartFrom(row, own), ...values(row)],
    ];
    const apart = row.acquired && own.acquired ? row.acquired.localeCompare(own.acquired) : 0;
    const name = apart < 0 ? "Earlier ECG" : apart > 0 ? "Later ECG" : "Other ECG";
    return openBeside(open, button, storedPath(row, "preview"), { name, facts, encoderLeads: [] });
}

/** The ECG of `path` beside the open one; `facts(query, other)` gives those of the comparison. */
async function openBeside(open, button, path, { name, facts, encoderLeads }) {
    const dialog = byId("comparison");
    button.setAttribute("aria-busy", "true");
    try {
        const other = recordingOf(await ask(path, { signal: open.abort.signal }));
        new Comparison(dialog, open.recording, other, { name, facts: facts(open.recording, other), encoderLeads });
    } catch (error) {
        if (error.name === "AbortError") return;
        dialog.replaceChildren(
            trouble(error),
            element("button", { type: "button", click: () => dialog.close() }, "Close"),
        );
        dialog.showModal();
    } finally {
        button.removeAttribute("aria-busy");
    }
}
