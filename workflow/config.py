"""The config of a run: YAML, validated whole before anything starts.

`read_config(path, overrides)` gives a `Config`, or a ConfigError that lists every problem with its
line, key, what was wanted and what was got. Plug-ins stay plain mappings here (`use:` and fields);
`workflow.plan` builds them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from workflow.errors import ConfigError
from workflow.plugins import nearest

PlugIn = dict[str, Any]  # {use: package.module:Name, field: value, ...}
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Stream(Section):
    """How frames travel. `parameters` keep ADIOS2's own names and go to the engine unchanged."""

    engine: Literal["sst", "bp5"] = "sst"
    encoding: Literal["variable_based", "group_based"] = "variable_based"
    parameters: dict[str, str] = Field(
        default={"QueueLimit": "2", "QueueFullPolicy": "Block", "DataTransport": "WAN"},
        description="ADIOS2 engine parameters, in ADIOS2's own names",
    )
    open_deadline_s: Seconds = Field(60.0, description="how long to try to open the stream")
    silence_s: Seconds = Field(10.0, description="nothing new for so long: the stream is stalled")
    lost_deadline_s: Seconds = Field(
        300.0, description="stalled for so long: the producer counts as lost"
    )


class Source(Section):
    """Where frames come from: a producer that the run starts, or a stream that others write."""

    name: str = Field("simulation", pattern=r"^[A-Za-z0-9_.-]+$", description="of the stream")
    producer: PlugIn | None = Field(None, description="a Producer plug-in that the run starts")
    contact: str | None = Field(
        None, description="a stream that somebody else writes: SST contact file or BP series"
    )
    stream: Stream = Stream()
    on_lost: Literal["stop", "restart"] = Field(
        "stop", description="when the producer dies: end the run as failed, or start it again"
    )
    max_restarts: Annotated[int, Field(ge=0)] = 3

    @model_validator(mode="after")
    def _one_source(self) -> Source:
        if (self.producer is None) == (self.contact is None):
            raise ValueError("wanted exactly one of 'producer' and 'contact'")
        if self.contact is not None and self.on_lost == "restart":
            raise ValueError("'on_lost: restart' needs a 'producer': a contact cannot be restarted")
        return self


class Transforms(Section):
    """Actors that turn frames into samples in transit."""

    count: Count = 2
    chain: Annotated[list[PlugIn], Field(min_length=1)]
    boxes_per_actor: Count | None = Field(
        None, description="boxes of an iteration that an actor takes at most; default: no limit"
    )
    normaliser: PlugIn | None = Field(None, description="a Normaliser plug-in")
    ahead: Count = Field(4, description="iterations that may wait, ready, in front of replay")
    silent_s: Seconds = Field(20.0, description="an actor silent for so long is replaced")


class HeldOut(Section):
    """Iterations kept aside, never trained on: `loss_first` and `loss_last` are of these."""

    every: Annotated[int, Field(ge=2)] = Field(6, description="every so-manyth iteration")
    keep: Count = Field(256, description="samples kept at most, evenly over the run")
    evaluate_every: Count = Field(25, description="training steps between two live measurements")


class Replay(Section):
    """Now-buffer and reservoir; every part of the batch has a shard of its own."""

    use: str = "learners.replay:Shard"
    parts: Count | None = Field(None, description="default: one per learner")
    now: Count = Field(10, description="samples in the now-buffer of a shard")
    reservoir: Count = Field(200, description="samples in the reservoir of a shard")
    rows: Annotated[int, Field(ge=2)] = Field(8, description="of a part: half now, half replayed")
    batches_per_sample: Annotated[float, Field(gt=0)] = Field(
        4.0, description="training batches that a shard serves for each sample that it takes in"
    )
    prepare: Count = Field(2, description="training steps whose batches are prepared ahead")


class Learners(Section):
    """Who computes gradients."""

    use: str = "learners.learner:Learner"
    count: Count = 2
    model: PlugIn
    optimizer: PlugIn
    attacks: dict[int, PlugIn] = Field(
        default={}, description="learner index -> Attack plug-in: a liar, for experiments"
    )
    threads: Count = 1
    checkpoint_every: Count = Field(200, description="training steps between two checkpoints")
    keep_checkpoints: Count = Field(3, description="the newest so many stay")
    silent_s: Seconds = Field(60.0, description="a learner silent for so long is replaced")
    max_restarts: Annotated[int, Field(ge=0)] = Field(20, description="of all nodes together")


