"""What all evaluations have in common: who is tested, on what, and what is kept of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.run_identity import changed_values
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_mismatches, frame_policy_for
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.model_outputs import ModelOutputs, require_classes, require_patients
from clocs.evaluation.options import EXECUTION, EvaluationOptions
from clocs.evaluation.results import save_scores
from clocs.evaluation.scoring import compute_metrics
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.labels import sample_patients
from clocs.training.runs import Run

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class EvaluationRun:
    """An encoder before a test part that it has not seen."""

    encoder: EncoderCheckpoint
    store: Store
    split: Split
    policy: FramePolicy
    contract: dict[str, Any]
    options: EvaluationOptions

    @classmethod
    def prepare(cls, checkpoint: Folder, store: Folder | Store, options: EvaluationOptions) -> EvaluationRun:
        """Refused where the encoder has seen test patients, the store names no classes, or a part is empty."""
        place = open_store(store)
        require_classes(place)
        split = place.split(options.split)
        require_patients(place, split, "train", "validation", options.part)
        encoder = load_encoder_checkpoint(checkpoint, place, options.seed)
        policy = frame_policy_for(encoder.about, place, options.frames)
        refuse = options.on_leak == "raise"
        contract = check_leakage(encoder.folder, encoder.about, place, split, refuse=refuse)
        return cls(encoder, place, split, policy, contract, options)

    @property
    def label_fraction(self) -> float:
        """Of the training labels, that the options ask for."""
        wanted = self.options.num_labelled_patients
        if wanted is None:
            return self.options.label_fraction
        people = len(np.unique(self.store.patient_codes()[0][self.split.mask("train")]))
        if wanted > people or self.options.label_unit != "patients":
            raise ConfigError(
                f"num_labelled_patients={wanted}: the training part has {people} patients, and labels must be drawn "
                "over them: "
                "label_unit=patients"
            )
        return wanted / people

    def labelled(self) -> npt.NDArray[np.bool_]:
        """(recordings of the store,) whose labels are trained with; where they are drawn over frames, the part's."""
        train = self.split.mask("train")
        if self.options.label_unit == "frames":
            return train
        return sample_patients(self.store, train, self.label_fraction, self.options.seed)

    def run(self, runs: Folder, kind: str, origin: Mapping[str, Any]) -> Run:
        """Return the folder of this evaluation.

        Args:
            runs: The folder of all runs.
            kind: The evaluation's kind, which begins its name.
            origin: Hashes of inputs other than store and split.
        """
        label = f"{kind}-{self.encoder.label}-{self.store.manifest.dataset['name']}"
        changed = {"kind": kind, **changed_values(self.options, exclude=set(EXECUTION))}
        hashes = {"store_sha256": self.store.sha256, "split_sha256": self.split.sha256}
        options = self.options.model_dump(mode="json", exclude=set(EXECUTION))
        config = {"kind": kind, **options, **hashes, **origin}
        return Run(Path(runs), label, changed, {**hashes, **origin}, config)

    def finish(self, run: Run, scores: ModelOutputs, **told: Any) -> dict[str, Any]:
        """Judge the scores and keep them."""
        result = {
            "encoder": self.encoder.told(),
            **told,
            "contract": self.contract,
            "notes": [
                *frame_mismatches(self.encoder.about["input"], self.policy, self.store),
                *self._unlabelled_classes(),
                *_without_class(scores),
            ],
            self.options.part: compute_metrics(scores),
        }
        save_scores(run.folder, scores)
        run.finish(result)
        return {**result, "run": str(run.folder), "already_finished": False}

    def _unlabelled_classes(self) -> list[str]:
        """Classes that nobody with a label has: a macro mean counts them all the same."""
        frames = Frames(self.store, self.policy, records=self.labelled())
        labels = frames.targets(np.arange(len(frames)))
        lacking = [name for name, column in zip(frames.classes, labels.T, strict=True) if not column.any()]
        return [f"no labelled patient has {', '.join(lacking)}: of that nothing was learned"] if lacking else []


def _without_class(scores: ModelOutputs) -> list[str]:
    """A recording of whom nothing is known looks like one that has none of the classes."""
    none = len(np.unique(scores.record[~scores.truth.any(1)]))
    every = len(np.unique(scores.record))
    many = f"{none:,} of {every:,} recordings that judge have frames without any of the classes and count as negatives"
    return [f"{many}: where labels are missing, leave such recordings out"] if none else []


def finished_result(run: Run) -> dict[str, Any] | None:
    """A result that is there already."""
    known = run.result()
    return None if known is None else {**known, "run": str(run.folder), "already_finished": True}
