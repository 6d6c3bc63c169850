"""The TensorBoard mirror, read back by TensorBoard's own reader."""

from __future__ import annotations

import builtins
import logging
import math
import os

import pytest

from workflow.mirror import mirror_or_none, scalars, writer_name

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")


def event(name, t=1000.0, source="run", **fields):
    return {"t": t, "source": source, "event": name, **fields}


def mirrored(folder, events):
    """What is on the file system after these events: {writer: {tag: [(step, value, time)]}}."""
    mirror = mirror_or_none(folder)
    for e in events:
        mirror.feed(e)
    mirror.close()
    found = {}
    for path in sorted((folder / "tensorboard").iterdir()):
        reader = accumulator.EventAccumulator(str(path), size_guidance={"tensors": 0, "scalars": 0})
        reader.Reload()
        found[path.name] = {
            tag: [
                (e.step, e.tensor_proto.float_val[0], e.wall_time)
                if e.tensor_proto.float_val
                else (e.step, _float(e.tensor_proto), e.wall_time)
                for e in reader.Tensors(tag)
            ]
            for tag in reader.Tags()["tensors"]
        }
    return found


def _float(proto):
    from tensorboard.util import tensor_util

    return float(tensor_util.make_ndarray(proto))


def test_numbers_come_back_with_step_and_time_in_one_directory_per_writer(tmp_path):
    events = [
        event("learner/loss", learner=f"learner-{i}", step=s, value=s + 0.25 * i, t=1000.5 + s)
        for s in range(4)
        for i in range(2)
    ]
    found = mirrored(tmp_path, events)
    assert set(found) == {"learner-0", "learner-1"}
    assert found["learner-1"]["learner/loss"] == [(s, s + 0.25, 1000.5 + s) for s in range(4)]


def test_terms_and_numbers_beside_the_value_have_curves_of_their_own(tmp_path):
    found = mirrored(
        tmp_path,
        [
            event("learner/heldout_loss", step=2, value=1.5, terms={"kl": 0.5, "note": "text"}),
            event("reduce/update", step=3, norm=0.75, heard=["a"]),
            event("replay/fill", part=1, value=8),
            event("weights/digest", step=3, value="abc"),
        ],
    )
    assert found == {
        "run": {
            "learner/heldout_loss": [(2, 1.5, 1000.0)],
            "learner/heldout_loss/kl": [(2, 0.5, 1000.0)],
            "reduce/norm": [(3, 0.75, 1000.0)],
        },
        "part-1": {"replay/fill": [(0, 8.0, 1000.0)]},
    }


def test_events_without_a_step_are_numbered(tmp_path):
    found = mirrored(tmp_path, [event("stream/lag_frames", value=v) for v in (5, 6, 7)])
    assert [step for step, _, _ in found["run"]["stream/lag_frames"]] == [0, 1, 2]


def test_non_finite_and_huge_numbers_do_not_break_it(tmp_path):
    found = mirrored(
        tmp_path, [event("a/b", step=i, value=v) for i, v in enumerate(["NaN", 1e300])]
    )
    values = [value for _, value, _ in found["run"]["a/b"]]
    assert math.isnan(values[0])
    assert values[1] == math.inf


@pytest.mark.parametrize("name", ["../../etc", "/abs/olute", "..", "", "a b\n[red]", "x" * 500])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    mirrored(tmp_path, [event("a/b", source=name, value=1), event("a/b", learner=name, value=1)])
    for root, _, files in os.walk(tmp_path):
        assert not files or root.startswith(str(tmp_path / "tensorboard") + os.sep)
    assert "/" not in writer_name(event("a/b", source=name))


def test_what_is_flushed_can_be_read_while_the_run_goes_on(tmp_path):
    mirror = mirror_or_none(tmp_path)
    mirror.feed(event("a/b", step=0, value=1.0))
    mirror.flush()
    reader = accumulator.EventAccumulator(str(tmp_path / "tensorboard" / "run"))
    reader.Reload()
    assert len(reader.Tensors("a/b")) == 1
    mirror.close()


def test_events_without_numbers_leave_no_scalars():
    assert list(scalars(event("run/end", value="ended", why="x"))) == []
    assert list(scalars(event("x/y", value=True))) == []


def test_without_tensorboard_there_is_no_mirror_and_the_log_says_why(tmp_path, monkeypatch, caplog):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("tensorboard"):
            raise ModuleNotFoundError(f"No module named '{name}'")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with caplog.at_level(logging.INFO, logger="workflow.mirror"):
        assert mirror_or_none(tmp_path) is None
    assert "billow[tensorboard]" in caplog.text


def test_a_mirror_that_cannot_write_is_switched_off_and_says_so(tmp_path, caplog):
    (tmp_path / "tensorboard").write_text("a file where the folder should be")
    mirror = mirror_or_none(tmp_path)
    for i in range(3):
        mirror.feed(event("a/b", step=i, value=1.0))
    mirror.close()
    assert caplog.text.count("no longer written") == 1
