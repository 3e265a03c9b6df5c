"""A twelve-lead encoder: trained, published, searched and served, with and without a missing lead."""

from __future__ import annotations

from pathlib import Path

import pytest

import clocs
from clocs.core.errors import LeadError
from clocs.core.recording import Recording
from clocs.signals.leads import STANDARD_LEADS
from tests.service.serving import served

JOINT = (
    "encoder={name: resnet, in_channels: 12, embedding_dim: 16, width: 4, depth: 2}",
    f"leads={','.join(STANDARD_LEADS)}",
    "batch_size=32",
    "max_epochs=2",
    "onnx=false",
)


def published(store: Path, folder: Path, *overrides: str) -> Path:
    """A trained and published encoder."""
    run = clocs.pretrain("cmsc-synthetic", [f"store={store}", f"runs={folder / 'runs'}", *JOINT, *overrides])
    clocs.publish(run["best"], store, folder / "published", "joint")
    return folder / "published"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred recordings of fifty patients, twelve leads."""
    folder = tmp_path_factory.mktemp("store") / "store"
    clocs.split(clocs.ingest("synthetic", None, folder, options={"num_records": 100, "leads": 12}))
    return folder


@pytest.fixture(scope="module")
def encoder(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained with lead dropout."""
    return published(store, tmp_path_factory.mktemp("dropping"), "method.augmentations=[lead_dropout]")


def without(recording: Recording, lead: str) -> Recording:
    return recording.select(tuple(name for name in recording.leads if name != lead))


def test_it_classifies_a_recording_that_lacks_a_lead_by_a_smaller_set(store: Path, encoder: Path) -> None:
    loaded = clocs.load_encoder(encoder)
    assert "An encoder for ECGs of 12 leads, " in (encoder / "README.md").read_text()
    assert (loaded.runtime, loaded.input.in_channels) == ("onnxruntime", 12)
    recording = clocs.open_store(store).recording(0)
    whole, lacking = loaded.classify(recording), loaded.classify(without(recording, "V3"))
    assert (whole.leads, lacking.leads) == (STANDARD_LEADS, STANDARD_LEADS[:6])


@pytest.mark.slow
def test_without_lead_dropout_a_missing_lead_is_refused(store: Path, tmp_path: Path) -> None:
    loaded = clocs.load_encoder(published(store, tmp_path))
    with pytest.raises(LeadError, match="'synthetic' needs all twelve leads"):
        loaded.classify(without(clocs.open_store(store).recording(0), "V3"))


def test_it_is_searched_and_served(store: Path, encoder: Path, tmp_path: Path) -> None:
    clocs.embed_store(encoder, store, tmp_path / "archive")
    clocs.build_index(tmp_path / "archive", tmp_path / "index")
    recording = clocs.open_store(store).recording(0)
    with served(index=str(tmp_path / "index"), audit_log=str(tmp_path / "searches.jsonl")) as running:
        for number, given in enumerate((recording, without(recording, "V3"))):
            path = tmp_path / f"{number}.edf"
            clocs.write(given, path)
            for route, part in (("classify", "classes"), ("similar", "neighbours")):
                reply = running.post(f"/api/v1/{route}", {path.name: path.read_bytes()})
                assert reply.status == 200, reply.body
                assert reply.json()[part]
