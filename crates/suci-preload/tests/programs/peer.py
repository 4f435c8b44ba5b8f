"""The ends of connections in the tests of suci-preload: peer.py ROLE ARGUMENT..."""

import errno
import hashlib
import os
import random
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PART = 1 << 16


def say(*words):
    print(*words, flush=True)


def listen(host, backlog=64):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_any = host == "::"
    listener = socket.create_server(
        (host, 0), family=family, backlog=backlog, dualstack_ipv6=is_any
    )
    say("port", listener.getsockname()[1])
    return listener


def echo_on(connection):
    while data := connection.recv(PART):
        connection.sendall(data)


def read_all(connection):
    data = bytearray()
    while part := connection.recv(PART):
        data += part
    return bytes(data)


def wait_until(check):
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline, "it did not happen within 30 s"
        time.sleep(0.01)


# ---- servers

def serve_one_by_one(host, count):
    """Returns what `count` clients send, and says who they are."""
    listener = listen(host)
    for _ in range(int(count)):
        connection, peer = listener.accept()
        assert connection.getpeername() == peer
        say("client", peer[0], "at", connection.getsockname()[0])
        with connection:
            echo_on(connection)


def serve_without_environment(host, count):
    """As nginx does, which clears its environment before it listens."""
    os.environ.clear()
    serve_one_by_one(host, count)


def serve_events(host, count):
    """The same for clients at once, with a selector."""
    selector = selectors.DefaultSelector()
    listener = listen(host)
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ, None)
    left = int(count)
    while left:
        for key, _ in selector.select():
            if key.data is None:
                connection, _ = listener.accept()
                connection.setblocking(False)
                selector.register(connection, selectors.EVENT_READ, bytearray())
                continue
            connection, waiting = key.fileobj, key.data
            # Reads only when all is written.
            if not waiting:
                data = connection.recv(PART)
                if not data:
                    selector.unregister(connection)
                    connection.close()
                    left -= 1
                    continue
                waiting += data
            try:
                del waiting[: connection.send(waiting)]
            except BlockingIOError:
                pass
            wanted = selectors.EVENT_WRITE if waiting else selectors.EVENT_READ
            selector.modify(connection, wanted, waiting)


def serve_in_threads(host, count):
    """The same for clients at once, also those that leave without their answers."""

    def serve(connection):
        try:
            with connection:
                echo_on(connection)
        except ConnectionError:
            pass

    listener = listen(host)
    threads = []
    for _ in range(int(count)):
        connection, _ = listener.accept()
        threads.append(threading.Thread(target=serve, args=[connection]))
        threads[-1].start()
    for thread in threads:
        thread.join()


def serve_in_children(host, count):
    """Forks for each client."""
    listener = listen(host)
    for _ in range(int(count)):
        connection, peer = listener.accept()
        child = os.fork()
        if child == 0:
            listener.close()
            assert connection.getpeername() == peer
            echo_on(connection)
            connection.close()
            os._exit(0)
        connection.close()
    for _ in range(int(count)):
        assert os.wait()[1] == 0


def serve_by_workers(host, count):
    """Accepts in children that were forked before."""
    listener = listen(host)
    # A client must not come before the node is told of the listener; it is, by now.
    for _ in range(int(count)):
        if os.fork() == 0:
            # The node is not here: the parent is asked.
            connection, peer = listener.accept()
            assert connection.getpeername() == peer
            say("client", peer[0], "at", connection.getsockname()[0])
            echo_on(connection)
            connection.close()
            os._exit(0)
    for _ in range(int(count)):
        assert os.wait()[1] == 0


def serve_by_programs(host, count):
    """Starts a program for each client, as sshd does, of which it closes all that it has."""
    listener = listen(host)
    for _ in range(int(count)):
        with listener.accept()[0] as connection:
            command = [sys.executable, __file__, "serve_on_descriptor", str(connection.fileno())]
            subprocess.run(command, pass_fds=[connection.fileno()], check=True)


