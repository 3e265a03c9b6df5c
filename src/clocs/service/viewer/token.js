/** The token of this service: out of the address, kept for this tab, asked for when it is missing or wrong. */

import { byId } from "./dom.js";

const KEY = "clocs-token";
let asking = null;

/** Move `#token=...` to this tab's storage, so that no history or bookmark keeps it; says whether there was one. */
export function takeFromAddress() {
    const found = new URLSearchParams(location.hash.slice(1)).get("token");
    if (found === null) return false;
    sessionStorage.setItem(KEY, found);
    history.replaceState(null, "", location.pathname + location.search);
    return true;
}

export const current = () => sessionStorage.getItem(KEY);

/** Ask the person for a token; everything that waits for one gets the same answer. */
export function ask(refused) {
    asking ??= new Promise((resolve) => {
        const dialog = byId("token-dialog");
        const input = byId("token-input");
        byId("token-refused").textContent = refused
            ? "The service refused this token. Is it complete? A service started anew may have a new one."
            : "";
        input.value = "";
        byId("token-form").onsubmit = (event) => {
            event.preventDefault();
            sessionStorage.setItem(KEY, input.value.trim());
            dialog.close();
            asking = null;
            resolve();
        };
        dialog.oncancel = (event) => event.preventDefault();
        dialog.showModal();
        input.focus();
    });
    return asking;
}
