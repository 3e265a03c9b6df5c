/** Two pairs of lines on the paper: time between the upright ones, voltage between the level ones. */

import { drawing, element } from "./dom.js";

const FINE = 0.1; // mm a key moves a line
const COARSE = 1; // mm with Shift
const LINES = [
    { axis: "x", index: 0, name: "First time line" },
    { axis: "x", index: 1, name: "Second time line" },
    { axis: "y", index: 0, name: "First voltage line" },
    { axis: "y", index: 1, name: "Second voltage line" },
];

export class Calipers {
    /**
     * Lives on the stage of `paper`, above its canvas; call `update` when the paper's view has changed.
     * `other(event)` gets the keys that move no line, and says whether it took one; `moved(at)` is called when a line
     * was moved.
     */
    constructor(paper, other = () => false, moved = () => {}) {
        Object.assign(this, { paper, other, moved });
        this.on = false;
        this.repeating = false;
        this.at = null; // mm: {x: [,], y: [,]}
        this.handles = LINES.map((line) => this.handle(line));
        this.readout = element("output", { class: "caliper-readout", "aria-live": "off" });
        this.repeats = drawing("svg", { class: "caliper-repeats", "aria-hidden": "true" });
        this.layer = element("div", { class: "calipers", hidden: true }, this.repeats, this.handles, this.readout);
        this.draggable(this.readout, (right, down) => {
            this.move("x", 0, right);
            this.move("x", 1, right);
            this.move("y", 0, down);
            this.move("y", 1, down);
        });
        paper.canvas.parentElement.append(this.layer);
    }

    get hasFocus() {
        return this.layer.contains(document.activeElement);
    }

    toggle(on = !this.on) {
        this.on = on;
        this.layer.hidden = !on;
        if (on) this.place();
        return on;
    }

    repeat(repeating) {
        this.repeating = repeating;
        this.update();
    }

    /** Into the middle of what is seen: 800 ms by 1 mV where there is room. */
    place() {
        const { view, size, sheet } = this.paper;
        const [wide, tall] = [size.width / view.scale, size.height / view.scale];
        const interval = Math.min(0.8 * sheet.speed, wide / 2);
        const height = Math.min(sheet.gain, tall / 2);
        const [x, y] = [view.x + wide * 0.42, view.y + tall * 0.3];
        this.at = { x: [x, x + interval], y: [y, y + height] };
        this.update();
    }

    /** {milliseconds, beats, millivolt}; millivolt is null where amplitudes are not to scale. */
    reading() {
        const { sheet } = this.paper;
        const milliseconds = (Math.abs(this.at.x[1] - this.at.x[0]) / sheet.speed) * 1000;
        const millivolt = Math.abs(this.at.y[1] - this.at.y[0]) / sheet.gain;
        return {
            milliseconds: Math.round(milliseconds),
            beats: milliseconds >= 1 ? Math.round(60000 / milliseconds) : null,
            millivolt: sheet.calibrated ? Number(millivolt.toFixed(2)) : null,
        };
    }

    update() {
        if (!this.on) return;
        const { view } = this.paper;
        const text = readingText(this.reading());
        LINES.forEach(({ axis, index }, number) => {
            const pixels = (this.at[axis][index] - view[axis]) * view.scale;
            this.handles[number].style[axis === "x" ? "left" : "top"] = `${pixels}px`;
            this.handles[number].setAttribute("aria-valuenow", this.at[axis][index].toFixed(1));
            this.handles[number].setAttribute("aria-valuetext", text);
        });
        this.readout.textContent = text;
        const { size } = this.paper;
        const middle = ((this.at.x[0] + this.at.x[1]) / 2 - view.x) * view.scale;
        this.readout.style.left = `${Math.min(Math.max(middle, 120), size.width - 120)}px`;
        this.drawRepeats();
    }

    /** The same interval again and again, to see whether a rhythm keeps to it. */
    drawRepeats() {
        const { view, size, sheet } = this.paper;
        const [first, last] = [...this.at.x].sort((one, two) => one - two);
        const every = last - first;
        const places = [];
        if (this.repeating && every * view.scale >= 6) {
            for (let mm = first - Math.floor(first / every) * every; mm <= sheet.width; mm += every) places.push(mm);
        }
        const lines = places
            .filter((mm) => Math.abs(mm - first) > 1e-6 && Math.abs(mm - last) > 1e-6)
            .map((mm) => (mm - view.x) * view.scale)
            .filter((x) => x >= 0 && x <= size.width)
            .map((x) => drawing("line", { x1: x, x2: x, y1: 0, y2: size.height }));
        this.repeats.replaceChildren(...lines);
    }

    handle({ axis, index, name }) {
        const node = element("div", {
            class: `caliper-line caliper-${axis}`,
            role: "slider",
            tabindex: "0",
            "aria-label": name,
            "aria-orientation": axis === "x" ? "horizontal" : "vertical",
            "aria-valuemin": "0",
            "aria-valuemax": "10000",
            keydown: (event) => {
                if (event.ctrlKey || event.metaKey || event.altKey) return;
                if (event.key in keys) this.move(axis, index, (event.shiftKey ? COARSE : FINE) * keys[event.key]);
                else if (!this.other(event)) return;
                event.preventDefault();
            },
        });
        const keys = axis === "x" ? { ArrowLeft: -1, ArrowRight: 1 } : { ArrowUp: -1, ArrowDown: 1 };
        this.draggable(node, (right, down) => this.move(axis, index, axis === "x" ? right : down));
        return node;
    }

    /** `moved(right, down)` in mm. */
    draggable(node, moved) {
        let last = null;
        node.addEventListener("pointerdown", (event) => {
            node.setPointerCapture(event.pointerId);
            last = event;
        });
        node.addEventListener("pointermove", (event) => {
            if (!last) return;
            const { scale } = this.paper.view;
            moved((event.clientX - last.clientX) / scale, (event.clientY - last.clientY) / scale);
            last = event;
        });
        for (const name of ["pointerup", "pointercancel"]) node.addEventListener(name, () => (last = null));
    }

    move(axis, index, millimetres) {
        const { sheet } = this.paper;
        const most = axis === "x" ? sheet.width : sheet.height;
        this.at[axis][index] = Math.min(most, Math.max(0, this.at[axis][index] + millimetres));
        this.update();
        this.moved(this.at);
    }
}

export function readingText({ milliseconds, beats, millivolt }) {
    const parts = [`${milliseconds} ms`];
    if (beats !== null) parts.push(`${beats} / min`);
    if (millivolt !== null) parts.push(`${millivolt.toFixed(2)} mV`);
    return parts.join("   ");
}
