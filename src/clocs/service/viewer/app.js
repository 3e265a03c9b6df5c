/** From a file to its paper, classes, neighbours and place on the map. */

import { Problem, ask } from "./api.js";
import { showClasses, spokenClasses } from "./classes.js";
import { Comparison } from "./comparison.js";
import { announce, byId, element } from "./dom.js";
import { watchForFiles } from "./drop-zone.js";
import { resultText, save, sheetPicture } from "./exports.js";
import { learnRights, may } from "./identity.js";
import { trouble, waiting, working } from "./messages.js";
import { showModel } from "./model-page.js";
import { buildFilters, chosen, markRow, showNeighbours } from "./neighbours.js";
import { focusTitle, turnPage } from "./pages.js";
import { PaperPanel } from "./paper-panel.js";
import { PatientMap } from "./patient-map.js";
import { leadOf, recordingOf } from "./recording.js";
import * as token from "./token.js";
import { count, formatName, megabytes, person, seconds } from "./wording.js";

const paperPanel = new PaperPanel();
const patientMap = new PatientMap(byId("map"), { pointed: (index) => markRow(byId("neighbours"), index) });

/** What is open now; every question about it ends when another is opened. */
let open = null;
/** What is assumed of the service until it has told. */
let model = {
    encoder: null,
    classifiers: [],
    leads: [],
    index: { labels: [], sites: [] },
    limits: { upload_bytes: Infinity, shown_seconds: Infinity },
    notice: "For research. Not a diagnosis.",
};

/** By place, the last question whose answer it is to show. */
const newest = new WeakMap();

/**
 * Show in `place` that it works, waits or failed; else what `show` makes of the answer, which is also returned.
 * `ways` are those out of trouble, see `trouble`. Once the place is asked something else, this leaves it alone.
 */
async function fill(place, text, question, show, ways = {}) {
    newest.set(place, question);
    const isNewest = () => newest.get(place) === question;
    const wait = (pause) => {
        if (isNewest()) place.replaceChildren(pause ? waiting(pause) : working(text));
    };
    place.setAttribute("aria-busy", "true");
    place.replaceChildren(working(text));
    try {
        const answer = await question(wait);
        if (!isNewest()) return null;
        show(answer);
        return answer;
    } catch (error) {
        if (isNewest() && error.name !== "AbortError") place.replaceChildren(trouble(error, ways));
        return null;
    } finally {
        if (isNewest()) place.setAttribute("aria-busy", "false");
    }
}

/** What `watchForFiles` gives; the files are read only if the service takes so much. */
async function openFiles({ size, read }) {
    open?.abort.abort();
    open?.searching?.abort();
    const now = (open = { files: [], abort: new AbortController(), classes: null, similar: null, anyLead: null });
    showOpening();
    const message = byId("opening-message");
    const { signal } = now.abort;
    const preview = await fill(
        message,
        "Reading the file …",
        async (wait) => {
            refuseTooLarge(size);
            now.files = await read();
            return ask("preview", { files: now.files, signal, waiting: wait });
        },
        () => message.replaceChildren(),
    );
    if (open !== now) return;
    if (!preview) {
        message.scrollIntoView({ block: "nearest" });
        return;
    }
    now.recording = recordingOf(preview);
    showRecording(now.recording);
    await told;
    if (open !== now) return;
    await askAll(now);
}

function refuseTooLarge(size) {
    const most = model.limits.upload_bytes;
    if (size <= most) return;
    const detail = `It has ${megabytes(size)} MB; this service accepts up to ${megabytes(most)} MB.`;
    throw new Problem({ status: 413, title: "The file is too large", detail });
}

const askAll = (now) => Promise.all([classify(now), findSimilar(now)]);

/** Search again, with leads that the encoder does not know: nobody can say how good the answers are. */
function takeAnyLead(now) {
    now.anyLead = true;
    findSimilar(now);
}

function showOpening() {
    byId("workspace").hidden = true;
    byId("opening").hidden = false;
    location.hash = "recording";
}

function showRecording(recording) {
    byId("opening").hidden = true;
    byId("workspace").hidden = false;
    byId("save-message").replaceChildren();
    const known = person(recording.age, recording.sex);
    const facts = [
        ...(known ? [] : ["age and sex not given"]),
        count(recording.leads.length, "lead"),
        seconds(recording.seconds),
        `${recording.rate} Hz`,
        formatName(recording.format),
    ];
    byId("recording-title").textContent = known || "ECG";
    byId("recording-facts").textContent = facts.join(" · ");
    byId("recording-notes").replaceChildren(...recording.notes.map((note) => element("li", {}, note)));
    paperPanel.open(recording);
    byId("recording-title").focus({ preventScroll: true });
    scrollTo({ top: 0 });
    announce(`ECG opened: ${facts.join(", ")}`);
}

