/** The pages: parts of the only one there is, named in the address. */

import { byId } from "./dom.js";

const TITLES = { recording: document.title, recordings: "clocs: recordings", model: "clocs: the model" };

/** Show the page that the address names; says whether it is another one than before. */
export function turnPage() {
    const page = location.hash.slice(1) || "recording";
    if (!Object.hasOwn(TITLES, page)) return false;
    const turned = byId(`page-${page}`).hidden;
    for (const name of Object.keys(TITLES)) byId(`page-${name}`).hidden = name !== page;
    for (const link of document.querySelectorAll("nav [data-page]")) {
        if (link.dataset.page === page) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    document.title = TITLES[page];
    return turned;
}

/** A screen reader then says which page it is, and the tab key goes on from there. */
export function focusTitle() {
    const titles = [...document.querySelectorAll("h1")];
    titles.find((title) => !title.closest("[hidden]")).focus();
}
