"""What crosses between hosts, without a network: it is what the solver reads, and it is checked."""

import numpy as np
import pytest

from producers import hosts, link, pic
from producers.course import fill
from producers.khi import KelvinHelmholtz
from producers.layout import DOWN, GUARD, UP
from producers.setup import Start
from workflow.errors import DataError
from workflow.wire import Kind


class NoWire:
    """An edge's wire where nothing is sent."""

    peer = "host 1"


def plasma(ranks=4):
    return KelvinHelmholtz(
        grid=(16, 24), ranks=ranks, particles_per_cell=4, start=Start.RANDOM,
        temperature_ev=40_000.0, last_step=1, period=1,
    )  # fmt: skip


def started(setup):
    slabs = pic.allocate(setup.plasma, particles=16 * 24 * 4, zeros=pic.private_zeros)
    for slab in slabs:
        fill(setup, 3, slab)
    return slabs


def empty(setup):
    return pic.allocate(setup.plasma, particles=16 * 24 * 4, zeros=pic.private_zeros)


@pytest.fixture
def halves():
    """Two hosts' views of the same four slabs: [(all slabs, the own ones), ...], one step begun."""
    setup = plasma()
    one, other = started(setup), empty(setup)
    there = started(setup)
    views = ((*one[:2], *other[2:]), range(2)), ((*other[:2], *there[2:]), range(2, 4))
    for slabs, own in views:
        for index in own:
            pic.advance(slabs[index])
    return views


def edges(view):
    slabs, own = view
    found = link.edges(slabs, own, below=NoWire(), above=NoWire())
    assert sorted(found) == [own.start, own.stop - 1]
    (down,), (up,) = found[own.start], found[own.stop - 1]
    return down, up


def cross(views, kind):
    (down_a, up_a), (down_b, up_b) = map(edges, views)
    for one, other in ((up_a, down_b), (up_b, down_a)):
        other.unpack(kind, bytearray(one.pack(kind)))
        one.unpack(kind, bytearray(other.pack(kind)))


def test_two_hosts_make_the_very_step_that_one_makes(halves):
    whole = started(plasma())
    pic.step(whole)
    cross(halves, Kind.MOVERS)
    for slabs, own in halves:
        assert sum(int(p.gone.sum()) for i in own for p in slabs[i].particles) > 100
        for index in own:
            pic.meet(slabs[index], slabs)
    cross(halves, Kind.FIELD)
    for slabs, own in halves:
        for index in own:
            pic.finish(slabs[index], slabs)
            np.testing.assert_array_equal(slabs[index].fields, whole[index].fields)
            for species in range(2):
                for a, b in zip(
                    pic.read(slabs[index], species), pic.read(whole[index], species), strict=True
                ):
                    np.testing.assert_array_equal(a, b)


def test_a_message_is_as_small_as_what_is_read(halves):
    _, up = edges(halves[0])
    columns = 16 + 2 * GUARD
    movers = sum(int(p.gone[UP]) for p in up.own.particles)
    assert movers > 3
    rows = 3 * GUARD * columns * 4
    assert len(up.pack(Kind.FIELD)) == rows
    assert len(up.pack(Kind.MOVERS)) == rows + 2 * 8 + movers * (4 + 4 * up.own.plasma.width)
    assert len(up.pack(Kind.MOVERS)) <= up.limit()


def test_a_message_that_is_too_long_or_too_short_is_refused(halves):
    down, up = edges(halves[1])[0], edges(halves[0])[1]
    for kind in (Kind.MOVERS, Kind.FIELD):
        payload = bytearray(up.pack(kind))
        for wrong in (payload[:-4], payload + b"four", payload[:4], b""):
            with pytest.raises(DataError, match=r"wanted .* bytes"):
                down.unpack(kind, bytearray(wrong))


@pytest.mark.parametrize("n", [-1, 10**9])
def test_more_movers_than_there_is_room_for_are_refused(halves, n):
    down, up = edges(halves[1])[0], edges(halves[0])[1]
    payload = bytearray(up.pack(Kind.MOVERS))
    payload[:8] = np.int64(n).tobytes()
    with pytest.raises(DataError, match=f"host 1: wanted at most .* movers, got {n}"):
        down.unpack(Kind.MOVERS, payload)


@pytest.mark.parametrize("cell", [-1, 16 * 6])
def test_a_mover_to_no_cell_of_ours_is_refused(halves, cell):
    down, up = edges(halves[1])[0], edges(halves[0])[1]
    up.own.particles[0].targets[UP, 0] = cell
    with pytest.raises(DataError, match="host 1: wanted movers to cells 0 to 95"):
        down.unpack(Kind.MOVERS, bytearray(up.pack(Kind.MOVERS)))


def test_one_slab_has_both_edges_of_its_host():
    slabs = empty(plasma(ranks=2))
    (both,) = link.edges(slabs, range(1, 2), below=NoWire(), above=NoWire()).values()
    assert [(edge.own.index, edge.other.index, edge.way) for edge in both] == [
        (1, 0, DOWN),
        (1, 0, UP),
    ]


@pytest.mark.parametrize(("count", "ranks"), [(1, 1), (2, 4), (3, 4), (5, 7), (7, 7)])
def test_every_rank_has_one_host_and_no_host_is_idle(count, ranks):
    shares = [hosts.share(host, count, ranks) for host in range(count)]
    assert [rank for share in shares for rank in share] == list(range(ranks))
    sizes = [len(share) for share in shares]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
