"""Rendering of pages as Markdown."""

from __future__ import annotations

from typing import Final

from reproduction.report.page import Block, Entry, Heading, Page, Pictures, Points, Table

NOTE: Final = "<!-- Made by `make report` from results/; do not edit. -->"


def markdown(page: Page) -> str:
    """Return a page as Markdown."""
    return "\n\n".join([NOTE, f"# {page.title}", *map(block_markdown, page.blocks)]) + "\n"


def markdown_table(table: Table) -> str:
    """Return a table as Markdown."""
    lines = [table.titles, ["---"] * len(table.titles), *([_entry(entry) for entry in row] for row in table.rows)]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def block_markdown(block: Block) -> str:
    """Return a block as Markdown."""
    match block:
        case Table():
            return markdown_table(block)
        case Heading():
            return f"{'#' * block.depth} {block.text}"
        case Points():
            return "\n".join(f"- {item}" for item in block.items)
        case Pictures():
            return "\n".join(f"![{each.shows}]({each.file})" for each in block.pictures)
        case _:
            return block.text


def _entry(entry: Entry) -> str:
    return f"{entry.text} ({entry.detail})" if entry.detail else entry.text


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