def serve_on_descriptor(descriptor):
    with socket.socket(fileno=int(descriptor)) as connection:
        say("client", connection.getpeername()[0], "at", connection.getsockname()[0])
        echo_on(connection)


def serve_after_the_client(host, go):
    """Accepts a client that has gone."""
    listener = listen(host)
    wait_until(lambda: os.path.exists(go))
    with listener.accept()[0] as connection:
        say("client", connection.getpeername()[0], "at", connection.getsockname()[0])
        assert read_all(connection) == b"gone"


def serve_in_background(host, forks, count, end):
    """Goes into the background as a daemon does: after it listened, its process ends in one of the
    ways that there are. The child that is left serves."""
    listener = listen(host)
    for _ in range(int(forks)):
        if os.fork() > 0:
            if end == "exit":
                sys.exit(0)
            elif end == "_exit":
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        os.setsid()
        signal.alarm(60)
    # A worker is not the one to take over.
    worker = os.fork()
    if worker == 0:
        signal.pause()
    try:
        for _ in range(int(count)):
            with listener.accept()[0] as connection:
                say("client", connection.getpeername()[0], "at", connection.getsockname()[0])
                connection.sendall(str(os.getpid()).encode())
                echo_on(connection)
    finally:
        os.kill(worker, signal.SIGKILL)


def serve_by_heirs(host, count):
    """The process with the node is killed, and one of its workers goes on with the listener."""
    listener = listen(host)
    if os.fork() > 0:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    for _ in range(int(count) - 1):
        if os.fork() == 0:
            break
    signal.alarm(60)
    # All of them accept; each serves one client, and ends.
    with listener.accept()[0] as connection:
        say("client", connection.getpeername()[0], "at", connection.getsockname()[0])
        connection.sendall(str(os.getpid()).encode())
        echo_on(connection)


def serve_sink(host):
    connection, _ = listen(host).accept()
    data = read_all(connection)
    say(len(data), hashlib.sha256(data).hexdigest())


def serve_late(host, backlog, go):
    """Accepts no client before the file `go` says how many there are."""
    listener = listen(host, int(backlog))
    wait_until(lambda: os.path.exists(go))
    with open(go) as file:
        count = int(file.read())
    for _ in range(count):
        with listener.accept()[0] as connection:
            connection.sendall(b"late: ")
            echo_on(connection)


def serve_again(host, count):
    """Closes its listener after each client, and opens the port again."""
    listener = listen(host)
    port = listener.getsockname()[1]
    for number in range(int(count)):
        with listener.accept()[0] as connection:
            echo_on(connection)
        listener.close()
        # The next client comes before, while or after the port is opened.
        time.sleep(number % 50 / 100_000)
        listener = socket.create_server((host, port), backlog=64)


def serve_and_hold(host):
    """Says something, and neither reads nor closes until it is told to."""
    connection, _ = listen(host).accept()
    connection.sendall(b"held")
    sys.stdin.read()


def serve_and_close_listener(host):
    listener = listen(host)
    connection, _ = listener.accept()
    listener.close()
    echo_on(connection)
    # The connection that finds out, and the one that is refused.
    connection.close()
    sys.stdin.read()


def serve_and_die(host):
    connection, _ = listen(host).accept()
    connection.sendall(b"last words")
    connection.recv(1)
    os.kill(os.getpid(), 9)


def listen_in_both_families(host):
    """The socket of IPv6 has no address that nodes reach, and the other one serves them."""
    listener = listen(host)
    port = listener.getsockname()[1]
    socket.create_server(("::", port), family=socket.AF_INET6)


# ---- clients

