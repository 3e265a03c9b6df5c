"""The defaults that names of runs and cells depend on, as one table: ``python -m tests.defaults`` writes it.

A name is a hash of the values that differ from the defaults. Whoever changes a default must therefore raise ``SCHEMA``
in ``clocs/core/run_identity.py``, or other numbers would come under an old name. New options need no new schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import PydanticUndefined, to_jsonable_python

from clocs.augmentations import AUGMENTATIONS
from clocs.core.options import constructor_model
from clocs.core.registry import Registry
from clocs.core.run_identity import SCHEMA
from clocs.encoders.encoder import ENCODERS
from clocs.evaluation.finetune import FinetuneConfig
from clocs.evaluation.probe import ProbeConfig
from clocs.methods import METHODS
from clocs.methods.method import RUN_ARGUMENTS
from clocs.signals.framing import FramePolicy
from clocs.training.config import EXECUTION_KEYS, PretrainConfig
from clocs.training.config_resolution import resolve_config
from clocs.training.ready_configs import ready_configs
from reproduction.cells import Evaluation, Pretraining
from reproduction.presets import PRESETS

WHOLE: Final = ("config ", "preset ")
"""Parts that are compared whole."""
FILE: Final = Path(__file__).with_name("defaults.json")
ADVICE: Final = "raise SCHEMA in src/clocs/core/run_identity.py, then run 'python -m tests.defaults'"


def all_defaults() -> dict[str, Any]:
    """Return every default, by the part that has it."""
    models = (PretrainConfig, ProbeConfig, FinetuneConfig, FramePolicy, Pretraining, Evaluation)
    found = {model.__name__: _defaults(model) for model in models}
    found |= {
        f"method {name}": _defaults(constructor_model(part, exclude=RUN_ARGUMENTS)) for name, part in _parts(METHODS)
    }
    found |= {f"encoder {name}": _defaults(constructor_model(part)) for name, part in _parts(ENCODERS)}
    found |= {f"augmentation {name}": _defaults(constructor_model(part)) for name, part in _parts(AUGMENTATIONS)}
    found |= {f"preset {name}": to_jsonable_python(settings) for name, settings in PRESETS.items()}
    configs = {name: resolve_config(name) for name in ready_configs()}
    own = dict(_parts(METHODS))
    found |= {f"config {name}": config.identity() for name, config in configs.items() if config.method["name"] in own}
    return found


def _parts(registry: Registry[Any]) -> Iterator[tuple[str, Any]]:
    """Iterate over the package's own parts. Tests of the same process may have registered others."""
    for name in registry.names():
        if (part := registry.get(name)).__module__.startswith("clocs."):
            yield name, part


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    fields = {name: field for name, field in model.model_fields.items() if name not in EXECUTION_KEYS}
    given = {name: field.get_default(call_default_factory=True) for name, field in fields.items()}
    return {name: to_jsonable_python(value) for name, value in given.items() if value is not PydanticUndefined}


def renamed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Yield the defaults that are gone or have another value; new options change no result.

    What a ready config or a preset sets changes results even where it set nothing before.
    """
    for part, values in old.items():
        now = new.get(part, {})
        names = {*values, *now} if part.startswith(WHOLE) else {*values}
        for name in sorted(names):
            if name not in now or name not in values or now[name] != values[name]:
                yield f"{part}: {name}"


def main() -> int:
    """Write the table, unless defaults changed under the same schema number."""
    known: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {"schema": 0, "defaults": {}}
    found = all_defaults()
    changed = list(renamed(known["defaults"], found))
    if changed and known["schema"] == SCHEMA:
        print(f"changed defaults: {', '.join(changed)}; {ADVICE}", file=sys.stderr)
        return 1
    FILE.write_text(json.dumps({"schema": SCHEMA, "defaults": found}, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
