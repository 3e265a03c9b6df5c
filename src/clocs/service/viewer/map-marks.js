/** What is drawn on the map: points, numbered neighbours, and the query. */

const TYPE = '"Segoe UI", "Helvetica Neue", Arial, sans-serif';
const CROSS = [
    [1, 0],
    [-1, 0],
    [0, 1],
    [0, -1],
];

export function dot(context, [x, y], radius, colour, alpha) {
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
    context.globalAlpha = 1;
}

export function ring(context, [x, y], radius, colour, thick) {
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.stroke();
}

/** A cross in a ring, and its name. */
export function drawQuery(context, [x, y], side, colour) {
    ring(context, [x, y], 11, colour("surface"), 6);
    ring(context, [x, y], 11, colour("query"), 2.5);
    context.lineWidth = 2.5;
    context.beginPath();
    for (const [dx, dy] of CROSS) {
        context.moveTo(x + dx * 4, y + dy * 4);
        context.lineTo(x + dx * 16, y + dy * 16);
    }
    context.stroke();
    context.font = `700 12px ${TYPE}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 4;
    context.strokeStyle = colour("surface");
    context.strokeText("this ECG", x, y + side * 26);
    context.fillStyle = colour("query");
    context.fillText("this ECG", x, y + side * 26);
}

/** A neighbour by its number; larger and filled when it is pointed at. */
export function drawNeighbour(context, [x, y], number, pointed, colour) {
    const radius = pointed ? 12 : 9;
    dot(context, [x, y], radius, colour(pointed ? "accent" : "surface"), 1);
    ring(context, [x, y], radius, colour("accent"), pointed ? 2.5 : 1.5);
    context.fillStyle = colour(pointed ? "on-accent" : "accent");
    context.font = `600 ${pointed ? 12 : 10}px ${TYPE}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(`${number}`, x, y + 0.5);
}
