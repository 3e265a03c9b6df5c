/** All patients as points: where the query lies, and its neighbours. */

import { element } from "./dom.js";
import { dot, drawNeighbour, drawQuery, ring } from "./map-marks.js";
import { count, percent, person } from "./wording.js";

const SERIES = 7; // colours; further labels share the last, grey
const REACH = 14; // pixels from which a point is pointed at
const PAD = 26;
const HOW_TO_ASK = "Point at or tap a patient, or use the arrow keys to step through the neighbours.";
const AGES = [
    [0, "under 40"],
    [40, "40 to 59"],
    [60, "60 to 74"],
    [75, "75 and over"],
];

/** What points may be coloured by: the group of each point, "" where unknown. */
const COLOURINGS = {
    label: { text: "first label", group: (map, index) => map.label[index] },
    age: { text: "age", group: (map, index) => ageGroup(map.age[index]), order: AGES.map(([, name]) => name) },
    sex: { text: "sex", group: (map, index) => map.sex[index] ?? "" },
    site: { text: "site", group: (map, index) => map.site[index] ?? "" },
};

const ageGroup = (age) => (age === null ? "" : AGES.findLast(([from]) => age >= from)[1]);

export class PatientMap {
    /** `pointed(index or null)` is called when a neighbour is pointed at. */
    constructor(place, { pointed }) {
        this.pointed = pointed;
        this.canvas = element("canvas", {
            tabindex: "0",
            role: "application",
            "aria-label": "Map of patients; arrow keys step through the neighbours",
        });
        this.facts = element("p", { class: "map-facts", "aria-live": "polite" });
        this.groups = element("ul", { class: "map-legend", "aria-label": "Colours" });
        this.caption = element("p", { class: "quiet-text" });
        this.by = element("select", { change: () => this.colour() });
        this.stage = element("div", { class: "map-stage" }, this.canvas);
        place.replaceChildren(
            this.stage,
            this.facts,
            element("label", { class: "map-by" }, "Colour by ", this.by),
            this.groups,
            this.caption,
        );
        this.hidden = new Set();
        this.neighbours = [];
        this.query = null;
        this.focus = null;
        new ResizeObserver(() => this.redraw()).observe(this.stage);
        document.addEventListener("themechange", () => this.redraw());
        this.canvas.addEventListener("pointermove", (event) => this.over(event));
        this.canvas.addEventListener("click", (event) => this.over(event)); // a tap, after the focus has moved here
        this.canvas.addEventListener("pointerleave", (event) => {
            if (event.pointerType !== "touch") this.point(null); // a finger leaves as soon as it is lifted
        });
        this.canvas.addEventListener("keydown", (event) => this.key(event));
    }

    showMap(map) {
        this.map = map;
        const parts = [
            `${count(map.points.length, "patient")}, similar ones close together (${map.method.toUpperCase()}).`,
        ];
        if (map.explained) {
            const held = percent(map.explained[0] + map.explained[1]);
            parts.push(`The two axes explain ${held} of the variance,`);
            parts.push("so patients that are close here may still differ; the list uses all dimensions.");
        }
        this.caption.textContent = parts.join(" ");
        const useful = Object.entries(COLOURINGS).filter(
            ([name, { group }]) =>
                name === "label" || new Set(map.points.map((_, index) => group(map, index))).size > 1,
        );
        this.by.replaceChildren(...useful.map(([value, { text }]) => element("option", { value }, text)));
        this.colour();
    }

    /** The query's place and its neighbours, the nearest first. */
    showQuery(found) {
        this.query = found.query.map;
        this.neighbours = found.neighbours;
        this.focus = null;
        this.tell();
        this.redraw();
    }

    colour() {
        const { group, order } = COLOURINGS[this.by.value];
        const groups = this.map.points.map((_, index) => group(this.map, index));
        const sizes = new Map();
        for (const name of groups) sizes.set(name, (sizes.get(name) ?? 0) + 1);
        const names =
            order?.filter((name) => sizes.has(name)) ??
            [...sizes.keys()]
                .filter(Boolean)
                .sort((one, two) => sizes.get(two) - sizes.get(one) || (one < two ? -1 : 1));
        if (sizes.has("")) names.push("");
        this.series = new Map(names.map((name, index) => [name, name === "" ? SERIES : Math.min(index, SERIES)]));
        this.groupOf = groups;
        this.hidden.clear();
        this.groups.replaceChildren(...names.map((name) => this.legendItem(name, sizes.get(name))));
        this.redraw();
    }

    legendItem(name, size) {
        const button = element(
            "button",
            {
                type: "button",
                class: "map-key",
                "aria-pressed": "true",
                click: () => {
                    const shown = this.hidden.delete(name) || !this.hidden.add(name);
                    button.setAttribute("aria-pressed", String(shown));
                    this.redraw();
                },
            },
            element("span", { class: `dot series-${this.series.get(name)}`, "aria-hidden": "true" }),
            `${name || "unknown"} `,
            element("span", { class: "quiet-text" }, size.toLocaleString("en-GB")),
        );
        return element("li", {}, button);
    }

