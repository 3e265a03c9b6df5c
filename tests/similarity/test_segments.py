"""Time segments pooled over leads."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from clocs.similarity.segments import segments_of, unit_length


@settings(max_examples=60)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_equal_to_a_literal_pooling(rows: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 3))
    record, frame = random.integers(0, 5, rows) * 7, random.integers(0, 3, rows)
    patient = record // 14  # records 0 and 7 belong to the first
    found = segments_of(values, record, patient, frame)
    expected: dict[tuple[int, int], npt.NDArray[np.float64]] = {}
    for key in sorted({(int(one), int(at)) for one, at in zip(record, frame, strict=True)}):
        leads = [row / np.sqrt((row**2).sum()) for row in values[(record == key[0]) & (frame == key[1])]]
        mean = sum(leads) / len(leads)
        expected[key] = mean / np.sqrt((mean**2).sum())
    assert found.record.tolist() == [one for one, _ in expected]
    assert found.patient.tolist() == [one // 14 for one, _ in expected]
    np.testing.assert_allclose(found.values, np.stack(list(expected.values())), atol=1e-5)
    assert found.values.dtype == np.float32
    assert len(found) == len(expected)


def test_a_row_of_zeros_stays_zero() -> None:
    found = unit_length(np.array([[0.0, 0.0], [3.0, 4.0]]))
    np.testing.assert_allclose(found, np.array([[0, 0], [0.6, 0.8]]), rtol=1e-6)
