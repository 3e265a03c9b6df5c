"""Encoders that take several leads at once: frames with a mask, missing leads, one lead alone; archive and search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import clocs
from clocs.core.errors import LeadError
from clocs.core.recording import Provenance, Recording
from clocs.inference.preparation import in_batches, prepare
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.signals.leads import STANDARD_LEADS
from clocs.signals.resampling import resample
from clocs.similarity.archive.recording_vectors import rows_to_embed
from tests.conftest import make_recording
from tests.inference.conftest import EMBEDDING, make_twelve_leads


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on recordings that have all leads."""
    return make_twelve_leads(tmp_path_factory.mktemp("plain") / "best")


@pytest.fixture(scope="module")
def dropping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained with lead dropout."""
    return make_twelve_leads(tmp_path_factory.mktemp("dropping") / "best", lead_dropout=True)


def without(recording: Recording, *leads: str) -> Recording:
    return recording.select(tuple(lead for lead in recording.leads if lead not in leads))


def test_a_frame_of_all_leads_has_one_embedding(plain: Path, twelve: Recording) -> None:
    encoder = load_encoder(plain)
    assert encoder.runtime == "onnxruntime"
    made = encoder.embed(twelve)
    assert (made.values.shape, made.lead, made.leads) == ((2, EMBEDDING), ("all", "all"), STANDARD_LEADS)
    assert made.start.tolist() == [0.0, 5.0]
    ready = prepare(twelve, encoder.input)
    assert ready.signals().shape == (2, 12, 1000)
    assert ready.lead_mask.all()
    with torch.inference_mode():
        truth = encoder.module(torch.from_numpy(ready.signals())).numpy()
    np.testing.assert_allclose(made.values, truth, atol=1e-5)
    np.testing.assert_allclose(load_encoder(plain, device="cpu").embed(twelve).values, truth, atol=1e-6)


def test_channels_are_in_the_order_of_the_encoder(plain: Path, twelve: Recording) -> None:
    encoder = load_encoder(plain)
    turned = twelve.select(tuple(reversed(twelve.leads)))
    np.testing.assert_array_equal(encoder.embed(turned).values, encoder.embed(twelve).values)


def test_a_derivable_lead_is_not_missing(plain: Path, twelve: Recording) -> None:
    encoder = load_encoder(plain)
    made = encoder.embed(without(twelve, "aVL", "III"))
    assert made.leads == STANDARD_LEADS
    assert "derived from I and II" in " ".join(made.notes)


def test_a_missing_lead_is_rejected_without_lead_dropout(
    plain: Path, dropping: Path, twelve: Recording, tmp_path: Path
) -> None:
    lacking = without(twelve, "V3")
    with pytest.raises(LeadError, match="has no lead V3; the encoder takes I, II"):
        load_encoder(plain).embed(lacking)
    encoder = load_encoder(dropping)
    ready = prepare(lacking, encoder.input)
    at = STANDARD_LEADS.index("V3")
    assert (~ready.lead_mask).nonzero()[1].tolist() == [at, at]
    assert not ready.signals()[:, at].any()
    assert "lead V3 of the encoder not in the recording" in ready.notes
    with torch.inference_mode():
        truth = encoder.module(torch.from_numpy(ready.signals()), torch.from_numpy(ready.lead_mask)).numpy()
    np.testing.assert_allclose(encoder.embed(lacking).values, truth, atol=1e-5)


def test_an_unnamed_lead_needs_a_channel_in_the_policy(dropping: Path) -> None:
    encoder, strip = load_encoder(dropping), make_recording(("ECG",), num_samples=5000)
    with pytest.raises(LeadError, match=r"none of these is there.*Name the lead correctly"):
        encoder.embed(strip)
    policy = encoder.input.policy.model_copy(update={"unnamed_lead": "II"})
    ready = prepare(strip, encoder.input.model_copy(update={"policy": policy}))
    assert ready.lead_mask.sum(axis=0).nonzero()[0].tolist() == [STANDARD_LEADS.index("II")]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("twelve") / "store"
    clocs.ingest("synthetic", None, folder, options={"num_records": 12, "leads": 12})
    return folder


def test_with_lead_dropout_single_leads_are_embedded_with_others_masked(
    dropping: Path, store: Path, tmp_path: Path
) -> None:
    encoder = load_encoder(dropping)
    archive = clocs.embed_store(encoder, store, tmp_path / "archive")
    assert archive.manifest.leads == STANDARD_LEADS
    held, present = archive.lead_vectors(np.array([3]))
    assert present.all()
    ready = prepare(clocs.open_store(store).recording(3), encoder.input)
    for place in range(12):
        only = np.zeros_like(ready.lead_mask)
        only[:, place] = True
        rows = encoder.embed_frames(ready.signals() * only[..., None], only)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        mean = rows.mean(axis=0)
        np.testing.assert_allclose(held[0, place], mean / np.linalg.norm(mean), atol=1e-5)
    clocs.build_index(archive, tmp_path / "index")
    found = clocs.open_index(tmp_path / "index").similar(clocs.open_store(store).recording(3), 2)
    assert [len(item.why) for item in found.neighbors] == [12, 12]


def test_without_lead_dropout_single_leads_have_no_vectors(plain: Path, store: Path, tmp_path: Path) -> None:
    archive = clocs.embed_store(plain, store, tmp_path / "archive", workers=2)
    assert archive.manifest.leads == ()
    assert not [name for name in archive.shard(0).batch.schema.names if name.startswith("lead_")]
    assert archive.table(["leads", "frames"]).to_pydict() == {"leads": [12] * 12, "frames": [2] * 12}
    clocs.build_index(archive, tmp_path / "index")
    found = clocs.open_index(tmp_path / "index").similar(clocs.open_store(store).recording(3), 2)
    assert [item.why for item in found.neighbors] == [(), ()]
    assert not [note for note in found.notes if "leads are not compared" in note]


@pytest.mark.parametrize("scope", ["lead", "frame"])
@pytest.mark.parametrize("dropout", [False, True])
def test_rows_are_made_as_they_are_needed(scope: str, dropout: bool, twelve: Recording, tmp_path: Path) -> None:
    """Any rows equal those of all rows; a lead alone is normalized with the others, and then they are masked."""
    trained = load_encoder(make_twelve_leads(tmp_path, lead_dropout=dropout)).input
    policy = trained.policy.model_copy(update={"normalization": "minmax", "normalization_scope": scope})
    expected = trained.model_copy(update={"policy": policy, "normalization": "minmax"})
    ready = prepare(twelve, expected, overlap=0.5)
    signal = resample(twelve.select(STANDARD_LEADS).physical(), 500, 200)
    literal = policy.normalize(np.stack([signal[:, begin : begin + 1000] for begin in (0, 500, 1000)]))
    np.testing.assert_array_equal(ready.signals(), literal)
    rows = rows_to_embed(ready)
    assert len(rows) == (3 * 13 if dropout else 3)
    np.testing.assert_array_equal(rows.signals(1, 3), literal[1:])
    if dropout:
        np.testing.assert_array_equal(rows.signals(3 + 12 + 5, 3 + 12 + 6)[0, 5], literal[1, 5])
        assert not rows.signals(3 + 12 + 5, 3 + 12 + 6)[0, [0, 4, 6, 11]].any()


def test_batches_have_rows_of_several_recordings(twelve: Recording, encoder: PretrainedEncoder) -> None:
    twelve = replace(twelve, provenance=Provenance())
    short = replace(twelve, digital=twelve.digital[:, :2500])
    ready = [prepare(recording, encoder.input) for recording in (twelve, short, twelve)]
    assert [len(item) for item in ready] == [8, 4, 8]
    made = list(in_batches(ready, 6))
    assert [len(signals) for signals, _ in made] == [6, 6, 6, 2]
    np.testing.assert_array_equal(
        np.concatenate([signals for signals, _ in made]), np.concatenate([item.signals() for item in ready])
    )
    np.testing.assert_array_equal(
        encoder.embed_prepared(*ready), encoder.embed_frames(np.concatenate([item.signals() for item in ready]))
    )
