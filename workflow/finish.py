"""The end of a run: digests, losses on the held-out window, peak memory, and the summary."""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workflow.errors import BillowError, DataError
from workflow.folder import write_json
from workflow.graph import Call, Handle, Host
from workflow.journal import read_journal
from workflow.ledger import PASSED_OVER, Balance
from workflow.plan import Plan
from workflow.team import Member
from workflow.types import Key, StreamState

if TYPE_CHECKING:
    from workflow.run import Run

ANSWER_S = 60.0  # for a node's answer at the end


def answers(host: Host, calls: Mapping[str, Call], *, within_s: float = ANSWER_S) -> dict[str, Any]:
    """What calls give, by name; those that fail or do not answer are left out."""
    until = time.monotonic() + within_s
    left = dict(calls)
    given: dict[str, Any] = {}
    while left and time.monotonic() < until:
        done = host.wait(list(left.values()), 1.0)
        for name in [n for n, call in left.items() if call in done]:
            try:
                given[name] = host.result(left.pop(name))
            except BillowError:
                continue  # it is gone: it has no answer
    return given


def digests(host: Host, learners: Sequence[Member]) -> dict[str, str]:
    """The weights' digest of every learner that answers."""
    return answers(host, {m.name: host.call(m.node, "digest") for m in learners})


def first_and_last_loss(
    host: Host, node: Handle, arrays: Any, initial_state: Any
) -> dict[str, dict[str, float]]:
    """Loss terms on the same held-out arrays with the first and with the last weights."""
    calls = {
        "first": host.call(node, "evaluate", arrays, initial_state),
        "last": host.call(node, "evaluate", arrays),
    }
    return {name: dict(loss) for name, loss in answers(host, calls).items()}


def peak_memory(host: Host, nodes: Sequence[Handle]) -> dict[str, int]:
    """Peak resident memory per kind of process, of the biggest of its kind. [bytes]"""
    calls = {node.name: host.about(node) for node in nodes}
    kinds = {node.name: node.kind for node in nodes}
    peaks: dict[str, int] = {}
    for name, facts in answers(host, calls, within_s=5.0).items():
        kind = kinds[name]
        peaks[kind] = max(peaks.get(kind, 0), int(facts["peak_bytes"]))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"driver": own, **peaks}


def checkpoint_facts(plan: Plan, digest: str) -> dict[str, Any]:
    """What has to be known to use the weights."""
    return {
        "weights_digest": digest,
        "model": repr(plan.model),
        "optimizer": repr(plan.optimizer),
        "normaliser": repr(plan.normaliser),
        "chain": [repr(stage) for stage in plan.chain],
        "seed": plan.config.seed,
    }


def write_summary(run: Run) -> dict[str, Any]:
    """Settle the ledger with the producer's own journal, and write summary.json."""
    summary = summarise(run)
    write_json(run.folder / "summary.json", summary)
    return summary


def summarise(run: Run) -> dict[str, Any]:
    """The summary of a run; it is whole for a run that failed on its first step, too."""
    produced = produced_facts(run)
    balance = settle(run)
    wall_s = time.time() - run.began
    training, intake = getattr(run, "training", None), getattr(run, "intake", None)
    losses = run.losses
    agreed = Counter(run.digests.values()).most_common(1)
    steps = training.steps if training else 0
    samples = training.feed.pacing.samples if training else 0
    first_at = training.first_step_at if training else None
    training_s = time.time() - first_at if first_at else 0.0
    producer_s = produced.get("wall_s", 0.0)
    return {
        "status": run.status,
        "reason": run.reason,
        "stream_state": intake.state.value if intake and intake.state else None,
        "frames_produced": balance.produced,
        "frames_seen": balance.received,
        "frames_lost": balance.fates["lost"],
        "frames_dropped": balance.fates["dropped"],
        "iterations": intake.iterations if intake else 0,
        "samples": samples,
        "held_out_samples": balance.fates["held_out"],
        "training_steps": steps,
        "loss_first": losses.get("first", {}).get("total"),
        "loss_last": losses.get("last", {}).get("total"),
        "losses": losses,
        "learner_wait_fraction": training.waited_s / training_s
        if training and training_s
        else None,
        "producer_stall_fraction": produced["blocked_s"] / producer_s if producer_s else None,
        "updates_skipped": training.skipped if training else 0,
        "suspects": dict(training.suspects) if training else {},
        "restarts": run.restarts.count + max(0, run.source.epoch - 1),
        "learners_alive": len(run.digests),
        "weights_digest": agreed[0][0] if agreed else None,
        "weights_agree": len(set(run.digests.values())) == 1 if run.digests else None,
        "ledger_closed": balance.closed,
        "ledger": balance.as_dict(),
        "first_step_s": first_at - run.began if first_at else None,
        "wall_s": wall_s,
        "rates": rates(run, balance, produced, wall_s, training_s),
        "peak_memory_bytes": {**run.peaks, **produced["peaks"]},
    }


def rates(
    run: Run, balance: Balance, produced: Mapping[str, Any], wall_s: float, training_s: float
) -> dict[str, float | None]:
    """Per-stage rates, each over the time that its stage was at work. [1/s], [bytes/s]"""
    training, intake = getattr(run, "training", None), getattr(run, "intake", None)
    if training is None or intake is None:
        return {}

    def per_s(amount: float, time_s: float) -> float | None:
        return amount / time_s if time_s > 0 else None

    return {
        "producer_frames_per_s": per_s(balance.produced, produced.get("wall_s", 0.0)),
        "read_bytes_per_s": per_s(intake.bytes, intake.read_s),
        "transform_frames_per_s": per_s(balance.transformed, intake.compute_s),
        "samples_per_s": per_s(training.feed.pacing.samples, wall_s),
        "training_steps_per_s": per_s(training.steps, training_s),
    }


def produced_facts(run: Run) -> dict[str, Any]:
    """Enter what the producer says it produced into the ledger; its time blocked, its memory."""
    facts: dict[str, Any] = {"blocked_s": 0.0, "wall_s": 0.0, "peaks": {}}
    for file in sorted((run.folder / "journal").glob("producer-*.jsonl")):
        epoch = int(file.stem.removeprefix("producer-"))
        last: Mapping[str, Any] = {}
        try:
            for event in read_journal(file):
                if event["event"] == "producer/iteration":
                    for box in event["boxes"]:
                        name = run.source.name_of(epoch)
                        run.ledger.produced(Key(name, int(event["step"]), int(box)))
                last = event if "wall_s" in event else last
        except DataError as e:
            run.journal.write("journal/broken", why=str(e))
        facts["blocked_s"] += float(last.get("blocked_s", 0.0))
        facts["wall_s"] += float(last.get("wall_s", 0.0))
        if "peak_bytes" in last:
            facts["peaks"]["producer"] = int(last["peak_bytes"])
            if last["peak_bytes_rank"]:
                facts["peaks"]["rank"] = int(last["peak_bytes_rank"])
    return facts


def settle(run: Run) -> Balance:
    """Bring every box of the run to its end."""
    intake = getattr(run, "intake", None)
    why = "the run ended before it was read"
    if intake is not None and intake.state is StreamState.PRODUCER_LOST:
        why = "the producer died before it was read"
    elif intake is not None and intake.state is StreamState.ENDED:
        why = PASSED_OVER
    run.ledger.settle(default_why=why)
    return run.ledger.balance()
