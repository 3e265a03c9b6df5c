/** Who asks the service, and what it lets them do. */

import { ask } from "./api.js";
import { byId } from "./dom.js";

let rights = [];

export const may = (right) => rights.includes(right);

/** Ask the service, and hide every part of the page that needs another right, as its `data-right` says. */
export async function learnRights(waiting) {
    const me = await ask("me", { waiting });
    rights = me.rights;
    byId("foot-user").textContent = me.user ? `Signed on as ${me.user}` : "";
    for (const part of document.querySelectorAll("[data-right]")) part.hidden = !may(part.dataset.right);
}
