/** Questions to the service. Each carries the files themselves, since the service keeps nothing. */

import * as token from "./token.js";

const BASE = "/api/v1/";
const PROBLEM = "application/problem+json";
const MOST_TRIES = 8;
const LONGEST_WAIT = 30;
const SIGN_ON = "sign-on-needed";
export const NO_ANSWER = "The server of this page did not respond.";

/** What the service says is wrong with a question, or that it does not answer. */
export class Problem extends Error {
    constructor({
        type = "",
        status = 0,
        title = "The service does not respond",
        detail = "",
        instance = "",
        question = "",
    }) {
        super(title);
        Object.assign(this, { kind: type.split("/").pop(), status, title, detail, instance, question });
    }
}

/**
 * GET `path`, or POST it with `files` and text `fields`, or by another `method`. Asks for the token where it is
 * missing, and waits where the service is busy: `waiting(seconds)` is called each time, and `waiting(0)` when it goes
 * on.
 */
export async function ask(path, { query = {}, waiting = () => {}, as = "json", ...asked } = {}) {
    const address = BASE + path + queryText(query);
    for (let tries = 1; ; tries += 1) {
        const response = await send(address, asked);
        if (response.ok) return as === "blob" ? response.blob() : response.json();
        if (isOfProxy(response)) {
            if (token.current() === null) throw signOnExpired(path);
            token.forget(); // it would hide what the browser itself sends to the proxy
        } else if (response.status === 401) {
            const problem = await problemOf(response, path);
            if (problem.kind === SIGN_ON) throw signOnExpired(path);
            await token.ask(token.current() !== null);
        } else if (isBusy(response) && tries < MOST_TRIES) {
            const pause = Math.min(Number(response.headers.get("Retry-After")) || 2, LONGEST_WAIT);
            waiting(pause);
            await sleep(pause, asked.signal);
            waiting(0);
        } else {
            throw await problemOf(response, path);
        }
    }
}

/** Whether a proxy refuses since nobody is signed on, or leads elsewhere to sign on, where a question cannot follow. */
const isOfProxy = ({ status, type, headers }) =>
    type === "opaqueredirect" || (status === 401 && !headers.get("Content-Type")?.startsWith(PROBLEM));

const signOnExpired = (question) =>
    new Problem({ type: SIGN_ON, status: 401, title: "Your sign-on has expired", question });

/** What `ask` takes for a question about the ECG that is open: with its files, or by its row of the list. */
export const about = ({ files, stored }, question, options) =>
    stored ? [storedPath(stored, question), options] : [question, { ...options, files }];

/** Of a row of the list: its `preview`, `report` or `patient`. */
export const storedPath = ({ handle }, part) => `recordings/${encodeURIComponent(handle)}/${part}`;

/** Whether asking again may help: the service says when, and else it will not; a proxy's limit does not say. */
function isBusy({ status, headers }) {
    const ofProxy = !headers.get("Content-Type")?.startsWith(PROBLEM);
    return status === 429 || (status === 503 && (headers.has("Retry-After") || ofProxy));
}

function queryText(query) {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null);
    return given.length ? `?${new URLSearchParams(given)}` : "";
}

async function send(address, { files = null, fields = null, signal = null, method: asked = null }) {
    while (!token.canBeSent()) await token.ask(true);
    const used = token.current();
    const headers = used === null ? {} : { Authorization: `Bearer ${used}` };
    const body = files || fields ? new FormData() : null;
    const method = asked ?? (body ? "POST" : "GET");
    for (const [name, text] of Object.entries(fields ?? {})) body.append(name, text);
    for (const file of files ?? []) body.append("files", file, file.name);
    try {
        return await fetch(address, { method, headers, body, signal, cache: "no-store", redirect: "manual" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw new Problem({ detail: NO_ANSWER });
    }
}

async function problemOf(response, question) {
    const { status, statusText } = response;
    try {
        return new Problem({ ...(await response.json()), status, question });
    } catch {
        return new Problem({ status, title: "The service reported an error", detail: statusText, question });
    }
}

function sleep(seconds, signal) {
    return new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, seconds * 1000);
        signal?.addEventListener("abort", () => {
            clearTimeout(timer);
            reject(signal.reason);
        });
    });
}
