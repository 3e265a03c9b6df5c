"""The steps that all evaluations share: check the inputs, name the run, score and save the results."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clocs.core.errors import ConfigError
from clocs.core.run_identity import non_default_values
from clocs.evaluation.checkpoint import EncoderCheckpoint, load_encoder_checkpoint
from clocs.evaluation.evaluation_frames import frame_mismatches, frame_policy_for
from clocs.evaluation.leakage import check_leakage
from clocs.evaluation.model_outputs import ModelOutputs, require_classes, require_patients
from clocs.evaluation.options import EXECUTION, EvaluationOptions
from clocs.evaluation.results import save_scores
from clocs.evaluation.scoring import LEVELS, compute_metrics
from clocs.evaluation.subgroups import compute_subgroup_metrics
from clocs.signals.framing import FramePolicy
from clocs.store.frames import Frames
from clocs.store.splits import Split
from clocs.store.store import Store, open_store
from clocs.training.labels import sample_patients
from clocs.training.runs import Run

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class EvaluationRun:
    """An encoder with a store and a split whose test patients it has not seen."""

    encoder: EncoderCheckpoint
    """The encoder that is evaluated."""
    store: Store
    """The store that it is evaluated on."""
    split: Split
    """The split of the store."""
    policy: FramePolicy
    """The frame policy."""
    leakage: dict[str, Any]
    """Result of the leakage check."""
    options: EvaluationOptions
    """Options of the evaluation."""

    @classmethod
    def prepare(
        cls, checkpoint: Folder, store: Folder | Store, options: EvaluationOptions, *, recordings: bool = False
    ) -> EvaluationRun:
        """Load encoder and store, and check that they can be evaluated.

        Args:
            checkpoint: Folder of a run or of an encoder, name of a shipped encoder, or ``random``.
            store: The store, or its folder.
            options: Options of the evaluation.
            recordings: True if whole recordings are classified, which may have tasks instead of classes. The frame
                policy is then that of training.

        Raises:
            LeakError: The encoder has seen test patients.
            ConfigError: The store has no classes, or a part of the split is empty.
        """
        opened = open_store(store)
        opened.table(options.subgroups)  # raises early if a column is unknown
        if not recordings:
            require_classes(opened)
        split = opened.split(options.split)
        require_patients(opened, split, "train", "validation", options.part)
        encoder = load_encoder_checkpoint(checkpoint, opened, options.seed, options.device)
        policy = (
            FramePolicy.model_validate(encoder.about["input"]["policy"])
            if recordings
            else frame_policy_for(encoder.about, opened, options.frames)
        )
        refuse = options.on_leak == "raise"
        leakage = check_leakage(encoder.folder, encoder.about, opened, split, refuse=refuse)
        return cls(encoder, opened, split, policy, leakage, options)

    @property
    def label_fraction(self) -> float:
        """Fraction of the training labels that are used."""
        num_labelled = self.options.num_labelled_patients
        if num_labelled is None:
            return self.options.label_fraction
        num_patients = len(np.unique(self.store.patient_codes()[0][self.split.mask("train")]))
        if num_labelled > num_patients or self.options.label_unit != "patients":
            raise ConfigError(
                f"num_labelled_patients={num_labelled}: the training part has {num_patients} patients. Use at most as "
                "many, with label_unit=patients."
            )
        return num_labelled / num_patients

    def labelled(self) -> npt.NDArray[np.bool_]:
        """Return a mask (recordings of the store,) of those with labels to train on.

        If labels are drawn over frames, these are all recordings of the training part.
        """
        train = self.split.mask("train")
        if self.options.label_unit == "frames":
            return train
        return sample_patients(self.store, train, self.label_fraction, self.options.seed)

    def run(self, runs: Folder, kind: str, origin: Mapping[str, Any]) -> Run:
        """Return the run of this evaluation.

        Args:
            runs: Folder of all runs.
            kind: Kind of evaluation, with which the run's name begins.
            origin: Hashes of inputs other than store and split.
        """
        label = f"{kind}-{self.encoder.label}-{self.store.manifest.dataset['name']}"
        changed = {"kind": kind, **non_default_values(self.options, exclude=set(EXECUTION))}
        hashes = {"store_sha256": self.store.sha256, "split_sha256": self.split.sha256}
        options = self.options.model_dump(mode="json", exclude=set(EXECUTION))
        config = {"kind": kind, **options, **hashes, **origin}
        return Run(Path(runs), label, changed, {**hashes, **origin}, config)

    def finish(
        self,
        run: Run,
        scores: ModelOutputs,
        *,
        levels: Sequence[str] = LEVELS,
        absent_classes: Sequence[str] | None = None,
        **details: Any,
    ) -> dict[str, Any]:
        """Compute the metrics of the scores, and save both.

        Args:
            run: The run of this evaluation.
            scores: Class probabilities of the part that is scored.
            levels: Levels of the metrics.
            absent_classes: Classes that no labelled patient has. None: those of the labelled frames.
            **details: Other entries of the result.

        Returns:
            The result as JSON, with the folder of the run.
        """
        result = {
            "encoder": self.encoder.describe(),
            **details,
            "contract": self.leakage,
            "notes": [
                *frame_mismatches(self.encoder.about["input"], self.policy, self.store),
                *_absence_note(self._unlabelled_classes() if absent_classes is None else absent_classes),
                *_recordings_without_class(scores),
            ],
            self.options.part: compute_metrics(scores, levels=levels),
        }
        if self.options.subgroups:
            result["subgroups"] = compute_subgroup_metrics(scores, self.store, self.options.subgroups)
        save_scores(run.folder, scores)
        run.finish(result)
        return {**result, "run": str(run.folder), "already_finished": False}

    def _unlabelled_classes(self) -> list[str]:
        """Return the classes that no labelled frame has."""
        frames = Frames(self.store, self.policy, records=self.labelled())
        labels = frames.targets(np.arange(len(frames)))
        return [name for name, column in zip(frames.classes, labels.T, strict=True) if not column.any()]


def _absence_note(absent: Sequence[str]) -> list[str]:
    """Return a note on classes that no labelled patient has. A macro average includes them nevertheless."""
    return [f"no labelled patient has {', '.join(absent)}: these classes are never predicted"] if absent else []


def _recordings_without_class(scores: ModelOutputs) -> list[str]:
    """Return a note on recordings without a class, which unlabelled recordings look like."""
    without = len(np.unique(scores.record[~scores.truth.any(1)]))
    total = len(np.unique(scores.record))
    note = f"{without:,} of {total:,} recordings have frames without any of the classes, which count as negatives"
    return [f"{note}; leave recordings out whose labels are missing"] if without else []


def finished_result(run: Run) -> dict[str, Any] | None:
    """Return the saved result of a run, or None if it is not finished."""
    result = run.result()
    return None if result is None else {**result, "run": str(run.folder), "already_finished": True}
