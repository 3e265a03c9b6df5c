"""Facts: what the store says of each patient."""

from __future__ import annotations

import numpy as np

from clocs.evaluation.rows import Rows
from clocs.similarity.atlas.facts import class_names, facts_of
from clocs.similarity.scoring.cohort import open_cohort
from clocs.store.store import Store


def test_facts_are_the_recordings_own(judged_store: Store) -> None:
    patients = open_cohort("random", judged_store, part="test").patients()
    facts = facts_of(judged_store, patients)
    assert len(facts.age) == len(patients.values)
    for place, record in enumerate(patients.record):
        recording = judged_store.recording(int(record))
        assert facts.record_id[place] == recording.record_id
        assert facts.age[place] == recording.age
        assert facts.sex[place] == recording.sex
        assert facts.site[place] == (recording.site or "synthetic")
    assert set(facts.telling()) == {"label", "age", "sex", "site"}


def test_a_label_is_one_class_several_or_none() -> None:
    truth = np.array([[True, False], [True, True], [False, False], [False, True]])
    rows = Rows(np.zeros((4, 2), np.float32), truth, np.arange(4), np.arange(4), ("AF", "SR"))
    assert class_names(rows).tolist() == ["AF", "several", "none", "SR"]
    nothing_named = Rows(rows.values, np.zeros((4, 0), bool), rows.record, rows.patient, ())
    assert class_names(nothing_named).tolist() == ["none"] * 4
