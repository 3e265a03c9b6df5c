/** From a file, or a recording of the list, to its paper, classes, earlier ECGs, neighbours and place on the map. */

import { Problem, about, ask, storedPath } from "./api.js";
import { compareNeighbour, compareOfPatient } from "./beside.js";
import { classify } from "./classifying.js";
import { announce, byId, element } from "./dom.js";
import { watchForFiles } from "./drop-zone.js";
import { sayUnknownPatient, showEarlier } from "./earlier.js";
import { resultText, save, sheetPicture } from "./exports.js";
import { fill } from "./filling.js";
import { learnRights, may } from "./identity.js";
import { showMeasurements, spokenMeasurements } from "./measurements.js";
import { trouble } from "./messages.js";
import { showModel } from "./model-page.js";
import { buildFilters, chosen, markRow, showNeighbours } from "./neighbours.js";
import { focusTitle, turnPage } from "./pages.js";
import { PaperPanel } from "./paper-panel.js";
import { PatientMap } from "./patient-map.js";
import { clearPrintForm, watchPrintForm } from "./print-form.js";
import { recordingOf } from "./recording.js";
import { SHOWN, listRecordings } from "./recordings-page.js";
import * as token from "./token.js";
import { count, dateTime, formatName, megabytes, person, seconds } from "./wording.js";

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
    recordings: null,
    limits: { upload_bytes: Infinity, shown_seconds: Infinity },
    notice: "For research. Not a diagnosis.",
};

/** Of a patient's ECGs without values, how many are measured when one is opened. */
const MOST_MEASURED = 10;

/** What `watchForFiles` gives; the files are read only if the service takes so much. */
function openFiles({ size, read }) {
    return openEcg("Reading the file …", null, async (now, options) => {
        refuseTooLarge(size);
        now.files = await read();
        return ask("preview", { files: now.files, ...options });
    });
}

/** A row of the list. */
const openStored = (row) =>
    openEcg("Reading the recording …", row, (now, options) => ask(storedPath(row, "preview"), options));

/** `stored` is the row of a recording of the list, or null; `previewed(now, options)` asks for the preview. */
async function openEcg(text, stored, previewed) {
    open?.abort.abort();
    open?.searching?.abort();
    const now = { files: [], stored, abort: new AbortController(), classes: [], similar: null, anyLead: null };
    open = now;
    clearPrintForm();
    showOpening();
    const message = byId("opening-message");
    const { signal } = now.abort;
    const preview = await fill(
        message,
        text,
        (wait) => previewed(now, { signal, waiting: wait }),
        () => message.replaceChildren(),
    );
    if (open !== now) return;
    if (!preview) {
        message.scrollIntoView({ block: "nearest" });
        return;
    }
    now.recording = recordingOf(preview);
    showRecording(now);
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

const askAll = (now) =>
    Promise.all([measure(now), classify(now, model.classifiers), findEarlier(now), findSimilar(now)]);

async function measure(now) {
    const place = byId("measurements");
    await fill(
        place,
        "Measuring …",
        (wait) => ask(...about(now, "measure", { signal: now.abort.signal, waiting: wait })),
        (found) => {
            showMeasurements(place, found);
            announce(`Measured: ${spokenMeasurements(found)}`);
        },
        { again: () => measure(now) },
    );
}

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

function showRecording({ recording, stored }) {
    byId("opening").hidden = true;
    byId("workspace").hidden = false;
    byId("save-message").replaceChildren();
    const known = person(recording.age, recording.sex);
    const facts = [
        ...(stored?.acquired ? [dateTime(stored.acquired)] : []),
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

/** The other ECGs of the patient; those that have no values are measured, the newest first. */
async function findEarlier(now) {
    const place = byId("earlier");
    byId("earlier-panel").hidden = model.recordings === null || !may("list");
    if (!now.stored) {
        sayUnknownPatient(place);
        return;
    }
    await fill(
        place,
        "Loading earlier ECGs …",
        async (wait) => {
            const options = { signal: now.abort.signal, waiting: wait };
            const found = await ask(storedPath(now.stored, "patient"), options);
            const others = found.recordings.length > 1 ? found.recordings : [];
            for (const row of others.filter(({ gate }) => gate === null).slice(0, MOST_MEASURED)) {
                row.measurements = await measuredNow(row, options);
            }
            return found;
        },
        (found) => showEarlier(place, found, now.stored, (row) => compareEarlier(row, found)),
        { again: () => findEarlier(now) },
    );
}

/** None of a recording that is too long for the service. */
async function measuredNow(row, options) {
    try {
        const { measurements } = await ask(storedPath(row, "report"), options);
        return Object.fromEntries(SHOWN.map((name) => [name, measurements[name].value]));
    } catch (error) {
        if (error instanceof Problem && error.status === 422) return {};
        throw error;
    }
}

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
        (wait) => ask(...about(now, "similar", { query, signal, waiting: wait })),
        (found) => {
            now.similar = { ...found, filters };
            showNeighbours(byId("neighbours"), found, { open: compare, point: (index) => patientMap.mark(index) });
            patientMap.showQuery(found);
            announce(`${count(found.neighbours.length, "neighbour")} found`);
        },
        { again: () => findSimilar(now), anyLead: () => takeAnyLead(now) },
    );
}

/** A neighbour, or another ECG of the patient, beside the open one. */
const compare = (neighbour, number) => compareNeighbour(open, neighbour, number, model.leads);
const compareEarlier = (row, found) => compareOfPatient(open, row, found);

const EXPORTS = {
    png: () => sheetPicture(paperPanel.sheet, open.recording, model.notice),
    pdf: () =>
        ask(
            ...about(open, "figure", {
                query: { format: "pdf", seconds: Math.min(open.recording.shown, model.limits.shown_seconds) },
                signal: open.abort.signal,
                as: "blob",
            }),
        ),
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
    byId("recordings-link").hidden = model.recordings === null || !may("list");
    if (location.hash === "#recordings") listRecordings(openStored);
    byId("foot-notice").textContent = model.notice;
    byId("print-time").hidden = !model.prints_times;
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
    else if (turnPage()) {
        focusTitle();
        if (location.hash === "#recordings") listRecordings(openStored);
    }
});
turnPage();
watchForFiles(openFiles);
byId("open-another").addEventListener("click", () => byId("file-input").click());
for (const kind of Object.keys(EXPORTS)) byId(`save-${kind}`).addEventListener("click", () => saveAs(kind));
watchPrintForm(() => open);
const told = learnModel();
