"""Embedding files: against scipy and torch by hand, against a store's frames; names, folders, classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
import wfdb
from scipy.signal import resample_poly
from torch import Tensor
from torch.nn.functional import batch_norm, conv1d, max_pool1d

import clocs
from clocs.core.errors import ConfigError, IntegrityError, LeadError, StoreError
from clocs.core.hashes import seal, unseal
from clocs.core.recording import Recording
from clocs.core.sources.source import Source, open_source
from clocs.core.stated_measurements import StatedMeasurements
from clocs.datasets import DATASETS, Entry
from clocs.datasets.dataset import Options
from clocs.inference import pretrained
from clocs.inference.classifier import Classifier
from clocs.inference.preparation import PreparedFrames, prepare
from clocs.inference.pretrained import PretrainedEncoder, load_encoder
from clocs.inference.recordings import as_recording
from clocs.inference.reliability import ReliabilityBin
from clocs.inference.results import ClassProbability
from clocs.signals.framing import FramePolicy
from clocs.signals.leads import LEAD_SETS, STANDARD_LEADS
from clocs.store.frames import Frames
from clocs.store.ingest import ingest
from tests.conftest import make_recording
from tests.inference.conftest import EMBEDDING, LEADS, POLICY, make_classifier, make_encoder
from tests.signals.faulty_recordings import sinus_rhythm, swapped_arms

Floats = npt.NDArray[np.float32]


def by_hand(encoder: PretrainedEncoder, frames: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The paper's network from its weights, in double precision: (N, S) -> (N, E)."""
    weights: dict[str, Tensor] = {name: value.double() for name, value in encoder.module.state_dict().items()}

    def of(place: int, name: str) -> Tensor:
        return weights[f"blocks.{place}.{name}"]

    hidden = torch.from_numpy(frames)[:, None]
    for place in range(3):
        hidden = conv1d(hidden, of(place, "convolution.weight"), stride=3)
        statistics = (of(place, "norm.running_mean"), of(place, "norm.running_var"))
        hidden = batch_norm(hidden, *statistics, of(place, "norm.weight"), of(place, "norm.bias"))
        hidden = max_pool1d(hidden.relu(), 2)
    return np.asarray((hidden.flatten(1) @ weights["linear.weight"].T + weights["linear.bias"]).relu().numpy())


