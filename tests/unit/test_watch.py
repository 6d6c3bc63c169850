"""The view of a run: counted from events, for any terminal or none, whatever the events say."""

from __future__ import annotations

import io
import json
import math
import os
import random
import re
import subprocess
import sys
import threading
import time

import pytest
from rich.console import Console

from workflow.curve import BLOCKS, PLAIN, Curve, sparkline
from workflow.journal import Journal
from workflow.tally import Digests, clean
from workflow.watch import LiveView, watch


def screen(*, terminal=True, width=100, encoding="utf-8"):
    class File(io.StringIO):
        pass

    File.encoding = encoding
    return Console(file=File(), force_terminal=terminal, width=width, color_system=None)


def shown(renderable, **kwargs):
    console = screen(**kwargs)
    console.print(renderable)
    return console.file.getvalue()


def event(name, t=1000.0, source="run", **fields):
    return {"t": t, "source": source, "event": name, **fields}


def whole_run():
    """The events of a small run with one of everything."""
    yield event("run/start", pid=os.getpid())
    yield event("run/heartbeat", pid=os.getpid())
    yield event("producer/start", source="producer", pid=7)
    for i in range(3):
        yield event("learner/join", learner=f"learner-{i}", step=0)
        yield event("transform/join", node=f"transform-{i}")
    for step in range(5):
        yield event("producer/iteration", source="producer", step=600 + step, value=4)
        yield event("stream/iteration", step=600 + step, value=4)
        yield event("sample/insert", step=600 + step, value=3)
        for i in range(3):
            value = 4.0 - 0.5 * step + 0.1 * i
            yield event("learner/loss", learner=f"learner-{i}", step=step, value=value)
        yield event("reduce/update", step=step, heard=["learner-0"], missing=[], suspects={})
        for i in range(3):
            yield event("weights/digest", learner=f"learner-{i}", step=step, value="abc123")
    yield event("frame/dropped", box=1, by="Subsample", why="short box: 3 of 9 particles")
    yield event("frame/lost", box=1, by="transform-1", why="its process died")
    yield event("replay/fill", part=0, value=6, now=2)
    yield event("replay/fill", part=1, value=5, now=2)
    yield event("learner/heldout_loss", step=4, value=1.25, terms={"kl": 0.1})
    yield event("learner/lost", learner="learner-2", why="killed", step=4)
    yield event("reduce/skipped", step=5, why="no quorum: 1 of 2")
    yield event(
        "reduce/update", step=6, suspects={"learner-1": "far from the others"}, reason="", norm=0.3
    )
    yield event("checkpoint/written", value="step-000006", step=6)
    yield event("stream/state", value="producer_lost", t=1012.0)


def view_of(folder, events):
    view = LiveView(folder)
    view.take(events)
    return view


# ---------------------------------------------------------------- what it shows


def test_a_run_is_counted_from_its_events(tmp_path):
    tally = view_of(tmp_path, whole_run()).tally
    assert (tally.produced, tally.seen, tally.lost, tally.samples) == (20, 20, 1, 15)
    assert tally.dropped == {"Subsample": 1}
    assert tally.steps == 7
    assert tally.skipped == 1
    assert tally.restarts == 1
    assert tally.learners == {"learner-0", "learner-1"}
    assert tally.suspects == {"learner-1": "far from the others"}
    assert tally.loss.points == pytest.approx((4.1, 3.6, 3.1, 2.6, 2.1)), "means over learners"
    assert tally.held_out.last == 1.25
    assert tally.stream_state == "producer lost"


@pytest.mark.parametrize("how", ["terminal", "lines"])
def test_the_view_says_all_that_matters_in_words(tmp_path, how):
    view = view_of(tmp_path, whole_run())
    text = shown(view.render()) if how == "terminal" else "\n".join(view.lines())
    for words in (
        "producer lost, iteration 604",
        "20 produced, 20 seen, 1 set aside (by Subsample 1), 1 lost",
        "15; in replay 11 reservoir + 4 now",
        "7 steps, 1 updates skipped",
        "4.1 -> 2.1",
        "1.25 -> 1.25",
        "2 alive (learner-0, learner-1), 1 restarts",
        "learner-1: far from the others",
        "abc123 in 3 learner(s) at step 4",
        "step-000006, step 6",
        "no quorum: 1 of 2",
    ):
        assert words in text


