/** Sheets to print and FHIR, made by the service. What is typed belongs to the ECG that is open, and to no other. */

import { about, ask } from "./api.js";
import { announce, byId } from "./dom.js";
import { save } from "./exports.js";
import { trouble } from "./messages.js";

const FILES = { print: "clocs-ecg-sheets.pdf", fhir: "clocs-ecg-fhir.json" };

/** Forget what was typed: another ECG is opened. */
export function clearPrintForm() {
    byId("print-form").reset();
    byId("print-message").replaceChildren();
}

/** `opened()` gives {files, stored, abort, classes} of the ECG that is open. */
export function watchPrintForm(opened) {
    byId("print-form").addEventListener("submit", async (event) => {
        event.preventDefault();
        const { abort, classes } = opened();
        const typed = new FormData(event.target);
        const kind = event.submitter.value;
        const query = { classifier: classes[0]?.classifier ?? "" };
        const fields = { identifier: typed.get("identifier") };
        if (kind === "fhir") fields.order = typed.get("order");
        else for (const name of ["paper", "start", "seconds"]) query[name] = typed.get(name);
        const message = byId("print-message");
        message.replaceChildren();
        try {
            const options = { fields, query, signal: abort.signal, as: "blob" };
            save(await ask(...about(opened(), kind, options)), FILES[kind]);
            announce("Saved");
        } catch (error) {
            if (error.name !== "AbortError") message.replaceChildren(trouble(error));
        }
    });
}
