"""Validation of a training: loss, effective rank and AUC of the validation part, and the online probe."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clocs.core.errors import ConfigError
from clocs.core.seeds import derived_seed
from clocs.methods import Batch, Method
from clocs.methods.gather import gather_ranks
from clocs.metrics.ranking import auc, macro_average
from clocs.training.config import PretrainConfig
from clocs.training.data import LoopData
from clocs.training.online_probe import OnlineProbe
from clocs.training.rank_share import RankShare
from clocs.training.sampler import Permutation

PROBE_SAMPLE = 2048
"""Number of training instances, and of validation instances, of the online probe."""
RANK_SAMPLE = 2048
"""Number of validation embeddings from which the effective rank is computed."""


class Validation:
    """Metrics of the validation part, on one rank or several.

    Args:
        config: Config of the run.
        data: Training and validation data.
        method: The method that is trained.
        model: Module whose ``forward`` runs a validation step of the method.
        share: This rank's share of batches.
        advance: Called with the position in the epoch before a batch is read.
    """

    def __init__(
        self,
        config: PretrainConfig,
        data: LoopData,
        method: Method,
        model: nn.Module,
        share: RankShare,
        advance: Callable[[int], None],
    ) -> None:
        self._config, self._data, self._method, self._model = config, data, method, model
        self._share, self._advance = share, advance

    @torch.no_grad()
    def metrics(self, epoch: int) -> dict[str, float]:
        """Return the metrics of the validation part.

        Args:
            epoch: Number of the epoch, for errors.

        Returns:
            ``validation_loss``, the mean over fixed batches; ``effective_rank`` of the embeddings; and, with labels of
            two classes or more, ``validation_auc``.
        """
        self._model.eval()
        self._method.batch_is_shared = self._is_shared
        losses, embeddings, scores, truth = [], [], [], []
        for number, batch in enumerate(self._batches()):
            outputs = self._model(batch)
            losses.append(self._share.mean(outputs["loss"]))
            if number * self._config.batch_size < RANK_SAMPLE:
                embeddings.append(self._gather(self._embed_first_views(batch)))
            if "scores" in outputs:
                scores.append(self._gather(outputs["scores"]))
                truth.append(self._gather(batch["target"]))
        loss = check_finite(sum(losses) / len(losses), epoch)
        values = {"validation_loss": loss, "effective_rank": effective_rank(torch.cat(embeddings))}
        if scores:
            macro_auc = macro_average(auc(torch.cat(truth).cpu().numpy(), torch.cat(scores).double().cpu().numpy()))
            if math.isfinite(macro_auc):  # two classes or more
                values["validation_auc"] = macro_auc
            elif self._config.monitor == "auc":
                raise ConfigError("monitor=auc: the validation part has a single class. Set monitor=loss.")
        return values

    @torch.no_grad()
    def probe(self) -> dict[str, float]:
        """Return the AUC of the online probe; nothing without labels. All ranks compute the same."""
        train, validation = self._data.train, self._data.validation
        if not train.classes:
            return {}
        self._model.eval()
        parts = []
        for batches, name in ((train, "train"), (validation, "validation")):
            order = Permutation(len(batches), derived_seed(self._config.seed, "probe", name))
            items = order(np.arange(min(len(batches), PROBE_SAMPLE)))
            batch = self._share.on_device(batches.make(items, 0, "probe", name))
            parts += [self._embed_first_views(batch).double().cpu().numpy(), batches.targets(items)]
        probe_auc = OnlineProbe().validation_auc(*parts)
        return {} if probe_auc is None else {"probe_auc": probe_auc}

    def _embed_first_views(self, batch: Batch) -> Tensor:
        """Return the embeddings (B, E) of the first view of each instance."""
        dtype = next(self._method.parameters()).dtype
        mask = (batch["lead_mask"][:, 0],) if "lead_mask" in batch else ()
        embeddings: Tensor = self._method.trained_encoder()(batch["views"][:, 0].to(dtype), *mask)
        return embeddings

    def _batches(self) -> Iterator[Batch]:
        """Yield this rank's shares of fixed batches. A single short batch goes to every rank as a whole."""
        size, validation = self._config.batch_size, self._data.validation
        for number, items in enumerate(self._items()):
            self._advance(self._data.sampler.steps + number)
            names = ("validation", number * size)
            if self._is_shared:
                batch = self._share.make(validation, items, *names)
            else:
                batch = validation.make(items, 0, *names)
            yield self._share.on_device(batch)

    def _items(self) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the items of each batch."""
        size, count, sampler = self._config.batch_size, len(self._data.validation), self._data.validation_sampler
        if sampler is not None:
            yield from (sampler.batch(0, step) for step in range(sampler.steps))
            return
        order = Permutation(count, derived_seed(self._config.seed, "validation"))  # mixes patients as in training
        for begin in range(0, max(count - size, 0) + 1, size):
            yield order(np.arange(begin, min(begin + size, count)))

    @property
    def _is_shared(self) -> bool:
        """Return whether ranks share validation batches. A short batch could not be divided."""
        return not self._share.is_whole and len(self._data.validation) >= self._config.batch_size

    def _gather(self, values: Tensor) -> Tensor:
        """Return the rows of all ranks."""
        return gather_ranks(values) if self._is_shared else values


def check_finite(loss: float, epoch: int) -> float:
    """Return a loss; raise an error if it is not finite."""
    if not math.isfinite(loss):
        raise ConfigError(f"The loss is not finite at epoch {epoch}. Try a smaller learning_rate.")
    return loss


def effective_rank(embeddings: Tensor) -> float:
    """Return the effective rank of embeddings (N, E): exp of the entropy of the normalized singular values.

    A value of 1 means that the embeddings have collapsed to a line.
    """
    values = torch.linalg.svdvals((embeddings - embeddings.mean(0)).double())
    shares = values / values.sum().clamp_min(1e-300)
    return float(torch.exp(-(shares * torch.log(shares.clamp_min(1e-300))).sum()))
