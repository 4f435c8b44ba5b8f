"""Requests and replies, peers, events and the end of nodes."""

import sys
import threading

import pytest
import suci
from conftest import SOON, wait_until


def serve(node, count):
    def run():
        for _ in range(count):
            request = node.recv(SOON)
            node.reply(request, bytes(request)[::-1], user_header=b"r")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_call_and_reply(pair):
    zero, one = pair
    thread = serve(zero, 2)
    reply = one.call(0, b"abc", timeout=SOON)
    assert (bytes(reply), reply.user_header, reply.source) == (b"cba", b"r", 0)
    assert bytes(one.call(0, bytes(99_999) + b"x", channel=3))[:2] == b"x\0"
    thread.join()


def test_several_threads_call_at_once(pair):
    zero, one = pair
    thread = serve(zero, 400)
    wrong = []

    def call(index):
        for step in range(50):
            data = f"{index} {step}".encode()
            if bytes(one.call(0, data, timeout=SOON)) != data[::-1]:
                wrong.append(data)

    threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
    for each in threads:
        each.start()
    for each in [*threads, thread]:
        each.join()
    assert wrong == []


def test_calls_that_fail(pair):
    zero, one = pair
    with pytest.raises(suci.TimedOut, match="call was not done within 50ms"):
        one.call(0, b"nobody answers", timeout=0.05)
    with pytest.raises(suci.UnknownPeer, match="node 9 is unknown"):
        one.call(9, b"")
    with pytest.raises(suci.MessageError, match="the library sets the tag of a request"):
        one.call(0, b"", tag=1)
    zero.recv(SOON)
    one.send(0, b"no request")
    message = zero.recv(SOON)
    with pytest.raises(suci.NotARequest, match="is no request"):
        zero.reply(message, b"")
    threading.Timer(0.1, zero.close).start()
    with pytest.raises(suci.PeerEnded, match="session with node 0 ended: it closed") as caught:
        one.call(0, b"")
    assert (caught.value.node, caught.value.reason) == (0, suci.EndReason.CLOSED)
    assert isinstance(caught.value, ConnectionError)


def test_recv_of_a_peer_that_ends(pair):
    zero, one = pair
    one.send(0, b"last words")
    one.close(SOON)
    assert bytes(zero.recv(SOON, source=1)) == b"last words"
    with pytest.raises(suci.PeerEnded) as caught:
        zero.recv(SOON, source=1)
    assert caught.value.reason == "closed"


def test_events_can_be_matched(pair):
    zero, one = pair
    one.send(0, b"x", notify=True, token=5)
    seen = [one.next(SOON), one.next(SOON)]
    assert seen == [suci.Up(node=0, session=0), suci.Delivered(0, 0, 0, 5)]
    one.close(SOON)
    seen = [zero.next(SOON) for _ in range(3)]
    assert [type(item) for item in seen] == [suci.Up, suci.Message, suci.Ended]
    ended = seen[2]
    assert (ended.node, ended.reason, ended.outcomes, ended.missing) == (1, "closed", (), 0)
    assert ended.reason is suci.EndReason.CLOSED and "it closed" in ended.text
    if sys.version_info >= (3, 10):
        assert suci.Ended.__match_args__[:2] == ("node", "session")
    with pytest.raises(AttributeError):
        ended.node = 3


def test_outcomes_of_what_was_under_way():
    with suci.Node(1, silence_timeout=0.2) as node:
        node.add_peer(0, "127.0.0.1:1")
        node.send(0, b"x", token=7, notify=True)
        lost = node.next_event(SOON)
        assert isinstance(lost, suci.Lost) and lost.node == 0
        assert lost.cause in (suci.LostCause.NO_SOCKET, suci.LostCause.PROCESS_DIED)
        node.peer(0).reset()
        ended = node.next_event(SOON)
        assert ended.reason is suci.EndReason.RESET
        expected = suci.MessageOutcome(0, 0, 7, True, suci.Outcome.NOT_DELIVERED)
        assert ended.outcomes == (expected,)


