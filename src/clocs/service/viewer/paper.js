/** A sheet of ECG paper on a canvas: ruled, sharp on any screen, drawn only where it is seen. */

import { LEFT, NAME_UP, REACH } from "./sheet.js";

const PULSE = 5; // mm
const TYPE = '"Segoe UI", "Helvetica Neue", Arial, sans-serif';
const LEAST_FINE = 2.6; // device pixels between fine lines, below which they would be a grey mist
export const SHADE_FROM = 0.1; // mV of distance from which it is shaded

/** The theme's colours by their names in colours.css, for canvases. */
export function themeColours(root = document.documentElement) {
    const style = getComputedStyle(root);
    const names = ["desk", "paper", "grid-fine", "grid-bold", "ink", "trace", "other", "difference", "gap", "muted"];
    return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/**
 * Draw the part of `sheet` that `view` shows: {scale (pixels per mm), x, y (mm at the upper left corner)},
 * on `size` {width, height} CSS pixels, `ratio` device pixels each.
 */
export function drawSheet(context, sheet, view, size, colours, ratio) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.desk;
    context.fillRect(0, 0, size.width * ratio, size.height * ratio);
    const scale = view.scale * ratio;
    drawGrid(context, sheet, view, size, colours, ratio);
    context.setTransform(1, 0, 0, 1, -view.x * scale, -view.y * scale);
    if (sheet.timed) drawSeconds(context, sheet, scale, ratio, colours);
    for (const mark of sheet.marks ?? []) drawMark(context, mark, sheet, scale, ratio, colours);
    for (const strip of sheet.strips) if (strip.name) drawName(context, strip, sheet, view, scale, ratio, colours);
    const seen = { from: view.x, to: view.x + size.width / view.scale };
    const inSight = ({ zero }) => zero + REACH > view.y && zero - REACH < view.y + size.height / view.scale;
    for (const strip of sheet.strips.filter(inSight)) {
        context.save();
        context.beginPath();
        context.rect(
            strip.x * scale,
            (strip.zero - REACH) * scale,
            (strip.to - strip.from) * sheet.speed * scale + 1,
            2 * REACH * scale,
        );
        context.clip();
        drawGaps(context, strip, sheet, seen, scale, colours);
        if (strip.beneath) drawDifference(context, strip, sheet, seen, scale, colours);
        drawTrace(context, strip, sheet, seen, scale, ratio, colours);
        context.restore();
        if (strip.pulse) drawPulse(context, strip, sheet, scale, ratio, colours);
    }
}