/** Without a name, by the first classifier with a set of leads that the recording has. */
async function classify(now, name = "") {
    now.classes = await fill(
        byId("classes"),
        "Classifying …",
        (wait) =>
            ask("classify", {
                files: now.files,
                query: { classifier: name },
                signal: now.abort.signal,
                waiting: wait,
            }),
        (found) => {
            showClasses(byId("classes"), found, {
                classifiers: model.classifiers.filter((one) => one.name === found.classifier || fits(one, now)),
                chosen: found.classifier,
                choose: (other) => classifyBy(now, other),
            });
            announce(`Classified. ${spokenClasses(found)}`);
        },
        { again: () => classify(now, name) },
    );
}

/** By another classifier; the choice is made anew, and the focus goes with it. */
async function classifyBy(now, name) {
    await classify(now, name);
    if (document.activeElement === document.body) byId("classes").querySelector("select")?.focus();
}

const fits = ({ lead_sets: sets }, { recording }) =>
    sets.some(({ leads }) => leads.every((name) => leadOf(recording, name)));

/** By the filters that the form shows; what was found is kept together with them. */
async function findSimilar(now) {
    if (!model.index || !may("search")) {
        const text = may("search")
            ? "This service was started without an index of patients, so there are no patients to compare with."
            : "You do not have the right to search for similar patients.";
        byId("neighbours").replaceChildren(element("p", { class: "lead-text" }, text));
        return;
    }
    now.searching?.abort();
    now.searching = new AbortController();
    now.similar = null;
    patientMap.showQuery({ query: { map: null }, neighbours: [] });
    const { signal } = now.searching;
    const filters = chosen(byId("filters"));
    const query = { ...filters, any_lead: now.anyLead };
    await fill(
        byId("neighbours"),
        "Searching …",
        (wait) => ask("similar", { files: now.files, query, signal, waiting: wait }),
        (found) => {
            now.similar = { ...found, filters };
            showNeighbours(byId("neighbours"), found, { open: compare, point: (index) => patientMap.mark(index) });
            patientMap.showQuery(found);
            announce(`${count(found.neighbours.length, "neighbour")} found`);
        },
        { again: () => findSimilar(now), anyLead: () => takeAnyLead(now) },
    );
}

async function compare(neighbour, number) {
    const dialog = byId("comparison");
    const rows = byId("neighbours");
    const button = rows.querySelectorAll(".neighbour button")[number - 1];
    button.setAttribute("aria-busy", "true");
    try {
        const preview = await ask(`neighbours/${encodeURIComponent(neighbour.handle)}/preview`, {
            signal: open.abort.signal,
        });
        new Comparison(dialog, open.recording, recordingOf(preview), { neighbour, number, encoderLeads: model.leads });
    } catch (error) {
        if (error.name === "AbortError") return;
        dialog.replaceChildren(
            trouble(error),
            element("button", { type: "button", click: () => dialog.close() }, "Close"),
        );
        dialog.showModal();
    } finally {
        button.removeAttribute("aria-busy");
    }
}

const EXPORTS = {
    png: () => sheetPicture(paperPanel.sheet, open.recording, model.notice),
    pdf: () =>
        ask("figure", {
            files: open.files,
            query: { format: "pdf", seconds: Math.min(open.recording.shown, model.limits.shown_seconds) },
            signal: open.abort.signal,
            as: "blob",
        }),
    json: async () => {
        const reading = paperPanel.calipers.on ? paperPanel.calipers.reading() : null;
        return new Blob([resultText({ model, ...open, reading })], { type: "application/json" });
    },
};

async function saveAs(kind) {
    const message = byId("save-message");
    message.replaceChildren();
    try {
        save(await EXPORTS[kind](), `clocs-ecg.${kind}`);
        announce(`${kind.toUpperCase()} saved`);
    } catch (error) {
        if (error.name !== "AbortError") message.replaceChildren(trouble(error));
    }
}

async function learnModel() {
    const found = await fill(
        byId("model"),
        "Loading the model …",
        async (wait) => {
            await learnRights(wait);
            return ask("model", { waiting: wait });
        },
        (about) => showModel(byId("model"), about),
        { again: learnModel },
    );
    if (!found) return;
    model = found;
    byId("foot-notice").textContent = model.notice;
    byId("foot-version").textContent = `clocs ${(await (await fetch("/healthz")).json()).version}`;
    if (!model.index || !may("search")) {
        byId("map-side").hidden = true;
        byId("filters").hidden = true;
        return;
    }
    buildFilters(byId("filters"), model.index, () => findSimilar(open));
    learnMap();
}

async function learnMap() {
    const map = await fill(
        byId("map-message"),
        "Loading the map …",
        (wait) => ask("map", { waiting: wait }),
        () => byId("map-message").replaceChildren(),
        { again: learnMap },
    );
    if (map) patientMap.showMap(map);
}

token.takeFromAddress();
addEventListener("hashchange", () => {
    if (token.takeFromAddress()) location.reload();
    else if (turnPage()) focusTitle();
});
turnPage();
watchForFiles(openFiles);
byId("open-another").addEventListener("click", () => byId("file-input").click());
for (const kind of Object.keys(EXPORTS)) byId(`save-${kind}`).addEventListener("click", () => saveAs(kind));
const told = learnModel();
