/** The open ECG and another, side by side, one on the other, or beat by beat. */

import { Calipers } from "./calipers.js";
import { choice, element } from "./dom.js";
import { handle } from "./gestures.js";
import { besideEachOther, farthestApart, onTopOfEachOther, pair, typicalSheet } from "./pairing.js";
import { NARROW, PaperView, TRUE_SCALE } from "./paper-view.js";
import { SHADE_FROM } from "./paper.js";
import { scaleWords } from "./sheet.js";

const VIEWS = [
    ["beside", "Side by side"],
    ["over", "Overlay"],
    ["beats", "Typical beats"],
];

const LINED_UP = {
    beside: "Both are aligned at a QRS complex (dashed).",
    over: "Aligned at one QRS complex; after it, each continues at its own heart rate.",
    beats: "The median of each recording's beats.",
};
const SHADED = {
    beside: `Shaded: differences above ${SHADE_FROM} mV from the other's typical beat.`,
    over: "",
    beats: "The area between them is shaded.",
};
const RAW_STEPS = "Amplitudes in raw units instead of mV are not comparable, so nothing is shaded.";


export class Comparison {
    /**
     * Lives in a dialog, which it fills when one is opened. `name` is that of the other ECG, `facts(rates)` says what
     * is known of both, given their heart rates in words.
     */
    constructor(dialog, query, other, { name, facts, encoderLeads }) {
        Object.assign(this, { dialog, name, facts });
        this.both = pair(query, other);
        const used = encoderLeads.filter((name) => this.both.names.includes(name));
        this.encoderLeads = used.length ? used : this.both.names;
        this.settings = { view: "beside", leads: "encoder", gain: 10, speed: 25, shade: this.both.calibrated };
        this.papers = [];
        this.calipers = [];
        this.measuring = false;
        this.build();
        dialog.onclose = () => this.clear();
        dialog.showModal();
        this.draw();
    }

    get names() {
        return this.settings.leads === "encoder" ? this.encoderLeads : this.both.names;
    }

    build() {
        const { both, settings } = this;
        const views = both.typical.size ? VIEWS : VIEWS.slice(0, 2);
        const set = (name) => (value) => {
            settings[name] = value;
            this.draw();
        };
        this.scale = element("p", { class: "scale-line" });
        this.explained = element("p", { class: "scale-line" });
        this.stages = element("div", { class: "comparison-stages" });
        const shade = element("input", { type: "checkbox", checked: true, change: () => set("shade")(shade.checked) });
        this.caliperButton = element(
            "button",
            { type: "button", "aria-pressed": "false", click: () => this.measure(!this.measuring) },
            "Calipers",
        );
        this.shade = element("label", { class: "check" }, shade, "Shade the difference");
        this.dialog.replaceChildren(
            element(
                "header",
                { class: "comparison-head" },
                element("h2", { id: "comparison-title" }, `This ECG and ${lowered(this.name)}`),
                element("button", { type: "button", class: "primary", click: () => this.dialog.close() }, "Close"),
            ),
            element(
                "div",
                { class: "tools" },
                choice("Compare", views, settings.view, set("view")),
                this.encoderLeads.length < both.names.length &&
                    choice(
                        "Leads",
                        [
                            ["encoder", "those compared"],
                            ["all", "all"],
                        ],
                        settings.leads,
                        set("leads"),
                    ),
                choice(
                    both.calibrated ? "Gain, mm/mV" : "Gain",
                    [5, 10, 20].map((gain) => [gain, String(gain)]),
                    settings.gain,
                    set("gain"),
                ),
                element("div", { class: "tool-group" }, this.caliperButton),
                this.shade,
            ),
            this.factList(),
            this.stages,
            this.scale,
            this.explained,
        );
    }

    factList() {
        const rates = this.both.rate.map((rate) => (rate ? `about ${rate} / min` : "no regular beats found"));
        const sides = ["This ECG", this.name].map((name, side) =>
            element(
                "li",
                { class: side ? "is-other" : "is-query" },
                element("strong", {}, name),
                this.facts(rates)[side].filter(Boolean).join(" · "),
            ),
        );
        return element("ul", { class: "comparison-facts" }, sides);
    }

