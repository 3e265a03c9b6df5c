"""The index as it is shown: the same neighbours as ``PatientIndex`` finds, on a map that PCA gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

from clocs.core.errors import ConfigError
from clocs.core.recording import Recording
from clocs.evaluation.pretrained import load_encoder
from clocs.service import archive_view
from clocs.service.archive_view import ArchiveView, shown_age
from clocs.service.demo import make_demo
from clocs.service.parsing.reading import read_upload
from clocs.similarity.index.changes import delete_patients
from clocs.similarity.index.filters import EVERYONE, Filter
from clocs.similarity.index.search import open_index
from tests.service.samples import sample


@pytest.fixture(scope="module")
def view(demo: Path) -> ArchiveView:
    return ArchiveView(demo / "index")


@pytest.fixture(scope="module")
def recording(real_data: Path) -> Recording:
    return read_upload(sample(real_data, "muse-xml"))


@pytest.mark.parametrize("wanted", [EVERYONE, Filter(sex="female"), Filter(age=(40, 70)), Filter(label="SR")])
def test_neighbours_are_those_of_the_index(view: ArchiveView, recording: Recording, demo: Path, wanted: Filter) -> None:
    options = {"sex": wanted.sex, "age": wanted.age, "label": wanted.label}
    truth = open_index(demo / "index").similar(recording, 5, **options)  # type: ignore[arg-type]
    found = view.similar(recording, 5, wanted)
    assert [item.neighbour for item in found.found] == list(truth.neighbours)
    assert found.notes == list(truth.notes)


def test_fewer_than_asked_for_is_said(view: ArchiveView, recording: Recording) -> None:
    found = view.similar(recording, 100, EVERYONE)
    assert len(found.found) == 20
    assert found.notes[-1] == "only 20 patients of the index fit"


def test_an_unknown_label_is_refused(view: ArchiveView, recording: Recording) -> None:
    with pytest.raises(ConfigError, match="no patient of the index has the label 'XYZ'; there are: 'AFIB'"):
        view.similar(recording, 5, Filter(label="XYZ"))


def test_the_map_is_that_of_principal_components(view: ArchiveView, recording: Recording, demo: Path) -> None:
    """Against scikit-learn, but for the axes' signs."""
    vectors = np.load(next((demo / "index" / "volumes").glob("*/vectors.npy")))
    fitted = PCA(2).fit(vectors.astype(np.float64))
    assert view.map.plane is not None
    points = np.array([row["at"] for row in view.map.rows])
    truth = fitted.transform(vectors)
    signs = np.sign((points * truth).sum(axis=0))
    assert points == pytest.approx(truth * signs, abs=2e-5)
    assert view.map.plane.explained == pytest.approx(fitted.explained_variance_ratio_)
    found = view.similar(recording, 3, EVERYONE)
    query = open_index(demo / "index").similar(recording, 3).query.vector
    assert found.at == pytest.approx(fitted.transform(query[None])[0] * signs, abs=2e-5)
    assert all(list(item.at or ()) in points.tolist() for item in found.found)


def test_large_maps_are_drawn_by_lot(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_view, "MOST_POINTS", 6)
    first, second = ArchiveView(demo / "index").map, ArchiveView(demo / "index").map
    assert len(first.rows) == 6
    assert first.rows == second.rows


def test_a_recording_of_the_index_has_all_leads_and_no_name(view: ArchiveView, recording: Recording) -> None:
    found = view.similar(recording, 1, EVERYONE).found[0].neighbour
    stored = view.recording(found.record_id)
    assert len(stored.leads) == 12
    assert (stored.record_id, stored.patient_id, stored.labels, stored.provenance.source) == ("", "", (), "")


def test_changes_of_the_index_are_followed(tmp_path: Path, recording: Recording) -> None:
    make_demo(tmp_path, "cmsc-chapman", 10)
    view = ArchiveView(tmp_path / "index")
    gone = view.similar(recording, 1, EVERYONE).found[0].neighbour.patient_id
    assert len(view.map.rows) == 5
    delete_patients(tmp_path / "index", [gone])
    assert gone not in [item.neighbour.patient_id for item in view.similar(recording, 10, EVERYONE).found]
    assert len(view.map.rows) == view.manifest.patients == 4
    others = [item.neighbour.patient_id for item in view.similar(recording, 10, EVERYONE).found]
    delete_patients(tmp_path / "index", others[:2])
    assert view.map.plane is None
    assert view.similar(recording, 10, EVERYONE).at is None


def test_another_encoder_than_the_indexs_is_refused(demo: Path) -> None:
    with pytest.raises(ConfigError, match="another encoder"):
        ArchiveView(demo / "index", load_encoder("cmsc-physionet2020"))


@pytest.mark.parametrize(("age", "shown"), [(None, None), (63.7, 63.0), (90.0, 90.0), (104.0, 90.0)])
def test_ages_are_whole_years_up_to_90(age: float | None, shown: float | None) -> None:
    assert shown_age(age) == shown
