/** The recording on paper with its switches: layout, gain, speed, calipers, size, and which part of a long one. */

import { Calipers } from "./calipers.js";
import { byId, choice, element } from "./dom.js";
import { handle } from "./gestures.js";
import { NARROW, PaperView, TRUE_SCALE } from "./paper-view.js";
import {
    canBeStandard,
    canBeWrapped,
    narrowSheet,
    scaleWords,
    stackedSheet,
    standardSheet,
    wrappedSheet,
} from "./sheet.js";
import { seconds } from "./wording.js";

const LAYOUTS = {
    standard: { text: "3 × 4", fits: canBeStandard, make: standardSheet },
    narrow: { text: "6 × 2", fits: canBeStandard, make: narrowSheet },
    wrapped: { text: "Rows of 10 s", fits: canBeWrapped, make: wrappedSheet },
    stacked: { text: "All leads, full length", fits: () => true, make: stackedSheet },
};

export class PaperPanel {
    constructor() {
        this.settings = { layout: "standard", gain: 10, speed: 25, start: 0 };
        this.paper = new PaperView(byId("paper"), { changed: () => this.viewChanged() });
        this.calipers = new Calipers(this.paper, (event) => this.key(event.key));
        handle(this.paper, (event) => this.key(event.key));
    }

    get sheet() {
        return this.paper.sheet;
    }

    open(recording) {
        this.recording = recording;
        this.settings.start = 0;
        this.settings.layout = layoutsOf(recording)[0];
        this.calipers.toggle(false);
        this.calipers.repeat(false);
        this.paper.fitted = true;
        this.buildTools();
        this.draw();
    }

    draw() {
        const { make } = LAYOUTS[this.settings.layout];
        this.paper.show(make(this.recording, this.settings));
        byId("paper").setAttribute("aria-label", this.spoken());
    }

    spoken() {
        const names = this.recording.leads.map((lead) => lead.name).join(", ");
        const { from, to } = this.sheet;
        return `ECG, leads ${names}, second ${from.toFixed(1)} to ${to.toFixed(1)}`;
    }

    set(name, value) {
        this.settings[name] = value;
        this.draw();
        if (this.calipers.on) this.calipers.place();
    }

    buildTools() {
        const { recording, settings } = this;
        const layouts = layoutsOf(recording).map((name) => [name, LAYOUTS[name].text]);
        this.pages = element("div", { class: "tool-group", role: "group", "aria-label": "Part of the recording" });
        this.size = element("output", { class: "tool-size", "aria-label": "Size; 100 % is true to scale" });
        this.caliperButton = element(
            "button",
            { type: "button", "aria-pressed": "false", click: () => this.toggleCalipers() },
            "Calipers",
        );
        this.repeatButton = element(
            "button",
            { type: "button", "aria-pressed": "false", hidden: true, click: () => this.toggleRepeat() },
            "Repeat",
        );
        byId("paper-tools").replaceChildren(
            ...[
                layouts.length > 1 && choice("Layout", layouts, settings.layout, (value) => this.set("layout", value)),
                choice(
                    "mm/mV",
                    [5, 10, 20].map((gain) => [gain, String(gain)]),
                    settings.gain,
                    (value) => this.set("gain", value),
                ),
                choice(
                    "mm/s",
                    [25, 50].map((speed) => [speed, String(speed)]),
                    settings.speed,
                    (value) => this.set("speed", value),
                ),
                element("div", { class: "tool-group" }, this.caliperButton, this.repeatButton),
                this.pages,
                element(
                    "div",
                    { class: "tool-group tool-zoom", role: "group", "aria-label": "Size" },
                    element(
                        "button",
                        { type: "button", "aria-label": "Smaller", click: () => this.paper.enlargeBy(0.8) },
                        "−",
                    ),
                    this.size,
                    element(
                        "button",
                        { type: "button", "aria-label": "Larger", click: () => this.paper.enlargeBy(1.25) },
                        "+",
                    ),
                    element("button", { type: "button", click: () => this.paper.fit() }, "Fit"),
                ),
            ].filter(Boolean),
        );
    }

    key(key) {
        if (key === "c" || key === "C") this.toggleCalipers();
        else if (key === "PageDown" || key === "PageUp") this.turn(key === "PageDown" ? 1 : -1);
        else return false;
        return true;
    }

    toggleCalipers() {
        const held = this.calipers.hasFocus;
        const on = this.calipers.toggle();
        this.caliperButton.setAttribute("aria-pressed", String(on));
        this.repeatButton.hidden = !on;
        if (on) this.calipers.handles[0].focus({ preventScroll: true });
        else if (held) this.paper.canvas.focus({ preventScroll: true });
    }

    toggleRepeat() {
        this.calipers.repeat(!this.calipers.repeating);
        this.repeatButton.setAttribute("aria-pressed", String(this.calipers.repeating));
    }

    /** Earlier or later: a page where leads are in columns, else as much as is seen. */
    turn(way) {
        const { columns, from, to } = this.sheet;
        if (columns) {
            const last = Math.max(0, this.recording.shown - (to - from));
            this.set("start", Math.min(last, Math.max(0, from + way * (to - from))));
        } else {
            const { view, size } = this.paper;
            this.paper.look({ x: view.x + (way * 0.9 * size.width) / view.scale });
        }
    }

    viewChanged() {
        const { sheet, view } = this.paper;
        this.calipers.update();
        this.size.textContent = `${Math.round((view.scale / TRUE_SCALE) * 100)} %`;
        byId("paper-scale").textContent = this.scaleText();
        const turning = (name, sign, way) =>
            element("button", { type: "button", "aria-label": name, click: () => this.turn(way) }, sign);
        const [earlier, later] = [turning("Earlier", "‹", -1), turning("Later", "›", 1)];
        earlier.disabled = sheet.from <= 0;
        later.disabled = sheet.to >= this.recording.shown - 1e-6;
        const several = sheet.columns && !(earlier.disabled && later.disabled);
        const where = element(
            "span",
            { class: "tool-text" },
            `${sheet.from.toFixed(0)} to ${sheet.to.toFixed(0)} of ${seconds(this.recording.shown)}`,
        );
        const focused = this.pages.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
        this.pages.replaceChildren(...(several ? [earlier, where, later] : []));
        if (focused) (focused === "Earlier" ? earlier : later).focus({ preventScroll: true });
    }

    scaleText() {
        const parts = scaleWords(this.sheet, this.recording.rate);
        if (this.recording.shown < this.recording.seconds - 0.05) {
            parts.push(`the first ${seconds(this.recording.shown)} of ${seconds(this.recording.seconds)}`);
        }
        return parts.join(" · ");
    }
}

/** Names of the layouts that suit a recording, the best first. */
function layoutsOf(recording) {
    const names = Object.keys(LAYOUTS).filter((name) => LAYOUTS[name].fits(recording));
    return innerWidth < NARROW ? names.sort((one, other) => (other === "narrow") - (one === "narrow")) : names;
}
