"""The README.md of a published encoder: what it is, what it was trained on, how good it is, what it is not for."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clocs.evaluation.scoring import format_interval
from clocs.inference.classifier import ClassifierCard
from clocs.inference.preparation import format_leads
from clocs.similarity.scoring.audit import table_rows
from clocs.training.seen_recordings import training_hashes


@dataclass(frozen=True)
class ClassifierReport:
    """A dataset whose labels a classifier knows, and what was found on its test patients."""

    name: str
    """The classifier's."""
    classifier: ClassifierCard
    test: dict[str, Any]
    """Of ``compute_metrics``."""
    subgroups: dict[str, dict[str, Any]]
    """Of ``compute_subgroup_metrics``."""
    counts: dict[str, int]
    """Patients of each part."""
    audit: dict[str, Any]
    """Of ``audit``."""


@dataclass(frozen=True)
class CardContent:
    """All that a card tells."""

    name: str
    about: dict[str, Any]
    """The encoder's config.json."""
    tasks: tuple[ClassifierReport, ...]
    """The default classifier's first."""


def write_card(found: CardContent) -> str:
    """Markdown with the header that model hubs read."""
    parts = [_header(found), _what(found), _data(found)]
    parts += [_section(title, found, part) for title, part in SECTIONS]
    return "\n\n".join((*parts, _limits(found))) + "\n"


def _section(title: str, found: CardContent, part: Callable[[ClassifierReport], list[str]]) -> str:
    """What a part says of each task, under the classifier's name where there are several."""
    lines = [f"## {title}"]
    for task in found.tasks:
        lines += ["", f"### `{task.name}`: {task.classifier.trained_on['title']}"] if len(found.tasks) > 1 else []
        lines += ["", *part(task)]
    return "\n".join(lines)


def _header(found: CardContent) -> str:
    licences = [f"license: {found.about['licence'].lower().replace(' ', '-')}"]
    if ";" in found.about["licence"]:
        licences = ["license: other", f"license_name: {found.about['licence']}"]
    tags = "tags: [ecg, electrocardiogram, self-supervised, contrastive-learning]"
    return "\n".join(("---", "library_name: clocs", *licences, tags, "---"))


def _what(found: CardContent) -> str:
    training, taken = found.about["training"], found.about["input"]
    method, options = training["method"]["name"].upper(), found.about["encoder"]["options"]
    frames = f"{taken['num_samples']:,} samples of no stated rate, as its dataset's frames in the paper"
    if taken["sampling_rate"]:
        samples, rate = taken["num_samples"], taken["sampling_rate"]
        frames = f"{samples / rate:g} s, {samples:,} samples at {rate:g} Hz"
    first, *others = (task.name for task in found.tasks)
    many = f"{len(others) + 1} linear classifiers" if others else "a linear classifier"
    channels = options["in_channels"]
    kind = "single-lead ECGs" if channels == 1 else f"ECGs of {channels} leads at once"
    together = "one at a time" if channels == 1 else "all at once"
    if taken.get("lead_dropout"):
        together += "; some may be missing"
    words = (
        f"An encoder of {kind}, pre-trained without labels by {method} (CLOCS, Kiyasseh, Zhu and Clifton, "
        f"ICML 2021), and {many} on it. Research use only: not a medical device, not for diagnosis."
    )
    calls = [
        'encoder.classify("file")' + ("  # by the first classifier that was fitted on its leads" if others else "")
    ]
    calls += [f'encoder.classify("file", classifier="{name}")' for name in (first, *others) if others]
    return f"""# {found.name}

{_paragraph(words)}

```python
import clocs

encoder = clocs.load_encoder("{found.name}")
encoder.embed("file").pooled()  # {options["embedding_dim"]} numbers
{chr(10).join(calls)}
```

| it takes | |
|---|---|
| leads | {", ".join(taken["leads"])}, {together} |
| frames | {frames} |
| amplitude | {"each frame scaled to 0..1" if taken["normalization"] == "minmax" else taken["unit"]} |
| network | `{found.about["encoder"]["name"]}`, {options["embedding_dim"]} outputs |

Recordings in another unit, at another rate or with other leads are brought to this, or refused."""


def _data(found: CardContent) -> str:
    training = found.about["training"]
    lines = ["## Training", "", "| data | licence | patients: training | validation | test |", "|---|---|---|---|---|"]
    for task in found.tasks:
        origin, counts = task.classifier.trained_on, (f"{count:,}" for count in task.counts.values())
        title = f"{origin['title']}. {origin['citation']}".rstrip()
        lines.append(f"| {title} | {origin['licence']} | {' | '.join(counts)} |")
    length = f"{training['max_steps']:,} steps" if training["max_steps"] else f"{training['max_epochs']} epochs"
    optimizer = {"adam": "Adam", "adamw": "AdamW"}.get(training["optimizer"], training["optimizer"])
    words = [
        f"{_who_trained(found)} Test patients were kept for the results below. Nobody is in two parts, nor is a signal "
        "that two names share. `seen.npy` lists keys of the signals that were seen, so that an evaluation can refuse "
        "them.",
        f"Seed {training['seed']}, batches of {training['batch_size']}, {optimizer} at {training['learning_rate']:g}, "
        f"the best of at most {length} by validation loss: epoch {found.about['epoch'] + 1}, loss "
        f"{found.about['validation_loss']:.3f}. `config.json` has the whole config and the hashes of data and split.",
    ]
    if components := found.about.get("pca"):
        words.append(
            "The embedding is not what the loss saw but principal components of what all blocks of the network tell, "
            "each scaled to variance one, fitted without labels on at "
            f"most {components['recordings']:,} training recordings of each dataset; they keep "
            f"{components['explained']:.0%} of the variance."
        )
    return "\n".join(lines) + "\n\n" + "\n\n".join(map(_paragraph, words))


