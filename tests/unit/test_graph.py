"""Nodes in one thread, and the inbox that drives them."""

import pytest

from workflow.errors import BillowError, NodeLost
from workflow.graph import InlineHost, Joined, Many, arrange, flatten
from workflow.inbox import Inbox, Restarts, fatal


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, *amounts):
        self.value += sum(amounts)
        return self.value

    def add_all(self, amounts, more):
        return self.add(*amounts, more)

    def split(self):
        return "receipt", [1, 2], [3]

    def fail(self):
        raise NodeLost("on purpose")


@pytest.fixture
def host():
    return InlineHost()


def start(host, value=0):
    node, call = host.start("counter", "test", Counter, {"start": value})
    assert host.result(call)["host"]
    return node


def test_a_call_gives_its_receipt_and_leaves_payloads_for_later_calls(host):
    node = start(host)
    call = host.call(node, "split", payloads=2)
    assert host.result(call) == "receipt"
    listed = host.call(node, "add_all", Joined(list(call.payloads)), 10)
    assert host.result(listed) == 16


def test_list_arguments_survive_the_journey():
    arguments = (1, Many([2, 3]), Joined([[4], [], [5, 6]]), Many([]), "x")
    assert arrange(*flatten(arguments)) == [1, [2, 3], [4, 5, 6], [], "x"]


def test_a_failed_call_fails_the_calls_that_use_its_payload(host):
    node = start(host)
    failed = host.call(node, "fail", payloads=1)
    after = host.call(node, "add", failed.payloads[0])
    for call in (failed, after):
        with pytest.raises(NodeLost, match="on purpose"):
            host.result(call)


def test_a_node_taken_down_is_lost_and_another_is_not(host):
    gone, there = start(host), start(host, 5)
    host.kill(gone)
    with pytest.raises(NodeLost, match="taken down"):
        host.result(host.call(gone, "add", 1))
    assert host.result(host.call(there, "add", 1)) == 6


def test_the_inbox_gives_each_answer_to_who_expects_it(host):
    inbox, node, got, lost = Inbox(host), start(host), [], []
    inbox.expect(host.call(node, "add", 1), got.append, fatal)
    inbox.expect(host.call(node, "fail"), got.append, lost.append)
    inbox.turn(0.0)
    assert got == [1]
    assert isinstance(lost[0], NodeLost)
    assert len(inbox) == 0


def test_a_forgotten_call_is_dealt_to_nobody(host):
    inbox, node, got = Inbox(host), start(host), []
    call = inbox.expect(host.call(node, "add", 1), got.append, fatal)
    inbox.forget(call)
    inbox.turn(0.0)
    assert got == []


def test_an_answer_may_make_a_later_one_of_no_interest(host):
    inbox, node, got = Inbox(host), start(host), []
    second = host.call(node, "add", 2)
    inbox.expect(host.call(node, "add", 1), lambda _: inbox.forget(second), fatal)
    inbox.expect(second, got.append, fatal)
    inbox.turn(0.0)
    assert got == []


def test_an_error_nobody_handles_ends_the_run(host):
    inbox, node = Inbox(host), start(host)
    inbox.expect(host.call(node, "fail"), print, fatal)
    with pytest.raises(BillowError, match="on purpose"):
        inbox.turn(0.0)


def test_restarts_are_counted_by_node_and_limited():
    restarts = Restarts(limit=2)
    restarts.note("a", "x")
    restarts.note("b", "x")
    assert restarts.by_node == {"a": 1, "b": 1}
    with pytest.raises(NodeLost, match="after 2 restarts"):
        restarts.note("a", "killed")
