"""Messages arrive whole, whatever object they are taken from."""

import array
import mmap
import pickle

import numpy as np
import pytest
import suci
from conftest import SOON, wait_until


@pytest.mark.parametrize("size", [0, 1, 32, 33, 256, 2048, 4096, 4097, 70_000, 3_000_000])
def test_every_size_arrives(pair, size):
    zero, one = pair
    data = bytes(range(256)) * (size // 256 + 1)
    one.send(0, data[:size])
    message = zero.recv(SOON)
    assert bytes(message) == data[:size]
    assert bytes(message.payload) == data[:size]
    assert len(message) == message.payload.nbytes == size
    assert message  # an empty message is one, too


def test_what_goes_with_a_message(pair):
    zero, one = pair
    one.send(0, b"x", channel=7, tag=2**64 - 1, kind=200, user_header=b"head")
    message = zero.recv(SOON)
    assert (message.source, message.channel, message.tag, message.kind) == (1, 7, 2**64 - 1, 200)
    assert (message.user_header, message.number, message.session) == (b"head", 0, 0)
    assert not message.is_request
    assert "1 bytes from node 1, channel 7" in repr(message)


@pytest.mark.parametrize(
    "make",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: array.array("B", data),
        lambda data: np.frombuffer(data, np.float32).copy(),
        lambda data: np.frombuffer(data, "M8[s]").copy(),
        lambda data: np.frombuffer(data, [("Oxygen", "f4"), ("b", "i4")]).copy(),
        lambda data: memoryview(data)[8:-8],
        lambda data: pickle.PickleBuffer(data),
    ],
)
@pytest.mark.parametrize("size", [64, 80_000])
def test_every_kind_of_buffer(pair, make, size):
    zero, one = pair
    buffer = make(bytes(i % 251 for i in range(size)))
    one.send(0, buffer)
    # numpy gives no view of some types, and PickleBuffer has no tobytes.
    copy = buffer.tobytes() if isinstance(buffer, np.ndarray) else bytes(memoryview(buffer))
    assert bytes(zero.recv(SOON)) == copy


def test_memory_of_a_file(pair):
    zero, one = pair
    memory = mmap.mmap(-1, 1 << 20)
    memory[:5] = b"start"
    one.send(0, memory)
    assert bytes(zero.recv(SOON).payload[:5]) == b"start"
    one.flush(SOON)
    wait_until(lambda: can(memory.close), "the release")


def can(change):
    try:
        change()
    except BufferError:
        return False
    return True


def test_a_long_buffer_is_held_and_then_released(pair):
    zero, one = pair
    data = bytearray(1 << 20)
    # Nobody takes it: it stays here.
    one.peer(0).suspend()
    with pytest.raises(suci.PeerSuspended):
        one.send(0, data)
    data.append(1)  # what was not accepted is free at once
    one.peer(0).resume()
    one.send(0, data)
    assert len(zero.recv(SOON)) == (1 << 20) + 1
    one.flush(SOON)
    # No call of the package follows: the interpreter releases it by itself.
    wait_until(lambda: can(lambda: data.append(2)), "the release")


def test_a_buffer_cannot_change_its_size_while_held():
    with suci.Node(1) as node:
        node.add_peer(0, "127.0.0.1:1")  # nobody answers there
        data = bytearray(100_000)
        node.send(0, data)
        with pytest.raises(BufferError):
            data.append(1)
        assert node.peer(0).queue_len() == (1, 100_000)
        node.peer(0).reset()
        assert node.next_event(SOON).node == 0
        wait_until(lambda: can(lambda: data.append(1)), "the release")
        node.remove_peer(0)


def test_a_short_buffer_is_copied(pair):
    zero, one = pair
    data = bytearray(b"old")
    one.peer(0).connect()
    one.send(0, data)
    data[:] = b"new, and longer"
    assert bytes(zero.recv(SOON)) == b"old"


def test_the_payload_outlives_everything(pair):
    zero, one = pair
    one.send(0, b"a" * 100_000)
    one.send(0, b"tiny")
    views = [zero.recv(SOON).payload for _ in range(2)]
    zero.close()
    assert views[0].readonly and views[0].format == "B" and views[0].contiguous
    assert (views[0][99_999], bytes(views[1])) == (ord("a"), b"tiny")
    with pytest.raises(TypeError):
        views[0][0] = 1


def test_arrays_arrive_without_a_copy(pair):
    zero, one = pair
    sent = np.random.default_rng(1).random((300, 500))
    one.send(0, sent)
    message = zero.recv(SOON)
    got = np.frombuffer(message.payload).reshape(300, 500)
    assert (got == sent).all() and not got.flags.owndata
    assert got.__array_interface__["data"][0] == np.frombuffer(message.payload, "B").ctypes.data


def test_recv_into_an_array(pair):
    zero, one = pair
    for count in (0, 1, 10, 500_000):
        sent = np.arange(count, dtype=np.int32)
        target = np.full(count + 3, -1, np.int32)
        one.send(0, sent, tag=4)
        message = zero.recv_into(target, SOON)
        assert (target[:count] == sent).all() and (target[count:] == -1).all()
        assert (message.tag, len(message), message.payload.nbytes) == (4, 4 * count, 4 * count)
        assert bytes(message) == sent.tobytes()
    message = None
    view = bytearray(2)
    one.send(0, b"ab")
    message = zero.recv_into(view, SOON)
    message.payload[0] = ord("z")  # a view of the program's own memory
    assert view == b"zb"


