"""Metrics sent to TensorBoard or MLflow as well; the run's own folder has them always."""

from __future__ import annotations

from typing import Any, Literal

from lightning_fabric.loggers.logger import Logger

from clocs.core.errors import MissingExtraError
from clocs.training.runs import Run

Tracker = Literal["tensorboard", "mlflow"]


def tracker(kind: Tracker, run: Run) -> Logger:
    """A logger for Fabric; a continued run goes on in the same place."""
    return _tensorboard(run) if kind == "tensorboard" else MlflowLogger(run)


def _tensorboard(run: Run) -> Logger:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("tensorboard", "track=tensorboard") from error
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(run.folder, name="tensorboard", version="")


class MlflowLogger(Logger):
    """An MLflow run with the name of ours, where ``MLFLOW_TRACKING_URI`` says; experiment "clocs"."""

    def __init__(self, run: Run) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise MissingExtraError("mlflow", "track=mlflow") from error
        self._client, self._run = MlflowClient(), run
        self._id: str | None = None

    @property
    def name(self) -> str:
        """The experiment."""
        return "clocs"

    @property
    def version(self) -> str:
        """The run."""
        return self._run.name

    def _run_id(self) -> str:
        """That of the run of this name, made if there is none."""
        if self._id is None:
            known = self._client.get_experiment_by_name(self.name)
            experiment = known.experiment_id if known else self._client.create_experiment(self.name)
            found = self._client.search_runs([experiment], f"tags.clocs_run = '{self.version}'")
            made = found or [
                self._client.create_run(experiment, run_name=self.version, tags={"clocs_run": self.version})
            ]
            self._id = str(made[0].info.run_id)
            if not found:
                self.log_hyperparams(self._run.config)
        return self._id

    def log_hyperparams(self, params: dict[str, Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """The resolved config, a parameter a key."""
        for key, value in params.items():
            self._client.log_param(self._run_id(), key, str(value)[:6000])

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Values at a step."""
        for key, value in metrics.items():
            self._client.log_metric(self._run_id(), key, value, step=step)

    def finalize(self, status: str) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self._run_id())
