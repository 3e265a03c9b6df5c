/** Where the heart beats, and a lead's typical beat. For lining up two recordings, not for measuring. */

const WINDOW = 0.09; // seconds over which steepness is gathered: about a QRS complex
const LEAST_APART = 0.28; // seconds between beats, at most 214 a minute
const THRESHOLD = 0.3; // of the steepness that a recording's steepest complexes have
const FEWEST = 3; // beats that make one typical

/** Seconds of the QRS complexes, found by the steepness of all leads together. */
export function findBeats(recording) {
    const { rate } = recording;
    const energy = smoothed(steepness(recording), Math.max(1, Math.round(WINDOW * rate)));
    const peaks = Float64Array.from(energy).sort();
    const high = peaks[Math.floor(0.985 * (peaks.length - 1))] ?? 0;
    if (!(high > 0)) return [];
    const apart = Math.round(LEAST_APART * rate);
    const found = [];
    for (let at = 0; at < energy.length; at += 1) {
        if (energy[at] < THRESHOLD * high || !isPeak(energy, at, apart)) continue;
        if (!found.length || at - found.at(-1) > apart) found.push(at);
    }
    return found.map((at) => at / rate);
}

/** (samples,): squared slope summed over leads, each by its own size, so that no lead rules. */
function steepness({ leads, samples }) {
    const energy = new Float64Array(samples);
    for (const { values } of leads) {
        let total = 0;
        const slopes = new Float64Array(samples);
        for (let at = 2; at < samples; at += 1) {
            const slope = values[at] - values[at - 2];
            slopes[at - 1] = Number.isNaN(slope) ? 0 : slope * slope;
            total += slopes[at - 1];
        }
        if (total > 0) for (let at = 0; at < samples; at += 1) energy[at] += slopes[at] / total;
    }
    return energy;
}

function smoothed(values, width) {
    const result = new Float64Array(values.length);
    const half = width >> 1;
    let sum = 0;
    for (let at = -half; at < values.length; at += 1) {
        sum += values[at + half] ?? 0;
        sum -= values[at - half - 1] ?? 0;
        if (at >= 0) result[at] = sum;
    }
    return result;
}

function isPeak(values, at, reach) {
    const last = Math.min(values.length - 1, at + reach);
    for (let other = Math.max(0, at - reach); other <= last; other += 1) {
        if (values[other] > values[at]) return false;
    }
    return true;
}

/** The seconds before and after a beat that belong to it, for two recordings alike; null with too few beats. */
export function beatSpan(...manyBeats) {
    if (manyBeats.some((beats) => beats.length < FEWEST)) return null;
    const interval = Math.min(...manyBeats.map((beats) => median(gaps(beats))));
    return { before: Math.min(0.28, 0.35 * interval), after: Math.min(0.52, 0.6 * interval) };
}

const gaps = (beats) => beats.slice(1).map((at, index) => at - beats[index]);

/** Beats of one lead, cut out around each QRS: arrays of mV by the lead's own rate, all of one length. */
export function cutBeats(values, rate, beats, span) {
    const before = Math.round(span.before * rate);
    const length = before + Math.round(span.after * rate) + 1;
    return beats
        .map((at) => Math.round(at * rate) - before)
        .filter((start) => start >= 0 && start + length <= values.length)
        .map((start) => values.subarray(start, start + length));
}

/** The median of cut beats, sample by sample; null with too few. */
export function typicalBeat(cut) {
    if (cut.length < FEWEST) return null;
    return Float32Array.from(cut[0], (_, at) =>
        median(cut.map((beat) => beat[at]).filter((value) => !Number.isNaN(value))),
    );
}

/** A beat of another rate laid under each beat of a lead: (samples,) mV, NaN between beats. */
export function laidUnder(samples, rate, beats, span, beat, beatRate) {
    const result = new Float32Array(samples).fill(NaN);
    for (const at of beats) {
        const first = Math.max(0, Math.ceil((at - span.before) * rate));
        const last = Math.min(samples - 1, Math.floor((at + span.after) * rate));
        for (let index = first; index <= last; index += 1) {
            result[index] = interpolated(beat, (index / rate - at + span.before) * beatRate);
        }
    }
    return result;
}

function interpolated(values, place) {
    const low = Math.max(0, Math.min(values.length - 1, Math.floor(place)));
    const high = Math.min(values.length - 1, low + 1);
    return values[low] + (values[high] - values[low]) * (place - low);
}

export function median(values) {
    const sorted = Float64Array.from(values).sort();
    const half = sorted.length >> 1;
    return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
