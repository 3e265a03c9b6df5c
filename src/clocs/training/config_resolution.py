"""Configs of pre-training runs from names, files and overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from clocs.core.errors import ConfigError
from clocs.core.options import option_names, try_validate
from clocs.encoders import ENCODERS
from clocs.methods import METHODS
from clocs.methods.method import RUN_ARGUMENTS
from clocs.signals.framing import FramePolicy
from clocs.training.config import FRAME_OPTIONS, SECTIONS, PretrainConfig
from clocs.training.ready_configs import ready_config


def resolve_config(config: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> PretrainConfig:
    """Return the config that a name, a file or a mapping describes, with overrides applied.

    Args:
        config: Name of a ready config (``cmsc-chapman``), a YAML or JSON file, or a mapping. In a file or mapping, the
            key ``base`` names a ready config to start from.
        overrides: Strings ``key=value`` or ``key.key=value``; values are YAML.

    Raises:
        ConfigError: The config is invalid. The message lists all errors, unknown keys with the nearest known key.
    """
    values = _read_values(config)
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"Expected key=value, got '{text}'")
        parsed, keys = _parse_value(value, text), key.split(".")
        values = _merge(values, {key: parsed}) if len(keys) == 1 else _set_nested(values, keys, parsed, text)
    resolved, errors = try_validate(PretrainConfig, values, _full_keys())
    if resolved is None:
        raise ConfigError("; ".join(errors))
    return resolved


def _full_keys() -> dict[str, str]:
    """Return the full key (``method.temperature``) of each option of a section, for hints about unknown keys."""
    keys = {name: f"method.{name}" for method in METHODS for name in option_names(method, exclude=RUN_ARGUMENTS)}
    keys |= {name: f"encoder.{name}" for encoder in ENCODERS for name in option_names(encoder, exclude=FRAME_OPTIONS)}
    return keys | {name: f"frames.{name}" for name in FramePolicy.model_fields}


def _read_values(config: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    values = config if isinstance(config, Mapping) else _read_file(Path(config))
    if values is None:
        return ready_config(str(config))
    own = {key: value for key, value in values.items() if key != "base"}
    return _merge(ready_config(str(values["base"])) if "base" in values else {}, own)


def _read_file(path: Path) -> dict[str, Any] | None:
    """Return the values of a YAML or JSON file; None if there is no such file."""
    if not path.is_file():
        return None
    try:
        values = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected 'key: value' pairs")
    return values


def _parse_value(value: str, text: str) -> Any:
    try:
        return yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"'{text}': the value is not YAML: {getattr(error, 'problem', error)}") from error


def _merge(values: Mapping[str, Any], updates: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` updated by ``updates``; sections are merged key by key."""
    sections = {key: _merge_section(key, values.get(key), updates[key]) for key in SECTIONS if key in updates}
    return {**values, **updates, **sections}


def _merge_section(key: str, values: Any, updates: Any) -> Any:
    """Return a merged section. Another ``name`` replaces the whole section; a string is a name."""
    if isinstance(updates, str) and SECTIONS[key] is not None:
        updates = {"name": updates}
    if not isinstance(updates, Mapping):
        return updates
    before = values if isinstance(values, Mapping) else {}
    name = before.get("name", SECTIONS[key])
    return {**(before if updates.get("name", name) == name else {}), **updates}


def _set_nested(values: Mapping[str, Any], keys: list[str], value: Any, text: str) -> dict[str, Any]:
    """Return ``values`` with one nested key set."""
    if len(keys) == 1:
        return {**values, keys[0]: value}
    inner = values.get(keys[0], {})
    if not isinstance(inner, Mapping):
        raise ConfigError(f"'{text}': '{keys[0]}' has no nested keys")
    return {**values, keys[0]: _set_nested(inner, keys[1:], value, text)}