/** A dashed line over the whole height, at a place in mm. */
function drawMark(context, x, sheet, scale, ratio, colours) {
    context.save();
    context.strokeStyle = colours.muted;
    context.lineWidth = ratio;
    context.setLineDash([4 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(x * scale, 0);
    context.lineTo(x * scale, sheet.height * scale);
    context.stroke();
    context.restore();
}

/** The recording's seconds along the lower edge. */
function drawSeconds(context, sheet, scale, ratio, colours) {
    context.fillStyle = colours.muted;
    context.font = `${Math.max(10 * ratio, Math.min(13 * ratio, 2.6 * scale))}px ${TYPE}`;
    context.textAlign = "center";
    for (let second = 1; second <= sheet.to; second += 1) {
        context.fillText(`${second} s`, (LEFT + second * sheet.speed) * scale, (sheet.height - 1.5) * scale);
    }
    context.textAlign = "left";
}

function drawGrid(context, sheet, view, size, colours, ratio) {
    const scale = view.scale * ratio;
    const place = (mm, start) => Math.round((mm - start) * scale);
    const box = {
        left: Math.max(0, place(0, view.x)),
        top: Math.max(0, place(0, view.y)),
        right: Math.min(size.width * ratio, place(sheet.width, view.x)),
        bottom: Math.min(size.height * ratio, place(sheet.height, view.y)),
    };
    context.fillStyle = colours.paper;
    context.fillRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
    for (const [every, colour, thick] of [
        [1, colours["grid-fine"], 1],
        [5, colours["grid-bold"], Math.max(1, Math.round(0.14 * scale))],
    ]) {
        if (every * scale < LEAST_FINE) continue;
        context.fillStyle = colour;
        const [firstX, lastX] = [
            Math.max(0, Math.ceil(view.x)),
            Math.min(sheet.width, view.x + size.width / view.scale),
        ];
        for (let mm = Math.ceil(firstX / every) * every; mm <= lastX; mm += every) {
            context.fillRect(place(mm, view.x) - (thick >> 1), box.top, thick, box.bottom - box.top);
        }
        const [firstY, lastY] = [
            Math.max(0, Math.ceil(view.y)),
            Math.min(sheet.height, view.y + size.height / view.scale),
        ];
        for (let mm = Math.ceil(firstY / every) * every; mm <= lastY; mm += every) {
            context.fillRect(box.left, place(mm, view.y) - (thick >> 1), box.right - box.left, thick);
        }
    }
}

/** First and last sample (excluded) of a strip between two places in mm, with one to spare. */
function range(strip, sheet, from, to) {
    const at = (mm) => (strip.from + (mm - strip.x) / sheet.speed) * strip.rate;
    return [
        Math.max(Math.round(strip.from * strip.rate), Math.floor(at(from)) - 1, 0),
        Math.min(Math.round(strip.to * strip.rate), Math.ceil(at(to)) + 2, strip.values.length),
    ];
}

function drawTrace(context, strip, sheet, seen, scale, ratio, colours) {
    const [first, last] = range(strip, sheet, seen.from, seen.to);
    const step = (sheet.speed * scale) / strip.rate;
    const left = strip.x * scale - strip.from * sheet.speed * scale;
    const up = -sheet.gain * scale;
    const zero = strip.zero * scale;
    const together = Math.max(1, Math.floor(1 / step));
    let pen = false;
    context.beginPath();
    for (let at = first; at < last; at += together) {
        const [low, high] =
            together === 1
                ? [strip.values[at], strip.values[at]]
                : extremes(strip.values, at, Math.min(last, at + together));
        if (Number.isNaN(low)) {
            pen = false;
            continue;
        }
        const x = left + at * step;
        if (pen) context.lineTo(x, zero + low * up);
        else context.moveTo(x, zero + low * up);
        if (together > 1) context.lineTo(x, zero + high * up);
        pen = true;
    }
    context.lineJoin = together > 1 ? "bevel" : "round"; // round ones are slow, and not seen at a pixel's distance
    context.strokeStyle = colours[strip.role];
    context.lineWidth = Math.max(1.15 * ratio, 0.28 * scale);
    context.stroke();
}

function extremes(values, from, to) {
    let [low, high] = [NaN, NaN];
    for (let at = from; at < to; at += 1) {
        if (!(values[at] >= low)) low = Number.isNaN(values[at]) ? low : values[at];
        if (!(values[at] <= high)) high = Number.isNaN(values[at]) ? high : values[at];
    }
    return [low, high];
}

/** The area between a trace and what is laid beneath it, where they are apart. */
function drawDifference(context, strip, sheet, seen, scale, colours) {
    const [first, last] = range(strip, sheet, seen.from, seen.to);
    const x = (at) => (strip.x + (at / strip.rate - strip.from) * sheet.speed) * scale;
    const y = (value) => (strip.zero - value * sheet.gain) * scale;
    const apart = (at) => Math.abs(strip.values[at] - strip.beneath[at]) > SHADE_FROM;
    context.fillStyle = colours.difference;
    context.beginPath();
    for (let at = first; at < last; at += 1) {
        if (!apart(at)) continue;
        const start = at;
        while (at < last && apart(at)) at += 1;
        for (let point = start; point < at; point += 1) context.lineTo(x(point), y(strip.values[point]));
        for (let point = at - 1; point >= start; point -= 1) context.lineTo(x(point), y(strip.beneath[point]));
        context.closePath();
        context.fill();
        context.beginPath();
    }
}

function drawGaps(context, strip, sheet, seen, scale, colours) {
    const [first, last] = range(strip, sheet, seen.from, seen.to);
    context.fillStyle = colours.gap;
    for (let at = first; at < last; at += 1) {
        if (!Number.isNaN(strip.values[at])) continue;
        const start = at;
        while (at < last && Number.isNaN(strip.values[at])) at += 1;
        const left = (strip.x + (start / strip.rate - strip.from) * sheet.speed) * scale;
        const width = Math.max(0.5, ((at - start) / strip.rate) * sheet.speed) * scale;
        context.fillRect(left, (strip.zero - 4) * scale, width, 8 * scale);
    }
}

/** One millivolt, five millimetres wide. */
function drawPulse(context, strip, sheet, scale, ratio, colours) {
    const [left, zero, height] = [3.5 * scale, strip.zero * scale, sheet.gain * scale];
    context.beginPath();
    context.moveTo(left - 1.5 * scale, zero);
    context.lineTo(left, zero);
    context.lineTo(left, zero - height);
    context.lineTo(left + PULSE * scale, zero - height);
    context.lineTo(left + PULSE * scale, zero);
    context.lineTo(left + (PULSE + 1.5) * scale, zero);
    context.strokeStyle = colours.trace;
    context.lineWidth = Math.max(1.15 * ratio, 0.28 * scale);
    context.stroke();
}

/** A lead's name stays in sight at the left edge while its trace is moved; a tick marks where a lead begins. */
function drawName(context, strip, sheet, view, scale, ratio, colours) {
    const [from, to] = [strip.x, strip.x + (strip.to - strip.from) * sheet.speed];
    const at = Math.min(Math.max(from + strip.nameAt, view.x + 1), to - 8);
    context.strokeStyle = colours.trace;
    context.lineWidth = Math.max(ratio, 0.2 * scale);
    context.beginPath();
    context.moveTo(from * scale, (strip.zero - 3.5) * scale);
    context.lineTo(from * scale, (strip.zero - 1.5) * scale);
    context.moveTo(from * scale, (strip.zero + 1.5) * scale);
    context.lineTo(from * scale, (strip.zero + 3.5) * scale);
    context.stroke();
    const size = Math.max(11 * ratio, Math.min(17 * ratio, 3.4 * scale));
    const text = strip.derived ? `${strip.name}*` : strip.name;
    context.font = `600 ${size}px ${TYPE}`;
    context.lineWidth = 4 * ratio;
    context.strokeStyle = colours.paper;
    const place = [at * scale, (strip.zero - NAME_UP) * scale];
    context.strokeText(text, ...place);
    context.fillStyle = strip.role === "other" ? colours.other : colours.ink;
    context.fillText(text, ...place);
}
