/** Two recordings on paper of one scale, lined up on a QRS complex, and how far their typical beats are apart. */

import { beatSpan, cutBeats, findBeats, laidUnder, median, typicalBeat } from "./beats.js";
import { leadOf } from "./recording.js";
import { LEFT, arranged, strip } from "./sheet.js";

const LEAD_IN = 0.6; // seconds before the complex at which both are lined up
const LONGEST = 10;
const BEAT_SPEED = 50; // mm/s on which typical beats are drawn
const BEAT_GAP = 10; // mm

/**
 * {query, other, names, calibrated, span, beats, typical, rate, standIn}: two recordings with the leads both have.
 * `beats` are seconds by recording, `rate` beats a minute; `span` is null where beats were not found, and then nothing
 * is compared; amplitudes are not where not both are `calibrated`.
 * `standIn` is the name of the other's lead that goes by the query's name, where they have none in common.
 */
export function pair(query, found) {
    const standIn = leadInstead(query, found);
    const other = standIn ? { ...found, leads: [{ ...standIn, name: principal(query).name }] } : found;
    const names = query.leads.map((lead) => lead.name).filter((name) => leadOf(other, name));
    const beats = [findBeats(query), findBeats(other)];
    const span = beatSpan(...beats);
    const typical = new Map();
    for (const name of span ? names : []) {
        const both = [query, other].map((recording, side) =>
            typicalBeat(cutBeats(leadOf(recording, name).values, recording.rate, beats[side], span)),
        );
        if (both.every(Boolean)) typical.set(name, both);
    }
    const calibrated = query.calibrated && other.calibrated;
    const rate = beats.map(beatsAMinute);
    return { query, other, names, calibrated, beats, span, typical, rate, standIn: standIn?.name };
}

const principal = (recording) => leadOf(recording, "II") ?? recording.leads[0];

/** Where no lead is in both, as with a file that calls its only one ECG: the other's main lead; else null. */
function leadInstead(query, other) {
    return query.leads.some((lead) => leadOf(other, lead.name)) ? null : principal(other);
}

function beatsAMinute(beats) {
    if (beats.length < 3) return null;
    return Math.round(60 / median(beats.slice(1).map((at, index) => at - beats[index])));
}

/** Where each recording starts, so that a complex of both lies at the same place; null: at their starts. */
function starts({ beats, query, other }) {
    const aligned = [query, other].map((_, side) => beats[side].find((at) => at >= LEAD_IN));
    return aligned.includes(undefined) ? null : aligned.map((at) => at - LEAD_IN);
}

function setting(both, { gain, speed }) {
    const begins = starts(both) ?? [0, 0];
    const marks = starts(both) ? [LEFT + LEAD_IN * speed] : [];
    const length = Math.min(LONGEST, both.query.shown - begins[0], both.other.shown - begins[1]);
    return {
        begins,
        marks,
        length,
        paper: { gain, speed, calibrated: both.calibrated, from: 0, to: length },
    };
}

/** Two sheets with the same rows: [query, other]. With `shade`, the distance to the other's typical beat is shaded. */
export function besideEachOther(both, names, { gain, speed, shade }) {
    const { begins, marks, length, paper } = setting(both, { gain, speed });
    const rows = [both.query, both.other].map((recording, side) =>
        names.map((name) => {
            const part = strip(recording, name, begins[side], begins[side] + length, LEFT);
            part.role = side ? "other" : "trace";
            if (side && both.standIn) part.name = both.standIn;
            if (shade && both.typical.has(name)) part.beneath = beneath(both, name, side);
            return [part];
        }),
    );
    const together = names.map((_, index) => [rows[0][index][0], rows[1][index][0]]);
    return rows.map((own) => ({ ...arranged(own, paper, together), marks }));
}

function beneath(both, name, side) {
    const [own, foreign] = side ? [both.other, both.query] : [both.query, both.other];
    return laidUnder(
        own.samples,
        own.rate,
        both.beats[side],
        both.span,
        both.typical.get(name)[1 - side],
        foreign.rate,
    );
}

/** One sheet with both traces. */
export function onTopOfEachOther(both, names, { gain, speed }) {
    const { begins, marks, length, paper } = setting(both, { gain, speed });
    const rows = names.map((name) => [
        { ...strip(both.other, name, begins[1], begins[1] + length, LEFT), role: "other", name: "" },
        strip(both.query, name, begins[0], begins[0] + length, LEFT),
    ]);
    return { ...arranged(rows, paper), marks };
}

/** One sheet with a cell for each lead, so many in a row: both typical beats, the area between them shaded. */
export function typicalSheet(both, names, { gain, shade, columns: most }) {
    const { before, after } = both.span;
    const length = before + after;
    const cell = length * BEAT_SPEED + BEAT_GAP;
    const known = names.filter((name) => both.typical.has(name));
    const columns = Math.min(most, known.length);
    const rows = [];
    known.forEach((name, index) => {
        const [mine, theirs] = both.typical.get(name);
        const place = { from: 0, to: length, x: LEFT + (index % columns) * cell };
        const query = { lead: name, name, values: mine, rate: both.query.rate, role: "trace", ...place };
        if (shade)
            query.beneath = laidUnder(mine.length, both.query.rate, [before], both.span, theirs, both.other.rate);
        if (index % columns === 0) rows.push([]);
        const other = { lead: name, name: "", values: theirs, rate: both.other.rate, role: "other", ...place };
        rows.at(-1).push(other, query);
    });
    return arranged(rows, {
        gain,
        speed: BEAT_SPEED,
        calibrated: both.calibrated,
        from: 0,
        to: (columns * cell - BEAT_GAP) / BEAT_SPEED,
    });
}

/** {name, millivolt, milliseconds after the QRS} where typical beats are farthest apart; null if unknown. */
export function farthestApart(both, names) {
    let found = null;
    for (const name of names) {
        if (!both.typical.has(name)) continue;
        const [mine, theirs] = both.typical.get(name);
        const under = laidUnder(mine.length, both.query.rate, [both.span.before], both.span, theirs, both.other.rate);
        mine.forEach((value, at) => {
            const millivolt = Math.abs(value - under[at]);
            if (millivolt > (found?.millivolt ?? 0)) {
                found = { name, millivolt, milliseconds: Math.round((at / both.query.rate - both.span.before) * 1000) };
            }
        });
    }
    return found;
}
