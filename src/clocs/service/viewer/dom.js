/** Elements made without markup: text is always text, so nothing that a file holds can become part of the page. */

const MOST_SAID = 3;
const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

/** Attributes as in HTML; functions are listeners; `true` is an empty attribute; null and false leave one out. */
function build(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (typeof value === "function") node.addEventListener(name, value);
        else if (value !== null && value !== undefined && value !== false)
            node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
    return node;
}

export const element = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);

export const drawing = (tag, attributes = {}, ...children) =>
    build(document.createElementNS(SVG, tag), attributes, children);

/** Said aloud by a screen reader; what was said just before stays, since two answers may come at once. */
export function announce(text) {
    const place = byId("announcer");
    place.append(element("p", {}, text));
    while (place.childElementCount > MOST_SAID) place.firstElementChild.remove();
}

/** A group of radio buttons that looks like one switch; `choose` gets the value. */
export function choice(legend, options, chosen, choose) {
    const name = `choice-${legend.toLowerCase().replace(/\W+/g, "-")}`;
    return element(
        "fieldset",
        { class: "choice" },
        element("legend", {}, legend),
        options.map(([value, text]) =>
            element(
                "label",
                {},
                element("input", {
                    type: "radio",
                    name,
                    value: String(value),
                    checked: value === chosen,
                    change: () => choose(value),
                }),
                element("span", {}, text),
            ),
        ),
    );
}