def _who_trained(found: CardContent) -> str:
    own = {store for store, _ in training_hashes(found.about)}
    if own.isdisjoint(task.classifier.trained_on["store_sha256"] for task in found.tasks):
        return (
            "The encoder was trained before, without labels, on other data "
            f"({found.about['training']['dataset']}), and left as it was. The training patients' labels trained the "
            "classifier; validation patients decided its regularisation and its calibration."
        )
    return (
        "The training patients' signals trained the encoder, their labels the classifier. Validation patients decided "
        "when to stop, the classifier's regularisation and its calibration."
    )


def _results(task: ClassifierReport) -> list[str]:
    lines = ["Macro AUC and average precision, 95 % intervals over patients:", ""]
    lines += ["| | AUC | average precision | calibration error |", "|---|---|---|---|"]
    for level, values in task.test.items():
        lines.append(f"| per {level} ({values['rows']:,}) | {_cells(values)} |")
    lines += ["", "Per recording (the mean over its frames and leads), by class:", ""]
    lines += [
        "| class | meaning | recordings | AUC | average precision | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    meanings = {item.name: item.meaning for item in task.classifier.classes}
    for name, values in task.test["recording"]["classes"].items():
        lines.append(f"| {name} | {meanings[name]} | {values['positives']:,} | {_cells(values)} |")
    return lines


def _everyone(task: ClassifierReport) -> list[str]:
    lines = ["Macro AUC per recording:", "", "| group | recordings | AUC |", "|---|---|---|"]
    for name, values in task.subgroups.items():
        said = "too few to say" if values["auc"] is None else format_interval(values["auc"])
        lines.append(f"| {name} | {values['recordings']:,} | {said} |")
    return [*lines, "", "A group's macro mean is over the classes that occur in it, so small groups may lack some."]


def _given_away(task: ClassifierReport) -> list[str]:
    told = task.audit
    again, trained = told["reidentification"], told["membership"]
    lines = [f"By `clocs audit`, on {told['patients']:,} test patients, 95 % intervals over patients:", ""]
    lines += ["| test | found | guessing |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(told)]
    words = ["These are simple attacks: an attacker who does more finds no less."]
    if again is not None:
        words.append("A segment is one frame of all leads.")
        if again["other_recordings"] is None:
            words.append(
                "Nobody here has a second recording: segments of one share its noise and its electrodes, and how well "
                "the embeddings tell a patient on another day was not measured."
            )
    if trained is not None:
        words.append(
            f"Membership was tried on {trained['members']:,} training and {trained['others']:,} test records, by one "
            f"score: {trained['score']}."
        )
    lines += ["", _paragraph(" ".join(words))]
    return [*lines, "", *(f"- {note}" for note in told["notes"])] if told["notes"] else lines


SECTIONS: tuple[tuple[str, Callable[[ClassifierReport], list[str]]], ...] = (
    ("Results on test patients", _results),
    ("For whom", _everyone),
    ("What the embeddings give away", _given_away),
)


def _fitted_on(leads: Sequence[str]) -> str:
    without = (
        "it is refused" if len(leads) == 1 else "any of them is refused, and one that lacks some has no track record"
    )
    return f"It was fitted on {format_leads(leads)}; a recording without {without}."


def _limits(found: CardContent) -> str:
    lines = ["## Limits", ""]
    for task in found.tasks:
        whose = f"`{task.name}`: " if len(found.tasks) > 1 else ""
        lines += [f"- {whose}{sentence}" for sentence in task.classifier.limitations]
        lines += [f"- {whose}{_fitted_on(task.classifier.leads)}"]
    lines += [
        "- It was tested on patients of the same sources only. Another hospital's machines, filters and patients will",
        "  give other results.",
        "- A recording at a lower rate is resampled, which does not bring back the frequencies it lacks.",
        "- Embeddings are personal data: they may tell a patient again. Keep them as the recordings are kept.",
        "",
        "Intended for research on ECG representations. Not intended for diagnosis, triage or monitoring of patients.",
    ]
    return "\n".join(lines)


def _cells(values: dict[str, Any]) -> str:
    both = (format_interval(values[key]) for key in ("auc", "average_precision"))
    return " | ".join((*both, f"{values['calibration_error']:.3f}"))


def _paragraph(words: str) -> str:
    return textwrap.fill(words, 120, break_long_words=False, break_on_hyphens=False)
