/** The token of this service: out of the address, kept for this tab, asked for when it is missing or wrong. */

import { byId } from "./dom.js";

const KEY = "clocs-token";
const MARK = "#token=";
let asking = null;

/** Move `#token=...` to this tab's storage, so that no history or bookmark keeps it; says whether there was one. */
export function takeFromAddress() {
    if (!location.hash.startsWith(MARK)) return false;
    sessionStorage.setItem(KEY, decoded(location.hash.slice(MARK.length)));
    history.replaceState(null, "", location.pathname + location.search);
    return true;
}

/** What was typed: a token, or the whole address that ends in one. */
function tokenIn(text) {
    const [typed, ofAddress] = text.trim().split(MARK);
    return ofAddress === undefined ? typed : decoded(ofAddress);
}

/** Browsers escape some signs of an address, and leave others, "+" and "%" among them, as they are. */
function decoded(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

export const current = () => sessionStorage.getItem(KEY);

/** Whether there is none, or one that a header can carry: a request with another would not leave the browser. */
export const canBeSent = () => /^[\x21-\x7e]*$/.test(current() ?? "");

export const forget = () => sessionStorage.removeItem(KEY);

/** Ask the person for a token; everything that waits for one gets the same answer. */
export function ask(refused) {
    asking ??= new Promise((resolve) => {
        const dialog = byId("token-dialog");
        const input = byId("token-input");
        byId("token-refused").textContent = refused
            ? "The service rejected this token. Check that it is complete. A restarted service may have a new token."
            : "";
        input.value = "";
        byId("token-form").onsubmit = (event) => {
            event.preventDefault();
            sessionStorage.setItem(KEY, tokenIn(input.value));
            asking = null;
            dialog.close();
            resolve();
        };
        dialog.oncancel = (event) => event.preventDefault(); // Escape, which a browser lets a page forbid once
        dialog.onclose = () => {
            if (asking && !dialog.open) dialog.showModal();
        };
        dialog.showModal();
        input.focus();
    });
    return asking;
}