def test_the_progress_fits_one_line(tmp_path):
    line = view_of(tmp_path, whole_run()).one_line()
    assert "\n" not in line
    for words in ("steps 7", "frames 20 (1 lost)", "samples 15", "loss 2.1", "held-out 1.25"):
        assert words in line
    assert "suspects learner-1" in line


def test_a_view_of_nothing_can_be_shown(tmp_path):
    view = LiveView(tmp_path)
    assert view.one_line().startswith("running")
    assert "not measured yet" in shown(view.render())
    assert view.lines()


def test_learners_that_differ_are_named_with_the_step(tmp_path):
    events = [
        event("weights/digest", learner="learner-0", step=7, value="aaa"),
        event("weights/digest", learner="learner-1", step=7, value="bbb"),
        event("weights/digest", learner="learner-0", step=8, value="ccc"),
        event("weights/digest", learner="learner-1", step=8, value="ccc"),
    ]
    view = view_of(tmp_path, events)
    assert "NOT equal in all learners, first at step 7" in "\n".join(view.lines())


def test_digests_of_old_steps_are_forgotten():
    digests = Digests(steps=3)
    for step in range(1000):
        digests.add(step, "learner-0", "x")
    assert len(digests._seen) == 3


def test_the_learners_of_an_earlier_life_are_not_alive(tmp_path):
    events = [event("learner/join", learner="learner-9"), event("run/start", pid=1)]
    assert view_of(tmp_path, events).tally.learners == set()


# ---------------------------------------------------------------- strings from anywhere


def test_markup_and_terminal_control_in_strings_are_shown_as_text(tmp_path):
    evil = "[red]boo[/red] [/] \x1b[2J\x1b]0;title\x07\r\nline [link=file:///etc/passwd]x"
    events = [
        event("run/end", value="failed", why=evil),
        event("learner/join", learner=evil),
        event("frame/dropped", by=evil, why=evil),
        event("reduce/update", step=1, suspects={evil: evil}),
        event("stream/state", value=evil),
        event("producer/lost", why=evil),
        event("checkpoint/written", value=evil),
        event(evil + "/lost", source=evil, why=evil),
    ]
    view = view_of(tmp_path, events)
    outputs = [shown(view.render(), width=2000), *view.lines(), view.one_line()]
    for text in outputs:
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "\r" not in text
    assert "[red]boo[/red]" in outputs[0]
    assert all("\n" not in line for line in outputs[1:])


def test_long_strings_are_cut():
    assert len(clean("x" * 10_000)) == 200
    assert clean("x" * 200) == "x" * 200


def test_no_event_whatever_it_contains_can_break_the_view(tmp_path):
    names = [*{e["event"]: 0 for e in whole_run()}, "a", "/", "", "x/lost"]
    values = [
        None, True, -1, 1e300, "NaN", "Infinity", "text", [], [1], {}, {"a": "NaN"}, 10**30, 10**400
    ]  # fmt: skip
    fields = ["value", "step", "learner", "node", "part", "now", "suspects", "by", "why", "terms"]
    draw = random.Random(5)
    view = LiveView(tmp_path)
    for _ in range(3000):
        view.feed(
            event(draw.choice(names), **{f: draw.choice(values) for f in draw.sample(fields, 6)})
        )
    shown(view.render())
    assert view.lines()
    assert view.one_line()


def test_a_diverged_loss_is_shown_and_does_not_spoil_the_curve(tmp_path):
    events = [
        event("learner/heldout_loss", value=v, step=i) for i, v in enumerate([3.0, 2.0, "NaN"])
    ]
    view = view_of(tmp_path, events)
    assert "3 -> nan" in "\n".join(view.lines())
    assert view.tally.held_out.points == (3.0, 2.0)


# ---------------------------------------------------------------- the state, and following


