/** What lies where on the paper, in millimetres. Knows nothing of screens. */

import { hasStandardLeads, leadOf } from "./recording.js";

export const LEFT = 15; // mm of paper left of the traces, for the pulses
const RIGHT = 5;
const SECONDS_HEIGHT = 5; // mm below the last row, for the seconds
const NEAREST = 20; // mm between the zero lines of neighbouring rows
const FARTHEST = 60;
const CLEARANCE = 3;
export const REACH = 40; // mm a trace may go up or down from its zero line; beyond, it is cut off
export const NAME_UP = 7; // mm that a lead's name stands above its zero line
const NAME_HEIGHT = 4;
const NAME_PLACES = Array.from({ length: 13 }, (_, place) => 1 + 2 * place); // mm from the beginning of its trace
const BIN = 5; // mm along which neighbouring rows must keep clear of each other
const THREE_ROWS = [
    ["I", "aVR", "V1", "V4"],
    ["II", "aVL", "V2", "V5"],
    ["III", "aVF", "V3", "V6"],
];
const SIX_ROWS = [
    ["I", "V1"],
    ["II", "V2"],
    ["III", "V3"],
    ["aVR", "V4"],
    ["aVL", "V5"],
    ["aVF", "V6"],
];
const COLUMN_SECONDS = 2.5;
const RHYTHM = "II";
const WRAPPED_SECONDS = 10;
const SHORTEST_STANDARD = 4;
const MOST_WRAPPED = 3; // leads that are broken into rows where they are longer than one

export const canBeStandard = (recording) => hasStandardLeads(recording) && recording.shown >= SHORTEST_STANDARD;

/**
 * {width, height, gain, speed, calibrated, strips, cut, from, to}. A strip is a stretch of one lead:
 * {lead, name (as written beside it), derived, values, rate, from, to (seconds), x, zero, nameAt (mm), pulse, role,
 * beneath}. `cut` are the leads that go beyond their reach.
 * `beneath`: other values, the distance to which is shaded. `role`: "trace" or "other". A sheet that is `timed` has
 * its seconds written along the lower edge; `marks` are places of dashed lines. A sheet of `columns` has one page of
 * the recording, and is fitted in as a whole.
 */
export const standardSheet = (recording, settings) => columnSheet(THREE_ROWS, recording, settings);

/** Six rows of two leads, five seconds: as wide as a telephone shows in a size that can be read. */
export const narrowSheet = (recording, settings) => columnSheet(SIX_ROWS, recording, settings);

function columnSheet(leads, recording, { gain, speed, start = 0 }) {
    const columns = leads[0].length;
    const seconds = columns * COLUMN_SECONDS;
    const from = Math.max(0, Math.min(start, recording.shown - seconds));
    const length = Math.min(seconds, recording.shown - from);
    const column = Math.floor((length * 10) / columns) / 10;
    const rows = leads.map((names) =>
        names.map((name, index) =>
            strip(recording, name, from + index * column, from + (index + 1) * column, LEFT + index * column * speed),
        ),
    );
    const to = from + columns * column;
    rows.push([strip(recording, RHYTHM, from, to, LEFT)]);
    return { ...arranged(rows, { gain, speed, calibrated: recording.calibrated, from, to }), columns };
}

/** Every lead (or the named ones) at full length, one below the other. */
export function stackedSheet(recording, { gain, speed }) {
    const rows = recording.leads.map(({ name }) => [strip(recording, name, 0, recording.shown, LEFT)]);
    const sheet = arranged(rows, { gain, speed, calibrated: recording.calibrated, from: 0, to: recording.shown });
    return { ...sheet, height: sheet.height + SECONDS_HEIGHT, timed: true };
}

export const canBeWrapped = (recording) => recording.leads.length <= MOST_WRAPPED && recording.shown > WRAPPED_SECONDS;

/** Few and long leads: ten seconds a row. */
export function wrappedSheet(recording, { gain, speed }) {
    const rows = [];
    for (let from = 0; from < recording.shown; from += WRAPPED_SECONDS) {
        const to = Math.min(from + WRAPPED_SECONDS, recording.shown);
        rows.push(
            ...recording.leads.map(({ name }) => {
                const part = strip(recording, name, from, to, LEFT);
                const alone = recording.leads.length === 1;
                return [{ ...part, name: from === 0 ? name : alone ? `${from} s` : `${name}, ${from} s` }];
            }),
        );
    }
    const sheet = arranged(rows, { gain, speed, calibrated: recording.calibrated, from: 0, to: WRAPPED_SECONDS });
    return { ...sheet, to: recording.shown };
}

