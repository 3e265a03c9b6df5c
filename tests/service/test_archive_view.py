"""The service finds the same neighbours as ``PatientIndex``, on a PCA map."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from clocs.core.errors import ConfigError, OptionError
from clocs.core.recording import Recording
from clocs.inference.pretrained import load_encoder
from clocs.service import archive_view
from clocs.service.archive_view import ArchiveView
from clocs.service.demo import make_demo
from clocs.service.parsing.reading import read_upload
from clocs.similarity.checked_files import FileInfo, check_file
from clocs.similarity.index import snapshot
from clocs.similarity.index.filters import NO_FILTER, Filter
from clocs.similarity.index.manifest import DistanceLimit, write_index_manifest
from clocs.similarity.index.patient_index import open_index
from clocs.similarity.index.updates import rebuild_index
from clocs.similarity.index.withdraw import hide_patients, withdraw_from_index
from clocs.store.named_patients import name_patients
from tests.service.samples import sample


@pytest.fixture(scope="module")
def view(demo: Path) -> ArchiveView:
    return ArchiveView(demo / "index")


@pytest.fixture(scope="module")
def recording(real_data: Path) -> Recording:
    return read_upload(sample(real_data, "muse-xml"))


@pytest.mark.parametrize("wanted", [NO_FILTER, Filter(sex="female"), Filter(age=(40, 70)), Filter(label="SR")])
def test_neighbours_are_those_of_the_index(view: ArchiveView, recording: Recording, demo: Path, wanted: Filter) -> None:
    options = {"sex": wanted.sex, "age": wanted.age, "label": wanted.label}
    truth = open_index(demo / "index").similar(recording, 5, **options)  # type: ignore[arg-type]
    found = view.similar(recording, 5, wanted)
    assert [item.neighbor for item in found.found] == list(truth.neighbors)
    assert found.notes == list(truth.notes)


@pytest.mark.parametrize("step", [1, 5])
def test_the_patient_of_the_uploaded_recording_is_left_out(view: ArchiveView, recording: Recording, step: int) -> None:
    """A copy with coarser steps, as an export to another format has, is recognised too."""
    nearest = view.similar(recording, 1, NO_FILTER).found[0].neighbor
    held = view.recording(nearest.record_id)
    assert held is not None
    copy = replace(held, digital=held.digital // step, gain=held.gain / step, baseline=held.baseline // step)
    found = view.similar(copy, 19, NO_FILTER)
    assert len(found.found) == 19
    assert nearest.patient_id not in [item.neighbor.patient_id for item in found.found]
    assert "The index has this recording; its patient is left out." in found.notes


def test_too_few_matches_give_a_note(view: ArchiveView, recording: Recording) -> None:
    found = view.similar(recording, 100, NO_FILTER)
    assert len(found.found) == 20
    assert found.notes[-1] == "Only 20 patients of the index match."


def test_distant_patients_are_hidden(tmp_path: Path, recording: Recording) -> None:
    make_demo(tmp_path, "cmsc-chapman", 10)
    view = ArchiveView(tmp_path / "index")
    first, second, *_ = view.similar(recording, 5, NO_FILTER).found
    between = (first.neighbor.distance + second.neighbor.distance) / 2
    limit = DistanceLimit(distance=between, split="default", part="validation", recordings=200, exceeded=0.01)
    write_index_manifest(tmp_path / "index", view.manifest.model_copy(update={"limit": limit}))
    found = view.similar(recording, 5, NO_FILTER)
    assert ([item.neighbor for item in found.found], found.num_hidden) == ([first.neighbor], 4)
    assert found.notes[-1].startswith("4 of the 5 nearest patients are hidden")


def test_a_single_match_has_a_singular_note(view: ArchiveView, recording: Recording) -> None:
    ages = [row["age"] for row in view.map.rows]
    found = view.similar(recording, 5, Filter(age=(max(ages), max(ages))))
    assert (len(found.found), found.notes[-1]) == (1, "Only 1 patient of the index matches.")


def test_an_unknown_label_is_refused(view: ArchiveView, recording: Recording) -> None:
    with pytest.raises(OptionError, match=r"No patient of the index has the label 'XYZ'\. Available: .*'AFIB', "):
        view.similar(recording, 5, Filter(label="XYZ"))


def test_the_map_is_that_of_principal_components(view: ArchiveView, recording: Recording, demo: Path) -> None:
    """Against scikit-learn, but for the axes' signs."""
    vectors = np.load(next((demo / "index" / "volumes").glob("*/vectors.npy")))
    fitted = PCA(2).fit(vectors.astype(np.float64))
    assert view.map.plane is not None
    points = np.array([row["position"] for row in view.map.rows])
    truth = fitted.transform(vectors)
    signs = np.sign((points * truth).sum(axis=0))
    assert points == pytest.approx(truth * signs, abs=2e-5)
    assert view.map.plane.explained == pytest.approx(fitted.explained_variance_ratio_)
    found = view.similar(recording, 3, NO_FILTER)
    query = open_index(demo / "index").similar(recording, 3).query.vector
    assert found.position == pytest.approx(fitted.transform(query[None])[0] * signs, abs=2e-5)
    assert all(list(item.position or ()) in points.tolist() for item in found.found)


