/** "Report a wrong result": what the user says about a class goes to a file of the service, without the ECG. */

import { ask } from "./api.js";
import { announce, element } from "./dom.js";
import { trouble } from "./messages.js";

const EXPLANATION =
    "The server saves the request number, the class, its probability and your verdict. " +
    "It saves neither the ECG nor who was recorded.";

/** Closed until it is wanted; `found` is an answer with classes. */
export function verdictForm({ request_id: request, classes }) {
    const chosen = element(
        "select",
        { name: "class" },
        classes.map(({ name, meaning }) => element("option", { value: name }, meaning ? `${name}: ${meaning}` : name)),
    );
    const verdict = element(
        "select",
        { name: "verdict" },
        element("option", { value: "present" }, "is present"),
        element("option", { value: "absent" }, "is not present"),
    );
    const message = element("div", { class: "verdict-message", role: "status" });
    const submit = async (event) => {
        event.preventDefault();
        message.replaceChildren();
        const query = { request, class: chosen.value, verdict: verdict.value };
        try {
            await ask("verdicts", { query, method: "POST" });
            message.textContent = `Saved: ${chosen.value} ${verdict.selectedOptions[0].text}. Request ${request}.`;
            announce("Report saved");
        } catch (error) {
            message.replaceChildren(trouble(error));
        }
    };
    return element(
        "details",
        { class: "verdict" },
        element("summary", {}, "Report a wrong result"),
        element(
            "form",
            { submit },
            element("label", {}, "Class", chosen),
            element("label", {}, "Verdict", verdict),
            element("button", { type: "submit" }, "Save report"),
        ),
        element("p", { class: "quiet-text" }, EXPLANATION),
        message,
    );
}
