/** A reliability diagram: probabilities given, against how often they were right. */

import { drawing } from "./dom.js";
import { FEW, trackRecord } from "./track-record.js";

const SIDE = 150;
const [LEFT, TOP, RIGHT, BOTTOM] = [44, 8, 14, 32];
const LARGEST = 9;

export function reliabilityDiagram({ name, reliability }) {
    const x = (part) => LEFT + part * SIDE;
    const y = (part) => TOP + (1 - part) * SIDE;
    const most = Math.max(1, ...reliability.map((bin) => bin.count));
    const ticks = [0, 0.5, 1].flatMap((part) => [
        drawing("line", { class: "diagram-grid", x1: x(0), x2: x(1), y1: y(part), y2: y(part) }),
        drawing("line", { class: "diagram-grid", x1: x(part), x2: x(part), y1: y(0), y2: y(1) }),
        drawing("text", { x: x(part), y: y(0) + 14, "text-anchor": "middle" }, `${part * 100}`),
        drawing("text", { x: x(0) - 5, y: y(part) + 4, "text-anchor": "end" }, `${part * 100}`),
    ]);
    const points = reliability.map((bin) =>
        drawing(
            "circle",
            {
                class: bin.count < FEW ? "diagram-few" : "diagram-point",
                cx: x(bin.mean_probability),
                cy: y(bin.observed),
                r: 2 + (LARGEST - 2) * Math.sqrt(bin.count / most),
            },
            drawing("title", {}, trackRecord(bin)),
        ),
    );
    return drawing(
        "svg",
        {
            class: "diagram",
            viewBox: `0 0 ${LEFT + SIDE + RIGHT} ${TOP + SIDE + BOTTOM}`,
            role: "img",
            "aria-label": spoken(name, reliability),
        },
        ticks,
        drawing("line", { class: "diagram-ideal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
        points,
        drawing("text", { x: x(0.5), y: y(0) + 28, "text-anchor": "middle" }, "given, %"),
        drawing("text", { transform: `translate(10 ${y(0.5)}) rotate(-90)`, "text-anchor": "middle" }, "observed, %"),
    );
}

const spoken = (name, bins) => `${name}: ${bins.map(trackRecord).join("; ")}`;
