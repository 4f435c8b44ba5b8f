"""Wrong arguments give exceptions that name the thing and the remedy."""

import array
import ctypes
import pickle

import numpy as np
import pytest
import suci

released = memoryview(b"abc" * 3000)
released.release()

UNUSABLE = [
    ("text", TypeError, r"data must have the buffer protocol.*not str: encode it"),
    (None, TypeError, "not NoneType"),
    (5, TypeError, "not int: pickle it"),
    ([1, 2], TypeError, "not list"),
    (np.zeros((50, 50))[:, ::2], BufferError, r"data \(ndarray\) gives no memory.*contiguous"),
    (np.asfortranarray(np.zeros((50, 50))), BufferError, "numpy.ascontiguousarray"),
    (memoryview(bytes(9999))[::2], BufferError, "contiguous"),
    (released, BufferError, "released"),
    (np.array([object()]), TypeError, "holds Python objects"),
    (np.array([(1, "x")], [("a", "i4"), ("b", "O")]), TypeError, "holds Python objects"),
]


@pytest.mark.parametrize("data, error, text", UNUSABLE, ids=lambda value: str(type(value).__name__))
def test_data_that_cannot_be_sent(pair, data, error, text):
    _, one = pair
    for send in (one.send, one.try_send, one.call):
        with pytest.raises(error, match=text):
            send(0, data)
    assert one.peer(0).queue_len() == (0, 0)


@pytest.mark.parametrize(
    "buffer, error, text",
    [
        (b"fixed", BufferError, r"buffer \(bytes\) gives no memory.*writable"),
        (memoryview(b"fixed"), BufferError, "bytearray or numpy.empty"),
        (np.zeros((50, 50))[:, ::2], BufferError, "contiguous"),
        ("text", TypeError, "buffer must have the buffer protocol"),
        (released, BufferError, "released"),
        (np.array([object()]), TypeError, "Python objects"),
    ],
    ids=repr,
)
def test_buffers_that_cannot_be_filled(pair, buffer, error, text):
    zero, one = pair
    one.send(0, b"x")
    with pytest.raises(error, match=text):
        zero.recv_into(buffer)
    assert bytes(zero.recv(30)) == b"x"


NUMBERS = [
    ("1", TypeError, "not str"),
    (1.5, TypeError, "not float"),
    (None, TypeError, "not NoneType"),
    (True, TypeError, "not bool"),
    (-1, OverflowError, "not -1"),
    (2**32, OverflowError, "not 4294967296"),
    (10**30, OverflowError, "not 10+"),
]


@pytest.mark.parametrize("value, error, text", NUMBERS, ids=repr)
def test_numbers(pair, value, error, text):
    _, one = pair
    with pytest.raises(error, match=f"dest must be a node ID, an int from 0 to 4294967295, {text}"):
        one.send(value, b"")
    with pytest.raises(error, match=f"channel must be a channel, an int from 0 to 16777215, {text}"):
        one.send(0, b"", channel=value)
    with pytest.raises(error, match="node must be a node ID"):
        one.peer(value)
    if value is not None:
        with pytest.raises(error, match="source must be a node ID"):
            one.recv(source=value)
    if value != 2**32:
        with pytest.raises(error, match="tag must be a number"):
            one.send(0, b"", tag=value)


def test_numbers_of_numpy(pair):
    _, one = pair
    one.send(np.uint32(0), b"", channel=np.int8(3), tag=np.uint64(5))


@pytest.mark.parametrize(
    "timeout, error, text",
    [
        (-1, ValueError, "timeout must be a time of 0 seconds or more, not -1"),
        (float("nan"), ValueError, "not NaN"),
        ("1", TypeError, "timeout must be a time in seconds .* not str; None waits without limit"),
        (True, TypeError, "not bool"),
    ],
)
def test_timeouts(pair, timeout, error, text):
    _, one = pair
    for call in (
        lambda: one.recv(timeout),
        lambda: one.next(timeout),
        lambda: one.close(timeout),
        lambda: one.flush(timeout),
        lambda: one.call(0, b"", timeout=timeout),
        lambda: one.recv_into(bytearray(1), timeout),
    ):
        with pytest.raises(error, match=text):
            call()
    assert not one.closed


def test_short_and_endless_timeouts(pair):
    _, one = pair
    for limit in (0, 0.0, 1e-12):
        with pytest.raises(suci.TimedOut, match="no message came"):
            one.recv(limit)
    one.send(1, b"x")
    assert bytes(one.recv(float("inf"))) == b"x"


def test_messages_out_of_range(pair):
    _, one = pair
    for options, error, text in [
        ({"user_header": bytes(256)}, suci.MessageError, "user header of 256 bytes"),
        ({"user_header": "x"}, TypeError, "user_header must have the buffer protocol"),
        ({"kind": 5}, suci.MessageError, "kind 5 is reserved"),
        ({"kind": 256}, OverflowError, "kind must be a number, an int from 0 to 255"),
        ({"channel": 2**24}, OverflowError, "channel must be"),
        ({"chanel": 1}, TypeError, "no option 'chanel': choose from channel, tag"),
        ({"notify": 3}, TypeError, "notify must be True or False, not int"),
        ({"deadline": -1}, ValueError, "deadline must be a time"),
        ({"token": 2**64}, OverflowError, "token must be a number"),
    ]:
        with pytest.raises(error, match=text):
            one.send(0, b"", **options)
    with pytest.raises(TypeError):
        one.send(0)


