"""Plug-ins by dotted path: `use: package.module:Name`, the other keys are its fields.

`workflow` imports no plug-in package; what a config names is imported here, checked against its
dataclass, and built. A problem is a ConfigError that gives name, wanted, got and what to do.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import importlib
import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from workflow.errors import ConfigError


def nearest(name: str, known: typing.Iterable[str]) -> str:
    """A hint for a mistyped name: " Did you mean 'x'?" or the known names, or nothing."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(known)}." if known else ""


def load(path: str, where: str) -> Any:
    """The object that "package.module:Name" names; `where` is its place in the config."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise ConfigError(f"{where}: wanted 'package.module:Name', got '{path}'.")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as e:
        if not (e.name and module_name.startswith(e.name)):
            raise ConfigError(
                f"{where}: '{module_name}' needs the missing module '{e.name}'."
            ) from e
        raise ConfigError(
            f"{where}: there is no module '{module_name}' (from '{path}'). "
            "Install the package, or start billow in the folder that holds it."
        ) from e
    except Exception as e:  # the plug-in's own code failed: whatever it raised is the answer
        raise ConfigError(f"{where}: importing '{module_name}' failed: {e!r}.") from e
    if not hasattr(module, attribute):
        public = [n for n in vars(module) if not n.startswith("_")]
        raise ConfigError(
            f"{where}: module '{module_name}' has no '{attribute}'.{nearest(attribute, public)}"
        )
    return getattr(module, attribute)


def build(spec: Mapping[str, Any], where: str) -> Any:
    """The plug-in that `{use: package.module:Name, field: value, ...}` describes."""
    if "use" not in spec:
        raise ConfigError(f"{where}: wanted a 'use: package.module:Name', got keys {sorted(spec)}.")
    path = spec["use"]
    if not isinstance(path, str):
        raise ConfigError(f"{where}.use: wanted 'package.module:Name', got {path!r}.")
    factory = load(path, f"{where}.use")
    values = {key: value for key, value in spec.items() if key != "use"}
    if not dataclasses.is_dataclass(factory) or not isinstance(factory, type):
        if values:
            raise ConfigError(f"{where}: '{path}' takes no fields, got {sorted(values)}.")
        return factory
    return construct(factory, values, where)


def spec(plugin: Any) -> dict[str, Any]:
    """The plain values, fit for JSON, of which `build` makes an equal plug-in: the way back."""
    factory = type(plugin)
    values = {f.name: getattr(plugin, f.name) for f in dataclasses.fields(plugin) if f.init}
    return {
        "use": f"{factory.__module__}:{factory.__qualname__}",
        **{key: _plain(value, f"{factory.__name__}.{key}") for key, value in values.items()},
    }


def _plain(value: Any, where: str) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value):
        return spec(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}.{i}") for i, item in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ConfigError(
        f"{where}: wanted text, numbers, lists, mappings, enumerations or dataclasses of these, "
        f"got {type(value).__name__}."
    )


def construct(factory: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """A dataclass from plain values, each checked against the type of its field."""
    hints = typing.get_type_hints(factory)
    known = {f.name: f for f in dataclasses.fields(factory) if f.init}
    for key in values:
        if key not in known:
            raise ConfigError(
                f"{where}.{key}: {factory.__name__} has no such field.{nearest(key, known)}"
            )
    missing = [
        name
        for name, f in known.items()
        if name not in values
        and f.default is dataclasses.MISSING
        and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: {factory.__name__} needs {', '.join(missing)}; not given.")
    checked = {k: _field(hints[k], v, f"{where}.{k}") for k, v in values.items()}
    try:
        return factory(**checked)
    except ConfigError as e:
        raise ConfigError(f"{where}: {e}") from e


def _field(hint: Any, value: Any, where: str) -> Any:
    if isinstance(value, Mapping) and "use" in value:
        return build(value, where)
    if isinstance(value, Mapping) and (nested := _dataclass_in(hint)) is not None:
        return construct(nested, value, where)
    try:
        return TypeAdapter(hint).validate_python(value)
    except ValidationError as e:
        first = e.errors()[0]
        place = ".".join([where, *map(str, first["loc"])])
        raise ConfigError(f"{place}: {first['msg']}; got {first['input']!r}.") from e
    except TypeError as e:  # a type that pydantic has no schema for: a protocol, say
        raise ConfigError(f"{where}: wanted a plug-in ('use: ...'), got {value!r}.") from e


def _dataclass_in(hint: Any) -> type[Any] | None:
    """The dataclass that a field holds, or may hold."""
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    found = [o for o in options if isinstance(o, type) and dataclasses.is_dataclass(o)]
    return found[0] if len(found) == 1 else None


def fits(plugin: object, protocol: type[Any], where: str) -> None:
    """Refuse a plug-in that lacks what its seam asks for."""
    wanted = [n for n in vars(protocol) if not n.startswith("_") and callable(vars(protocol)[n])]
    lacking = [name for name in wanted if not callable(getattr(plugin, name, None))]
    if lacking:
        raise ConfigError(
            f"{where}: {type(plugin).__name__} is no {protocol.__name__}: it has no "
            f"{', '.join(lacking)}. See workflow/protocols.py."
        )
