"""The model card of a published encoder, its README.md: input, training, results, privacy and limitations."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from clocs.evaluation.scoring import format_interval
from clocs.inference.classification import format_set
from clocs.inference.classifier import ClassifierCard, LeadSet
from clocs.similarity.scoring.audit import table_rows


@dataclass(frozen=True)
class ClassifierReport:
    """A classifier with its results on the test patients of a dataset."""

    name: str
    """Name of the classifier."""
    classifier: ClassifierCard
    """Description of the classifier."""
    test: list[dict[str, Any]]
    """Metrics of the test part for each set of leads, from ``compute_metrics``."""
    subgroups: dict[str, dict[str, Any]]
    """Metrics of the largest set of leads by sex, age and device, from ``compute_subgroup_metrics``."""
    num_patients: dict[str, int]
    """Number of patients of each part."""
    seen_by_encoder: bool
    """True if the encoder was trained on recordings of the training part."""
    audit: dict[str, Any] | None
    """Result of ``audit``. None: an earlier report of the same store has it."""

    def test_by_leads(self) -> dict[str, dict[str, Any]]:
        """Return the metrics of the test part by the names of the leads."""
        sets = self.classifier.lead_sets
        return {", ".join(item.leads): found for item, found in zip(sets, self.test, strict=True)}


@dataclass(frozen=True)
class CardContent:
    """The content of a model card."""

    name: str
    """Name of the encoder."""
    about: dict[str, Any]
    """Content of the encoder's config.json."""
    reports: tuple[ClassifierReport, ...]
    """One report a classifier, the default classifier first."""
    audits: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Title of a dataset and result of ``audit``, for an encoder without classifiers."""


def format_model_card(content: CardContent) -> str:
    """Return the card as Markdown, with the header that model hubs read."""
    parts = [_header(content), _overview(content), _training(content)]
    if content.reports:
        parts += [_section(title, content, format_report) for title, format_report in SECTIONS]
    elif content.audits:
        lines = [line for title, found in content.audits for line in ("", f"### {title}", "", *_audit_lines(found))]
        parts.append("\n".join(["## Privacy audit", *lines]))
    return "\n\n".join((*parts, _limitations(content))) + "\n"


def _section(title: str, content: CardContent, format_report: Callable[[ClassifierReport], list[str]]) -> str:
    """Format a section on every classifier, with a heading for each if there are several."""
    lines = [f"## {title}"]
    for report in content.reports:
        if len(content.reports) > 1:
            lines += ["", f"### `{report.name}`: {report.classifier.trained_on['title']}"]
        lines += ["", *format_report(report)]
    return "\n".join(lines)


def _header(content: CardContent) -> str:
    licence = content.about["licence"]
    licences = [f"license: {licence.lower().replace(' ', '-')}"]
    if ";" in licence:
        licences = ["license: other", f"license_name: {re.sub('[^a-z0-9.]+', '-', licence.lower())}"]
    tags = "tags: [ecg, electrocardiogram, self-supervised, contrastive-learning]"
    return "\n".join(("---", "library_name: clocs", *licences, tags, "---"))


def _overview(content: CardContent) -> str:
    expected, options = content.about["input"], content.about["encoder"]["options"]
    method = content.about["training"]["method"]["name"].upper()
    num_samples, sampling_rate = expected["num_samples"], expected["sampling_rate"]
    frames = f"{num_samples:,} samples at any sampling rate, as the dataset's frames in the paper"
    if sampling_rate:
        frames = f"{num_samples / sampling_rate:g} s, {num_samples:,} samples at {sampling_rate:g} Hz"
    names = [report.name for report in content.reports]
    counts = {0: "without classifiers", 1: "with a linear classifier"}
    classifiers = counts.get(len(names), f"with {len(names)} linear classifiers")
    channels = options["in_channels"]
    kind = "single-lead ECGs" if channels == 1 else f"ECGs of {channels} leads"
    lead_use = "one at a time" if channels == 1 else "all at once"
    if expected.get("lead_dropout"):
        lead_use += "; some may be missing"
    summary = (
        f"An encoder for {kind}, pre-trained without labels by {method} (CLOCS, Kiyasseh, Zhu and Clifton, "
        f"ICML 2021){_other_objectives(content.about)}, {classifiers}. Research use only: not a medical device, not "
        "for diagnosis."
    )
    calls = ['encoder.classify("file")'] if names else []
    if len(names) > 1:
        calls[0] += "  # uses the first classifier with a set of leads that the file has"
        calls += [f'encoder.classify("file", classifier="{name}")' for name in names]
    return f"""# {content.name}

