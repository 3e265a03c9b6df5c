"""What all evaluations have in common: who is tested, on what, and what is kept of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from clocs.core.errors import ConfigError
from clocs.evaluation.contract import check_contract
from clocs.evaluation.frame_choice import frames_for, mismatches
from clocs.evaluation.judgement import judge
from clocs.evaluation.options import LabelledOptions
from clocs.evaluation.results import CODE, save_scores
from clocs.evaluation.rows import Rows, refuse_without_classes
from clocs.evaluation.subject import Subject, load_subject
from clocs.signals.framing import FramePolicy
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.runs import Run

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class Trial:
    """An encoder before a test part that it has not seen."""

    subject: Subject
    store: Store
    split: Split
    policy: FramePolicy
    contract: dict[str, Any]
    judges: Literal["validation", "test"]
    """The part whose patients judge."""

    @classmethod
    def prepare(cls, checkpoint: Folder, store: Folder | Store, options: LabelledOptions) -> Trial:
        """Refused where the encoder has seen test patients, or the store names no classes."""
        place = open_store(store)
        refuse_without_classes(place)
        split = place.split(options.split)
        subject = load_subject(checkpoint, place, options.seed)
        policy = frames_for(subject.about["input"], place, options.frames)
        refuse = options.leaks == "refused"
        contract = check_contract(subject.folder, subject.about, place, split, refuse=refuse)
        return cls(subject, place, split, policy, contract, options.part)

    def label_fraction(self, options: LabelledOptions) -> float:
        """Of the training labels, that the options ask for."""
        if options.labelled is None:
            return options.fraction
        people = len(np.unique(self.store.patients()[0][self.split.mask("train")]))
        if options.labelled > people or options.label_draw != "patients":
            raise ConfigError(
                f"labelled={options.labelled}: the training part has {people} patients, and labels must be drawn over "
                "them: label_draw=patients"
            )
        return options.labelled / people

    def run(self, runs: Folder, kind: str, **identity: Any) -> Run:
        """The folder of this evaluation, named by what goes into it."""
        told = {"kind": kind, "store_sha256": self.store.sha256, "split_sha256": self.split.sha256}
        label = f"{kind}-{self.subject.label}-{self.store.manifest.dataset['name']}"
        return Run(Path(runs), label, {**told, **identity, "evaluation_code": CODE})

    def finish(self, run: Run, scores: Rows, **told: Any) -> dict[str, Any]:
        """Judge the scores and keep them."""
        result = {
            "encoder": self.subject.told(),
            **told,
            "contract": self.contract,
            "notes": [*mismatches(self.subject.about["input"], self.policy, self.store), *_without_class(scores)],
            self.judges: judge(scores),
        }
        save_scores(run.folder, scores)
        run.finish(result)
        return {**result, "run": str(run.folder), "already_finished": False}


def _without_class(scores: Rows) -> list[str]:
    """A recording of whom nothing is known looks like one that has none of the classes."""
    none = len(np.unique(scores.record[~scores.truth.any(1)]))
    every = len(np.unique(scores.record))
    many = f"{none:,} of {every:,} recordings that judge have frames without any of the classes and count as negatives"
    return [f"{many}: where labels are missing, leave such recordings out"] if none else []


def looked_up(run: Run) -> dict[str, Any] | None:
    """A result that is there already."""
    known = run.result()
    return None if known is None else {**known, "run": str(run.folder), "already_finished": True}
