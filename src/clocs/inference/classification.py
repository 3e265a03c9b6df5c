"""Classification of a recording from its embeddings, with regard to the leads that the classifier was fitted on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clocs.core.errors import LeadError
from clocs.inference.classifier import Classifier, ClassifierCard
from clocs.inference.preparation import ANY_LEAD, format_leads
from clocs.inference.results import ClassProbability, Embeddings
from clocs.signals.resampling import Floats


def classify_embeddings(
    name: str, classifier: Classifier, embeddings: Embeddings, *, any_lead: bool
) -> tuple[tuple[ClassProbability, ...], tuple[str, ...]]:
    """Return the classes by descending probability, and all notes.

    Args:
        name: Name of the classifier in notes.
        classifier: The classifier.
        embeddings: Embeddings of one recording.
        any_lead: Use also leads that the classifier was not fitted on.
    """
    card = classifier.card
    rows, notes = _rows_to_classify(name, card, embeddings, any_lead)
    incomparable = _why_incomparable(card, embeddings.leads, any_lead)
    probability = classifier.classify(rows, all_leads=not incomparable)
    classes = [
        ClassProbability(
            item.name,
            item.meaning,
            probability[item.name],
            item.prevalence,
            None if incomparable else item.bin_of(probability[item.name]),
            incomparable,
        )
        for item in card.classes
    ]
    return tuple(sorted(classes, key=lambda item: -item.probability)), notes


def no_common_lead(name: str, card: ClassifierCard, leads: Sequence[str], matching: Sequence[str]) -> LeadError:
    """Return the error for a recording without any lead that the classifier was fitted on."""
    return LeadError(
        f"classifier '{name}' was fitted on {', '.join(card.leads)}; this recording has "
        f"{format_leads(card.unknown_leads(leads))}. Classifiers of this encoder for it: "
        f"{', '.join(matching) or 'none'}. Other leads are classified only on request, without a track record."
    ).with_code_hint(ANY_LEAD)


def _rows_to_classify(
    name: str, card: ClassifierCard, embeddings: Embeddings, any_lead: bool
) -> tuple[Floats, tuple[str, ...]]:
    """Return the embeddings (rows, E) that a classifier uses, and all notes."""
    unknown = card.unknown_leads(embeddings.leads)
    if not unknown:
        return embeddings.values, embeddings.notes
    fitted = f"classifier '{name}' was fitted on {', '.join(card.leads)}"
    if any_lead:
        note = f"{format_leads(unknown)} counted although {fitted}: no track record"
        return embeddings.values, (*embeddings.notes, note)
    used = np.isin(embeddings.lead, card.leads)
    return embeddings.values[used], (*embeddings.notes, f"{format_leads(unknown)} not counted: {fitted}")


def _why_incomparable(card: ClassifierCard, leads: Sequence[str], any_lead: bool) -> str:
    """Return why a recording with these leads is not comparable with validation patients, or an empty string."""
    if any_lead and card.unknown_leads(leads):
        return "the classifier was not fitted on such leads"
    missing = card.missing_leads(leads)
    return f"without {format_leads(missing)}, which validation patients had" if missing else ""
