/** Places of the page that ask the service something and show its answer. */

import { trouble, waiting, working } from "./messages.js";

/** By place, the last question whose answer it is to show. */
const newest = new WeakMap();

/**
 * Show in `place` that it works, waits or failed; else what `show` makes of the answer, which is also returned.
 * `ways` are those out of trouble, see `trouble`. Once the place is asked something else, this leaves it alone.
 */
export async function fill(place, text, question, show, ways = {}) {
    newest.set(place, question);
    const isNewest = () => newest.get(place) === question;
    const wait = (pause) => {
        if (isNewest()) place.replaceChildren(pause ? waiting(pause) : working(text));
    };
    place.setAttribute("aria-busy", "true");
    place.replaceChildren(working(text));
    try {
        const answer = await question(wait);
        if (!isNewest()) return null;
        show(answer);
        return answer;
    } catch (error) {
        if (isNewest() && error.name !== "AbortError") place.replaceChildren(trouble(error, ways));
        return null;
    } finally {
        if (isNewest()) place.setAttribute("aria-busy", "false");
    }
}
