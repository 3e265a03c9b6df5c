/** A recording as the viewer draws it, from the service's preview. */

const ADU_SPAN = 1.5; // mV that a lead in raw steps is drawn as, from its 0.5th to its 99.5th percentile
const STANDARD = ["I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6"];

/**
 * {format, rate, seconds, shown, samples, age, sex, labels, notes, calibrated, leads}; `shown` are the seconds that are
 * here; `labels` only a neighbour's has.
 * A lead is {name, derived, values}: mV around its median, as a machine's filter would centre it, NaN where missing.
 * Not `calibrated`: the file has raw steps and no millivolt, so amplitudes are not to scale.
 */
export function recordingOf(preview) {
    const calibrated = preview.unit === "mV";
    const { scale, missing, samples } = preview.signal;
    const leads = preview.leads.map(({ name, derived }) => ({
        name,
        derived,
        values: centred(samples[name], scale[name], missing, calibrated),
    }));
    const length = leads[0]?.values.length ?? 0;
    return {
        format: preview.format,
        rate: preview.sampling_rate,
        seconds: preview.seconds,
        shown: length / preview.sampling_rate,
        samples: length,
        age: preview.age,
        sex: preview.sex,
        labels: preview.labels,
        notes: preview.notes,
        calibrated,
        leads,
    };
}

export const leadOf = (recording, name) => recording.leads.find((lead) => lead.name === name);

export const hasStandardLeads = (recording) => STANDARD.every((name) => leadOf(recording, name));

function centred(steps, scale, missing, calibrated) {
    const known = Float64Array.from(steps.filter((step) => step !== missing)).sort();
    const at = (part) => known[Math.min(known.length - 1, Math.floor(part * known.length))] ?? 0;
    const middle = at(0.5);
    const factor = calibrated ? scale : ADU_SPAN / (at(0.995) - at(0.005) || 1);
    return Float32Array.from(steps, (step) => (step === missing ? NaN : (step - middle) * factor));
}