export function strip(recording, name, from, to, x) {
    const { derived, values } = leadOf(recording, name);
    return { lead: name, name, derived, values, rate: recording.rate, from, to, x, role: "trace" };
}

/** Rows from top to bottom, each as near to the one above as their traces allow, zero lines on bold lines. */
export function arranged(rows, { gain, speed, calibrated, from, to }, beside = rows) {
    const width = LEFT + Math.ceil(((to - from) * speed) / 5) * 5 + RIGHT;
    const limits = beside.map((row) => envelope(row, gain, speed, width));
    const first = Math.max(gain, ...limits[0].high, 0);
    let zero = upToBold(Math.min(first, REACH) + CLEARANCE + 3);
    rows.forEach((row, index) => {
        if (index) zero += distance(limits[index - 1], limits[index]);
        row.forEach((part, place) =>
            Object.assign(part, { zero, pulse: place === 0 && calibrated, nameAt: roomForName(part, gain, speed) }),
        );
    });
    const lowest = Math.min(...limits.at(-1).low, -5);
    const strips = rows.flat();
    return {
        width,
        height: zero + upToBold(Math.min(-lowest, REACH) + CLEARANCE),
        gain,
        speed,
        calibrated,
        from,
        to,
        strips,
        cut: [...new Set(strips.filter((part) => goesBeyond(part, gain)).map((part) => part.lead))],
    };
}

const goesBeyond = ({ values, rate, from, to }, gain) =>
    values.subarray(Math.round(from * rate), Math.round(to * rate)).some((value) => Math.abs(value) * gain > REACH);

/** What one must know to read a sheet of a recording with this rate. */
export function scaleWords(sheet, rate) {
    return [
        `${sheet.speed} mm/s`,
        sheet.calibrated ? `${sheet.gain} mm/mV` : "raw units: amplitude not to scale",
        `${rate} Hz`,
        cutWords(sheet.cut),
        sheet.strips.some((part) => part.derived) ? "* follows from I and II" : "",
    ].filter(Boolean);
}

const cutWords = (leads) => (leads.length ? `beyond ${REACH} mm, cut off: ${leads.join(", ")}` : "");

/** Where a name may stand at the beginning of its trace, mm to the right of it: where the trace leaves it alone. */
function roomForName({ name, derived, values, rate, from }, gain, speed) {
    const samples = (mm) => Math.round((mm / speed) * rate);
    const first = Math.round(from * rate);
    const crossed = NAME_PLACES.map((right) => {
        const beside = values.subarray(first + samples(right - 1), first + samples(right + nameWidth(name, derived)));
        return beside.filter((value) => value * gain > NAME_UP - 2 && value * gain < NAME_UP + 5).length;
    });
    return NAME_PLACES[crossed.indexOf(Math.min(...crossed))];
}

/** mm; a derived lead has a star. */
const nameWidth = (name, derived) => 1 + 1.9 * (name.length + (derived ? 1 : 0));

const upToBold = (length) => Math.ceil(length / 5) * 5;

function distance(above, below) {
    let needed = 0;
    above.low.forEach((low, bin) => {
        for (const near of [bin - 1, bin, bin + 1]) needed = Math.max(needed, (below.high[near] ?? 0) - low);
    });
    return upToBold(Math.min(FARTHEST, Math.max(NEAREST, needed + CLEARANCE)));
}

/** How far up and down a row's traces go, in mm, for every few millimetres of its length. */
function envelope(row, gain, speed, width) {
    const high = new Float64Array(Math.ceil(width / BIN));
    const low = new Float64Array(high.length);
    for (const part of row) {
        const { name, derived, values, rate, from, to, x } = part;
        const begin = x + (name ? roomForName(part, gain, speed) : 0);
        const named = name ? Math.ceil((begin + nameWidth(name, derived)) / BIN) + 1 : 0;
        for (let bin = Math.floor(begin / BIN); bin < named; bin += 1)
            high[bin] = Math.max(high[bin], NAME_UP + NAME_HEIGHT);
        const last = Math.min(values.length, Math.round(to * rate));
        for (let at = Math.round(from * rate); at < last; at += 1) {
            const height = Math.max(-REACH, Math.min(REACH, values[at] * gain));
            const bin = Math.floor((x + (at / rate - from) * speed) / BIN);
            if (height > high[bin]) high[bin] = height;
            if (height < low[bin]) low[bin] = height;
        }
    }
    return { high, low };
}
