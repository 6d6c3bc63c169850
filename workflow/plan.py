"""From a config to the things a run is made of, all built and checked before anything starts.

    config ──plan()──▶ Plan: producer, chain, normaliser, model, optimizer, rule, attacks

Whatever does not fit together is a ConfigError here: a missing plug-in, a field of the wrong type,
a record that the transforms need but the stream does not offer, arrays that the model is trained
on but the transforms do not make, more boxes asked for than exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workflow import chain as chains
from workflow import plugins, streams
from workflow.config import Config, PlugIn
from workflow.errors import BillowError, ConfigError
from workflow.protocols import Attack, Normaliser, Producer, Rule, Transform

RULES = "learners.reducers"  # where a rule given by its bare name is looked up


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything a run is made of. Plug-ins are picklable: nodes are made from them elsewhere."""

    config: Config
    producer: Producer | None  # None: somebody else writes the stream
    chain: tuple[Transform, ...]
    normaliser: Normaliser | None
    model: Any
    optimizer: Any
    rule: Rule
    attacks: Mapping[int, Attack]
    shard: Any  # classes
    learner: Any
    reducer: Any
    boxes: int | None  # of an iteration, if known before the start
    offers: tuple[str, ...] | None


def plan(config: Config) -> Plan:
    """Build every plug-in of a config and check that they fit together; ConfigError if not."""
    source = config.source
    producer = None
    if source.producer is not None:
        producer = plugins.build(source.producer, "source.producer")
        plugins.fits(producer, Producer, "source.producer")
    chain = _chain(config)
    normaliser = _optional(config.transforms.normaliser, Normaliser, "transforms.normaliser")
    offers, boxes = _what_comes(config, producer)
    chains.check(chain, offers)
    if boxes is not None:
        _check_boxes(config, boxes, chain)
    model = plugins.build(config.learners.model, "learners.model")
    _check_arrays(model, chain)
    return Plan(
        config=config,
        producer=producer,
        chain=chain,
        normaliser=normaliser,
        model=model,
        optimizer=plugins.build(config.learners.optimizer, "learners.optimizer"),
        rule=_rule(config.reducer.rule),
        attacks={
            i: plugins.build(spec, f"learners.attacks.{i}")
            for i, spec in config.learners.attacks.items()
        },
        shard=plugins.load(config.replay.use, "replay.use"),
        learner=plugins.load(config.learners.use, "learners.use"),
        reducer=plugins.load(config.reducer.use, "reducer.use"),
        boxes=boxes,
        offers=offers,
    )


def _chain(config: Config) -> tuple[Transform, ...]:
    chain = []
    for i, spec in enumerate(config.transforms.chain):
        where = f"transforms.chain.{i}"
        stage = plugins.build(spec, where)
        plugins.fits(stage, Transform, where)
        chain.append(stage)
    return tuple(chain)


def _optional(spec: PlugIn | None, protocol: type[Any], where: str) -> Any:
    if spec is None:
        return None
    plugin = plugins.build(spec, where)
    plugins.fits(plugin, protocol, where)
    return plugin


def _rule(spec: str | PlugIn) -> Rule:
    if isinstance(spec, str):
        path = spec if ":" in spec else f"{RULES}:{spec}"
        rule = plugins.load(path, "reducer.rule")
    else:
        rule = plugins.build(spec, "reducer.rule")
    if not callable(rule) or isinstance(rule, type):
        raise ConfigError(
            f"reducer.rule: '{spec}' is not a rule (k, d) -> (d,). Use mean, median or "
            "trimmed_mean, or {use: package.module:Name, ...}."
        )
    return rule  # type: ignore[no-any-return]


def _what_comes(
    config: Config, producer: Producer | None
) -> tuple[tuple[str, ...] | None, int | None]:
    """Records and boxes of an iteration, as far as they can be known before the start."""
    contact = config.source.contact
    try:
        if producer is not None:
            return producer.offers(), producer.boxes()
        if config.source.stream.engine == "bp5":
            assert contact is not None
            if not Path(contact).exists():
                raise ConfigError(
                    f"source.contact: there is no '{contact}'. Give the path of a BP series, or "
                    "engine: sst to wait for a stream."
                )
            described = streams.describe(Path(contact))
            return described.offers, described.boxes
    except ConfigError:
        raise
    except BillowError as e:
        raise ConfigError(f"source: {e}") from e
    return None, None


def _check_boxes(config: Config, boxes: int, chain: tuple[Transform, ...]) -> None:
    count, per_actor = config.transforms.count, config.transforms.boxes_per_actor or 1
    if count * per_actor > boxes:
        raise ConfigError(
            f"transforms: {count} actors with at least {per_actor} box(es) each need "
            f"{count * per_actor} boxes; an iteration of source '{config.source.name}' has {boxes}"
            ". Lower transforms.count or boxes_per_actor, or give the producer more ranks."
        )
    for stage in chain:
        wanted = getattr(stage, "indices", None)
        if wanted and max(wanted) >= boxes:
            raise ConfigError(
                f"transforms.chain: {type(stage).__name__} selects box {max(wanted)}; an iteration "
                f"of source '{config.source.name}' has boxes 0 to {boxes - 1}."
            )


def _check_arrays(model: Any, chain: tuple[Transform, ...]) -> None:
    """Arrays that the model is trained on are made by the chain, in a shape that fits."""
    if not hasattr(model, "needs") or not hasattr(model, "build"):
        raise ConfigError(
            f"learners.model: {type(model).__name__} is no Model. See learners/protocols.py."
        )
    made = chains.makes(chain)
    for name, shape in model.needs().items():
        if name not in made:
            raise ConfigError(
                f"learners.model: {type(model).__name__} is trained on '{name}', the transforms "
                f"make {sorted(made)}. Add a transform that makes it."
            )
        fits = len(shape) == len(made[name]) and all(
            want is None or want == got for want, got in zip(shape, made[name], strict=True)
        )
        if not fits:
            raise ConfigError(
                f"learners.model: {type(model).__name__} wants '{name}' of shape {shape}, the "
                f"transforms make {made[name]} (None: any length)."
            )