    /** From the map's numbers to pixels: both axes to one scale, everything in sight. */
    transform() {
        const places = [
            ...this.map.points,
            ...this.neighbours.map((one) => one.map).filter(Boolean),
            ...(this.query ? [this.query] : []),
        ];
        const [xs, ys] = [places.map((point) => point[0]), places.map((point) => point[1])];
        const [left, right, low, high] = [min(xs), max(xs), min(ys), max(ys)];
        const { width, height } = this.size;
        const scale = Math.min((width - 2 * PAD) / (right - left || 1), (height - 2 * PAD) / (high - low || 1));
        const [x0, y0] = [width / 2 - (scale * (left + right)) / 2, height / 2 + (scale * (low + high)) / 2];
        return ([x, y]) => [x0 + x * scale, y0 - y * scale];
    }

    redraw() {
        if (!this.map || this.waiting) return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            this.draw();
        });
    }

    draw() {
        const width = this.stage.clientWidth;
        if (!width) return;
        const ratio = devicePixelRatio;
        this.size = { width, height: Math.round(Math.min(width * 0.82, 520)) };
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(this.size.height * ratio);
        this.canvas.style.height = `${this.size.height}px`;
        const context = this.canvas.getContext("2d");
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        const style = getComputedStyle(document.documentElement);
        const colour = (name) => style.getPropertyValue(`--${name}`).trim();
        const series = Array.from({ length: SERIES + 1 }, (_, index) => colour(`series-${index}`));
        const place = (this.place = this.transform());
        this.map.points.forEach((point, index) => {
            const group = this.groupOf[index];
            if (!this.hidden.has(group)) dot(context, place(point), 3.5, series[this.series.get(group)], 0.6);
        });
        const { kind, index: pointed } = this.focus ?? {};
        if (kind === "point") ring(context, place(this.map.points[pointed]), 6, colour("ink"), 1.5);
        for (const [index, { map }] of [...this.neighbours.entries()].reverse()) {
            if (map) drawNeighbour(context, place(map), index + 1, kind === "neighbour" && pointed === index, colour);
        }
        if (this.query) drawQuery(context, place(this.query), this.side(), colour);
    }

    /** Above or below the query (-1 or 1): where fewer neighbours lie, for its name. */
    side() {
        const [x, y] = this.place(this.query);
        const near = this.neighbours
            .filter((one) => one.map)
            .map((one) => this.place(one.map))
            .filter(([px, py]) => Math.abs(px - x) < 45 && Math.abs(py - y) < 45);
        return near.filter(([, py]) => py < y).length > near.length / 2 ? 1 : -1;
    }

    /** A neighbour by its number, from the list; the map only shows it. */
    mark(index) {
        this.focus = index === null ? null : { kind: "neighbour", index };
        this.tell();
        this.redraw();
    }

    point(focus) {
        if (focus?.kind === this.focus?.kind && focus?.index === this.focus?.index) return;
        this.focus = focus;
        this.tell();
        this.pointed(focus?.kind === "neighbour" ? focus.index : null);
        this.redraw();
    }

    over(event) {
        if (!this.place) return;
        const box = this.canvas.getBoundingClientRect();
        const [x, y] = [event.clientX - box.left, event.clientY - box.top];
        const away = (point) => {
            const [px, py] = this.place(point);
            return Math.hypot(px - x, py - y);
        };
        let best = { away: REACH, focus: null };
        this.neighbours.forEach((one, index) => {
            if (one.map && away(one.map) < best.away)
                best = { away: away(one.map), focus: { kind: "neighbour", index } };
        });
        if (!best.focus) {
            this.map.points.forEach((point, index) => {
                if (!this.hidden.has(this.groupOf[index]) && away(point) < best.away)
                    best = { away: away(point), focus: { kind: "point", index } };
            });
        }
        this.point(best.focus);
    }

    key(event) {
        const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!way || !this.neighbours.length) return;
        event.preventDefault();
        const now = this.focus?.kind === "neighbour" ? this.focus.index : way > 0 ? -1 : 0;
        this.point({ kind: "neighbour", index: (now + way + this.neighbours.length) % this.neighbours.length });
    }

    tell() {
        const text = this.about();
        this.facts.textContent = text || HOW_TO_ASK;
        this.facts.classList.toggle("quiet-text", !text);
    }

    about() {
        if (!this.focus) return "";
        const { kind, index } = this.focus;
        if (kind === "neighbour") {
            const { labels, age, sex, site, similarity } = this.neighbours[index];
            return [
                `Neighbour ${index + 1}`,
                labels.join(", "),
                person(age, sex),
                site,
                `similarity ${similarity.toFixed(3)}`,
            ]
                .filter(Boolean)
                .join(" · ");
        }
        const { label, age, sex, site } = this.map;
        return [label[index] || "no label", person(age[index], sex[index]), site[index]].filter(Boolean).join(" · ");
    }
}

const min = (values) => values.reduce((low, value) => Math.min(low, value), Infinity);
const max = (values) => values.reduce((high, value) => Math.max(high, value), -Infinity);
