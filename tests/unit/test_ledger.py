"""What became of every box; the sums close, or say why not."""

import pytest

from workflow.ledger import Fate, Ledger
from workflow.types import Key


def key(iteration, box=0, stream="s"):
    return Key(stream, iteration, box)


def test_a_ledger_of_all_fates_closes():
    ledger = Ledger()
    for i in range(7):
        ledger.produced(key(i))
    for i in range(2, 6):
        ledger.received(key(i))
    for i in (2, 3, 4):
        ledger.transformed(key(i))
    ledger.trained([key(2)], [])
    ledger.end(key(3), Fate.HELD_OUT)
    ledger.end(key(5), Fate.DROPPED, by="subsample", why="short box")
    ledger.settle(default_why="the producer died before it was read")
    balance = ledger.balance()
    assert balance.closed, balance.open
    assert balance.fates == {
        "before_join": 2, "lost": 1, "dropped": 1, "held_out": 1, "trained": 1, "untrained": 1,
    }  # fmt: skip
    assert sum(balance.fates.values()) == balance.produced == 7
    assert balance.received == balance.produced - 2 - 1
    assert balance.reasons["lost: stream: the producer died before it was read"] == 1
    assert balance.reasons["dropped: subsample: short box"] == 1


def test_training_again_counts_draws_and_replays_but_one_end():
    ledger = Ledger()
    ledger.received(key(1))
    ledger.transformed(key(1))
    ledger.trained([key(1), key(1)], [])
    ledger.trained([], [key(1)])
    balance = ledger.balance()
    assert (balance.drawn, balance.replayed) == (3, 1)
    assert balance.fates["trained"] == 1
    assert balance.closed


def test_a_received_box_without_an_end_keeps_the_ledger_open():
    ledger = Ledger()
    ledger.received(key(4, 2))
    ledger.settle(default_why="-")
    assert ledger.balance().open == ("s iteration 4 box 2: has no end",)


@pytest.mark.parametrize("fate", [Fate.HELD_OUT, Fate.UNTRAINED])
def test_two_ends_keep_the_ledger_open(fate):
    ledger = Ledger()
    ledger.received(key(1))
    ledger.transformed(key(1))
    ledger.trained([key(1)], [])
    ledger.end(key(1), fate)
    assert "several ends" in ledger.balance().open[0]


def test_an_end_that_contradicts_the_way_keeps_the_ledger_open():
    ledger = Ledger()
    ledger.received(key(1))
    ledger.end(key(1), Fate.HELD_OUT)  # never transformed into a sample
    ledger.transformed(key(2))
    ledger.trained([key(2)], [])  # never received
    assert len(ledger.balance().open) == 2


def test_a_sample_that_left_replay_after_it_was_trained_on_stays_trained():
    ledger = Ledger()
    for i in (1, 2):
        ledger.received(key(i))
        ledger.transformed(key(i))
    ledger.trained([key(1)], [])
    ledger.untrained([key(1), key(2)], by="shard-0", why="left replay")
    balance = ledger.balance()
    assert balance.closed
    assert (balance.fates["trained"], balance.fates["untrained"]) == (1, 1)


def test_streams_of_two_epochs_are_counted_apart():
    ledger = Ledger()
    ledger.received(key(5, stream="s#2"))
    ledger.end(key(5, stream="s#2"), Fate.DROPPED, by="x", why="y")
    ledger.produced(key(3, stream="s"))
    ledger.settle(default_why="the producer died")
    assert ledger.balance().fates["lost"] == 1  # not before_join: that is of another stream


def test_a_gap_in_the_stream_and_what_came_after_the_last_reader_are_told_apart():
    ledger = Ledger()
    for i in range(5):
        ledger.produced(key(i))
    for i in (0, 3):
        ledger.received(key(i))
        ledger.end(key(i), Fate.DROPPED, by="x", why="y")
    ledger.settle(default_why="the producer died")
    reasons = ledger.balance().reasons
    assert reasons["lost: stream: its queue dropped it, or no reader was there"] == 2
    assert reasons["lost: stream: the producer died"] == 1