def call_echo(host, port, own, is_bound=""):
    """Addresses, an exchange, and the end of one direction before the other."""
    source = (own, 0) if is_bound else None
    connection = socket.create_connection((host, int(port)), source_address=source)
    assert connection.getpeername()[:2] == (host, int(port)), connection.getpeername()
    assert connection.getsockname()[0] == own, connection.getsockname()
    data = os.urandom(1 << 20)
    sent = 0
    back = bytearray()
    connection.setblocking(False)
    while len(back) < len(data):
        wanted = [connection] if sent < len(data) else []
        readable, writable, _ = select.select([connection], wanted, [], 30)
        assert readable or writable, "nothing moves"
        if writable:
            sent += connection.send(data[sent : sent + PART])
        if readable:
            back += connection.recv(PART)
    assert back == data
    connection.setblocking(True)
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""


def bytes_in_kernel(connection):
    """The bytes that the kernel's socket carried, out and in (struct tcp_info)."""
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return struct.unpack_from("=QQ", info, 120)


def call_past_the_kernel(host, port):
    """Round trips by calls that block, and by those that wait for events."""
    connection = socket.create_connection((host, int(port)))
    rounds, question = 300, os.urandom(100)

    def exchange(wait):
        for _ in range(rounds):
            connection.sendall(question)
            back = b""
            while len(back) < len(question):
                wait()
                back += connection.recv(PART)
            assert back == question

    poll, epoll = select.poll(), select.epoll()
    poll.register(connection, select.POLLIN)
    epoll.register(connection, select.EPOLLIN)
    ways = {
        "recv": lambda: None,
        "select": lambda: select.select([connection], [], [], 30),
        "poll": lambda: poll.poll(30_000),
        "epoll": lambda: epoll.poll(30),
    }
    for name, wait in ways.items():
        before = bytes_in_kernel(connection)
        exchange(wait)
        carried = [now - then for now, then in zip(bytes_in_kernel(connection), before)]
        # Bytes that the program leaves for 2 ms go through the kernel.
        assert max(carried) < rounds * len(question) // 2, (name, carried)
    connection.close()


def call_by_all_ways(host, port):
    """Ways past the kernel and through it, in turns: the bytes keep their order."""
    connection = socket.create_connection((host, int(port)))
    copy = os.dup(connection.fileno())
    poll, level, edge = select.poll(), select.epoll(), select.epoll()
    poll.register(connection, select.POLLIN)
    level.register(connection, select.EPOLLIN)
    edge.register(connection, select.EPOLLIN | select.EPOLLET)

    def send_file(data):
        # A new file each time: the kernel sends the pages of the file itself.
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            return os.sendfile(connection.fileno(), file.fileno(), 0, len(data))

    def wait_for_edge():
        # An edge may have been told already.
        edge.poll(0.01)

    half = PART // 2
    writes = [
        connection.send,
        lambda data: os.write(copy, data),
        lambda data: connection.sendmsg([data[:half], data[half:]]),
        send_file,
        lambda data: os.writev(connection.fileno(), [data[:7], data[7:]]),
    ]
    waits = [
        lambda: select.select([connection], [], [], 30),
        lambda: poll.poll(30_000),
        lambda: level.poll(30),
        wait_for_edge,
        lambda: None,
    ]

    def peek():
        seen = connection.recv(50, socket.MSG_PEEK)
        data = connection.recv(50)
        assert data[: len(seen)] == seen[: len(data)]
        return data

    def read_vector():
        one, two = bytearray(11), bytearray(3_000)
        got = os.readv(connection.fileno(), [one, two])
        return bytes(one + two)[:got]

    reads = [
        lambda: connection.recv(1),
        lambda: os.read(copy, 100),
        lambda: connection.recv(PART),
        read_vector,
        peek,
        lambda: connection.recvmsg(1_000)[0],
        lambda: connection.recv(200, socket.MSG_WAITALL),
    ]
    drawn = random.Random(7)
    for _ in range(300):
        data = drawn.randbytes(drawn.choice([1_000, 5_000, PART]))
        sent = 0
        while sent < len(data):
            part = data[sent : sent + drawn.randrange(1, PART)]
            sent += drawn.choice(writes)(part)
        back = b""
        while len(back) < len(data):
            drawn.choice(waits)()
            left = len(data) - len(back)
            # The last reads ask for no more than there is.
            back += drawn.choice(reads if left > PART else reads[:6])()
        assert back == data
    os.close(copy)
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""