@pytest.mark.parametrize(
    "settings, error, text",
    [
        ({}, suci.ConfigurationError, "the node ID is missing"),
        ({"id": "x"}, TypeError, "id must be a node ID"),
        ({"id": 1, "port": 5}, TypeError, "Node has no setting 'port'"),
        ({"id": 1, "listen": "nowhere"}, ValueError, "listen 'nowhere' is no address: write"),
        ({"id": 1, "listen": ("localhost", 1)}, ValueError, "numeric host"),
        ({"id": 1, "listen": 7000}, TypeError, "listen must be an address"),
        ({"id": 1, "accept": "all"}, ValueError, 'accept must be one of "book", "anyone"'),
        ({"id": 1, "accept": 1}, TypeError, "accept must be a str"),
        ({"id": 1, "memory": 1}, suci.ConfigurationError, "memory"),
        ({"id": 1, "memory": "1M"}, TypeError, "memory must be a number"),
        ({"id": 1, "book": 5}, TypeError, "book must be the path of a file, or a dict"),
        ({"id": 1, "book": "/nowhere/book"}, suci.ConfigurationError, "/nowhere/book"),
        ({"id": 1, "book": {0: "127.0.0.1:1"}}, suci.ConfigurationError, "not in its"),
        ({"id": 1, "book": {"0": "127.0.0.1:1"}}, TypeError, "a key of book"),
        ({"id": 1, "book": {0: "x"}}, ValueError, "an address of book 'x'"),
        ({"id": 1, "listen": "0.0.0.0:0"}, suci.ConfigurationError, "without a key"),
        ({"id": 1, "key_file": "/nowhere"}, suci.ConfigurationError, "/nowhere"),
        ({"id": 1, "node_key_files": "x"}, TypeError, "must be a pair of paths"),
        ({"id": 1, "threads": 0}, suci.ConfigurationError, "0 I/O threads"),
        ({"id": 1, "silence_timeout": 0}, suci.ConfigurationError, "silence_timeout"),
        ({"id": 1, "wait": "often"}, ValueError, "wait must be one of"),
        ({"id": 1, "backend": "tcp"}, ValueError, "backend: none of udp"),
        ({"id": 1, "faults": "x"}, ValueError, "faults"),
        ({"id": 1, "statistics": 1}, TypeError, "statistics must be True or False"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_settings(settings, error, text):
    with pytest.raises(error, match=text):
        suci.Node(**settings)


def test_all_settings_are_taken(tmp_path):
    book = tmp_path / "book"
    book.write_text("0 127.0.0.1:7999\n")
    settings = dict(
        listen=("127.0.0.1", 0), book=book, accept="anyone", allow_insecure_network=False,
        memory=64 << 20, max_message=1 << 20, send_queue=1 << 20, rts_threshold=100_000,
        max_peers=100, silence_timeout=5, give_up_after=50.0, payload_checksum=False,
        mode="response", keep_alive=True, controller="wan", rate_cap=10**9, wait="sleep",
        statistics=False, shared_memory=False, forward=True, ignore_supervision=True,
        recv_buffer=1 << 20, send_buffer=1 << 20, backend="udp", threads=2, metrics=None,
        key_file=None, node_key_files=None, faults=None,
    )  # fmt: skip
    with suci.Node(3, **settings) as node:
        assert [peer.node for peer in node.peers()] == [0]
        assert node.peer(0).options().silence_timeout == 5.0


def test_sealed_nodes_need_the_same_key(tmp_path):
    with pytest.raises(suci.ConfigurationError, match="key"):
        suci.Node(1, key_file=tmp_path / "none")


def test_peers_out_of_range(pair):
    _, one = pair
    peer = one.peer(0)
    for options, error, text in [
        ({"speed": 1}, TypeError, "no option 'speed': choose from mode"),
        ({"mode": "fast"}, ValueError, "mode must be one of"),
        ({"priority": 3}, TypeError, "priority must be a pair"),
        ({"priority": (9, 1)}, ValueError, "9"),
        ({"controller": "none"}, ValueError, "controller must be one of"),
        ({"silence_timeout": 0.001}, suci.ConfigurationError, "silence_timeout"),
    ]:
        with pytest.raises(error, match=text):
            peer.configure(**options)
    assert peer.options().mode == "adaptive"
    with pytest.raises(suci.UnknownPeer):
        one.peer(77).connect()
    with pytest.raises(suci.UnknownPeer):
        one.remove_peer(77)
    with pytest.raises(TypeError, match="event must be an Incoming"):
        one.accept(b"x")
    with pytest.raises(TypeError):
        one.reply(b"no message", b"x")
    with pytest.raises(ValueError, match="address 'x' is no address"):
        one.add_peer(5, "x")


def test_what_cannot_be_done_with_objects(pair):
    _, one = pair
    with pytest.raises(TypeError, match="a Node cannot be pickled"):
        pickle.dumps(one)
    with pytest.raises(TypeError):
        suci.Message()
    with pytest.raises(TypeError):
        suci.Peer()
    one.send(1, b"x" * 100)
    payload = one.recv(30).payload
    empty = type(payload.obj)()  # an object that holds nothing
    with pytest.raises(BufferError, match="this payload is empty"):
        memoryview(empty)


def test_exporters_of_other_kinds(pair):
    zero, one = pair
    one.send(0, (ctypes.c_int * 2000)(*range(2000)))
    assert array.array("i", bytes(zero.recv(30))).tolist() == list(range(2000))
    with pytest.raises(TypeError, match="holds Python objects"):
        one.send(0, (ctypes.py_object * 2)())


def test_errors_and_events_can_be_pickled():
    error = suci.PeerEnded("text")
    error.node, error.reason = 4, suci.EndReason.CLOSED
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.node, copy.reason) == (
        suci.PeerEnded, "text", 4, suci.EndReason.CLOSED,
    )  # fmt: skip
    event = suci.Ended(1, 2, 3, suci.EndReason.RESET, (), 0, "")
    assert pickle.loads(pickle.dumps(event)) == event
