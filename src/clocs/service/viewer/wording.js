/** How numbers and facts are put into words. */

const OLDEST = 90; // years from which the service pools ages
const INFANT = 2; // years below which ages are told in months

/** 0.824 -> "82 %"; never "0 %" or "100 %" of what is neither. */
export function percent(part) {
    if (part > 0 && part < 0.005) return "under 1 %";
    if (part < 1 && part >= 0.995) return "over 99 %";
    return `${Math.round(part * 100)} %`;
}

export function count(number, one, many = `${one}s`) {
    return `${number.toLocaleString("en-GB")} ${number === 1 ? one : many}`;
}

export function age(years) {
    if (years === null || years === undefined) return "";
    if (years >= OLDEST) return `${OLDEST} years or more`;
    if (years >= INFANT) return `${Math.floor(years)} years`;
    const months = Math.floor(years * 12 + 1e-5); // months in years are rounded
    return months ? count(months, "month") : "under 1 month";
}

/** "63 years, female", or what is known of it. */
export function person(years, sex) {
    return [age(years), sex ?? ""].filter(Boolean).join(", ");
}

const DAY = 86_400_000; // ms
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/** "2020-02-29T08:30:05" -> "29 Feb 2020, 08:30"; midnight is a date without a time of day. */
export function dateTime(text) {
    const [date, time] = text.split("T");
    const [year, month, day] = date.split("-").map(Number);
    const clock = time === "00:00:00" ? "" : `, ${time.slice(0, 5)}`;
    return `${day} ${MONTHS[month - 1]} ${year}${clock}`;
}

/** How long `one` was before or after `other`: "412 days earlier". */
export function interval(one, other) {
    const apart = Date.parse(`${one}Z`) - Date.parse(`${other}Z`);
    const minutes = Math.round(Math.abs(apart) / 60_000);
    if (!minutes) return "at the same time";
    const days = Math.floor(Math.abs(apart) / DAY);
    const short = minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
    return `${days ? count(days, "day") : short} ${apart < 0 ? "earlier" : "later"}`;
}

export const megabytes = (bytes) => Math.round(bytes / 2 ** 20);

export const capitalized = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** With a capital and a full stop. */
export function sentence(text) {
    const whole = capitalized(text);
    return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

export function seconds(value) {
    return `${Number(value.toFixed(1))} s`;
}

const FORMATS = {
    wfdb: "WFDB",
    "chapman-csv": "Chapman CSV",
    irhythm: "iRhythm",
    "muse-xml": "GE MUSE XML",
    aecg: "HL7 aECG",
    "philips-xml": "Philips XML",
    "cardiosoft-xml": "CardioSoft XML",
    "schiller-xml": "Schiller XML",
    dicom: "DICOM",
    scp: "SCP-ECG",
    edf: "EDF or BDF",
    ishne: "ISHNE Holter",
    mfer: "MFER",
    alivecor: "AliveCor ATC",
    "apple-watch": "Apple Watch CSV",
    "clocs-csv": "clocs CSV",
};

export const formatName = (format) => FORMATS[format] ?? format;
