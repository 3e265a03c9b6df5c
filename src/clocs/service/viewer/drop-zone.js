/** Files from the file picker, from a drop anywhere on the page, or the made-up example. */

import { byId } from "./dom.js";

const EXAMPLE = "example.csv";

/** `open(files)` gets files that stay readable, whatever becomes of them on disk. */
export function watchForFiles(open) {
    const input = byId("file-input");
    input.addEventListener("change", async () => {
        if (input.files.length) await open(await held([...input.files]));
        input.value = "";
    });
    byId("open-example").addEventListener("click", async () => {
        const response = await fetch(`/viewer/${EXAMPLE}`);
        await open([new File([await response.blob()], EXAMPLE)]);
    });
    watchDrops(async (files) => open(await held(files)));
}

function watchDrops(open) {
    const cover = byId("drop-cover");
    const holdsFiles = (event) =>
        event.dataTransfer?.types.includes("Files") && !document.querySelector("dialog[open]");
    addEventListener("dragenter", (event) => {
        if (holdsFiles(event)) cover.hidden = false;
    });
    addEventListener("dragover", (event) => {
        if (holdsFiles(event)) event.preventDefault();
    });
    addEventListener("dragleave", (event) => {
        if (!event.relatedTarget) cover.hidden = true;
    });
    addEventListener("drop", (event) => {
        cover.hidden = true;
        if (!holdsFiles(event)) return;
        event.preventDefault();
        if (event.dataTransfer.files.length) open([...event.dataTransfer.files]);
    });
}

function held(files) {
    return Promise.all(files.map(async (file) => new File([await file.arrayBuffer()], file.name)));
}
