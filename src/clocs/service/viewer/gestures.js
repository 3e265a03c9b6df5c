/** Hands on a paper: dragging, pinching, wheel and keys. */

const STEP = 60; // pixels an arrow key moves
const FACTOR = 1.25;

/** `other(event)` gets the keys that do not move or enlarge, and says whether it took one. */
export function handle(paper, other = () => false) {
    const { canvas } = paper;
    const fingers = new Map();

    canvas.addEventListener("pointerdown", (event) => {
        if (event.button > 0) return;
        canvas.setPointerCapture(event.pointerId);
        fingers.set(event.pointerId, place(canvas, event));
        canvas.classList.add("held");
    });
    canvas.addEventListener("pointermove", (event) => {
        const before = fingers.get(event.pointerId);
        if (!before) return;
        const now = place(canvas, event);
        const second = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
        if (second) {
            const middle = { x: (now.x + second.x) / 2, y: (now.y + second.y) / 2 };
            paper.enlargeBy(apart(now, second) / Math.max(1, apart(before, second)), middle);
            paper.moveBy((now.x - before.x) / 2, (now.y - before.y) / 2);
        } else {
            paper.moveBy(now.x - before.x, now.y - before.y);
        }
        fingers.set(event.pointerId, now);
    });
    for (const name of ["pointerup", "pointercancel"]) {
        canvas.addEventListener(name, (event) => {
            fingers.delete(event.pointerId);
            if (!fingers.size) canvas.classList.remove("held");
        });
    }
    canvas.addEventListener("wheel", (event) => turned(paper, event), { passive: false });
    canvas.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (pressed(paper, event.key) || other(event)) event.preventDefault();
    });
}

function place(canvas, event) {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
}

const apart = (one, two) => Math.hypot(one.x - two.x, one.y - two.y);

/** The wheel is the page's until the paper is clicked; with Ctrl, as a pinch on a pad comes, always the paper's. */
function turned(paper, event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
    if (sideways) paper.moveBy(-(event.deltaX || event.deltaY), 0);
    else if (event.ctrlKey || document.activeElement === paper.canvas)
        paper.enlargeBy(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), place(paper.canvas, event));
    else return;
    event.preventDefault();
}

function pressed(paper, key) {
    const actions = {
        ArrowLeft: () => paper.moveBy(STEP, 0),
        ArrowRight: () => paper.moveBy(-STEP, 0),
        ArrowUp: () => paper.moveBy(0, STEP),
        ArrowDown: () => paper.moveBy(0, -STEP),
        "+": () => paper.enlargeBy(FACTOR),
        "=": () => paper.enlargeBy(FACTOR),
        "-": () => paper.enlargeBy(1 / FACTOR),
        0: () => paper.fit(),
        Home: () => paper.look({ x: 0 }),
        End: () => paper.look({ x: Infinity }),
    };
    actions[key]?.();
    return key in actions;
}
