"""The page of the reproduction: the paper's tables, figures and claims beside our results."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from clocs.drawing.panels import draw_validation_curves
from reproduction.cells import EPOCHS, KEPT_EPOCHS, LEVELS, SHORT_EPOCHS
from reproduction.experiments import FEWER_LABELS, VARIANTS, finetuned, linear, variant
from reproduction.paper_numbers import SOURCES, paper, results
from reproduction.report.claims_section import claims_blocks, contradictions_blocks
from reproduction.report.costs import PLANNED_HOURS, cost_table
from reproduction.report.distances import MOST_PAIRS, distance_figures
from reproduction.report.estimates import Estimates
from reproduction.report.gallery import Gallery, NamedFigures
from reproduction.report.page import (
    DATASET_NAMES,
    METHOD_NAMES,
    Block,
    Entry,
    Heading,
    Page,
    Table,
    Text,
    interval_text,
    join_words,
    mean_text,
    signed_text,
    transfer_label,
)
from reproduction.report.paper_tables import label_fractions, table1, table2, variant_difference, variants_table
from reproduction.report.pretrainings import LAST_EPOCHS, learning_figures, pretraining_table

PANELS: Final = (("cmsc", 0.25), ("random", 1.0), ("cmsc", 1.0), ("random", 0.25))
"""Method and label fraction of the curves of figure 4."""
HOW_TO_READ: Final = (
    "Macro AUC on test patients. **Per frame** is the paper's way: every lead and frame by itself. **Per recording** "
    "is the mean over a recording's leads and frames. After ± is the standard deviation over seeds, in parentheses the "
    "95 % interval over patients. A missing result says 'not done', with the estimated time of one core for its "
    "first seed."
)
OPEN_CHOICES: Final = (
    (
        "number of epochs of pre-training",
        f"at most {EPOCHS}; the run stops after {LAST_EPOCHS} epochs without a lower validation loss (patience). BYOL: "
        f"{SHORT_EPOCHS['byol']} epochs without patience, because its target moves and its loss does not tell when to "
        f"stop. MT-SSL: at most {SHORT_EPOCHS['mtssl']}, because its epochs take the longest",
    ),
    (
        "encoder of a run that is evaluated",
        "two: that of the lowest validation loss, and that of the best AUC of a linear classifier on validation "
        f"patients, among the encoders after {join_words(map(str, KEPT_EPOCHS))} epochs and that of the lowest loss",
    ),
    (
        "augmentations of SimCLR and BYOL in table 1",
        "Gaussian noise of 0.01 mV. The paper states a deviation of 10 for Chapman, without a unit",
    ),
    ("label fraction: of patients or of frames", "of patients"),
    (
        "stage of the learning rate of table 6",
        "10⁻⁴ with Adam for pre-training and fine-tuning",
    ),
    (
        "training of the linear classifier",
        "logistic regression on standardized embeddings; validation patients select its regularization",
    ),
    (
        "number of epochs of fine-tuning",
        f"at most {EPOCHS}, with the same patience. The epoch of the lowest validation loss is tested",
    ),
    (
        "segments of CMSC on Chapman: two of 10 s in a recording of 10 s",
        "two segments of 5 s at 500 Hz for pre-training; frames of 10 s at 250 Hz for evaluation",
    ),
    ("patients of each part of the split", "our own split, with the paper's numbers of patients"),
    (
        "supervised training in table 1, which the paper leaves out",
        "the same network trained from scratch with the same half of the labels; the paper's value is that of random "
        "weights in table 2. In table 2, supervised pre-training uses all labels, as in the paper",
    ),
)


def reproduction_page(estimates: Estimates, gallery: Gallery) -> Page:
    """Return the page."""
    blocks: tuple[Block, ...] = (
        Text(
            "The experiments of CLOCS (Kiyasseh, Zhu and Clifton, ICML 2021), computed again on the public data. "
            "`make report` makes this page from the files in `results/`. "
            "[Reproducing the paper](../how-to/reproduce.md) describes the commands."
        ),
        Text(HOW_TO_READ),
        *_table1(estimates, gallery),
        *_table2(estimates),
        *_figures(estimates, gallery),
        Heading("Claims"),
        *claims_blocks(estimates),
        Heading("What differs from the paper, and why"),
        Text(_differences(estimates)),
        *(variants_table(estimates, level) for level in LEVELS),
        Text(
            "Differences are from CMSC by the paper's equations, by the encoder of the lowest loss and over common "
            "seeds. With one seed, their intervals cover patients but not seeds."
        ),
        Heading("What the paper leaves open"),
        Table(("open in the paper", "our choice"), tuple((Entry(what), Entry(ours)) for what, ours in OPEN_CHOICES)),
        Heading("Cost"),
        Text(
            f"About {PLANNED_HOURS} core-hours were planned. A pre-training counts with the first part that needs it."
        ),
        cost_table(estimates.results),
        Heading("Appendix: contradictions in the paper's own tables"),
        *contradictions_blocks(),
    )
    return Page("reproduction", "Reproduction", blocks)


def _table1(estimates: Estimates, gallery: Gallery) -> list[Block]:
    blocks: list[Block] = [
        Heading("Table 1: linear evaluation"),
        Text(
            "A linear classifier on frozen encoders, with half of the labels, four leads and embeddings of 128 "
            "dimensions. The columns 'lowest loss' and 'best validation AUC' are the two encoders of each run. The "
            "last table of a dataset has the runs: how each stopped, the epochs of its two encoders, and the "
            f"change of its validation loss over the last {LAST_EPOCHS} epochs."
        ),
    ]
    for dataset in SOURCES:
        blocks += [Heading(DATASET_NAMES[dataset], 3), *(table1(estimates, dataset, level) for level in LEVELS)]
        stops = pretraining_table(estimates.results, dataset)
        blocks.append(stops if stops.rows else Text("No pre-training is done yet."))
    pictures = gallery.pictures(learning_figures(estimates))
    return [
        *blocks,
        Heading("Learning curves", 3),
        Text(
            "Validation AUC per frame of a linear classifier on the encoders that each run kept; 0 epochs are random "
            "weights. Lines are means over the runs that lasted so long, small dots are seeds."
        ),
        *(pictures or [Text("Not done.")]),
    ]


def _table2(estimates: Estimates) -> list[Block]:
    blocks: list[Block] = [
        Heading("Table 2: fine-tuning on other datasets"),
        Text(
            "Fine-tuning with half of the labels, from the encoder of the lowest loss. Estimated times exclude "
            "pre-training. Per frame, parentheses have the paper's value."
        ),
    ]
    for source in SOURCES:
        name = f"After pre-training on {DATASET_NAMES[source]}"
        blocks += [Heading(name, 3), *(table2(estimates, source, level) for level in LEVELS)]
    return blocks


def _figures(estimates: Estimates, gallery: Gallery) -> list[Block]:
    curves = gallery.pictures(_finetuning_curves(estimates))
    histograms = gallery.pictures(distance_figures(estimates.results))
    blocks: list[Block] = [
        Heading("Figure 4: fewer labels"),
        Text("Validation AUC of fine-tuning by epoch. Bold lines are means over seeds, thin lines are seeds."),
        *(curves or [Text("Not done.")]),
        Text("Test AUC, with the paper's values (table 17) per frame:"),
    ]
    for transfer in FEWER_LABELS:
        tables = [label_fractions(estimates, *transfer, level) for level in LEVELS]
        blocks += [Heading(transfer_label(*transfer), 3), *tables]
    return [
        *blocks,
        Heading("Figure 6: distances within and between patients"),
        Text(
            "Validation patients of PhysioNet 2020, seed 0. The axis ends at the distance that "
            f"{100 * MOST_PAIRS:g} % of the pairs between patients do not exceed."
        ),
        *(histograms or [Text("Not done.")]),
    ]


def _finetuning_curves(estimates: Estimates) -> NamedFigures:
    drawn: NamedFigures = []
    for source, target in FEWER_LABELS:
        curves = {}
        for method, fraction in PANELS:
            runs = estimates.runs(partial(finetuned, method, source, target, label_fraction=fraction)).values()
            if runs:
                name = f"{METHOD_NAMES[method]}, {fraction:.0%} of the labels".replace("%", " %")
                curves[name] = [np.asarray(run.row["curves"]["validation_auc"]) for run in runs]
        if curves:
            title = transfer_label(source, target)
            best = ", ".join(f"{name} at most {max(run.max() for run in runs):.3f}" for name, runs in curves.items())
            drawn.append((f"figure-4-{target}", draw_validation_curves(curves, title), f"{title}: {best}"))
    return drawn


def _differences(estimates: Estimates) -> str:
    """Return the paragraph on what differs from the paper, with the measured effects of the variants."""
    (printed,) = results(table=1, method="cmsc", evaluation="physionet2020")
    base = partial(linear, "cmsc", "physionet2020")
    mean = estimates.auc(base, "frame")
    ours = "is not done" if mean is None else f"has {mean_text(mean)} per frame by the encoder of the lowest loss"
    effects = []
    for name in VARIANTS:
        found = variant_difference(estimates, partial(variant, name), base, "frame")
        if found is not None:
            effects.append(f"{name} {signed_text(found.value)} ({interval_text(found, difference=True)})")
    measured = f"Measured per frame: {'; '.join(effects)}." if effects else "These variants are not done yet."
    return (
        "Our test patients are others, because the paper's split is not published, and our splits do not leak: "
        "recordings with the same signal under different names stay in one part. The paper does not state how long it "
        "trained. The loss here follows the paper's equations; the released code uses one triangle of the pairs across "
        f"a patient's instances. CMSC on PhysioNet 2020 {ours}; the paper has {printed.value:.3f} per frame "
        f"(mean of {paper().seeds} seeds). The table has variants that may explain the distance: "
        "the loss of the released code, another weight of pairs across a patient's instances, and a pre-training "
        f"split that includes test patients of the evaluation. {measured}"
    )