def receive(connection, length):
    back = b""
    while len(back) < length:
        part = connection.recv(length - len(back))
        assert part, "the connection ended"
        back += part
    return back


def call_corked(host, port):
    """The kernel holds bytes back, which later ones do not overtake."""
    connection = socket.create_connection((host, int(port)))
    # Calls for the copy go to the kernel.
    copy = connection.dup()
    cork = lambda on: connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)
    for _ in range(30):
        first, second = os.urandom(200), os.urandom(300)
        with tempfile.TemporaryFile() as file:
            file.write(first)
            file.flush()
            cork(1)
            assert os.sendfile(connection.fileno(), file.fileno(), 0, 200) == 200
        connection.sendall(second)
        cork(0)
        assert copy.send(first, socket.MSG_MORE) == 200
        connection.sendall(second)
        assert receive(connection, 1_000) == (first + second) * 2
    connection.close()
    copy.close()


def call_and_close_registered(host, port):
    """An epoll tells nothing of a descriptor that the program closed. It does of a copy."""
    epoll = select.epoll()
    other = socket.create_connection((host, int(port)))
    epoll.register(other, select.EPOLLIN)
    for number in range(40):
        connection = socket.create_connection((host, int(port)))
        fd = connection.fileno()
        epoll.register(connection, select.EPOLLIN)
        connection.sendall(b"x")
        copy = connection.dup() if number % 2 else None
        connection.close()
        if copy:
            assert epoll.poll(10) == [(fd, select.EPOLLIN)]
            assert copy.recv(2) == b"x"
            copy.close()
        else:
            assert epoll.poll(0.02) == []
    other.close()


def wakes_of_library():
    """How often the library's thread slept."""
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status") as status:
            lines = dict((line.split() + [""])[:2] for line in status)
        if lines["Name:"] == "suci-preload":
            return int(lines["voluntary_ctxt_switches:"])
    raise AssertionError("no such thread")


def call_and_idle(host, port):
    """A program that waits for nothing wakes nobody."""
    connection = socket.create_connection((host, int(port)))
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    for _ in range(20):
        connection.sendall(b"x")
        assert poll.poll(30_000) and connection.recv(2) == b"x"
    time.sleep(0.3)
    before = wakes_of_library()
    time.sleep(1)
    wakes = wakes_of_library() - before
    # The library looks 50 times for bytes that nobody reads.
    assert wakes < 100, wakes
    connection.close()


def call_and_wait_for_an_epoll(host, port):
    """A thread waits for one connection, and for an epoll that has another one."""
    awaited = socket.create_connection((host, int(port)))
    other = socket.create_connection((host, int(port)))
    epoll, poll = select.epoll(), select.poll()
    epoll.register(other, select.EPOLLIN)
    poll.register(epoll.fileno(), select.POLLIN)
    poll.register(awaited, select.POLLIN)
    for _ in range(10):
        other.sendall(b"x")
        assert poll.poll(10_000) == [(epoll.fileno(), select.POLLIN)]
        assert epoll.poll(0) == [(other.fileno(), select.EPOLLIN)]
        assert other.recv(2) == b"x"
    awaited.close()
    other.close()


def call_by_nested_epolls(host, port):
    """What a connection brings goes to the kernel once its epoll is watched by another one."""
    connection = socket.create_connection((host, int(port)))
    inner, outer, poll = select.epoll(), select.epoll(), select.poll()
    inner.register(connection, select.EPOLLIN)
    poll.register(connection, select.POLLIN)
    outer.register(inner.fileno(), select.EPOLLIN)
    before = bytes_in_kernel(connection)
    for _ in range(100):
        connection.sendall(b"x" * 100)
        assert poll.poll(30_000)
        assert receive(connection, 100) == b"x" * 100
    _, carried = (now - then for now, then in zip(bytes_in_kernel(connection), before))
    assert carried > 5_000, carried
    connection.sendall(b"x")
    assert outer.poll(30) and inner.poll(0) and connection.recv(2) == b"x"
    connection.close()


