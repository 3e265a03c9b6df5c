"""Conversion of results to API responses.

A preview is a recording for drawing: integers, with one scale per lead.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

import numpy as np

from clocs.core.recording import Recording
from clocs.inference.classifier import Classifier
from clocs.inference.results import Classification, Embeddings
from clocs.measurements.measurements import measure
from clocs.measurements.normal_ranges import NormalRange, normal_ranges
from clocs.measurements.results import STATED_TITLES, MarkedBeat, with_stated
from clocs.service import schemas
from clocs.service.archive_view import ArchiveView, IndexMap, MappedNeighbor, Plane, SearchResult
from clocs.service.parsing.reading import first_seconds
from clocs.service.privacy import Handles, coarse_age
from clocs.service.rights import Identity, Right
from clocs.service.state import LoadedService

MICROVOLT: Final = 0.001
"""Millivolt per step."""
MISSING: Final = -32768
HIGHEST: Final = 32767


def me_reply(identity: Identity) -> schemas.Me:
    """Return who asks, with the rights in their order."""
    return schemas.Me(
        rights=[right for right in Right if right in identity.rights], user=identity.user, token=identity.token
    )


def model_reply(loaded: LoadedService) -> schemas.ModelInfo:
    """Describe the encoder, its classifiers and the index."""
    encoder, limits = loaded.encoder, loaded.settings.limits
    takes, classifiers = encoder.input, [_classifier(*item) for item in encoder.classifiers.items()]
    first = classifiers[0] if classifiers else None
    assert takes.sampling_rate is not None
    return schemas.ModelInfo(
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
        recordings=None if loaded.recordings is None else len(loaded.recordings),
        shows_ids=loaded.settings.show_ids,
        embeddings=loaded.settings.allow_embeddings,
        prints_times=loaded.settings.print_times,
        limits=schemas.LimitsInfo(
            upload_bytes=limits.upload_bytes,
            upload_files=limits.upload_files,
            longest_seconds=limits.longest_seconds,
            shown_seconds=limits.shown_seconds,
        ),
        notice=schemas.NOTICE,
    )


def _classifier(name: str, classifier: Classifier) -> schemas.ClassifierInfo:
    card = classifier.card
    classes = [
        schemas.ClassInfo(
            name=item.name,
            meaning=item.meaning,
            prevalence=item.prevalence,
        )
        for item in card.classes
    ]
    lead_sets = [
        schemas.LeadSetInfo(
            leads=list(item.leads),
            reliability={
                one.name: [schemas.ReliabilityBin(**vars(bin_)) for bin_ in bins]
                for one, bins in zip(card.classes, item.reliability, strict=True)
            },
            validation_auc=item.validation_auc,
            test_auc=item.test_auc,
        )
        for item in card.lead_sets
    ]
    return schemas.ClassifierInfo(
        name=name,
        title=str(card.trained_on.get("title", "")),
        lead_sets=lead_sets,
        multi_label=card.multi_label,
        classes=classes,
        limitations=list(card.limitations),
    )


def _index(archive: ArchiveView | None) -> schemas.IndexInfo | None:
    if archive is None:
        return None
    about, rows = archive.manifest, archive.map.rows
    return schemas.IndexInfo(
        patients=about.patients,
        recordings=about.recordings,
        kind=about.kind,
        labels=sorted({label for row in rows for label in row["labels"]}),
        sites=sorted({row["site"] for row in rows if row["site"]}),
    )


def classes_reply(found: Classification, request_id: str) -> schemas.ClassificationResponse:
    """Return class probabilities with their validation record."""
    classes = [
        schemas.ClassProbability(
            name=item.name,
            meaning=item.meaning,
            probability=item.probability,
            prevalence=item.prevalence,
            validation=None if item.validation is None else schemas.ReliabilityBin(**vars(item.validation)),
            track_record=item.track_record,
            local_record=item.local_record,
        )
        for item in found.classes
    ]
    return schemas.ClassificationResponse(
        request_id=request_id,
        classifier=found.classifier,
        leads=list(found.leads),
        multi_label=found.multi_label,
        classes=classes,
        prediction_set=None if found.prediction_set is None else list(found.prediction_set),
        set_statement=found.set_statement,
        limitations=list(found.limitations),
        notes=list(found.notes),
        findings=list(found.findings),
        withheld=list(found.withheld),
        notice=schemas.NOTICE,
    )


def measurements_reply(recording: Recording) -> schemas.MeasurementsResponse:
    """Measure a recording, and return the values with their normal ranges and the median beat."""
    measured = measure(recording)
    ranges = normal_ranges(measured, recording.age, recording.sex)
    values = []
    for name, (item, stated) in with_stated(measured, recording.stated_measurements).items():
        normal = ranges.get(name, NormalRange(None, None, ""))
        judged = name in ranges and item.value is not None
        title, unit = STATED_TITLES[name]
        values.append(
            schemas.MeasuredValue(
                name=name,
                title=title,
                unit=unit,
                **asdict(item),
                stated=stated,
                **asdict(normal),
                position=normal.position(item.value) if judged and item.value is not None else None,
            )
        )
    return schemas.MeasurementsResponse(
        values=values,
        regular=measured.regular,
        num_beats=measured.num_beats,
        paced=measured.paced,
        leads=list(measured.leads),
        beat=None if measured.beat is None or recording.unit != "mV" else _median_beat(measured.beat),
        notice=schemas.NOTICE,
    )


def _median_beat(beat: MarkedBeat) -> schemas.MedianBeat:
    microvolt = np.rint(1000 * np.nan_to_num(beat.signal)).astype(int)
    return schemas.MedianBeat(
        sampling_rate=beat.sampling_rate,
        samples=dict(zip(beat.leads, microvolt.tolist(), strict=True)),
        marks=beat.marks,
    )


def similar_reply(search: SearchResult, handles: Handles, show_ids: bool) -> schemas.SimilarResponse:
    """Return similar patients under handles, with ids only if the service was started with ``--show-ids``."""
    return schemas.SimilarResponse(
        neighbours=[_similar_patient(found, handles, show_ids) for found in search.found],
        num_hidden=search.num_hidden,
        query=schemas.QueryPosition(map=_place(search.position)),
        notes=search.notes,
        notice=schemas.NOTICE,
    )


def _similar_patient(found: MappedNeighbor, handles: Handles, show_ids: bool) -> schemas.SimilarPatient:
    item = found.neighbor
    ids = {"patient_id": item.patient_id, "record_id": item.record_id} if show_ids else {}
    return schemas.SimilarPatient(
        handle=handles.create(item.record_id),
        similarity=item.similarity,
        distance=item.distance,
        labels=list(item.labels),
        age=coarse_age(item.age),
        sex=item.sex,  # type: ignore[arg-type]  # the index holds no other values
        site=item.site,
        recordings=item.recordings,
        why=[schemas.LeadSimilarity(**vars(lead)) for lead in item.why],
        map=_place(found.position),
        **ids,
    )


def _place(position: tuple[float, float] | None) -> list[float] | None:
    return None if position is None else list(position)


def neighbor_preview(archive: ArchiveView, record_id: str, seconds: float) -> bytes | None:
    """Return the preview of a recording of the index; None if it was deleted."""
    recording = archive.recording(record_id)
    if recording is None:
        return None
    return preview_json(first_seconds(recording, seconds), recording.seconds)


def map_reply(found: IndexMap, plane: Plane) -> schemas.MapResponse:
    """Return the points of a map with their metadata."""
    return schemas.MapResponse(
        method="pca",
        explained=list(plane.explained),
        points=[list(row["position"]) for row in found.rows],
        label=[next(iter(row["labels"]), "") for row in found.rows],
        age=[coarse_age(row["age"]) for row in found.rows],
        sex=[row["sex"] for row in found.rows],
        site=[row["site"] for row in found.rows],
    )


def embeddings_reply(made: Embeddings) -> schemas.EmbeddingResponse:
    """Return the embeddings of a recording."""
    return schemas.EmbeddingResponse(
        embedding=made.pooled().tolist(),
        rows=made.values.tolist(),
        leads=list(made.lead),
        start=made.start.tolist(),
        notes=list(made.notes),
    )


def preview_json(recording: Recording, seconds: float) -> bytes:
    """Return the body of a preview.

    Leads are serialized one by one, so that no single call blocks other threads for long.

    Args:
        recording: The recording, or its beginning.
        seconds: Duration of the whole recording in seconds.

    Returns:
        JSON.
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
    """Return one microvolt, or one step of a recording without a gain; more if the values would not fit."""
    finest = MICROVOLT if unit == "mV" else 1.0
    return finest if peak <= HIGHEST * finest else float(f"{peak / HIGHEST:.6g}") * 1.000001
