"""Leads are dropped independently or down to a random subset, and a frame keeps one."""

from __future__ import annotations

import math

import pytest
import torch

from clocs.augmentations import LeadDropout, RandomLeads
from clocs.core.errors import ConfigError
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


def test_a_random_subset_has_every_size_and_every_lead_as_often() -> None:
    """Frequencies of sizes, leads and pairs, within 5 standard deviations of the binomial."""
    signals = noise(8000, 4, leads=12)
    made = RandomLeads(min_leads=2, max_leads=6)(signals, seeded())
    kept = (made != 0).all(-1)
    assert torch.equal(made, signals * kept.unsqueeze(-1))
    counts = torch.bincount(kept.sum(1), minlength=13) / 8000
    expected = torch.zeros(13, dtype=torch.float64)
    expected[2:7] = 1 / 5
    within = 5 * math.sqrt(0.25 / 8000)
    assert (counts - expected).abs().max() < within
    assert (counts == 0).equal(expected == 0)
    assert (kept.double().mean(0) - 4 / 12).abs().max() < within
    pairs = sum(size * (size - 1) for size in range(2, 7)) / 5 / (12 * 11)
    assert ((kept[:, 1:] & kept[:, :-1]).double().mean(0) - pairs).abs().max() < within


@pytest.mark.parametrize(
    ("fewest", "most", "leads", "sizes"), [(1, None, 3, {1, 2, 3}), (5, 9, 3, {3}), (2, 2, 8, {2})]
)
def test_sizes_are_within_the_range_and_the_leads_of_a_frame(
    fewest: int, most: int | None, leads: int, sizes: set[int]
) -> None:
    made = RandomLeads(fewest, most)(torch.ones(500, leads, 4), seeded())
    assert set(made.any(-1).sum(1).tolist()) == sizes


def test_leads_with_a_signal_are_chosen_first() -> None:
    signals = torch.zeros(500, 12, 4)
    signals[:, [3, 7]] = 1
    assert torch.equal(RandomLeads(2)(signals, seeded()), signals)
    assert (RandomLeads(1, 1)(signals, seeded()).any(-1).sum(1) == 1).all()


def test_a_frame_is_reduced_with_the_probability_and_one_lead_stays() -> None:
    signals = noise(4000, 4, leads=12)
    made = RandomLeads(1, 1, probability=0.25)(signals, seeded())
    counts = (made != 0).all(-1).sum(1)
    assert set(counts.tolist()) == {1, 12}
    assert abs(float((counts == 1).double().mean()) - 0.25) < 5 * math.sqrt(0.25 / 4000)
    assert torch.equal(RandomLeads()(signals[:, :1], seeded()), signals[:, :1])
    assert RandomLeads().drops_leads


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_leads must be at least min_leads, 4, not 2"):
        RandomLeads(4, 2)
    with pytest.raises(ConfigError, match="min_leads"):
        RandomLeads(0)