def call_one_shot(host, port):
    """An event that is told once is told once, though its bytes are there already."""
    connection = socket.create_connection((host, int(port)))
    connection.setblocking(False)
    epoll = select.epoll()
    epoll.register(connection, select.EPOLLIN)
    fd = connection.fileno()
    for _ in range(20):
        epoll.modify(connection, select.EPOLLIN)
        connection.sendall(b"question")
        assert epoll.poll(30) == [(fd, select.EPOLLIN)]
        epoll.modify(connection, select.EPOLLIN | select.EPOLLONESHOT)
        assert epoll.poll(30) == [(fd, select.EPOLLIN)]
        assert epoll.poll(0.02) == []
        assert connection.recv(1) == b"q"
        epoll.modify(connection, select.EPOLLIN | select.EPOLLONESHOT)
        assert epoll.poll(30) == [(fd, select.EPOLLIN)]
        assert epoll.poll(0.02) == []
        assert connection.recv(20) == b"uestion"
    connection.close()


def call_until_served(host, port, count):
    """Calls until `count` servers have answered: while one takes over, nobody may be there."""
    left = int(count)
    servers = set()
    deadline = time.monotonic() + 30
    while left:
        assert time.monotonic() < deadline, f"{left} are left"
        try:
            with socket.create_connection((host, int(port))) as connection:
                pid = connection.recv(PART)
                if not pid:
                    continue
                connection.sendall(b"served")
                connection.shutdown(socket.SHUT_WR)
                left -= read_all(connection) == b"served"
                servers.add(pid)
        except OSError as error:
            print(error, file=sys.stderr, flush=True)
    say(len(servers))


def call_and_go(host, port, go):
    """Ends before it is accepted."""
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"gone")
        # Until the other node has it.
        time.sleep(0.3)
    sys.stdout.flush()
    process = os.getpid()
    if os.fork() == 0:
        # Once this process is gone, its node, too.
        wait_until(lambda: os.getppid() != process)
        open(go, "w").close()
        os._exit(0)


def call_refused(host, port):
    """A port where nobody listens, in each way to ask, and another port on the same socket."""
    refused = socket.socket()
    assert refused.connect_ex((host, 1)) == errno.ECONNREFUSED
    assert refused.connect_ex((host, 1)) == errno.ECONNREFUSED
    refused.connect((host, int(port)))
    refused.close()

    waiting = socket.socket()
    waiting.setblocking(False)
    poll = select.epoll()
    # Before it connects, as some libraries do.
    poll.register(waiting, select.EPOLLOUT | select.EPOLLET)
    poll.poll(0)
    assert waiting.connect_ex((host, 1)) == errno.EINPROGRESS
    [(_, events)] = poll.poll(30)
    assert events & select.EPOLLERR, events
    assert waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    assert waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0

    # By a second call, as hiredis does.
    assert waiting.connect_ex((host, 1)) == errno.EINPROGRESS
    assert poll.poll(30)
    assert waiting.connect_ex((host, 1)) == errno.ECONNREFUSED
    assert waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def call_nobody(host):
    """A node without a process, in each way to ask. Says how long the longest answer took."""
    longest = 0
    for _ in range(5):
        refused = socket.socket()
        begun = time.monotonic()
        assert refused.connect_ex((host, 80)) == errno.ECONNREFUSED
        longest = max(longest, time.monotonic() - begun)

        waiting = socket.socket()
        waiting.setblocking(False)
        begun = time.monotonic()
        assert waiting.connect_ex((host, 80)) == errno.EINPROGRESS
        select.select([], [waiting], [], 30)
        longest = max(longest, time.monotonic() - begun)
        assert waiting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    say("figure: refused after %.1f ms at most" % (longest * 1000))
    assert longest < 1, longest