def test_a_message_that_does_not_fit_is_kept(pair):
    zero, one = pair
    one.send(0, b"first")
    one.send(0, b"second")
    for _ in range(2):
        with pytest.raises(suci.BufferTooShort, match="5 bytes does not fit the buffer of 4 bytes"):
            zero.recv_into(bytearray(4), SOON)
    assert zero.try_recv(channel=3) is None
    assert bytes(zero.recv(SOON, source=1)) == b"first"
    assert bytes(zero.recv(SOON)) == b"second"
    one.send(0, b"third")
    with pytest.raises(suci.BufferTooShort):
        zero.recv_into(bytearray(4), SOON, source=1)
    assert bytes(zero.next(SOON)) == b"third"


def test_pickle_out_of_band(pair):
    zero, one = pair
    sent = {"a": np.arange(100_000), "b": "text"}
    buffers = []
    head = pickle.dumps(sent, protocol=5, buffer_callback=buffers.append)
    one.send(0, head, tag=len(buffers))
    for buffer in buffers:
        one.send(0, buffer)
    head = zero.recv(SOON)
    parts = [zero.recv(SOON).payload for _ in range(head.tag)]
    got = pickle.loads(head.payload, buffers=parts)
    assert (got["a"] == sent["a"]).all() and got["b"] == "text"
    assert not got["a"].flags.owndata


def test_order_on_a_channel_and_choice_of_channels(pair):
    zero, one = pair
    for number in range(200):
        one.send(0, number.to_bytes(2, "big"), channel=number % 3)
    for channel in (2, 0, 1):
        got = [zero.recv(SOON, source=1, channel=channel) for _ in range(67 if channel < 2 else 66)]
        assert [int.from_bytes(m.payload, "big") for m in got] == list(range(channel, 200, 3))
    assert zero.try_recv() is None


def test_trying_calls(pair):
    zero, one = pair
    assert (zero.try_recv(), zero.try_recv(source=1), zero.events()) == (None, None, [])
    one.try_send(0, b"x", notify=True, token=3)
    wait_until(lambda: (message := zero.try_recv()) and bytes(message) == b"x")
    event = zero.try_next()
    assert isinstance(event, suci.Up)
    wait_until(lambda: suci.Delivered(0, 0, 0, 3) in one.events())


def test_a_full_queue(pair):
    _, _ = pair
    with suci.Node(5, send_queue=100_000) as node:
        node.add_peer(0, "127.0.0.1:1")
        node.send(0, bytes(90_000))
        with pytest.raises(suci.WouldBlock, match="queue to node 0 is full") as caught:
            node.send(0, bytes(90_000), timeout=0.05)
        assert caught.value.node == 0
        with pytest.raises(suci.WouldBlock):
            node.try_send(0, bytes(90_000))
        node.remove_peer(0)


def test_broadcast(pair):
    zero, one = pair
    failed = one.broadcast([0, 1, 77], bytes(10_000), tag=5)
    assert list(failed) == [77] and isinstance(failed[77], suci.UnknownPeer)
    assert failed[77].node == 77
    assert (zero.recv(SOON).tag, one.recv(SOON).tag) == (5, 5)


def test_announced_messages():
    sizes = {"memory": 16 << 20, "max_message": 1 << 20}
    with suci.Node(0, accept="anyone", **sizes) as zero, suci.Node(1) as one:
        one.add_peer(0, zero.address)
        data = np.random.default_rng(2).integers(0, 255, 3 << 20, dtype=np.uint8)
        one.send(0, data, tag=1, notify=True)
        with pytest.raises(suci.NeedsAnswer) as caught:
            zero.recv(SOON)
        assert (caught.value.node, caught.value.length) == (1, 3 << 20)
        events = [zero.next(SOON), zero.next(SOON)]
        incoming = events[1]
        assert isinstance(incoming, suci.Incoming)
        assert (incoming.node, incoming.length, incoming.tag) == (1, 3 << 20, 1)
        target = np.zeros(3 << 20, np.uint8)
        zero.accept(incoming, target)
        message = zero.recv(SOON)
        assert (target == data).all()
        assert np.shares_memory(np.frombuffer(message.payload, np.uint8), target)
        with pytest.raises(suci.MessageError):
            zero.accept(incoming)
        one.send(0, data, tag=2, notify=True, token=9)
        incoming = zero.next(SOON)
        zero.refuse(incoming, 42)
        events = [one.next(SOON) for _ in range(3)]
        assert [type(event) for event in events] == [suci.Up, suci.Delivered, suci.NotDelivered]
        assert (events[2].token, events[2].reason) == (9, 42)
        one.send(0, data[: 2 << 20], tag=3)
        zero.accept(zero.next(SOON))
        assert bytes(zero.recv(SOON)) == data[: 2 << 20].tobytes()
