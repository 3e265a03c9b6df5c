"""Networks of recordings: concatenated leads, attention pooling, and learning rates of encoder and head."""

from __future__ import annotations

import torch

from clocs.encoders import ResNet
from clocs.evaluation.benchmark.recording_networks import AttentionPooling, ConcatenatedLeads, RecordingClassifier


def test_leads_are_embedded_one_by_one_and_missing_ones_are_zero() -> None:
    encoder = ResNet(embedding_dim=4, width=2, depth=1).eval()
    signals, mask = torch.randn(2, 3, 100), torch.tensor([[True, True, True], [True, False, True]])
    embeddings = ConcatenatedLeads(encoder, 3)(signals, mask).unflatten(1, (3, 4))
    for lead in range(3):
        torch.testing.assert_close(embeddings[0, lead], encoder(signals[:1, lead : lead + 1])[0])
    assert embeddings[1, 1].abs().max() == 0
    assert embeddings[1, 2].abs().max() > 0


def test_attention_ignores_missing_tokens_and_the_order_of_frames() -> None:
    pooling = AttentionPooling(num_leads=2, token_dim=5).eval()
    frames = torch.randn(3, 4, 2, 5)
    pooled = pooling(frames.flatten(1, 2))
    torch.testing.assert_close(pooling(frames.flip(1).flatten(1, 2)), pooled)
    assert not torch.allclose(pooling(frames.flip(2).flatten(1, 2)), pooled), "leads differ"
    padded = torch.cat([frames, torch.full((3, 2, 2, 5), 9.0)], dim=1).flatten(1, 2)
    mask = torch.arange(12).expand(3, -1) < 8
    torch.testing.assert_close(pooling(padded, mask), pooled)


def test_the_encoder_has_a_learning_rate_of_its_own() -> None:
    model = RecordingClassifier(ResNet(embedding_dim=4, width=2, depth=1), 3, encoder_rate_factor=0.1)
    head, encoder = model.parameter_groups()
    assert [each.shape for each in head["params"]] == [(3, 4), (3,)]
    assert (head["rate_factor"], encoder["rate_factor"]) == (1.0, 0.1)
    assert len(head["params"]) + len(encoder["params"]) == len(list(model.parameters()))
