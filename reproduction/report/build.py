"""The complete report: pages, pictures, and the marked blocks of other pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from clocs.core.errors import ConfigError
from clocs.core.storage.files import write_bytes
from clocs.evaluation.benchmark import page as benchmark
from reproduction.report.benchmark_figures import benchmark_figures
from reproduction.report.benchmark_summary import TASKS, benchmark_text
from reproduction.report.beyond_page import beyond_page
from reproduction.report.encoders_page import encoders_page
from reproduction.report.estimates import Estimates
from reproduction.report.gallery import Gallery
from reproduction.report.marked_blocks import fill
from reproduction.report.rendering import block_markdown, markdown
from reproduction.report.reproduction_page import reproduction_page
from reproduction.report.results import Results
from reproduction.report.search_page import search_page


def make_report(results: Path, out: Path, pages: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Write the report, and fill the marked blocks of other pages.

    Args:
        results: Results folder.
        out: Folder of the report.
        pages: Markdown pages with marked blocks.

    Returns:
        The paths of all files.
    """
    marked = {path: _read(path) for path in pages}
    estimates, gallery = Estimates(Results(results)), Gallery(out)
    made = (
        reproduction_page(estimates, gallery),
        beyond_page(estimates, gallery),
        encoders_page(estimates),
        search_page(estimates.results),
    )
    texts = {out / f"{page.name}.md": markdown(page) for page in made}
    if (rows := results / benchmark.RESULTS).exists():
        measured = json.loads(_read(rows))["rows"]
        table = benchmark_text(estimates.results, tuple(TASKS))
        overview = (
            f"Linear models on the embeddings of all leads, and networks trained from scratch, in short:\n\n{table}"
        )
        figures = map(block_markdown, gallery.pictures(benchmark_figures(measured)))
        introduction = "\n".join(f"{text}\n" for text in (benchmark.INTRODUCTION.rstrip(), overview, *figures))
        texts[out / benchmark.PAGE] = benchmark.make_page(measured, introduction)
    for path, text in marked.items():
        texts[path] = fill(text, estimates, path.name)
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_bytes(path, text.encode())
    gallery.delete_stale()
    return (*texts, *gallery.made)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a page: {error}") from error
