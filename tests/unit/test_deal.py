"""Boxes to readers, samples to shards, parts to learners."""

from collections import Counter

from workflow import deal
from workflow.types import Box


def boxes(count, hosts=(None,)):
    return [
        Box(index=i, offset=(0, i), extent=(4, 1), host=hosts[i % len(hosts)]) for i in range(count)
    ]


def indices(dealt):
    return {name: [box.index for box in mine] for name, mine in dealt.items()}


def test_boxes_go_round_robin_when_hosts_are_not_known():
    dealt = deal.boxes_to_readers(boxes(5), {"b": None, "a": None})
    assert indices(dealt) == {"a": [0, 2, 4], "b": [1, 3]}


def test_a_box_goes_to_a_reader_on_its_own_host_first():
    dealt = deal.boxes_to_readers(boxes(6, ("n1", "n2", "n3")), {"a": "n1", "b": "n2", "c": "n2"})
    assert indices(dealt) == {"a": [0, 3], "b": [1, 2], "c": [4, 5]}


def test_every_box_is_dealt_exactly_once_whoever_is_there():
    for readers in ({"a": "x"}, {"a": "x", "b": "y"}, {"a": None, "b": "x", "c": "z"}):
        dealt = deal.boxes_to_readers(boxes(17, ("x", "y", None)), readers)
        assert sorted(i for mine in indices(dealt).values() for i in mine) == list(range(17))


def test_every_shard_sees_every_box_and_equally_often():
    seen = Counter(
        (deal.shard_of("khi", it, place, 3), place) for it in range(600) for place in range(4)
    )
    assert len(seen) == 12
    assert min(seen.values()) > 150
    for it in range(50):  # within an iteration as even as can be
        per_shard = Counter(deal.shard_of("khi", it, place, 2) for place in range(4))
        assert set(per_shard.values()) == {2}


def test_a_learner_takes_every_part_in_turn():
    names = ["c", "a", "b"]
    taken = [deal.parts_to_learners(step, names, 3) for step in range(3)]
    assert all(sorted(parts.values()) == [0, 1, 2] for parts in taken)
    assert {parts["b"] for parts in taken} == {0, 1, 2}


def test_with_a_learner_missing_the_parts_take_turns_to_wait():
    left_out = {
        ({0, 1, 2} - set(deal.parts_to_learners(step, ["a", "b"], 3).values())).pop()
        for step in range(3)
    }
    assert left_out == {0, 1, 2}


def test_one_iteration_of_every_few_is_held_out():
    held = [i for i in range(18) if deal.is_held_out(i, 6)]
    assert held == [3, 9, 15]
