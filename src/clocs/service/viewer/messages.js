/** What a panel shows instead of results: that it works, that it waits, or what went wrong and what to do. */

import { Problem } from "./api.js";
import { announce, element } from "./dom.js";
import { sentence } from "./wording.js";

const UNFIT = "The ECG can still be read and measured on the paper above.";
const FORMAT =
    "Is it an ECG, complete, and in one of the formats listed? " +
    "A WFDB record needs its header (.hea) and its signal file (.dat or .mat) together.";
const BUSY = "The service stayed busy. Try again in a minute.";
const NUMBER = " the number below";
const OTHERWISE = `Try again. If it stays like this, tell whoever runs the service${NUMBER}.`;
const BROKEN = `Until this is mended, asking again does not help: tell whoever runs the service${NUMBER}.`;

/** What to do, by the question and the kind of a problem, by its kind, or else by its status. */
const ADVICE = {
    "similar: wrong-option": "Choose other filters.",
    "wrong-option": BROKEN,
    "unsuitable-recording": UNFIT,
    "unknown-leads": UNFIT,
    "unknown-handle": "The service was started anew since. Change a filter or open the file again to search again.",
    "dropped-folder": "Drop its files together, or zip it and drop the zip.",
    "lost-file": "Choose it again.",
    "archive-unavailable": BROKEN,
    "audit-log-unavailable": BROKEN,
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

export function working(text) {
    return element("p", { class: "working" }, text);
}

export function waiting(seconds) {
    const text = `The service is busy. Trying again in ${seconds} s.`;
    announce(text);
    return element("p", { class: "working waiting" }, text);
}

/** An answer that is not the service's own, as a proxy's, has no number. */
function adviceOn({ question, kind, status, instance }) {
    const advice = ADVICE[`${question}: ${kind}`] ?? ADVICE[kind] ?? ADVICE[status] ?? OTHERWISE;
    return instance ? advice : advice.replace(NUMBER, "");
}

/**
 * A recording that is not fit for a question is nobody's fault; the rest is a fault, and may be tried `again`.
 * `anyLead` asks about leads that the model does not know, where these are the trouble.
 */
export function trouble(error, { again = null, anyLead = null } = {}) {
    if (!(error instanceof Problem)) throw error;
    announce(`${error.title}. ${error.detail}`);
    const advice = adviceOn(error);
    const lasting = error.status >= 400 && error.status < 500;
    return element(
        "div",
        { class: advice === UNFIT ? "trouble unfit" : "trouble" },
        element("h3", {}, error.title),
        error.detail && element("p", { class: "trouble-detail" }, sentence(error.detail)),
        element("p", {}, advice),
        anyLead && error.kind === "unknown-leads" && anyLeadOffer(anyLead),
        again && !lasting && element("button", { type: "button", click: again }, "Try again"),
        error.instance && element("p", { class: "quiet-text" }, `Request ${error.instance}`),
    );
}

function anyLeadOffer(anyLead) {
    return element(
        "p",
        {},
        element("button", { type: "button", click: anyLead }, "Use these leads all the same"),
        " Nobody has measured how good the answers are then.",
    );
}

/** What an answer says beside the result. */
export function notes(items, title) {
    if (!items.length) return null;
    const list = items.map((note) => element("li", {}, note));
    return element("div", {}, element("h3", {}, title), element("ul", { class: "notes" }, list));
}