{_paragraph(summary)}

```python
import clocs

encoder = clocs.load_encoder("{content.name}")
{chr(10).join([f'encoder.embed("file").pooled()  # shape ({options["embedding_dim"]},)', *calls])}
```

| input | |
|---|---|
| leads | {", ".join(expected["leads"])}, {lead_use} |
| frames | {frames} |
| amplitude | {"each frame scaled to 0..1" if expected["normalization"] == "minmax" else expected["unit"]} |
| network | `{content.about["encoder"]["name"]}`, {options["embedding_dim"]} outputs |

Recordings are resampled and rescaled to this format; incompatible ones are rejected with a reason."""


def _training(content: CardContent) -> str:
    lines = ["## Training"]
    if content.reports:
        lines += ["", "| data | licence | patients: training | validation | test |", "|---|---|---|---|---|"]
    rows = []
    for report in content.reports:
        origin, counts = report.classifier.trained_on, (f"{count:,}" for count in report.num_patients.values())
        title = f"{origin['title']}. {origin['citation']}".rstrip()
        rows.append(f"| {title} | {origin['licence']} | {' | '.join(counts)} |")
    lines += dict.fromkeys(rows)  # several classifiers may have the same patients
    paragraphs = [
        f"{_use_of_parts(content)} Test patients were used only for results. No patient is in two parts, "
        "and no signal is in two parts under different names. `seen.npy` lists hashes of the signals that were seen, "
        "so that an evaluation can reject them.",
        f"{_optimization(content.about)} `config.json` has the complete configuration and the dataset and split "
        "hashes.",
    ]
    if components := content.about.get("pca"):
        paragraphs.append(_components(components))
    return "\n".join(lines) + "\n\n" + "\n\n".join(map(_paragraph, paragraphs))


def _other_objectives(about: dict[str, Any]) -> str:
    """Return the objectives beside the contrast of patients, for a sentence."""
    words = {
        "samples": "by giving back the samples of leads and spans that were left out",
        "kernels": "by predicting random kernel features of the recording",
    }
    found = [words[name] for name in about["training"]["method"].get("objectives", ()) if name in words]
    return "".join(f", {'and ' if sentence == found[-1] else ''}{sentence}" for sentence in found)


def _optimization(about: dict[str, Any]) -> str:
    """Return a sentence on the optimizer, and on the epoch that was kept if the validation loss selected it."""
    training = about["training"]
    optimizer = {"adam": "Adam", "adamw": "AdamW"}.get(training["optimizer"], training["optimizer"])
    used = f"Seed {training['seed']}, batches of {training['batch_size']}, {optimizer} at {training['learning_rate']:g}"
    length = f"{training['max_steps']:,} steps" if training["max_steps"] else f"{training['max_epochs']} epochs"
    if "validation_loss" not in about:
        return f"{used}, {length}."
    return (
        f"{used}, the best of at most {length} by validation loss: epoch {about['epoch'] + 1}, loss "
        f"{about['validation_loss']:.3f}."
    )


def _components(pca: dict[str, Any]) -> str:
    """Return sentences on the principal components of which the embedding consists."""
    explained, whitening = pca["explained"], pca.get("whitening", 1.0)
    scaled = "scaled to unit variance" if whitening == 1 else f"divided by its deviation to the power of {whitening:g}"
    shares = (
        {f" in the {name.replace('_', ' ')}": share for name, share in sorted(explained.items())}
        if isinstance(explained, dict)
        else {"": explained}
    )
    variance = " and ".join(f"{share:.0%} of the variance{where}" for where, share in shares.items())
    return (
        f"The embedding is a PCA of the pooled activations of every block, with each component {scaled}. It was fitted "
        f"without labels on at most {pca['recordings']:,} training recordings of each dataset, and explains {variance}."
    )


def _use_of_parts(content: CardContent) -> str:
    """Return sentences on what training and validation patients were used for."""
    if not content.reports:
        dataset = content.about["training"]["dataset"]
        return f"The encoder was trained without labels on the training patients of {dataset.replace(' + ', ', ')}."
    if not any(report.seen_by_encoder for report in content.reports):
        return (
            "The encoder was trained before, without labels, on other data "
            f"({content.about['training']['dataset']}), and is unchanged. The classifier was trained on the labels of "
            "the training patients. Validation patients selected its regularization and calibrated it; where classes "
            "exclude each other, one half of them calibrated nothing but the prediction sets."
        )
    selected = "the epoch and the classifier's regularization" if "epoch" in content.about else "its regularization"
    return (
        "The encoder was trained on the signals of the training patients, the classifier on their labels. Validation "
        f"patients selected {selected}, and calibrated it; where classes exclude each other, one half of them "
        "calibrated nothing but the prediction sets."
    )


def _test_results(report: ClassifierReport) -> list[str]:
    lines = ["Macro averages by the leads of a recording, with 95 % intervals over patients:", ""]
    lines += ["| leads | per | AUC | average precision | calibration error |", "|---|---|---|---|---|"]
    for lead_set, metrics in zip(report.classifier.lead_sets, report.test, strict=True):
        for level, values in metrics.items():
            lines.append(f"| {format_set(lead_set.leads)} | {level} ({values['rows']:,}) | {_cells(values)} |")
    largest = report.classifier.lead_sets[0].leads
    lines += ["", f"Per recording, by class, from {format_set(largest)}:", ""]
    lines += [
        "| class | meaning | recordings | AUC | average precision | calibration error |",
        "|---|---|---|---|---|---|",
    ]
    meanings = {item.name: item.meaning for item in report.classifier.classes}
    for name, values in report.test[0]["recording"]["classes"].items():
        lines.append(f"| {name} | {meanings[name]} | {values['positives']:,} | {_cells(values)} |")
    return lines


def _subgroup_results(report: ClassifierReport) -> list[str]:
    largest = format_set(report.classifier.lead_sets[0].leads)
    lines = [f"Macro AUC per recording, from {largest}:", "", "| group | recordings | AUC |", "|---|---|---|"]
    for name, values in report.subgroups.items():
        auc = "too few recordings" if values["auc"] is None else format_interval(values["auc"])
        lines.append(f"| {name} | {values['recordings']:,} | {auc} |")
    return [
        *lines,
        "",
        "The macro average of a group is over the classes that occur in it; small groups may lack some.",
    ]


def _privacy_audit(report: ClassifierReport) -> list[str]:
    if report.audit is None:
        return ["See the classifier before: it has the same recordings."]
    return _audit_lines(report.audit)


def _audit_lines(result: dict[str, Any]) -> list[str]:
    reidentification, membership = result["reidentification"], result["membership"]
    lines = [f"`clocs audit` on {result['patients']:,} test patients, with 95 % intervals over patients:", ""]
    lines += ["| attack | result | chance |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in table_rows(result)]
    sentences = ["These attacks are simple; stronger ones may find more."]
    if reidentification is not None:
        sentences.append("A segment is one frame of all leads.")
        if reidentification["other_recordings"] is None:
            sentences.append(
                "No patient has a second recording, so segments share noise and electrodes. How well embeddings "
                "identify a patient on another day was not measured."
            )
    if membership is not None:
        sentences.append(
            f"Membership inference was tried on {membership['members']:,} training and {membership['others']:,} test "
            f"recordings, with one score: {membership['score']}."
        )
    lines += ["", _paragraph(" ".join(sentences))]
    return [*lines, "", *(f"- {note}" for note in result["notes"])] if result["notes"] else lines


SECTIONS: tuple[tuple[str, Callable[[ClassifierReport], list[str]]], ...] = (
    ("Results on test patients", _test_results),
    ("Results by subgroup", _subgroup_results),
    ("Privacy audit", _privacy_audit),
)


def _fitted_on(lead_sets: Sequence[LeadSet]) -> str:
    sets = " or ".join(format_set(item.leads) for item in lead_sets)
    rejected = "one of these sets of leads" if len(lead_sets) > 1 else "them"
    return f"It was fitted on {sets}; a recording without {rejected} is rejected, and other leads are not used."


def _limitations(content: CardContent) -> str:
    lines = ["## Limitations", ""]
    for report in content.reports:
        prefix = f"`{report.name}`: " if len(content.reports) > 1 else ""
        lines += [f"- {prefix}{sentence}" for sentence in report.classifier.limitations]
        lines += [f"- {prefix}{_fitted_on(report.classifier.lead_sets)}"]
    lines += [
        "- It was tested only on patients of the same sources. Results will differ for the devices, filters and",
        "  patients of other hospitals.",
        "- A recording with a lower sampling rate is resampled, which does not restore the missing frequencies.",
        "- Embeddings are personal data: they may identify a patient. Protect them like the recordings.",
        "",
        "Intended for research on ECG representations. Not intended for diagnosis, triage or monitoring of patients.",
    ]
    return "\n".join(lines)


def _cells(values: dict[str, Any]) -> str:
    intervals = (format_interval(values[key]) for key in ("auc", "average_precision"))
    return " | ".join((*intervals, f"{values['calibration_error']:.3f}"))


def _paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