def scaled(window: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray((window - window.min()) / (window.max() - window.min()))


@pytest.mark.parametrize(
    ("name", "sampling_rate"), [("records500/00000/00001_hr", 500), ("records100/00000/00001_lr", 100)]
)
def test_a_ptbxl_file_against_wfdb_scipy_and_the_network_by_hand(
    name: str, sampling_rate: int, originals: Path, encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    source = open_source(originals / "ptbxl")
    for ending in ("hea", "dat"):
        (tmp_path / f"{Path(name).name}.{ending}").write_bytes(source.read(f"{name}.{ending}"))
    record = wfdb.rdrecord(str(tmp_path / Path(name).name))
    rows, expected = [], []
    for start in (0.0, 5.0):
        for lead in LEADS:
            signal = record.p_signal[:, [item.lower() for item in record.sig_name].index(lead.lower())]
            signal = signal if sampling_rate == 500 else resample_poly(signal, 5, 1, padtype="edge")
            rows.append((lead, start))
            expected.append(scaled(signal[int(start * 500) : int((start + 5) * 500)]))
    found = encoder.embed(tmp_path / f"{Path(name).name}.hea")
    assert list(zip(found.lead, found.start, strict=True)) == rows
    np.testing.assert_allclose(found.values, by_hand(encoder, np.stack(expected)), atol=2e-6)
    assert found.values.std() > 0.01, "an embedding that says nothing would pass"
    np.testing.assert_allclose(found.pooled(), found.values.mean(axis=0))
    unused = "leads I, III, aVF, V1, V3, V4, V5, V6 not used: the encoder was trained on II, V2, aVL, aVR"
    assert found.notes == ((unused,) if sampling_rate == 500 else ("resampled from 100 Hz to 500 Hz", unused))


RECORDS = {
    "PTB-XL, 500 Hz": ("ptbxl", "originals.zip/ptbxl", "records500/00000/00001_hr.hea"),
    "PTB-XL, 100 Hz": ("ptbxl", "originals.zip/ptbxl", "records100/00000/00007_lr.hea"),
    "Chapman, CSV": ("chapman", "originals.zip/chapman", "ECGDataDenoised/MUSE_20180111_155115_19000.csv"),
    "CPSC, derived leads": ("physionet2020", "cpsc2018.zip", "A0001.hea"),
    "CPSC, 144 s": ("physionet2020", "originals.zip/cpsc2018", "Training_WFDB/A4133.hea"),
}


@pytest.mark.parametrize("which", RECORDS)
@pytest.mark.parametrize("segments", [1, 2])
def test_a_file_has_the_embeddings_of_its_frames_in_a_store(
    which: str, segments: int, real_data: Path, encoder: PretrainedEncoder, tmp_path: Path
) -> None:
    dataset, folder, name = RECORDS[which]
    source = open_source(real_data / folder)
    file = next(item for item in source.names() if item.endswith(name))

    def only(_: Source, __: Options) -> Iterator[Entry]:
        return iter([Entry(file)])

    store = ingest(replace(DATASETS.get(dataset), entries=only), real_data / folder, tmp_path / "store")
    policy = POLICY.model_copy(update={"num_segments": segments})
    frames = Frames(store, policy)
    _, numbers, leads = frames.locate(np.arange(len(frames)))
    gathered = torch.from_numpy(frames.gather(np.arange(len(frames))))
    with torch.inference_mode():
        values = torch.stack([encoder.module(segment[:, None]) for segment in gathered.unbind(1)], 1)
    expected = {
        (str(leads[item]), (numbers[item] * segments + segment) * 5.0): values[item, segment].numpy()
        for item in range(len(frames))
        for segment in range(segments)
    }
    made = encoder.embed(real_data / folder / file)
    found = dict(zip(zip(made.lead, made.start.tolist(), strict=True), made.values, strict=True))
    if segments == 1:
        assert list(found) == list(expected), "the same rows, in the same order"
    assert found.keys() >= expected.keys()
    assert len(expected) >= 8
    for key, row in expected.items():
        np.testing.assert_allclose(found[key], row, atol=1e-6, err_msg=str(key))


def test_frames_are_embedded_in_batches(encoder: PretrainedEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = np.random.default_rng(0).random((11, 1, 2500), np.float32)
    whole = encoder.embed_frames(frames)
    np.testing.assert_allclose(whole, by_hand(encoder, frames[:, 0].astype(np.float64)), atol=2e-6)
    monkeypatch.setattr(pretrained, "BATCH", 4)
    np.testing.assert_allclose(encoder.embed_frames(frames), whole, atol=1e-6)
    assert encoder.embed_frames(frames[:0]).shape == (0, EMBEDDING)
    with pytest.raises(ConfigError, match=r"Expected frames of shape \(N, 1, 2500\) .* got \(11, 2500\)"):
        encoder.embed_frames(frames[:, 0])
    with pytest.raises(ConfigError, match=r"Expected a lead mask of shape \(11, 1\), got \(11,\)"):
        encoder.embed_frames(frames, np.ones(11, np.bool_))
    assert not encoder.module.training


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an encoder that is installed with the package, by the name of test-encoder."""
    package = tmp_path / "package"
    monkeypatch.setattr("importlib.resources.files", lambda name: package)
    folder = make_encoder(package / "models" / "test-encoder")
    sha256 = load_encoder(folder).about["weights_sha256"]
    make_classifier(sha256).save(folder / "classifiers" / "mine")
    (package / "models" / "notes").mkdir()
    return folder


def test_a_shipped_encoder_is_found_by_its_name(shipped: Path) -> None:
    encoder = load_encoder("test-encoder")
    assert encoder.name == "test-encoder"
    assert encoder.input.leads == LEADS
    assert list(encoder.classifiers) == ["mine"]
    with pytest.raises(ConfigError, match=r"\(test-encoder\)\. Did you mean 'test-encoder'\?"):
        load_encoder("test-encode")
    assert clocs.load_encoder is load_encoder


def test_a_folder_without_encoder_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no config\.json"):
        load_encoder(tmp_path)
    (tmp_path / "config.json").write_bytes(seal({"method": "cmsc"}))
    with pytest.raises(StoreError, match="'best'"):
        load_encoder(tmp_path)
    with pytest.raises(ConfigError, match="neither a folder nor a shipped encoder"):
        load_encoder(tmp_path / "nowhere")


def test_an_encoder_with_an_invalid_config_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="4 leads are named for 12 channels"):
        load_encoder(make_encoder(tmp_path / "twelve", in_channels=12))
    folder = make_encoder(tmp_path / "changed")
    path = folder / "config.json"
    about = unseal(path.read_bytes(), "")
    for changes, message in (
        ({"format": "clocs-encoder-9"}, "clocs-encoder-9"),
        ({"input": {**about["input"], "sampling_rate": 250.0}}, "differ from the policy"),
        ({"input": {}}, "invalid input format"),
    ):
        path.write_bytes(seal({**about, **changes}))
        with pytest.raises(StoreError, match=message):
            load_encoder(folder)


def test_an_encoder_without_sampling_rate_embeds_only_frames(tmp_path: Path, originals: Path) -> None:
    policy = FramePolicy(num_samples=2500, num_source_samples="recording", normalization="minmax", leads=LEADS)
    encoder = load_encoder(make_encoder(tmp_path, policy))
    with pytest.raises(ConfigError, match="no sampling rate to resample a recording to"):
        encoder.embed(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea")
    assert encoder.embed_frames(np.zeros((1, 1, 2500), np.float32)).shape == (1, EMBEDDING)


def literal_features(encoder: PretrainedEncoder, recording: Recording, leads: tuple[str, ...]) -> list[float]:
    """Mean, maximum and minimum over frames at 0, 2.5, 5 s..., each frame with its leads one after the other."""
    frames = []
    for start in range(0, recording.num_samples - 2499, 1250):
        cut = replace(recording, digital=recording.digital[:, start : start + 2500]).select(leads).physical()
        frames.append(np.concatenate([encoder.embed_frames(POLICY.normalize(row[None, None]))[0] for row in cut]))
    stacked = np.array(frames)
    return [*stacked.mean(axis=0), *stacked.max(axis=0), *stacked.min(axis=0)]


def test_classification_of_a_file(shipped: Path, originals: Path) -> None:
    encoder = load_encoder(shipped)
    file = originals / "chapman" / "ECGDataDenoised" / "MUSE_20180111_155115_19000.csv"
    found = encoder.classify(file)
    features = np.array([literal_features(encoder, clocs.read(file), LEADS)], np.float32)
    (expected,) = encoder.classifier().probabilities(features, 0)
    assert {item.name: item.probability for item in found.classes} == pytest.approx(
        dict(zip(("SR", "AFIB", "GSVT"), expected, strict=True)), abs=1e-5
    )
    assert [item.probability for item in found.classes] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert sum(item.probability for item in found.classes) == pytest.approx(1)
    assert found.leads == LEADS
    assert found.limitations == ("It has seen no paced rhythm.",)
    for item in found.classes:
        high = item.probability > 0.5
        words = "of 10 validation patients with 50 to 100%, 60% had it", "of 40 validation patients with 0 to 50%, 25%"
        assert item.track_record.startswith(words[0 if high else 1])
        assert item.meaning == f"meaning of {item.name}"
    assert {item.name: item.prevalence for item in found.classes} == {"SR": 1 / 2, "AFIB": 1 / 3, "GSVT": 1 / 4}


@pytest.mark.parametrize(
    ("patients", "observed", "words"),
    [
        (1, 0.0, "of 1 validation patient with 0 to 10%, 0% had it"),
        (1200, 1 / 1200, "of 1,200 validation patients with 0 to 10%, under 1% had it"),
        (1200, 1199 / 1200, "of 1,200 validation patients with 0 to 10%, over 99% had it"),
        (8, 1 / 8, "of 8 validation patients with 0 to 10%, 13% had it"),
        (8, 1.0, "of 8 validation patients with 0 to 10%, 100% had it"),
    ],
)
def test_a_track_record_rounds_only_exact_values_to_0_and_100_percent(
    patients: int, observed: float, words: str
) -> None:
    found = ClassProbability("SR", "sinus rhythm", 0.05, 0.5, ReliabilityBin(0.0, 0.1, patients, 0.05, observed))
    assert found.track_record == words


def test_one_of_several_classifiers_is_chosen_by_its_name(shipped: Path, originals: Path) -> None:
    """In the order of config.json; what else lies there may be another encoder's."""
    file = originals / "chapman" / "ECGDataDenoised" / "MUSE_20180111_155115_19000.csv"
    about = unseal((shipped / "config.json").read_bytes(), "")
    for name, classes in (("another", 2), ("zebra", 1)):
        make_classifier(about["weights_sha256"], classes=classes).save(shipped / "classifiers" / name)
    make_classifier("00" * 32).save(shipped / "classifiers" / "older")
    (shipped / "config.json").write_bytes(seal({**about, "classifiers": ["zebra", "another", "mine"]}))
    encoder = load_encoder(shipped)
    assert list(encoder.classifiers) == ["zebra", "another", "mine"]
    assert len(encoder.classify(file).classes) == 1
    assert len(encoder.classify(file, classifier="another").classes) == 2
    with pytest.raises(ConfigError, match="no classifier 'lion'; it has zebra, another, mine"):
        encoder.classify(file, classifier="lion")


def test_classifiers_side_by_side_share_the_embeddings(
    shipped: Path, originals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = as_recording(originals / "chapman" / "ECGDataDenoised" / "MUSE_20180111_155115_19000.csv")
    about = unseal((shipped / "config.json").read_bytes(), "")
    for name, classes in (("another", 2), ("zebra", 1)):
        make_classifier(about["weights_sha256"], classes=classes).save(shipped / "classifiers" / name)
    (shipped / "config.json").write_bytes(seal({**about, "classifiers": ["zebra", "another", "mine"]}))
    encoder = load_encoder(shipped)
    alone = [encoder.classify(recording, classifier=name) for name in encoder.classifiers]
    embedded: list[int] = []

    def counted(prepared: PreparedFrames) -> Floats:
        embedded.append(len(prepared))
        return PretrainedEncoder.embed_prepared(encoder, prepared)

    monkeypatch.setattr(encoder, "embed_prepared", counted)
    assert encoder.classify_side_by_side(recording, list(encoder.classifiers)) == tuple(alone)
    assert len(embedded) == 1
    assert encoder.classify_side_by_side(recording) == tuple(alone[:2]), "the first two"
    with pytest.raises(ConfigError, match="no classifier 'lion'"):
        encoder.classify_side_by_side(recording, ["mine", "lion"])


@pytest.fixture(scope="module")
def of_both(tmp_path_factory: pytest.TempPathFactory) -> PretrainedEncoder:
    """Of the four leads and of a single unnamed one, with a classifier (three classes, two) for each."""
    folder = tmp_path_factory.mktemp("both")
    make_encoder(folder, POLICY.model_copy(update={"leads": (*LEADS, "ECG")}))
    about = unseal((folder / "config.json").read_bytes(), "")
    for name, classes, sets in (("many", 3, (*LEAD_SETS,)), ("single", 2, (("ECG",),))):
        made = make_classifier(about["weights_sha256"], classes=classes, lead_sets=sets)
        made.save(folder / "classifiers" / name)
    (folder / "config.json").write_bytes(seal({**about, "classifiers": ["many", "single"]}))
    return load_encoder(folder)


def beating(leads: tuple[str, ...]) -> Recording:
    """Return an adult's sinus rhythm with these leads; ``ECG`` is lead I."""
    whole = replace(sinus_rhythm(), age=50.0)
    return replace(whole.select([{"ECG": "I"}.get(lead, lead) for lead in leads]), leads=leads)


@pytest.mark.parametrize(
    ("leads", "used"),
    [
        (("V6", "V5", "V4", "V3", "V2", "V1", "II", "I"), STANDARD_LEADS),
        (("II", "I", "V5"), STANDARD_LEADS[:6]),
        (("V1", "I"), ("I",)),
        (("aVL", "II", "ECG"), ("II",)),
        (("ECG",), ("ECG",)),
    ],
)
def test_the_largest_set_of_leads_is_used(
    leads: tuple[str, ...], used: tuple[str, ...], of_both: PretrainedEncoder
) -> None:
    found = of_both.classify(beating(leads))
    assert found.leads == used
    assert found.classifier == ("single" if used == ("ECG",) else "many")
    assert all(item.track_record.startswith("of ") for item in found.classes)
    derived = set(used) - set(leads)
    assert any("derived from I and II" in note for note in found.notes) == bool(derived)


def test_a_lead_with_a_fault_is_left_out_with_a_note(of_both: PretrainedEncoder) -> None:
    recording = beating(("I", "II", "V1", "V2", "V3", "V4", "V5", "V6"))
    digital = recording.digital.copy()
    digital[5] = 0
    found = of_both.classify(replace(recording, digital=digital))
    assert found.leads == STANDARD_LEADS[:6]
    assert any(note.startswith("lead V4 not used: flat") for note in found.notes)
    digital[:] = 0
    found = of_both.classify(replace(recording, digital=digital))
    assert (found.classes, found.withheld) == ((), ("no lead is usable",))


def test_a_long_recording_is_classified_in_parts_as_long_as_those_of_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames of 5 s that overlap by half: 11 of them in 30 s, and 3 in the 10 s that the classifier knows."""
    make_encoder(tmp_path, POLICY.model_copy(update={"leads": LEADS}))
    about = unseal((tmp_path / "config.json").read_bytes(), "")
    made = make_classifier(about["weights_sha256"], max_frames=3)
    made.save(tmp_path / "classifiers" / "mine")
    encoder = load_encoder(tmp_path)
    short = beating(STANDARD_LEADS)
    long = replace(short, digital=np.tile(short.digital, (1, 3)))
    pooled: list[Floats] = []
    probabilities = Classifier.probabilities

    def noted(classifier: Classifier, features: Floats, set_index: int) -> npt.NDArray[np.float64]:
        pooled.append(features[0])
        return probabilities(classifier, features, set_index)

    monkeypatch.setattr(Classifier, "probabilities", noted)
    found = encoder.classify(long)
    (note,) = (note for note in found.notes if "on average" in note)
    assert "over 4 parts of at most 10 s" in note
    assert not any("on average" in note for note in encoder.classify(short).notes)
    leads = found.leads
    frames = encoder.embed_prepared(prepare(long, encoder.input, only_leads=leads, overlap=0.5)).reshape(11, -1)
    parts = [frames[0:3], frames[3:6], frames[6:9], frames[9:11]]
    expected = np.mean([np.concatenate([part.mean(0), part.max(0), part.min(0)]) for part in parts], axis=0)
    np.testing.assert_allclose(pooled[0], expected, rtol=1e-5, atol=1e-6)


def test_leads_of_no_set_are_rejected(of_both: PretrainedEncoder) -> None:
    recording = make_recording(("V5",), num_samples=5000)
    with pytest.raises(LeadError, match=r"has lead V5, .*'many' needs all twelve leads or .* or lead II; 'single'"):
        of_both.classify(recording)
    with pytest.raises(LeadError, match="'single' needs lead ECG"):
        of_both.classify(make_recording(LEADS, num_samples=5000), classifier="single")
    with pytest.raises(LeadError, match="has lead V5"):
        of_both.classify_side_by_side(recording)
    assert [found.classifier for found in of_both.classify_side_by_side(beating(("ECG",)))] == ["single"]


def test_suspicious_electrodes_and_sampling_rates_are_noted(of_both: PretrainedEncoder) -> None:
    """Not refused: a heart on the right looks the same."""
    swapped, slow = (
        swapped_arms(),
        replace(sinus_rhythm(), sampling_rate=250.0, stated_measurements=StatedMeasurements(heart_rate=68)),
    )
    assert of_both.classify(swapped).notes[-1].startswith("lead I: P, QRS and T point down: arm electrodes swapped")
    note = of_both.classify(slow).notes[-1]
    assert note.startswith("sampling_rate: 34 beats per minute at 250 Hz, but the file states 68")
    assert not any("Check" in note for note in of_both.classify(sinus_rhythm()).notes)


def test_a_shipped_encoder_classifies_a_single_lead_strip(originals: Path) -> None:
    """A00001 of the 2017 challenge, one lead by a hand-held device: its publisher says normal."""
    strip, encoder = originals / "cinc2017" / "training2017" / "A00001.hea", load_encoder("clocs-small")
    found = encoder.classify(strip)
    assert (found.classifier, found.classes[0].name) == ("physionet2017", "Normal")
    with pytest.raises(LeadError, match="'physionet2020' needs all twelve leads or the six limb leads or lead I or"):
        encoder.classify(strip, classifier="physionet2020")


def test_missing_or_foreign_classifiers_raise_an_error(
    tmp_path: Path, encoder: PretrainedEncoder, originals: Path
) -> None:
    with pytest.raises(StoreError, match="no classifiers"):
        encoder.classify(originals / "ptbxl" / "records500" / "00000" / "00001_hr.hea")
    folder = make_encoder(tmp_path)
    make_classifier("00" * 32).save(folder / "classifiers" / "mine")
    with pytest.raises(IntegrityError, match="another one"):
        load_encoder(folder)
