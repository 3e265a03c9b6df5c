"""Leads are dropped independently, and a frame keeps one."""

from __future__ import annotations

import math

import pytest
import torch

from clocs.augmentations import LeadDropout
from tests.augmentations.conftest import noise, seeded


def test_a_lead_is_dropped_whole_or_stays() -> None:
    signals = noise(200, 40, leads=12)
    made = LeadDropout(probability=0.3)(signals, seeded())
    same = (made == signals).all(-1)
    assert ((made == 0).all(-1) | same).all()
    assert len(torch.unique(same, dim=0)) > 150


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
def test_leads_are_dropped_independently_with_the_probability(probability: float) -> None:
    """Frequencies of single leads and of pairs, within 5 standard deviations of the binomial."""
    dropped = (LeadDropout(probability)(torch.ones(8000, 12, 4), seeded()) == 0).all(-1).double()
    for cases, expected in (dropped, probability), (dropped[:, 1:] * dropped[:, :-1], probability**2):
        assert (cases.mean(0) - expected).abs().max() < 5 * math.sqrt(0.25 / 8000)


@pytest.mark.parametrize("leads", [2, 3, 12])
def test_a_frame_never_loses_all_leads(leads: int) -> None:
    made = LeadDropout(probability=1)(torch.ones(3000, leads, 4), seeded()).any(-1)
    assert (made.sum(1) == 1).all()
    counts = made.double().mean(0)
    assert (counts - 1 / leads).abs().max() < 5 * math.sqrt(0.25 / 3000)


def test_the_lead_that_stays_has_a_signal() -> None:
    signals = torch.zeros(500, 12, 4)
    signals[:, 7] = 1
    assert torch.equal(LeadDropout(probability=1)(signals, seeded()), signals)


def test_one_lead_stays_as_it_is() -> None:
    signals = noise(50, 40)
    assert torch.equal(LeadDropout(probability=1)(signals, seeded()), signals)
    assert LeadDropout().drops_leads
