"""The complete report: pages, pictures, one HTML page, and the marked blocks of other pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clocs.core.errors import ConfigError
from clocs.core.files import write_bytes
from reproduction.report.beyond_page import beyond_page
from reproduction.report.claim_tests import Verdict
from reproduction.report.claims import all_claim_tests
from reproduction.report.claims_page import claims_page, outcomes
from reproduction.report.encoders_page import encoders_page
from reproduction.report.estimates import Estimates
from reproduction.report.extra_experiments import extra_experiments_page
from reproduction.report.figures import Gallery, figures_page
from reproduction.report.marked_blocks import fill
from reproduction.report.missing_cells import missing_page
from reproduction.report.page import Block, Heading, Page, Points, Text, count_text, join_words
from reproduction.report.rendering import html, markdown
from reproduction.report.results import Results
from reproduction.report.runs_page import limits, runs_page
from reproduction.report.search_page import search_page
from reproduction.report.tables_page import tables_page

TITLE: Final = "CLOCS, reproduced"
PARTS: Final = {
    "tables": "the paper's tables with our numbers beside its own",
    "claims": "which of its claims hold, with p-values",
    "figures": "its figures from our results",
    "ours": "the released code's loss, and what a leaking split would gain",
    "beyond": "the recommended encoder, the labels it saves, what its parts bring",
    "encoders": "those that come with the package: neighbours, distances, groups, what embeddings give away",
    "search": "the trials for what to recommend, judged by validation patients",
    "runs": "every pre-training, and what limits these results have",
    "missing": "what is not done, and what it would cost",
}


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
    made = _pages(estimates, gallery)
    texts = {out / f"{page.name}.md": markdown(page) for page in made}
    texts[out / "report.html"] = html(made, TITLE, out)
    for path, text in marked.items():
        texts[path] = fill(text, estimates, path.name)
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            write_bytes(path, text.encode())
    gallery.delete_stale()
    return (*texts, *gallery.made)


def _pages(estimates: Estimates, gallery: Gallery) -> list[Page]:
    parts = [
        tables_page(estimates),
        claims_page(estimates),
        figures_page(estimates, gallery),
        extra_experiments_page(estimates),
        beyond_page(estimates, gallery),
        encoders_page(estimates),
        search_page(estimates.results),
        runs_page(estimates.results, gallery),
        missing_page(estimates.results),
    ]
    return [_index(estimates), *parts]


def _index(estimates: Estimates) -> Page:
    results = estimates.results
    trials = sum("validation" in each.result for each in results.finished)
    verdicts = Counter(frame.verdict for _, frame, _ in outcomes(estimates, all_claim_tests()))
    words: dict[Verdict, tuple[str, str]] = {
        "holds": ("holds", "hold"),
        "does not hold": ("does not hold", "do not hold"),
        "undecided": ("is undecided", "are undecided"),
        "not enough results yet": ("waits for results", "wait for results"),
    }
    values = join_words(count_text(verdicts[verdict], *word) for verdict, word in words.items())
    blocks: tuple[Block, ...] = (
        Text(
            "What comes out when the experiments of CLOCS (Kiyasseh, Zhu and Clifton, ICML 2021) are done again on the "
            "public data, by the paper's equations and on splits that do not leak. Everything here is made from the "
            "files in `results/` by `make report`; nothing is typed by hand."
        ),
        Text(
            f"Done so far: {count_text(len(results.trained), 'pre-training')}, "
            f"{count_text(len(results.tested), 'evaluation')} by test patients, {count_text(trials, 'trial')} by "
            "validation patients."
        ),
        Text(f"Of {count_text(verdicts.total(), 'claim')} of the paper that can be tested, per frame: {values}."),
        Points(tuple(f"[{name.capitalize()}]({name}.md): {what}" for name, what in PARTS.items())),
        Heading("Before you conclude anything"),
        Points(limits(results)),
    )
    return Page("index", TITLE, blocks)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a page: {error}") from error
