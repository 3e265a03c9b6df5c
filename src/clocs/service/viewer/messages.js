/** What a panel shows instead of results: that it works, that it waits, or what went wrong and what to do. */

import { Problem } from "./api.js";
import { announce, element } from "./dom.js";
import { sentence } from "./wording.js";

const UNFIT = "The ECG can still be read and measured on the paper above.";
const FORMAT =
    "Is it an ECG, complete, and in one of the formats listed? " +
    "A WFDB record needs its header (.hea) and its signal file (.dat or .mat) together.";
const BUSY = "The service stayed busy. Try again in a minute.";

/** What to do, by the kind of a problem, or else by its status. */
const ADVICE = {
    "unsuitable-recording": UNFIT,
    "unknown-leads": UNFIT,
    "wrong-option": "Choose other filters.",
    0: "See whether the service still runs, and try again.",
    403: "Whoever runs the service has switched this off.",
    404: "Whoever runs the service can add it.",
    408: "The file came too slowly. Try again, or from a nearer machine.",
    413: "Take a shorter recording, or ask whoever runs the service for a higher limit.",
    422: FORMAT,
    429: BUSY,
    503: BUSY,
    504: "A shorter recording may pass.",
};
const OTHERWISE = "Try again. If it stays like this, tell whoever runs the service the number below.";

export function working(text) {
    return element("p", { class: "working" }, text);
}

export function waiting(seconds) {
    const text = `The service is busy. Trying again in ${seconds} s.`;
    announce(text);
    return element("p", { class: "working waiting" }, text);
}

/** A recording that is not fit for a question is nobody's fault; the rest is a fault, and may be tried `again`. */
export function trouble(error, again = null) {
    if (!(error instanceof Problem)) throw error;
    announce(`${error.title}. ${error.detail}`);
    const unfit = ADVICE[error.kind] === UNFIT;
    const lasting = error.status >= 400 && error.status < 500;
    return element(
        "div",
        { class: unfit ? "trouble unfit" : "trouble" },
        element("h3", {}, error.title),
        error.detail && element("p", { class: "trouble-detail" }, sentence(error.detail)),
        element("p", {}, ADVICE[error.kind] ?? ADVICE[error.status] ?? OTHERWISE),
        again && !lasting && element("button", { type: "button", click: again }, "Try again"),
        error.instance && element("p", { class: "quiet-text" }, `Request ${error.instance}`),
    );
}

/** What was corrected or left out before an answer. */
export function notes(items) {
    if (!items.length) return null;
    const list = items.map((note) => element("li", {}, note));
    return element(
        "div",
        {},
        element("h3", {}, "Done to the recording first"),
        element("ul", { class: "notes" }, list),
    );
}
