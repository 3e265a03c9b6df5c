"""The README.md of a published encoder: what it is, what it was trained on, how good it is, what it is not for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clocs.evaluation.classifier import ClassifierCard
from clocs.evaluation.judgement import in_words
from clocs.similarity.judgement.audit import in_rows


@dataclass(frozen=True)
class Findings:
    """All that a card tells."""

    name: str
    about: dict[str, Any]
    """The encoder's config.json."""
    classifier: ClassifierCard
    test: dict[str, Any]
    """Of ``judge``."""
    subgroups: dict[str, dict[str, Any]]
    """Of ``judge_subgroups``."""
    counts: dict[str, int]
    """Patients of each part."""
    audit: dict[str, Any]
    """Of ``audit``."""


def write_card(found: Findings) -> str:
    """Markdown with the header that model hubs read."""
    parts = (_header, _what, _data, _results, _everyone, _given_away, _limits)
    return "\n\n".join(part(found) for part in parts) + "\n"


def _header(found: Findings) -> str:
    lines = (
        "---",
        "library_name: clocs",
        f"license: {found.about['licence'].lower().replace(' ', '-')}",
        "tags: [ecg, electrocardiogram, self-supervised, contrastive-learning]",
        "---",
    )
    return "\n".join(lines)


def _what(found: Findings) -> str:
    training, taken = found.about["training"], found.about["input"]
    method, options = training["method"]["name"].upper(), found.about["encoder"]["options"]
    seconds = taken["samples"] / taken["rate"]
    return f"""# {found.name}

An encoder of single-lead ECGs, pre-trained without labels by {method} (CLOCS, Kiyasseh, Zhu and Clifton, ICML 2021),
and a linear classifier on it. Research use only: not a medical device, not for diagnosis.

```python
import clocs

encoder = clocs.load_encoder("{found.name}")
encoder.embed("file").pooled()  # {options["embedding"]} numbers
encoder.classify("file")
```

| it takes | |
|---|---|
| leads | {", ".join(taken["leads"])}, one at a time |
| frames | {seconds:g} s, {taken["samples"]:,} samples at {taken["rate"]:g} Hz |
| amplitude | {"each frame scaled to 0..1" if taken["normalisation"] == "unit" else taken["unit"]} |
| network | `{found.about["encoder"]["name"]}`, {options["embedding"]} outputs |

Recordings in another unit, at another rate or with other leads are brought to this, or refused."""


def _data(found: Findings) -> str:
    training, origin = found.about["training"], found.classifier.trained_on
    counts = found.counts
    return f"""## Training

Data: {origin["title"]}, {origin["licence"]}. {origin["citation"]}.

{counts["train"]:,} patients trained the encoder and the classifier, {counts["validation"]:,} decided when to stop, the
classifier's regularisation and its temperature, {counts["test"]:,} were kept for the results below. Nobody is in two
parts, nor is a signal that two names share. `seen.npy` lists keys of the signals that were seen, so that an evaluation
can refuse them.

Seed {training["seed"]}, batches of {training["batch"]}, {training["optimiser"].capitalize()} at
{training["learning_rate"]:g}, best of at most {training["epochs"]} epochs by validation loss: epoch
{found.about["epoch"]}, loss {found.about["validation_loss"]:.3f}. The whole config and the hashes of data and split are
in `config.json`."""


def _results(found: Findings) -> str:
    lines = ["## Results on test patients", "", "Macro AUC and average precision, 95 % intervals over patients:", ""]
    lines += ["| | AUC | average precision | calibration error |", "|---|---|---|---|"]
    for level, values in found.test.items():
        lines.append(f"| per {level} ({values['rows']:,}) | {_cells(values)} |")
    lines += ["", "Per recording (leads and frames averaged), by class:", ""]
    lines += [
        "| class | meaning | recordings | AUC | average precision | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    meanings = {item.name: item.meaning for item in found.classifier.classes}
    for name, values in found.test["recording"]["classes"].items():
        lines.append(f"| {name} | {meanings[name]} | {values['positives']:,} | {_cells(values)} |")
    return "\n".join(lines)


def _everyone(found: Findings) -> str:
    lines = ["## For whom", "", "Macro AUC per recording:", "", "| group | recordings | AUC |", "|---|---|---|"]
    for name, values in found.subgroups.items():
        said = "too few to say" if values["auc"] is None else in_words(values["auc"])
        lines.append(f"| {name} | {values['recordings']:,} | {said} |")
    lines += ["", "A group's macro mean is over the classes that occur in it, so small groups may lack some."]
    return "\n".join(lines)


def _given_away(found: Findings) -> str:
    told, taken = found.audit, found.about["input"]
    again, trained = told["reidentification"], told["membership"]
    lines = ["## What the embeddings give away", ""]
    lines += [f"By `clocs audit`, on {told['patients']:,} test patients, 95 % intervals over patients:", ""]
    lines += ["| test | found | guessing |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in in_rows(told)]
    lines += ["", "These are simple attacks: an attacker who does more finds no less."]
    if again is not None:
        lines.append(f"A segment is {taken['samples'] / taken['rate']:g} s of all leads.")
        if again["other_recordings"] is None:
            lines.append("Nobody here has a second recording: segments of one share its noise and its electrodes, and")
            lines.append("how well the embeddings tell a patient on another day was not measured.")
    if trained is not None:
        lines.append(f"Membership was tried on {trained['members']:,} training and {trained['others']:,} test records,")
        lines.append(f"by one score: {trained['score']}.")
    lines += ["", *(f"- {note}" for note in told["notes"])] if told["notes"] else []
    return "\n".join(lines)


def _limits(found: Findings) -> str:
    lines = ["## Limits", ""]
    lines += [f"- {sentence}" for sentence in found.classifier.cannot_recognise]
    lines += [
        "- It was tested on patients of the same source only. Another hospital's machines, filters and patients will",
        "  give other results.",
        "- A recording at a lower rate is resampled, which does not bring back the frequencies it lacks.",
        "- Embeddings are personal data: they may tell a patient again. Keep them as the recordings are kept.",
        "",
        "Intended for research on ECG representations. Not intended for diagnosis, triage or monitoring of patients.",
    ]
    return "\n".join(lines)


def _cells(values: dict[str, Any]) -> str:
    both = (in_words(values[key]) for key in ("auc", "average_precision"))
    return " | ".join((*both, f"{values['calibration_error']:.3f}"))
