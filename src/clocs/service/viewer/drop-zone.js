/** Files from the file picker, from a drop anywhere on the page, or the made-up example. */

import { NO_ANSWER, Problem } from "./api.js";
import { byId } from "./dom.js";

const EXAMPLE = "example.csv";

/**
 * `open({ size, read })` is called at once, so that of files given quickly the last ones are known. `read()` gives
 * files that stay readable, whatever becomes of them on disk, or throws the Problem with them; `size` is in bytes.
 */
export function watchForFiles(open) {
    const input = byId("file-input");
    input.addEventListener("change", () => {
        const files = [...input.files];
        input.value = ""; // the same file may be chosen again
        if (files.length) open(given(files));
    });
    byId("open-example").addEventListener("click", () => open({ size: 0, read: readExample }));
    watchDrops(open);
}

function watchDrops(open) {
    const cover = byId("drop-cover");
    const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
    const isInTheWay = () => document.querySelector("dialog[open]") !== null;
    addEventListener("dragenter", (event) => {
        if (holdsFiles(event) && !isInTheWay()) cover.hidden = false;
    });
    addEventListener("dragover", (event) => {
        if (!holdsFiles(event)) return;
        event.preventDefault(); // else the browser leaves the page for the file
        if (isInTheWay()) event.dataTransfer.dropEffect = "none";
    });
    addEventListener("dragleave", (event) => {
        if (!event.relatedTarget) cover.hidden = true;
    });
    addEventListener("drop", (event) => {
        cover.hidden = true;
        if (!holdsFiles(event)) return;
        event.preventDefault();
        const { files, items } = event.dataTransfer;
        if (isInTheWay() || !files.length) return;
        const folder = [...items].some((item) => item.webkitGetAsEntry()?.isDirectory);
        open(folder ? { size: 0, read: refuseFolder } : given([...files]));
    });
}

const given = (files) => ({
    size: files.reduce((sum, file) => sum + file.size, 0),
    read: () => Promise.all(files.map(held)),
});

async function held(file) {
    try {
        return new File([await file.arrayBuffer()], file.name);
    } catch {
        const detail = "The browser could not read it. It was moved or changed, or is too large.";
        throw new Problem({ type: "lost-file", title: "The file cannot be opened", detail });
    }
}

async function refuseFolder() {
    throw new Problem({ type: "dropped-folder", title: "A folder cannot be opened" });
}

async function readExample() {
    const title = "The example cannot be loaded";
    let response, content;
    try {
        response = await fetch(`/viewer/${EXAMPLE}`);
        content = await response.blob();
    } catch {
        throw new Problem({ title, detail: NO_ANSWER });
    }
    if (!response.ok) throw new Problem({ title, status: response.status, detail: response.statusText });
    return [new File([content], EXAMPLE)];
}
