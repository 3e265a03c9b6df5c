"""Loggers that send a run's metrics to TensorBoard, MLflow or Weights & Biases."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from lightning_fabric.loggers.logger import Logger

from clocs.core.errors import ConfigError, MissingExtraError
from clocs.training.runs import Run

if TYPE_CHECKING:
    import wandb

LoggerName = Literal["tensorboard", "mlflow", "wandb"]
PROJECT = "clocs"
"""Name of the experiment in MLflow and of the project in Weights & Biases."""
WANDB_WITHOUT_LOGIN = ("offline", "dryrun", "disabled")
"""Values of ``WANDB_MODE`` that send nothing."""


def build_logger(name: LoggerName, run: Run) -> Logger:
    """Build a logger for Fabric. A resumed run continues the same log.

    Args:
        name: The service that receives the metrics.
        run: The run to log.

    Returns:
        A logger that contacts its service with the first metrics, so that ranks that log nothing never do.

    Raises:
        MissingExtraError: The service's package is not installed.
        ConfigError: Weights & Biases is online, but there is no login.
    """
    match name:
        case "tensorboard":
            return _tensorboard(run)
        case "mlflow":
            return MLflowLogger(run)
        case "wandb":
            return WandbLogger(run)


def _tensorboard(run: Run) -> Logger:
    try:
        import tensorboard  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("tensorboard", "logger=tensorboard") from error
    from lightning_fabric.loggers.tensorboard import TensorBoardLogger

    return TensorBoardLogger(run.folder, name="tensorboard", version="")


class MLflowLogger(Logger):
    """Logger to an MLflow run of the same name, in the experiment "clocs" at ``MLFLOW_TRACKING_URI``."""

    def __init__(self, run: Run) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise MissingExtraError("mlflow", "logger=mlflow") from error
        self._client, self._run = MlflowClient(), run
        self._id: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the experiment."""
        return PROJECT

    @property
    def version(self) -> str:
        """Return the name of the run."""
        return self._run.name

    def _run_id(self) -> str:
        """Return the id of the MLflow run; create the run if there is none."""
        if self._id is None:
            existing = self._client.get_experiment_by_name(self.name)
            experiment = existing.experiment_id if existing else self._client.create_experiment(self.name)
            found = self._client.search_runs([experiment], f"tags.clocs_run = '{self.version}'")
            made = found or [
                self._client.create_run(experiment, run_name=self.version, tags={"clocs_run": self.version})
            ]
            self._id = str(made[0].info.run_id)
            if not found:
                self.log_hyperparams(self._run.config)
        return self._id

    def log_hyperparams(self, params: dict[str, Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Log the resolved config, with one parameter per key."""
        for key, value in params.items():
            self._client.log_param(self._run_id(), key, str(value)[:6000])

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Log values at a step."""
        for key, value in metrics.items():
            self._client.log_metric(self._run_id(), key, value, step=step)

    def finalize(self, status: str) -> None:
        """Mark the MLflow run as finished."""
        self._client.set_terminated(self._run_id())


class WandbLogger(Logger):
    """Logger to a Weights & Biases run of the same name and id, in the project "clocs".

    Config and metrics are sent; console output, source code and the state of a Git repository are not. Offline runs
    (``WANDB_MODE=offline``) are written to the folder ``wandb`` of the run, or to ``WANDB_DIR``. There is never a
    prompt for a login.
    """

    _open: dict[str, wandb.Run] = {}  # noqa: RUF012
    """Runs that this process has started and not finished, by id. A second run with the same id would be an error."""

    def __init__(self, run: Run) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError("wandb", "logger=wandb") from error
        self._run = run
        self._wandb_run: wandb.Run | None = None
        # W&B reads its environment once per process. Read the mode here, so that a change after an error has an effect.
        self._mode: Any = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
        if self._mode not in WANDB_WITHOUT_LOGIN and not wandb.login(prompt=False, verify=False):
            raise ConfigError(
                "logger=wandb: no login for Weights & Biases was found. Run `wandb login`, set WANDB_API_KEY, or set "
                "WANDB_MODE=offline and send the run later with `wandb sync`."
            )

    @property
    def name(self) -> str:
        """Return the name of the project."""
        return PROJECT

    @property
    def version(self) -> str:
        """Return the name of the run."""
        return self._run.name

    @property
    def experiment(self) -> wandb.Run:
        """Return the Weights & Biases run, which is started on first use."""
        if self._wandb_run is None:
            self._wandb_run = self._start()
        return self._wandb_run

    def _start(self) -> wandb.Run:
        import wandb

        interrupted = self._open.pop(self.version, None)
        if interrupted is not None:
            interrupted.finish(exit_code=1)
        started = wandb.init(
            project=self.name,
            id=self.version,
            name=self.version,
            mode=self._mode,
            resume="allow",
            reinit="create_new",  # otherwise metrics would go to another open run of the process
            dir=os.environ.get("WANDB_DIR") or self._run.folder,
            config=self._run.config,
            settings=wandb.Settings(console="off", disable_code=True, disable_git=True, quiet=True),
        )
        # A resumed run repeats the steps after its checkpoint; W&B's own step counter would refuse them.
        started.define_metric("step")
        started.define_metric("*", step_metric="step")
        self._open[self.version] = started
        return started

    def log_hyperparams(self, params: dict[str, Any], *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Add values to the config."""
        self.experiment.config.update(params, allow_val_change=True)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Log values at a step."""
        self.experiment.log(dict(metrics) if step is None else {**metrics, "step": step})

    def finalize(self, status: str) -> None:
        """Mark the Weights & Biases run as finished, and wait until its metrics are sent or written."""
        self.experiment.finish(exit_code=0 if status == "success" else 1)
        self._open.pop(self.version, None)
        self._wandb_run = None
