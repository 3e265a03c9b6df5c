/** How often probabilities of one range were right, on validation patients. */

import { count, percent } from "./wording.js";

export const FEW = 20; // patients below which their share says little

/** In the words of the service's own `track_record`. */
export function trackRecord({ count: many, low, high, observed }) {
    const range = `${Math.round(low * 100)} to ${percent(high)}`;
    return `of ${count(many, "validation patient")} with ${range}, ${percent(observed)} had it`;
}