def test_peers_their_options_and_statistics(pair):
    zero, one = pair
    peer = one.peer(0)
    assert peer.id == 0
    peer.configure(
        mode="throughput", priority=(6, 20), controller="cubic", rate_cap=10**9,
        silence_timeout=2, give_up_after=20.5, keep_alive=True, manual_retransmission=False,
    )  # fmt: skip
    expected = suci.PeerOptions("throughput", (6, 20), "cubic", 10**9, 2.0, 20.5, True, False)
    assert peer.options() == expected
    peer.configure(rate_cap=None, controller=65536)
    assert (peer.options().rate_cap, peer.options().controller) == (None, 65536)
    peer.configure(controller="auto")
    peer.set_channel_priority(3, 7)
    peer.connect()
    one.send(0, b"x", channel=3)
    assert zero.recv(SOON).channel == 3
    one.flush(SOON)
    stats = peer.stats()
    assert stats.link is suci.Link.UP and stats.address == zero.address
    assert stats.traffic["messages_sent"] == 1 and 0 < stats.rtt < SOON
    assert peer.controller() and peer.queue_len() == (0, 0) and peer.delivered(3) == 1
    assert peer.remote_window() > 0
    [info] = one.peers()
    assert info == suci.PeerInfo(0, zero.address, suci.Link.UP, True, False)
    assert one.peer(44).stats() is None
    assert peer.finish_channel(3)
    one.send(0, b"", channel=3, notify=True, token=8)
    events = iter(lambda: one.next_event(SOON), None)
    assert suci.NotDelivered(0, 3, None, 8, 0) in events


def test_suspend_resume_and_cancel(pair):
    zero, one = pair
    one.send(0, b"x")
    zero.recv(SOON)
    peer = zero.peer(1)
    peer.suspend()
    with pytest.raises(suci.PeerSuspended, match="by this side"):
        zero.send(1, b"")
    assert peer.stats().suspended_here
    peer.resume()
    zero.send(1, b"on")
    assert bytes(one.recv(SOON)) == b"on"
    with suci.Node(4) as node:
        node.add_peer(0, "127.0.0.1:1")
        node.send(0, b"frame", token=7)
        assert (node.peer(0).cancel(7), node.peer(0).cancel(7)) == (1, 0)


def test_counters(pair):
    zero, one = pair
    one.send(0, b"x")
    zero.recv(SOON)
    one.flush(SOON)
    assert one.counters()["messages_sent"] == zero.counters()["messages_received"] == 1
    assert one.socket_counters()["datagrams_sent"] > 0
    assert zero.peer_limit > 0
    assert zero.warning is None or "rmem_max" in zero.warning


def test_the_end_of_a_node(pair):
    zero, one = pair
    one.send(0, b"x")
    one.close(SOON)
    assert one.closed
    one.close()  # a second one does nothing
    with pytest.raises(suci.Closed, match="the node is closed: open a new one"):
        one.send(0, b"x")
    for call in (one.recv, one.next, one.next_event, one.try_recv, one.flush, one.peers,
                 one.counters, one.fileno, lambda: one.call(0, b""), one.peer(0).stats):  # fmt: skip
        with pytest.raises(suci.Closed):
            for _ in range(3):  # Up may be there still
                call()
    assert "closed" in repr(one)
    assert bytes(zero.recv(SOON)) == b"x"


def test_a_close_that_does_not_deliver():
    node = suci.Node(1)
    node.add_peer(0, "127.0.0.1:1")
    node.send(0, b"x")
    with pytest.raises(suci.NotFlushed, match="not everything was delivered") as caught:
        node.flush(0.05)
    assert caught.value.peers == {0: 1}
    with pytest.raises(suci.NotFlushed):
        node.close(0.05)
    assert node.closed


def test_context_manager():
    with pytest.raises(KeyError):
        with suci.Node(1) as node:
            node.add_peer(0, "127.0.0.1:1")
            node.send(0, b"never arrives")
            raise KeyError("the program's own")
    assert node.closed


def test_close_ends_the_waits_of_other_threads(pair):
    zero, _ = pair
    ended = []

    def wait(call):
        with pytest.raises(suci.Closed):
            call()
        ended.append(call)

    threads = [threading.Thread(target=wait, args=(call,)) for call in (zero.recv, zero.next)]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(thread.is_alive() for thread in threads))
    zero.close(SOON)
    for thread in threads:
        thread.join(SOON)
    assert len(ended) == 2


def test_descriptor(pair):
    import select

    zero, one = pair
    while zero.try_next() is not None:
        pass
    poller = select.poll()
    poller.register(zero.fileno(), select.POLLIN)
    assert poller.poll(0) == []
    one.send(0, b"x")
    assert poller.poll(SOON * 1000) != []
    items = []
    while len(items) < 2 or zero.try_next() is not None:
        item = zero.try_next()
        if item is not None:
            items.append(item)
    assert poller.poll(0) == []