def call_nobody_elsewhere(host, name, calls, most):
    """A node of another host without a process: each call fails alike, and not much later."""
    times = []
    for _ in range(int(calls)):
        refused = socket.socket()
        begun = time.monotonic()
        result = refused.connect_ex((host, 80))
        times.append(time.monotonic() - begun)
        assert result == getattr(errno, name), (errno.errorcode.get(result), times)
    say("figure: %s after %s s" % (name, " ".join("%.2f" % it for it in times)))
    assert max(times) - times[0] < float(most), times


def call_without_route(host):
    """A node to which no route leads, blocking or not: the kernel's answer, at once."""
    for blocks in (True, False, True):
        connection = socket.socket()
        connection.setblocking(blocks)
        assert connection.connect_ex((host, 80)) == errno.ENETUNREACH


def call_events(host, port, count):
    """Many connections at once, none of which blocks."""
    poll = select.epoll()
    length = 200_000
    calls = {}
    for number in range(int(count)):
        connection = socket.socket()
        connection.setblocking(False)
        poll.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        assert connection.connect_ex((host, int(port))) == errno.EINPROGRESS
        calls[connection.fileno()] = [connection, bytes([number]) * length, bytearray(), False]
    left = len(calls)
    while left:
        events = poll.poll(30)
        assert events, "nothing moves"
        for fd, event in events:
            call = calls[fd]
            connection, data, back, is_open = call
            if event & select.EPOLLOUT and not is_open:
                assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                assert connection.getpeername() == (host, int(port))
                call[3] = True
            if not call[3]:
                continue
            try:
                while call[1]:
                    call[1] = call[1][connection.send(call[1]) :]
            except BlockingIOError:
                pass
            try:
                while len(back) < length and (part := connection.recv(PART)):
                    back += part
            except BlockingIOError:
                pass
            if len(back) == length and connection.fileno() != -1:
                assert back == back[:1] * length
                connection.close()
                left -= 1


def call_and_leave(host, port):
    """Ends right after a long write, without closing."""
    connection = socket.create_connection((host, int(port)))
    data = os.urandom(4 << 20)
    connection.sendall(data)
    say(len(data), hashlib.sha256(data).hexdigest())
    sys.exit(0)


def call_often(host, port, count):
    """Connections one after the other leave nothing behind."""
    before = None
    for number in range(int(count)):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"x" * 1000)
            connection.shutdown(socket.SHUT_WR)
            assert len(read_all(connection)) == 1000
        if before is None:
            time.sleep(0.5)
            before = len(os.listdir("/proc/self/fd"))
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before)


def call_until_refused(host, port):
    connection = socket.create_connection((host, int(port)))
    connection.sendall(b"still open")
    assert connection.recv(100) == b"still open"

    def is_refused():
        try:
            with socket.create_connection((host, int(port))) as other:
                assert other.recv(1) == b""
        except ConnectionRefusedError:
            return True

    wait_until(is_refused)
    connection.sendall(b"still open")
    assert connection.recv(100) == b"still open"


def call_the_dying(host, port):
    """A peer that is killed ends its connections."""
    connection = socket.create_connection((host, int(port)))
    assert connection.recv(100) == b"last words"
    connection.sendall(b"x")
    try:
        assert connection.recv(1) == b""
    except (ConnectionResetError, TimeoutError):
        pass


def call_from_child(host, port):
    """A child uses its parent's connection, and cannot make its own."""
    connection = socket.create_connection((host, int(port)))
    child = os.fork()
    if child == 0:
        connection.sendall(b"from the child")
        assert connection.recv(100) == b"from the child"
        assert connection.getpeername() == (host, int(port))
        assert socket.socket().connect_ex((host, int(port))) == errno.ENETDOWN
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    connection.sendall(b"from the parent")
    assert connection.recv(100) == b"from the parent"


