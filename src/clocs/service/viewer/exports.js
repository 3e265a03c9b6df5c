/** What is shown, as files. Their names and contents say nothing about who was recorded, beyond age and sex. */

import { drawSheet, themeColours } from "./paper.js";
import { scaleWords } from "./sheet.js";
import { person } from "./wording.js";

const SCALE = 8; // pixels per mm: 203 dots an inch
const LONGEST = 16000; // pixels that a canvas may have on a side
const MARGIN = 6; // mm of white around, twice as much above and below

export function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The whole sheet on white, in the colours of paper, whatever the theme. */
export function sheetPicture(sheet, recording, notice) {
    const scale = Math.min(SCALE, LONGEST / (sheet.width + 2 * MARGIN));
    const size = { width: Math.round(sheet.width * scale), height: Math.round(sheet.height * scale) };
    const paper = canvasOf(size.width, size.height);
    drawSheet(paper.getContext("2d"), sheet, { scale, x: 0, y: 0 }, size, lightColours(), 1);
    const margin = Math.round(MARGIN * scale);
    const whole = canvasOf(size.width + 2 * margin, size.height + 4 * margin);
    const context = whole.getContext("2d");
    context.fillStyle = "#fff";
    context.fillRect(0, 0, whole.width, whole.height);
    context.drawImage(paper, margin, 2 * margin);
    context.fillStyle = "#1a1a1a";
    context.textBaseline = "middle";
    context.font = `${3.2 * scale}px Arial, sans-serif`;
    const part = `${sheet.from.toFixed(1)} to ${sheet.to.toFixed(1)} s`;
    context.fillText([person(recording.age, recording.sex), part].filter(Boolean).join("   "), margin, margin);
    const footer = [...scaleWords(sheet, recording.rate), notice].join("   ");
    context.fillText(footer, margin, whole.height - margin, size.width);
    return new Promise((resolve) => whole.toBlob(resolve, "image/png"));
}

function canvasOf(width, height) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width, height });
    return canvas;
}

/** The light theme's colours, read off an element that has it. */
function lightColours() {
    const probe = document.createElement("div");
    probe.dataset.theme = "light";
    probe.hidden = true;
    document.body.append(probe);
    const colours = themeColours(probe);
    probe.remove();
    return colours;
}

/** Everything on the page but the trace: no names, no handles, no ids. */
export function resultText({ model, recording, classes, similar, reading }) {
    const { format, rate: sampling_rate, seconds, calibrated, age, sex, notes, leads } = recording;
    return JSON.stringify(
        {
            notice: model.notice,
            encoder: model.encoder,
            recording: {
                format,
                sampling_rate,
                seconds,
                unit: calibrated ? "mV" : "adu",
                age,
                sex,
                leads: leads.map((lead) => ({ name: lead.name, derived: lead.derived })),
                notes,
            },
            calipers: reading,
            classes: classes.filter(Boolean),
            similar: similar && {
                filters: similar.filters,
                query: similar.query,
                neighbours: similar.neighbours.map(withoutIds),
                notes: similar.notes,
            },
        },
        null,
        2,
    );
}

function withoutIds({ similarity, distance, labels, age, sex, recordings, why, map }) {
    return { similarity, distance, labels, age, sex, recordings, why, map };
}
