/** The part of Markdown that model cards use: headings, paragraphs, lists, tables, code. Made of text nodes only. */

import { element } from "./dom.js";

/** Elements for a card; its front matter is left out, and headings begin at `level`. */
export function markdown(text, level = 2) {
    const lines = text.replace(/^---\n[\s\S]*?\n---\n/, "").split(/\r?\n/);
    const result = [];
    while (lines.length) {
        const line = lines[0];
        if (!line.trim()) lines.shift();
        else if (line.startsWith("```")) result.push(codeBlock(lines));
        else if (/^#{1,6} /.test(line)) result.push(heading(lines.shift(), level));
        else if (line.startsWith("|")) result.push(table(lines));
        else if (/^[-*] /.test(line)) result.push(list(lines));
        else result.push(paragraph(lines));
    }
    return result;
}

/** Take lines from the top while they fit. */
function take(lines, fits) {
    const taken = [];
    while (lines.length && fits(lines[0])) taken.push(lines.shift());
    return taken;
}

function codeBlock(lines) {
    lines.shift();
    const taken = take(lines, (line) => !line.startsWith("```"));
    lines.shift();
    return element("pre", { tabindex: "0" }, element("code", {}, taken.join("\n")));
}

function heading(line, level) {
    const [, marks, text] = line.match(/^(#+) (.*)$/);
    return element(`h${Math.min(6, marks.length + level - 1)}`, {}, inline(text));
}

function table(lines) {
    const rows = take(lines, (line) => line.startsWith("|")).map((line) =>
        line
            .replace(/^\||\|\s*$/g, "")
            .split("|")
            .map((cell) => cell.trim()),
    );
    const [head, ...body] = rows.filter((row) => !row.every((cell) => /^:?-+:?$/.test(cell)));
    const cells = (row, tag) =>
        element(
            "tr",
            {},
            row.map((cell) => element(tag, tag === "th" ? { scope: "col" } : {}, inline(cell))),
        );
    return element(
        "div",
        { class: "table-scroll", tabindex: "0", role: "region", "aria-label": "Table" },
        element(
            "table",
            {},
            element("thead", {}, cells(head, "th")),
            element(
                "tbody",
                {},
                body.map((row) => cells(row, "td")),
            ),
        ),
    );
}

function list(lines) {
    const items = [];
    for (const line of take(lines, (text) => /^([-*] |\s+\S)/.test(text))) {
        if (/^[-*] /.test(line)) items.push(line.slice(2));
        else items[items.length - 1] += ` ${line.trim()}`;
    }
    return element(
        "ul",
        {},
        items.map((item) => element("li", {}, inline(item))),
    );
}

function paragraph(lines) {
    return element(
        "p",
        {},
        inline(take(lines, (line) => line.trim() && !/^(#{1,6} |\||```|[-*] )/.test(line)).join(" ")),
    );
}

/** `code`, **bold**, and links as their text: nothing here leads off this server. */
function inline(text) {
    const plain = text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    return plain
        .split(/(`[^`]+`|\*\*[^*]+\*\*)/)
        .filter(Boolean)
        .map((part) => {
            if (part.startsWith("`")) return element("code", {}, part.slice(1, -1));
            if (part.startsWith("**")) return element("strong", {}, part.slice(2, -2));
            return part;
        });
}
