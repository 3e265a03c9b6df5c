/** Classes of the open ECG by two classifiers side by side, such as findings and rhythm; others can be chosen. */

import { Problem, ask, storedPath } from "./api.js";
import { showClasses, spokenClasses } from "./classes.js";
import { announce, byId, element } from "./dom.js";
import { fill } from "./filling.js";
import { leadOf } from "./recording.js";

const COLUMNS = 2;

/** By the first classifiers with a set of leads that the recording has. */
export async function classify(now, classifiers) {
    const suitable = classifiers.filter((one) => fits(one, now));
    const first = suitable.length ? suitable.slice(0, COLUMNS) : [{ name: "" }];
    const columns = first.map((_, index) => ({ index, place: element("div", { class: "class-column" }), suitable }));
    byId("classes").replaceChildren(...columns.map(({ place }) => place));
    await Promise.all(columns.map((column) => fillColumn(now, column, first[column.index].name)));
}

/** Without a name, the service says why no classifier is suitable. */
async function fillColumn(now, column, name) {
    const { index, place, suitable } = column;
    now.classes[index] = await fill(
        place,
        "Classifying …",
        (wait) => askClasses(now, { query: { classifier: name }, signal: now.abort.signal, waiting: wait }),
        (found) => {
            const choose = (other) => chooseAnother(now, column, other);
            showClasses(place, found, { classifiers: suitable, chosen: found.classifier, choose });
            announce(`Classified. ${spokenClasses(found)}`);
        },
        { again: () => fillColumn(now, column, name) },
    );
}

/** The choice is made anew, and the focus goes with it. */
async function chooseAnother(now, column, name) {
    await fillColumn(now, column, name);
    if (document.activeElement === document.body) column.place.querySelector("select")?.focus();
}

async function askClasses(now, options) {
    if (!now.stored) return ask("classify", { files: now.files, ...options });
    const { classification, withheld } = await ask(storedPath(now.stored, "report"), options);
    if (classification) return classification;
    const title = "This recording cannot be classified";
    throw new Problem({ type: "unsuitable-recording", status: 422, title, detail: withheld });
}

const fits = ({ lead_sets: sets }, { recording }) =>
    sets.some(({ leads }) => leads.every((name) => leadOf(recording, name)));