def test_a_killed_run_is_shown_as_lost(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with Journal(tmp_path / "journal" / "run.jsonl", "run") as journal:
        journal.write("run/start", pid=process.pid)
    console = screen()
    state = watch(tmp_path, follow=True, console=console)
    assert state.state == "lost"
    assert "is gone and left no summary" in console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("follow", [True, False])
def test_a_finished_run_is_shown_with_its_summary(tmp_path, terminal, follow):
    with Journal(tmp_path / "journal" / "run.jsonl", "run") as journal:
        for e in whole_run():
            journal.write(
                e["event"], **{k: v for k, v in e.items() if k not in ("t", "event", "source")}
            )
    summary = {"status": "ended", "loss_first": 3.5, "loss_last": 1.25, "ledger_closed": True}
    summary |= {
        "frames_seen": 20,
        "frames_produced": 20,
        "training_steps": 6,
        "samples": 15,
        "frames_lost": 4,
    }
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    console = screen(terminal=terminal, width=160)
    assert watch(tmp_path, follow=follow, console=console).state == "ended"
    text = console.file.getvalue()
    assert "held-out loss 3.5 -> 1.25" in text
    assert "ledger closed" in text
    assert "4 lost" in text, "what was settled at the end counts"
    assert "last known: producer lost" in text
    if not terminal:
        assert text.count("no quorum: 1 of 2") == 1


def test_a_run_that_said_its_end_has_ended_even_without_a_summary(tmp_path):
    view = view_of(
        tmp_path, [event("run/start", pid=os.getpid()), event("run/end", value="stopped")]
    )
    assert view.state(1000.0).state == "stopped"
    view.feed(event("run/start", pid=os.getpid()))
    assert view.state(1000.0).state == "running", "started again"


@pytest.mark.parametrize("terminal", [True, False])
def test_following_shows_what_happens_and_leaves_when_the_run_is_over(tmp_path, terminal):
    journal = Journal(tmp_path / "journal" / "run.jsonl", "run")
    journal.write("run/start", pid=os.getpid())
    console = screen(terminal=terminal)
    watcher = threading.Thread(
        target=watch,
        args=(tmp_path,),
        kwargs={"follow": True, "console": console, "refresh_s": 0.01, "line_s": 0.01},
    )
    watcher.start()
    journal.write("learner/lost", learner="learner-1", why="killed")
    until = time.monotonic() + 20
    while "killed" not in console.file.getvalue() and time.monotonic() < until:
        time.sleep(0.01)
    assert "killed" in console.file.getvalue()
    assert watcher.is_alive()
    journal.write("run/end", value="ended")
    watcher.join(20)
    assert not watcher.is_alive()
    journal.close()
    if not terminal:
        assert "\x1b" not in console.file.getvalue()


# ---------------------------------------------------------------- curves


def test_a_sparkline_rises_and_falls_with_its_values():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == BLOCKS
    assert sparkline([7, 0], 10) == BLOCKS[-1] + BLOCKS[0]
    assert sparkline([5, 5, 5], 10) == BLOCKS[0] * 3
    assert sparkline([], 10) == ""
    assert len(sparkline(list(range(1000)), 40)) == 40


def test_a_long_curve_keeps_its_shape_in_bounded_memory():
    values = [math.exp(-i / 3000) for i in range(64 * 128)]
    curve = Curve(points=64)
    for value in values:
        curve.add(value)
    assert len(curve.points) == 64
    assert (curve.first, curve.last) == (values[0], values[-1])
    means = [sum(values[i : i + 128]) / 128 for i in range(0, len(values), 128)]
    assert curve.points == pytest.approx(means, rel=1e-12)


def test_a_terminal_that_knows_only_ascii_gets_an_ascii_curve(tmp_path):
    view = view_of(tmp_path, whole_run())
    text = shown(view.render(), encoding="ascii")
    text.encode("ascii")
    assert re.search(f"[{re.escape(PLAIN)}]{{5}}", text)
    assert re.search(f"[{BLOCKS}]{{5}}", shown(view.render()))