class Reducer(Section):
    """How offers become one update."""

    use: str = "learners.reducers.reducer:Reducer"
    rule: str | PlugIn = Field("mean", description="a name in learners.reducers, or a Rule plug-in")
    quorum: Annotated[float, Field(gt=0)] = Field(
        0.5, description="offers needed: a share of the learners below 1, a number from 1 up"
    )
    deadline_s: Seconds = Field(20.0, description="for the offers of one training step")
    max_skipped: Count = Field(20, description="training steps in a row without an update")

    def wanted(self, learners: int) -> int:
        """The number of offers that make a quorum."""
        if self.quorum >= 1:
            return int(self.quorum)
        return max(1, int(-(-learners * self.quorum // 1)))


class Fault(Section):
    """A real signal to a real process at a training step: to see what the run does."""

    at_step: Annotated[int, Field(ge=0)]
    node: str = Field(description="learner-1, transform-0, shard-0, reducer, producer")
    signal: Literal["KILL", "STOP"] = "KILL"


class Cluster(Section):
    """Where Ray runs. Without an address the run starts its own on this machine."""

    address: str | None = None
    object_store_mb: Annotated[int, Field(ge=80)] = 512
    cpus: dict[str, float] = Field(default={}, description="CPUs an actor reserves, by kind")
    gpus: dict[str, float] = Field(default={}, description="GPUs an actor reserves, by kind")


class Limits(Section):
    """When to stop."""

    max_steps: Count | None = None
    steps_after_end: Annotated[int, Field(ge=0)] = Field(
        0, description="training steps from replay after the stream has ended"
    )
    steps_while_lost: Annotated[int, Field(ge=0)] = Field(
        100, description="training steps from replay, at most, while a lost producer is restarted"
    )
    max_dropped: Annotated[float, Field(gt=0, le=1)] = Field(
        0.9, description="share of boxes dropped above which the run stops"
    )


class Config(Section):
    """One run."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    seed: Annotated[int, Field(ge=0)]
    source: Source
    transforms: Transforms
    held_out: HeldOut = HeldOut()
    replay: Replay = Replay()
    learners: Learners
    reducer: Reducer = Reducer()
    limits: Limits = Limits()
    cluster: Cluster = Cluster()
    faults: list[Fault] = []

    @property
    def parts(self) -> int:
        return self.replay.parts or self.learners.count

    @model_validator(mode="after")
    def _agree(self) -> Config:
        wrong = [i for i in self.learners.attacks if not 0 <= i < self.learners.count]
        if wrong:
            raise ValueError(
                f"learners.attacks names learner {wrong[0]}, there are {self.learners.count}"
            )
        if self.reducer.quorum > self.learners.count:
            raise ValueError(
                f"reducer.quorum {self.reducer.quorum:g} is more than learners.count "
                f"{self.learners.count}: no step could ever be taken"
            )
        return self


# ---------------------------------------------------------------- reading


def read_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The validated config of a YAML file with `key=value` overrides; ConfigError otherwise."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(
            f"{path}: cannot read the config: {e}. Give the path of a YAML file."
        ) from e
    values, lines = parse(text, str(path))
    for override in overrides:
        _override(values, override)
    return validate(values, source=str(path), lines=lines)


def parse(text: str, source: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The plain values of a YAML text and the line of every key path."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"{source}: not valid YAML: {e}") from e
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: wanted a mapping of sections, got {type(values).__name__}.")
    lines: dict[str, int] = {}
    for key, line in _lines(node, ""):
        if key in lines:
            raise ConfigError(
                f"{source}, line {line}: '{key}' is given twice (first on line {lines[key]})."
            )
        lines[key] = line
    return values, lines


def validate(values: Mapping[str, Any], *, source: str, lines: Mapping[str, int]) -> Config:
    """Config from plain values; one ConfigError with every problem, each with its line."""
    try:
        return Config.model_validate(values)
    except ValidationError as e:
        problems = [_problem(error, lines) for error in e.errors()]
        raise ConfigError(f"{source}:\n  " + "\n  ".join(problems)) from e


def place(key: str, lines: Mapping[str, int]) -> str:
    """The line of a key, or of the nearest key above it, in words."""
    while key:
        if key in lines:
            return f"line {lines[key]}: "
        key = key.rpartition(".")[0]
    return ""


def _problem(error: Any, lines: Mapping[str, int]) -> str:
    key = ".".join(str(part) for part in error["loc"] if part not in ("str",))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        parent = error["loc"][:-1]
        hint = nearest(str(error["loc"][-1]), _known(parent))
        return f"{place(key, lines)}{key}: unknown key.{hint}"
    if error["type"] == "missing":
        return f"{place(key, lines)}{key}: is needed, not given."
    got = "" if isinstance(error["input"], dict | Section) else f"; got {error['input']!r}"
    return f"{place(key, lines)}{key + ': ' if key else ''}{message}{got}."


def _known(loc: Sequence[Any]) -> list[str]:
    """The keys that a section has; the section is found by walking the models."""
    model: Any = Config
    for part in loc:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        candidates = [annotation, *get_args(annotation)]
        model = next(
            (c for c in candidates if isinstance(c, type) and issubclass(c, Section)), None
        )
        if model is None:
            return []
    return list(model.model_fields)


def _lines(node: Any, prefix: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = f"{prefix}{key_node.value}"
            yield key, key_node.start_mark.line + 1
            yield from _lines(value_node, key + ".")
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield f"{prefix}{i}", item.start_mark.line + 1
            yield from _lines(item, f"{prefix}{i}.")


def _override(values: dict[str, Any], override: str) -> None:
    """Set `a.b.0.c=value` in nested plain values; the value is YAML."""
    key, equals, text = override.partition("=")
    if not equals or not re.fullmatch(r"[\w-]+(\.[\w-]+)*", key):
        raise ConfigError(f"override '{override}': wanted key=value, as in learners.count=4.")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"override '{override}': the value is not valid YAML: {e}") from e
    *parents, last = key.split(".")
    here: Any = values
    for i, part in enumerate(parents):
        if isinstance(here, list):
            here = here[_index(here, part, override)]
        elif isinstance(here, dict):
            here = here.setdefault(part, {})
        else:
            raise ConfigError(f"override '{override}': '{'.'.join(parents[:i])}' has no keys.")
    if isinstance(here, list):
        here[_index(here, last, override)] = value
    elif isinstance(here, dict):
        here[last] = value
    else:
        raise ConfigError(f"override '{override}': '{'.'.join(parents)}' has no keys.")


def _index(items: list[Any], part: str, override: str) -> int:
    if not part.isdigit() or int(part) >= len(items):
        raise ConfigError(
            f"override '{override}': wanted an index below {len(items)}, got '{part}'."
        )
    return int(part)