    draw() {
        const { both, settings, names } = this;
        const sheets = {
            beside: () => besideEachOther(both, names, settings),
            over: () => [onTopOfEachOther(both, names, settings)],
            beats: () => [
                typicalSheet(both, names, { ...settings, columns: innerWidth < NARROW ? 2 : names.length > 4 ? 6 : 4 }),
            ],
        }[settings.view]();
        const titles = settings.view === "beside" ? ["This ECG", this.name] : ["Both recordings"];
        this.clear();
        this.papers = titles.map((title) => this.paper(title, titles.length));
        this.stages.dataset.view = settings.view;
        this.stages.replaceChildren(...this.papers.map((paper) => paper.canvas.parentElement));
        this.papers.forEach((paper, index) => paper.show(sheets[index]));
        this.measure(this.measuring);
        this.shade.hidden = settings.view === "over" || !both.typical.size || !both.calibrated;
        this.scale.textContent = this.scaleText(sheets);
        this.explained.textContent = this.explanation();
    }

    clear() {
        for (const paper of this.papers) paper.close();
        this.papers = [];
        this.calipers = [];
    }

    /** Calipers on every paper, at the same places: those of one move those of the other. */
    measure(on) {
        this.measuring = on;
        this.caliperButton.setAttribute("aria-pressed", String(on));
        for (const one of this.calipers) one.toggle(on);
    }

    /** Papers side by side move together, and are true to scale at first. */
    paper(title, many) {
        const canvas = element("canvas", { tabindex: "0", role: "application", "aria-label": title });
        element("div", { class: "paper-stage" }, canvas);
        const paper = new PaperView(canvas, {
            ...(many > 1
                ? { readable: TRUE_SCALE }
                : { whole: this.settings.view === "beats" && innerWidth >= NARROW }),
            changed: ({ view }) => {
                for (const one of this.calipers) one.update();
                for (const other of this.papers) {
                    const moved = other.view.x !== view.x || other.view.y !== view.y || other.view.scale !== view.scale;
                    if (other !== paper && other.sheet && moved) other.look(view);
                }
            },
        });
        const calipers = new Calipers(paper, undefined, (at) => {
            for (const one of this.calipers) {
                one.at = structuredClone(at);
                one.update();
            }
        });
        this.calipers.push(calipers);
        handle(paper);
        return paper;
    }

    /** What holds for all sheets, and what for one of them. */
    scaleText(sheets) {
        const cut = [...new Set(sheets.flatMap((sheet) => sheet.cut))];
        const strips = sheets.flatMap((sheet) => sheet.strips);
        const rates = new Set([this.both.query.rate, this.both.other.rate]);
        return scaleWords({ ...sheets[0], cut, strips }, [...rates].join(" and ")).join(" · ");
    }

    explanation() {
        const { both, settings, names } = this;
        if (!both.typical.size) return "Too few beats were found for alignment, so both start at their beginning.";
        return [
            LINED_UP[settings.view],
            settings.shade && SHADED[settings.view],
            both.standIn && `No common lead: ${names[0]} is compared with the other ECG's ${both.standIn}.`,
            both.calibrated ? !both.standIn && this.farthest() : RAW_STEPS,
        ]
            .filter(Boolean)
            .join(" ");
    }

    farthest() {
        const found = farthestApart(this.both, this.names);
        if (!found) return "";
        const { name, millivolt, milliseconds } = found;
        return `The typical beats differ most in ${name}: ${millivolt.toFixed(2)} mV, ${placed(milliseconds)}.`;
    }
}

const lowered = (name) => name.charAt(0).toLowerCase() + name.slice(1);

const placed = (milliseconds) =>
    Math.abs(milliseconds) < 5
        ? "at the QRS complex"
        : `${Math.abs(milliseconds)} ms ${milliseconds < 0 ? "before" : "after"} the QRS complex`;