def call_in_crowd(host, port, backlog, go):
    """More clients than the backlog has room for: some are refused, and the others are served.

    Before the program accepts any, half of them end their direction, in which they say nothing.
    """
    admitted = []
    for _ in range(60):
        try:
            admitted.append(socket.create_connection((host, int(port))))
        except ConnectionRefusedError:
            break
    # In the program's backlog, on their way to it, and in the node's.
    count = len(admitted)
    assert int(backlog) <= count <= 3 * int(backlog) + 2, count
    silent, late = admitted[1::2], admitted[::2]
    for connection in silent:
        connection.shutdown(socket.SHUT_WR)
    # Until the other node has it.
    time.sleep(0.2)
    with open(go + ".new", "w") as file:
        file.write(str(count))
    os.rename(go + ".new", go)
    for connection in late:
        connection.sendall(b"served")
        connection.shutdown(socket.SHUT_WR)
    for connection in admitted:
        connection.settimeout(30)
        assert read_all(connection) == (b"late: served" if connection in late else b"late: ")


def call_again(host, port, count):
    """A listener that is closed and opened again is found again."""
    left = int(count)

    def is_done():
        nonlocal left
        try:
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(b"again")
                connection.shutdown(socket.SHUT_WR)
                left -= read_all(connection) == b"again"
        except (ConnectionRefusedError, ConnectionResetError, BrokenPipeError):
            pass
        return left == 0

    deadline = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < deadline, f"{left} are left"


def call_and_abandon(host, port):
    """The library notices that the program has closed a connection, of which the peer is silent."""
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    connection = socket.create_connection((host, int(port)))
    assert connection.recv(100) == b"held"
    before = descriptors()
    # As if the kernel had kept the closed socket for a minute already.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, 1)
    connection.close()
    wait_until(lambda: descriptors() <= before - 2)


def call_and_give_up(host, port):
    """Ends while a connection waits for a node that does not answer."""
    waiting = socket.socket()
    waiting.setblocking(False)
    assert waiting.connect_ex((host, int(port))) == errno.EINPROGRESS
    time.sleep(0.2)
    sys.exit(0)


def call_from_reused_port(host, port, server):
    """A listener has the port of a socket that was closed while it waited for its connection."""
    os.kill(int(server), signal.SIGSTOP)
    for attempt in range(10):
        waiting = socket.socket()
        waiting.setblocking(False)
        assert waiting.connect_ex((host, int(port))) == errno.EINPROGRESS
        own = waiting.getsockname()
        waiting.close()
        try:
            listener = socket.create_server(own)
            break
        except OSError as error:
            # Another program's socket has the port by now.
            assert error.errno == errno.EADDRINUSE and attempt < 9, error
    os.kill(int(server), signal.SIGCONT)
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"after")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b"after"
    listener.settimeout(0.5)
    try:
        raise AssertionError(listener.accept())
    except TimeoutError:
        pass


def call_from_child_of_reader(host, port, book):
    """Forks while another thread is reading the book, which is a pipe here."""
    def connect():
        return socket.socket().connect_ex((host, int(port)))

    threading.Thread(target=connect, daemon=True).start()
    # The pipe opens once the reader has it. Another process writes: no thread of Python runs while
    # one forks.
    with open(os.environ["SUCI_BOOK"], "w") as pipe:
        subprocess.Popen(["sh", "-c", 'sleep 0.5; cat "$0"', book], stdout=pipe)
    child = os.fork()
    if child == 0:
        assert connect() != 0
        os._exit(0)
    try:
        wait_until(lambda: os.waitpid(child, os.WNOHANG) == (child, 0))
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise


def call_with_error(host, port, name):
    found = socket.socket().connect_ex((host, int(port)))
    assert found == getattr(errno, name), errno.errorcode.get(found)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