def test_large_maps_are_sampled(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_view, "MAX_POINTS", 6)
    first, second = ArchiveView(demo / "index").map, ArchiveView(demo / "index").map
    assert len(first.rows) == 6
    assert first.rows == second.rows


def test_a_recording_of_the_index_has_all_leads_its_own_labels_and_no_name(
    view: ArchiveView, recording: Recording
) -> None:
    found = view.similar(recording, 1, NO_FILTER).found[0].neighbor
    stored = view.recording(found.record_id)
    assert stored is not None
    assert len(stored.leads) == 12
    assert (stored.record_id, stored.patient_id, stored.provenance.source) == ("", "", "")
    assert set(stored.labels) <= set(found.labels)


@pytest.mark.parametrize(("age", "shown"), [(63.4713, 63.0), (0.5123, 0.5), (91.7, 90.0)])
def test_a_preview_shows_the_same_coarse_age_as_a_search(
    age: float, shown: float, view: ArchiveView, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_id = view.similar(recording, 1, NO_FILTER).found[0].neighbor.record_id
    held = replace(view._index.recording(record_id), age=age)
    monkeypatch.setattr(view._index, "recording", lambda record_id: held)
    stored = view.recording(record_id)
    assert stored is not None
    assert stored.age == shown


def test_changes_of_the_index_are_followed(tmp_path: Path, recording: Recording) -> None:
    make_demo(tmp_path, "cmsc-chapman", 10)
    view = ArchiveView(tmp_path / "index")
    gone = view.similar(recording, 1, NO_FILTER).found[0].neighbor.patient_id
    assert len(view.map.rows) == 5
    withdraw_from_index(tmp_path / "index", [gone])
    assert gone not in [item.neighbor.patient_id for item in view.similar(recording, 10, NO_FILTER).found]
    assert len(view.map.rows) == view.manifest.patients == 4
    others = [item.neighbor.patient_id for item in view.similar(recording, 10, NO_FILTER).found]
    withdraw_from_index(tmp_path / "index", others[:2])
    assert view.map.plane is None
    assert view.similar(recording, 10, NO_FILTER).position is None


def test_a_rebuild_while_the_index_is_opened_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It removes the files of the manifest that was just read."""
    make_demo(tmp_path, "cmsc-chapman", 10)
    view = ArchiveView(tmp_path / "index")

    def rebuilt(folder: Path, info: FileInfo) -> None:
        monkeypatch.setattr(snapshot, "check_file", check_file)
        rebuild_index(tmp_path / "index")
        check_file(folder, info)

    hide_patients(snapshot.Snapshot(tmp_path / "index"), name_patients(["P0000001"], None, {None}, "index"))
    monkeypatch.setattr(snapshot, "check_file", rebuilt)
    assert len(view.map.rows) == view.manifest.patients == 4
    assert view.manifest.packed


def test_another_encoder_is_rejected(demo: Path) -> None:
    with pytest.raises(ConfigError, match="not made by the encoder"):
        ArchiveView(demo / "index", load_encoder("cmsc-physionet2020"))
