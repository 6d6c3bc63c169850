"""How each kind of node is made, from the plan: its class and its arguments.

A name ends in an index.
"""

from __future__ import annotations

from workflow.graph import Call, Handle, Host
from workflow.plan import Plan
from workflow.sources import MakeReader
from workflow.transit import Transit


class Nodes:
    """Starts the nodes of one run on its host."""

    def __init__(self, host: Host, plan: Plan, make_reader: MakeReader) -> None:
        self._host, self._plan, self._config = host, plan, plan.config
        self._make_reader = make_reader

    def transform(self, name: str) -> tuple[Handle, Call]:
        arguments = {
            "name": name,
            "make_reader": self._make_reader,
            "chain": self._plan.chain,
            "normaliser": self._plan.normaliser,
            "seed": self._config.seed,
            "shards": self._config.parts,
        }
        return self._host.start(name, "transform", Transit, arguments)

    def shard(self, name: str) -> tuple[Handle, Call]:
        replay = self._config.replay
        arguments = {
            "part": _index(name),
            "seed": self._config.seed,
            "now": replay.now,
            "reservoir": replay.reservoir,
            "rows": replay.rows,
            "normaliser": self._plan.normaliser,
            "arrays": tuple(self._plan.model.needs()),
        }
        return self._host.start(name, "shard", self._plan.shard, arguments)

    def learner(self, name: str) -> tuple[Handle, Call]:
        arguments = {
            "name": name,
            "model": self._plan.model,
            "optimizer": self._plan.optimizer,
            "seed": self._config.seed,
            "attack": self._plan.attacks.get(_index(name)),
            "threads": self._config.learners.threads,
        }
        return self._host.start(name, "learner", self._plan.learner, arguments)

    def reducer(self, name: str) -> tuple[Handle, Call]:
        wanted = self._config.reducer.wanted(self._config.learners.count)
        arguments = {"rule": self._plan.rule, "quorum": wanted}
        return self._host.start(name, "reducer", self._plan.reducer, arguments)


def _index(name: str) -> int:
    return int(name.rpartition("-")[2])
