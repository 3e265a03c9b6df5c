/** A sheet that one can move and enlarge: drawn on a canvas, anew when something changed. */

import { drawSheet, themeColours } from "./paper.js";

export const NARROW = 700; // pixels of a window that has room for two columns of leads
export const TRUE_SCALE = 96 / 25.4; // CSS pixels per mm at 100 %
const LEAST_SCALE = 0.6;
const MOST_SCALE = 40;
const READABLE = 2.7; // pixels per mm below which a whole sheet is not squeezed in
const FITTED = 270; // mm that are fitted in: ten seconds at 25 mm/s
const TALLEST = 0.76; // of the window's height
const TALLEST_WHOLE = 0.62; // of the window's height
const TALLEST_BY_TOUCH = 2000; // pixels: a finger scrolls the page, so all rows must be there

export class PaperView {
    /**
     * `changed` is called after every change of the view; `readable` is the least scale of a fitted
     * sheet; `whole`: all of it is fitted in.
     */
    constructor(canvas, { changed = () => {}, readable = READABLE, whole = false } = {}) {
        Object.assign(this, {
            canvas,
            changed,
            readable,
            whole,
            sheet: null,
            view: { scale: 1, x: 0, y: 0 },
            fitted: true,
        });
        this.size = { width: 0, height: 0 };
        this.closing = new AbortController();
        this.observer = new ResizeObserver(() => this.resized());
        this.observer.observe(canvas.parentElement);
        document.addEventListener("themechange", () => this.redraw(), { signal: this.closing.signal });
    }

    /** No more drawing: for a paper that leaves the page before the page ends. */
    close() {
        this.observer.disconnect();
        this.closing.abort();
    }

    /** Another sheet; the view stays where it is unless it showed the whole width. */
    show(sheet) {
        this.sheet = sheet;
        if (this.fitted) this.fit();
        else this.look({});
    }

    /** The whole width or ten seconds of it, but no smaller than can be read unless leads would be hidden. */
    fit() {
        if (!this.sheet) return;
        const { width, height } = this.sheet;
        const wide = this.canvas.parentElement.clientWidth / (this.whole ? width : Math.min(FITTED, width));
        const scale = this.whole ? Math.min(wide, (innerHeight * TALLEST_WHOLE) / height) : wide;
        this.look({ scale: this.sheet.columns ? scale : Math.max(this.readable, scale), x: 0, y: 0 });
        this.fitted = true;
    }

    /** Move or enlarge; the paper never leaves the window. */
    look({ scale = this.view.scale, x = this.view.x, y = this.view.y }) {
        if (!this.sheet) return;
        const bounded = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale));
        this.fitted = false;
        this.measure(bounded);
        const within = (place, whole, seen) => Math.min(Math.max(0, place), Math.max(0, whole - seen));
        this.view = {
            scale: bounded,
            x: within(x, this.sheet.width, this.size.width / bounded),
            y: within(y, this.sheet.height, this.size.height / bounded),
        };
        this.redraw();
        this.changed(this);
    }

    /** Pixels by which the paper is moved. */
    moveBy(right, down) {
        this.look({ x: this.view.x - right / this.view.scale, y: this.view.y - down / this.view.scale });
    }

    /** Enlarge around a place of the canvas, in pixels; its middle unless given. */
    enlargeBy(factor, at = { x: this.size.width / 2, y: this.size.height / 2 }) {
        const { scale, x, y } = this.view;
        const next = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, scale * factor));
        this.look({ scale: next, x: x + at.x / scale - at.x / next, y: y + at.y / scale - at.y / next });
    }

    /** The canvas is as wide as its place, and as tall as the paper where the window allows. */
    measure(scale) {
        const width = this.canvas.parentElement.clientWidth;
        const byTouch = matchMedia("(pointer: coarse)").matches;
        const most = byTouch ? TALLEST_BY_TOUCH : Math.max(320, innerHeight * TALLEST);
        const height = Math.round(Math.min(most, this.sheet.height * scale));
        this.canvas.classList.toggle("taller", this.sheet.height * scale > height + 1);
        if (width === this.size.width && height === this.size.height && this.ratio === devicePixelRatio) return;
        this.size = { width, height };
        this.ratio = devicePixelRatio;
        this.canvas.width = Math.round(width * this.ratio);
        this.canvas.height = Math.round(height * this.ratio);
        this.canvas.style.height = `${height}px`;
        this.canvas.style.width = `${width}px`;
    }

    resized() {
        if (!this.sheet || this.canvas.parentElement.clientWidth === this.size.width) return;
        if (this.fitted) this.fit();
        else this.look({});
    }

    redraw() {
        if (this.waiting || !this.sheet) return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            drawSheet(this.canvas.getContext("2d"), this.sheet, this.view, this.size, themeColours(), this.ratio);
        });
    }
}
