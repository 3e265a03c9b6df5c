/** What a panel shows instead of results: that it works, that it waits, or what went wrong and what to do. */

import { Problem } from "./api.js";
import { announce, element } from "./dom.js";
import { sentence } from "./wording.js";

const UNFIT = "The ECG can still be read and measured on the paper above.";
const FORMAT =
    "Check that it is a complete ECG in one of the supported formats. " +
    "A WFDB record needs its header (.hea) and its signal file (.dat or .mat) together.";
const BUSY = "The service is still busy. Try again in a minute.";
const NUMBER = " the number below";
const OTHERWISE = `Try again. If the problem persists, tell the operator of the service${NUMBER}.`;
const BROKEN = `Trying again does not help. Tell the operator of the service${NUMBER}.`;

/** What to do, by the last word of the question and the kind of a problem, by its kind, or else by its status. */
const ADVICE = {
    "similar: wrong-option": "Choose other filters.",
    "wrong-option": BROKEN,
    "unsuitable-recording": UNFIT,
    "unknown-leads": UNFIT,
    "unknown-handle": "The service was restarted. Change a filter or open the file again to repeat the search.",
    "sign-on-needed": "Sign on again in a new tab, and try again here.",
    "right-needed": "The operator of the service can grant this right.",
    "unknown-recording": "Open the list of recordings again.",
    "dropped-folder": "Drop its files together, or drop a zip of them.",
    "lost-file": "Choose it again.",
    "archive-unavailable": BROKEN,
    "audit-log-unavailable": BROKEN,
    0: "Check that the service is running, and try again.",
    403: "The operator of the service has disabled this.",
    404: "The operator of the service can add it.",
    408: "The upload was too slow. Try again, or use a faster connection.",
    413: "Use a shorter recording, or ask the operator of the service for a higher limit.",
    422: FORMAT,
    429: BUSY,
    503: BUSY,
    504: "A shorter recording may work.",
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
    const advice = ADVICE[`${question.split("/").pop()}: ${kind}`] ?? ADVICE[kind] ?? ADVICE[status] ?? OTHERWISE;
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
    const lasting = error.status >= 400 && error.status < 500 && error.status !== 401;
    return element(
        "div",
        { class: advice === UNFIT ? "trouble unfit" : "trouble" },
        element("h3", {}, error.title),
        error.detail && element("p", { class: "trouble-detail" }, sentence(error.detail)),
        element("p", {}, advice),
        error.status === 401 && element("p", {}, element("a", { href: "/", target: "_blank" }, "Sign on in a new tab")),
        anyLead && error.kind === "unknown-leads" && anyLeadOffer(anyLead),
        again && !lasting && element("button", { type: "button", click: again }, "Try again"),
        error.instance && element("p", { class: "quiet-text" }, `Request ${error.instance}`),
    );
}

function anyLeadOffer(anyLead) {
    return element(
        "p",
        {},
        element("button", { type: "button", click: anyLead }, "Use these leads anyway"),
        " Nobody has measured how good the answers are then.",
    );
}

/** What an answer says beside the result. */
export function notes(items, title) {
    if (!items.length) return null;
    const list = items.map((note) => element("li", {}, note));
    return element("div", {}, element("h3", {}, title), element("ul", { class: "notes" }, list));
}
