"""Rendering of pages as Markdown, and of all pages as one self-contained HTML page."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

from clocs.core.errors import ConfigError
from reproduction.report.page import Entry, Page, Table

if TYPE_CHECKING:
    from jinja2 import Environment

INLINE: Final = (
    (re.compile(r"`([^`]+)`"), r"<code>\1</code>"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"\[([^\]]+)\]\((\w+)\.md\)"), r'<a href="#\2">\1</a>'),
)
"""Markdown inside a line, as HTML. Links to other pages become links within the page."""


def markdown(page: Page) -> str:
    """Return a page as Markdown."""
    return _environment(Path()).get_template("page.md.j2").render(page=page).rstrip() + "\n"


def html(pages: Sequence[Page], title: str, folder: Path) -> str:
    """Return all pages as one HTML page, with the pictures of ``folder`` embedded."""
    template = _environment(folder).get_template("report.html.j2")
    return template.render(pages=pages, title=title).rstrip() + "\n"


def markdown_table(table: Table) -> str:
    """Return a table as Markdown."""
    lines = [table.titles, ["---"] * len(table.titles), *([_plain(entry) for entry in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _plain(entry: Entry) -> str:
    text = f"**{entry.text}**" if entry.mark == "best" else entry.text
    return f"{text} ({entry.detail})" if entry.detail else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _environment(folder: Path) -> Environment:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
        from markupsafe import Markup, escape
    except ImportError as error:
        raise ConfigError("the report needs jinja2: pip install 'clocs[docs]'") from error

    def inline(text: str) -> Markup:
        found = str(escape(text))
        for pattern, replacement in INLINE:
            found = pattern.sub(replacement, found)
        return Markup(found)

    def embedded(name: str) -> str:
        raw = base64.b64encode((folder / name).read_bytes()).decode()
        return f"data:image/svg+xml;base64,{raw}"

    made = Environment(
        loader=FunctionLoader(lambda name: (resources.files(__package__) / "templates" / name).read_text("utf-8")),
        autoescape=select_autoescape(enabled_extensions=("html.j2",)),
        undefined=StrictUndefined,
    )
    made.filters |= {"inline": inline, "embedded": embedded, "markdown_table": markdown_table}
    return made
