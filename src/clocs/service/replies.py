"""From what was found to what is answered: every reply of the API is put together here.

A preview is a recording as the viewer draws it: whole numbers, each lead to its own scale.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from clocs.core.recording import Recording
from clocs.inference.classifier import Classifier
from clocs.inference.results import Classification, Embeddings
from clocs.service import schemas
from clocs.service.archive_view import ArchiveView, Found, PatientsMap, Plane, Search
from clocs.service.parsing.reading import beginning
from clocs.service.privacy import Handles, shown_age
from clocs.service.state import Loaded

MICROVOLT: Final = 0.001
"""Millivolt a step."""
MISSING: Final = -32768
HIGHEST: Final = 32767


def model_reply(loaded: Loaded) -> schemas.ModelAbout:
    """The encoder, its classifiers and the index."""
    encoder, limits = loaded.encoder, loaded.settings.limits
    takes, classifiers = encoder.input, [_classifier(*item) for item in encoder.classifiers.items()]
    first = classifiers[0] if classifiers else None
    assert takes.sampling_rate is not None
    return schemas.ModelAbout(
        encoder=loaded.encoder_name,
        embedding_dim=encoder.embedding_dim,
        sampling_rate=takes.sampling_rate,
        seconds=takes.num_samples / takes.sampling_rate,
        leads=list(takes.leads),
        multi_label=first.multi_label if first else False,
        classes=first.classes if first else [],
        limitations=first.limitations if first else [],
        classifiers=classifiers,
        card=loaded.card,
        index=_index(loaded.archive),
        shows_ids=loaded.settings.show_ids,
        embeddings=loaded.settings.allow_embeddings,
        limits=schemas.LimitsAbout(
            upload_bytes=limits.upload_bytes,
            upload_files=limits.upload_files,
            longest_seconds=limits.longest_seconds,
            shown_seconds=limits.shown_seconds,
        ),
        notice=schemas.NOTICE,
    )


def _classifier(name: str, classifier: Classifier) -> schemas.ClassifierAbout:
    card = classifier.card
    classes = [
        schemas.ClassOfModel(
            name=item.name,
            meaning=item.meaning,
            prevalence=item.prevalence,
            reliability=[schemas.ReliabilityBin(**vars(one)) for one in item.reliability],
        )
        for item in card.classes
    ]
    return schemas.ClassifierAbout(
        name=name,
        title=str(card.trained_on.get("title", "")),
        leads=list(card.leads),
        multi_label=card.multi_label,
        classes=classes,
        limitations=list(card.limitations),
    )


def _index(archive: ArchiveView | None) -> schemas.IndexAbout | None:
    if archive is None:
        return None
    about, rows = archive.manifest, archive.map.rows
    return schemas.IndexAbout(
        patients=about.patients,
        recordings=about.recordings,
        kind=about.kind,
        labels=sorted({label for row in rows for label in row["labels"]}),
        sites=sorted({row["site"] for row in rows if row["site"]}),
    )


def classes_reply(found: Classification) -> schemas.Classified:
    """What a classifier says, with the track record of each probability."""
    classes = [
        schemas.ClassFound(
            name=item.name,
            meaning=item.meaning,
            probability=item.probability,
            prevalence=item.prevalence,
            validation=None if item.validation is None else schemas.ReliabilityBin(**vars(item.validation)),
            track_record=item.track_record,
        )
        for item in found.classes
    ]
    return schemas.Classified(
        classifier=found.classifier,
        multi_label=found.multi_label,
        classes=classes,
        limitations=list(found.limitations),
        notes=list(found.notes),
        notice=schemas.NOTICE,
    )


def similar_reply(search: Search, handles: Handles, show_ids: bool) -> schemas.SimilarFound:
    """Neighbours under handles; with their ids only where that was asked for when the service was started."""
    return schemas.SimilarFound(
        neighbors=[_neighbour(found, handles, show_ids) for found in search.found],
        query=schemas.QueryPlace(map=_place(search.at)),
        notes=search.notes,
        notice=schemas.NOTICE,
    )


def _neighbour(found: Found, handles: Handles, show_ids: bool) -> schemas.NeighbourFound:
    item = found.neighbor
    ids = {"patient_id": item.patient_id, "record_id": item.record_id} if show_ids else {}
    return schemas.NeighbourFound(
        handle=handles.give(item.record_id),
        similarity=item.similarity,
        distance=item.distance,
        labels=list(item.labels),
        age=shown_age(item.age),
        sex=item.sex,  # type: ignore[arg-type]  # the index holds no other values
        site=item.site,
        recordings=item.recordings,
        why=[schemas.LeadAlike(**vars(lead)) for lead in item.why],
        map=_place(found.at),
        **ids,
    )


def _place(at: tuple[float, float] | None) -> list[float] | None:
    return None if at is None else list(at)


def neighbour_preview(archive: ArchiveView, record_id: str, seconds: float) -> bytes | None:
    """A recording of the index, as previews of files are; None where it is no longer there."""
    recording = archive.recording(record_id)
    if recording is None:
        return None
    return preview_json(beginning(recording, seconds), recording.seconds)


def map_reply(found: PatientsMap, plane: Plane) -> schemas.MapShown:
    """The points of a map and what is known of them."""
    return schemas.MapShown(
        method="pca",
        explained=list(plane.explained),
        points=[list(row["at"]) for row in found.rows],
        label=[next(iter(row["labels"]), "") for row in found.rows],
        age=[shown_age(row["age"]) for row in found.rows],
        sex=[row["sex"] for row in found.rows],
        site=[row["site"] for row in found.rows],
    )


def embeddings_reply(made: Embeddings) -> schemas.Embedded:
    """Embeddings of a recording."""
    return schemas.Embedded(
        embedding=made.pooled().tolist(),
        rows=made.values.tolist(),
        leads=list(made.lead),
        start=made.start.tolist(),
        notes=list(made.notes),
    )


def preview_json(recording: Recording, seconds: float) -> bytes:
    """The body of a preview; ``seconds``: of the whole recording, of which this may be the beginning.

    Leads are written one by one, so that no single call keeps other threads waiting.
    """
    derived = recording.provenance.derived_leads
    about = {
        "format": recording.provenance.format,
        "sampling_rate": recording.sampling_rate,
        "seconds": round(seconds, 3),
        "shown_seconds": round(recording.seconds, 3),
        "unit": recording.unit,
        "age": recording.age,
        "sex": recording.sex,
        "labels": list(recording.labels),
        "leads": [{"name": lead, "derived": lead in derived} for lead in recording.leads],
        "notes": list(recording.provenance.notes),
    }
    scales, parts = {}, []
    for lead, row in zip(recording.leads, recording.physical(), strict=True):
        scales[lead] = _scale(float(np.abs(np.nan_to_num(row)).max(initial=0)), recording.unit)
        steps = np.rint(row / scales[lead])
        steps = np.where(np.isfinite(steps), np.clip(steps, -HIGHEST, HIGHEST), MISSING).astype(np.int32)
        parts.append(f"{json.dumps(lead)}:[{','.join(map(str, steps.tolist()))}]")
    signal = f'{{"scale":{json.dumps(scales)},"missing":{MISSING},"samples":{{{",".join(parts)}}}}}'
    return f'{json.dumps(about)[:-1]},"signal":{signal}}}'.encode()


def _scale(peak: float, unit: str) -> float:
    """A microvolt, or one step of a recording without a gain; more only where values would not fit."""
    finest = MICROVOLT if unit == "mV" else 1.0
    return finest if peak <= HIGHEST * finest else float(f"{peak / HIGHEST:.6g}") * 1.000001
