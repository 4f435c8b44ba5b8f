use std::io::IoSlice;

use super::*;
use crate::Ecn;

fn open(options: &UdpOptions) -> Udp {
    Udp::bind("127.0.0.1:0".parse().unwrap(), options).unwrap()
}

fn train<'a>(dest: SocketAddr, segment: usize, slices: &'a [IoSlice<'a>]) -> Train<'a> {
    Train {
        segment,
        ..Train::single(dest, Ecn::NotEct, slices)
    }
}

/// Receives the datagrams that are there, as lengths.
fn lengths(udp: &mut Udp) -> Vec<usize> {
    let mut lengths = Vec::new();
    udp.wait(Some(Duration::from_secs(5)), false).unwrap();
    while udp
        .recv(100, &mut |meta, bytes| {
            lengths.extend(meta.datagrams(bytes).map(<[u8]>::len))
        })
        .unwrap()
        > 0
    {}
    lengths
}

#[test]
fn f28_refused_segmentation_offload_is_off_for_good_and_the_rest_goes_on() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // A socket without checksums refuses segmentation: the kernel answers EINVAL.
    sys::set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
    let mut udp = Udp::from_socket(socket, &UdpOptions::default()).unwrap();
    let mut peer = open(&UdpOptions::default());
    assert_eq!(udp.capabilities().max_segments, MAX_TRAIN_SEGMENTS);
    let bytes = [5; 2_500];
    let slices = [IoSlice::new(&bytes)];
    let whole = train(peer.local_addr(), 1_000, &slices);
    assert_eq!(udp.send(&whole).unwrap(), SendOutcome::NoGso);
    assert_eq!(udp.capabilities().max_segments, 1);
    assert_eq!(udp.counters().gso_refused, 1);
    assert_eq!(udp.send(&whole).unwrap(), SendOutcome::NoGso);
    assert_eq!(udp.counters().gso_refused, 1);
    for chunk in bytes.chunks(1_000) {
        let slices = [IoSlice::new(chunk)];
        let single = Train::single(peer.local_addr(), Ecn::NotEct, &slices);
        assert_eq!(udp.send(&single).unwrap(), SendOutcome::Sent(1));
    }
    assert_eq!(lengths(&mut peer), [1_000, 1_000, 500]);
}

#[test]
fn f28_an_unroutable_destination_does_not_switch_offload_off() {
    let mut udp = open(&UdpOptions::default());
    let bytes = [5; 2_500];
    let slices = [IoSlice::new(&bytes)];
    // The loopback address cannot speak to another host (TEST-NET, RFC 5737): the kernel answers
    // EINVAL before anything is sent, with any segments.
    let whole = train("192.0.2.1:9".parse().unwrap(), 1_000, &slices);
    let outcome = udp.send(&whole).unwrap();
    assert!(
        matches!(outcome, SendOutcome::Unreachable(_)),
        "{outcome:?}"
    );
    assert_eq!(udp.capabilities().max_segments, MAX_TRAIN_SEGMENTS);
    assert_eq!(udp.counters().unreachable, 1);
}

#[test]
fn f27_the_kernel_says_emsgsize_instead_of_fragmenting() {
    let v6 = "[::1]:0".parse().unwrap();
    let mut udp = Udp::bind(v6, &UdpOptions::default()).unwrap();
    let dest = udp.local_addr();
    let mtu = udp.path_mtu(dest).unwrap();
    // The loopback device carries 65,536 bytes; IPv6 and UDP headers take 48.
    assert_eq!(mtu, 65_488);
    let bytes = vec![0; mtu + 1];
    for (len, expected) in [(mtu + 1, SendOutcome::TooBig), (mtu, SendOutcome::Sent(1))] {
        let slices = [IoSlice::new(&bytes[..len])];
        let single = Train::single(dest, Ecn::NotEct, &slices);
        assert_eq!(udp.send(&single).unwrap(), expected);
    }
    assert_eq!(udp.counters().too_big, 1);
    assert_eq!(lengths(&mut udp), [mtu]);
}

#[test]
fn f27_both_families_are_told_never_to_fragment() {
    let v4 = open(&UdpOptions::default());
    let dual = Udp::bind("[::]:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let probe = Ok(libc::IP_PMTUDISC_PROBE as usize);
    let get = |udp: &Udp, level, name| {
        sys::get_size(udp.socket.as_fd(), level, name).map_err(|error| error.kind())
    };
    assert_eq!(get(&v4, libc::SOL_IP, libc::IP_MTU_DISCOVER), probe);
    assert_eq!(get(&dual, libc::SOL_IP, libc::IP_MTU_DISCOVER), probe);
    assert_eq!(get(&dual, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER), probe);
}

#[test]
fn f29_what_the_slot_cuts_is_counted_as_lost() {
    let mut sender = open(&UdpOptions::default());
    let mut udp = open(&UdpOptions {
        recv_slot: 1_024,
        ..UdpOptions::default()
    });
    let bytes = [5; 1_025];
    for len in [1_025, 1_024, 0] {
        let slices = [IoSlice::new(&bytes[..len])];
        let sent = sender
            .send(&Train::single(udp.local_addr(), Ecn::NotEct, &slices))
            .unwrap();
        assert_eq!(sent, SendOutcome::Sent(1));
    }
    assert_eq!(lengths(&mut udp), [1_024, 0]);
    assert_eq!(udp.counters().truncated, 1);
    assert_eq!(udp.counters().datagrams_received, 2);
}

#[test]
fn f29_of_a_cut_train_the_whole_segments_arrive() {
    let mut sender = open(&UdpOptions::default());
    let mut udp = open(&UdpOptions {
        recv_slot: 2_500,
        ..UdpOptions::default()
    });
    let bytes: Vec<u8> = (0..5_100_u32).map(|i| (i / 1_000) as u8).collect();
    let slices = [IoSlice::new(&bytes)];
    let whole = train(udp.local_addr(), 1_000, &slices);
    assert_eq!(sender.send(&whole).unwrap(), SendOutcome::Sent(6));
    assert_eq!(lengths(&mut udp), [1_000, 1_000]);
    assert_eq!(udp.counters().truncated, 4);
}

#[test]
fn what_overruns_the_receive_buffer_moves_the_drop_counter() {
    let mut sender = open(&UdpOptions::default());
    let mut udp = open(&UdpOptions {
        recv_buffer: 1,
        ..UdpOptions::default()
    });
    assert_eq!(udp.counters().recv_drops, 0);
    let bytes = [5; 1_000];
    let slices = [IoSlice::new(&bytes)];
    for _ in 0..100 {
        let single = Train::single(udp.local_addr(), Ecn::NotEct, &slices);
        assert_eq!(sender.send(&single).unwrap(), SendOutcome::Sent(1));
    }
    let drops = udp.counters().recv_drops;
    assert!((1..100).contains(&drops), "{drops}");
    assert_eq!(
        lengths(&mut udp).len() as u64 + udp.counters().recv_drops,
        100
    );
}

#[test]
fn what_waits_to_be_read_is_charged_by_true_size() {
    let mut sender = open(&UdpOptions::default());
    let mut udp = open(&UdpOptions::default());
    assert_eq!(udp.charged(), Some(0));
    let bytes = [5; 1_472];
    let slices = [IoSlice::new(&bytes)];
    for _ in 0..10 {
        let single = Train::single(udp.local_addr(), Ecn::NotEct, &slices);
        assert_eq!(sender.send(&single).unwrap(), SendOutcome::Sent(1));
    }
    let charged = udp.charged().unwrap();
    assert!((10 * 1_472..=10 * 2_304).contains(&charged), "{charged}");
    assert_eq!(lengths(&mut udp).len(), 10);
    let kept = udp.charged().unwrap();
    assert!(kept <= udp.capabilities().recv_buffer as u64 / 4, "{kept}");
    let counters = udp.counters();
    assert_eq!(
        (counters.recv_charged, counters.recv_charged_max),
        (kept, charged)
    );
}

#[test]
fn a_receive_that_blocks_takes_what_is_there_or_comes_and_ends_without_anything() {
    let mut a = open(&UdpOptions::default());
    let mut b = open(&UdpOptions::default());
    let limit = b.capabilities().block_limit.unwrap();
    assert!(
        limit >= Duration::from_millis(1) && limit <= Duration::from_millis(40),
        "{limit:?}"
    );
    let calls = b.counters().recv_calls;
    let mut nothing = |_: &Meta, _: &mut [u8]| panic!("nothing was sent");
    assert_eq!(b.recv_blocking(&mut nothing).unwrap(), None);
    let text = [IoSlice::new(b"there")];
    let sent = a.send(&train(b.local_addr(), 5, &text)).unwrap();
    assert_eq!(sent, SendOutcome::Sent(1));
    let mut there = |_: &Meta, bytes: &mut [u8]| assert_eq!(bytes, b"there");
    assert_eq!(b.recv_blocking(&mut there).unwrap(), Some(1));
    let calls = b.counters().recv_calls - calls;
    assert_eq!((calls, b.counters().wait_calls), (2, 0));
    // While another socket sends later, one receive follows another.
    let to = b.local_addr();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(3 * limit);
        a.send(&train(to, 5, &[IoSlice::new(b"later")]))
    });
    let mut later = |_: &Meta, bytes: &mut [u8]| assert_eq!(bytes, b"later");
    while b.recv_blocking(&mut later).unwrap().is_none() {}
    assert_eq!(sender.join().unwrap().unwrap(), SendOutcome::Sent(1));
}

/// A caller that takes such a thing for an empty socket believes that nothing waits behind it.
#[test]
fn a_receive_that_blocks_tells_what_it_does_not_hand_on_from_nothing() {
    let mut nothing = |_: &Meta, _: &mut [u8]| panic!("nothing that could be handed on");
    let mut a = open(&UdpOptions::default());
    let mut narrow = open(&UdpOptions {
        recv_slot: 100,
        ..UdpOptions::default()
    });
    let long = [IoSlice::new(&[7; 101])];
    let sent = a.send(&train(narrow.local_addr(), 101, &long)).unwrap();
    assert_eq!(sent, SendOutcome::Sent(1));
    assert_eq!(narrow.recv_blocking(&mut nothing).unwrap(), Some(0));
    assert_eq!(narrow.recv_blocking(&mut nothing).unwrap(), None);
    assert_eq!(narrow.counters().truncated, 1);
    // The port is closed, and only a connected socket hears of it.
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let nowhere = gone.local_addr().unwrap();
    a.socket.connect(nowhere).unwrap();
    drop(gone);
    let sent = a.send(&train(nowhere, 101, &long)).unwrap();
    assert_eq!(sent, SendOutcome::Sent(1));
    assert_eq!(a.recv_blocking(&mut nothing).unwrap(), Some(0));
    assert_eq!(a.recv_blocking(&mut nothing).unwrap(), None);
    assert_eq!(a.counters().recv_errors, 1);
}

extern "C" fn ignored(_: libc::c_int) {}

/// Both with `SA_RESTART` and without: the kernel restarts no receive that has a time limit.
#[test]
fn a_signal_ends_a_receive_that_blocks() {
    const LIMIT: Duration = Duration::from_secs(20);
    for (signal, flags) in [(libc::SIGUSR1, 0), (libc::SIGUSR2, libc::SA_RESTART)] {
        // SAFETY: all zero bits are a valid sigaction.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = ignored as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = flags;
        // SAFETY: the action outlives the call, and its handler does nothing.
        let set = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let mut udp = open(&UdpOptions::default());
        udp.socket.set_read_timeout(Some(LIMIT)).unwrap();
        let (told, thread) = std::sync::mpsc::channel();
        let receiver = std::thread::spawn(move || {
            // SAFETY: asks for the name of this thread.
            told.send(unsafe { libc::pthread_self() }).unwrap();
            udp.recv_blocking(&mut |_, _| panic!("nothing was sent"))
        });
        let thread = thread.recv().unwrap();
        let begun = std::time::Instant::now();
        // A signal before it blocks ends nothing.
        while !receiver.is_finished() && begun.elapsed() < LIMIT / 4 {
            // SAFETY: the thread is not joined yet, so that its name is valid.
            unsafe { libc::pthread_kill(thread, signal) };
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(receiver.join().unwrap().unwrap(), None);
        assert!(begun.elapsed() < LIMIT / 2, "{:?}", begun.elapsed());
    }
}

/// Without one, datagrams with wrong checksums would keep a receive from ending: see `block_limit`.
#[test]
fn a_socket_has_a_filter_and_keeps_the_one_it_has() {
    let udp = open(&UdpOptions::default());
    let length = |socket: &UdpSocket| sys::filter_length(socket.as_fd()).unwrap();
    assert_eq!(length(&udp.socket), 1);
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(length(&own), 0);
    sys::attach(
        own.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_ATTACH_FILTER,
        &[sys::TAKE_ALL; 2],
    )
    .unwrap();
    let udp = Udp::from_socket(own, &UdpOptions::default()).unwrap();
    assert_eq!(length(&udp.socket), 2);
    assert!(udp.capabilities().block_limit.is_some());
}

#[test]
fn buffers_are_read_back_as_the_kernel_charges_them() {
    let small = open(&UdpOptions {
        recv_buffer: 50_000,
        send_buffer: 60_000,
        ..UdpOptions::default()
    });
    let can = small.capabilities();
    assert_eq!((can.recv_buffer, can.send_buffer), (100_000, 120_000));
    let huge = open(&UdpOptions {
        recv_buffer: usize::MAX,
        ..UdpOptions::default()
    });
    assert!(huge.capabilities().recv_buffer > 100_000);
}

#[test]
fn f26_a_full_send_buffer_is_again_and_not_a_loss() {
    // A path that holds packets would be needed to fill the buffer for real; a receiver on loopback
    // frees it at once. Only the judgement of the codes is our own.
    let mut udp = open(&UdpOptions::default());
    let slices = [];
    let single = Train::single("127.0.0.1:9".parse().unwrap(), Ecn::NotEct, &slices);
    let mut judged = |code, segments| {
        let error = io::Error::from_raw_os_error(code);
        udp.judge(error, &single, segments)
            .map_err(|error| error.raw_os_error())
    };
    for code in [libc::EAGAIN, libc::ENOMEM] {
        assert_eq!(judged(code, 1), Ok(SendOutcome::Again));
    }
    // Dropped by a device behind the socket, which is a loss.
    assert_eq!(judged(libc::ENOBUFS, 3), Ok(SendOutcome::Sent(3)));
    assert_eq!(judged(libc::EMSGSIZE, 1), Ok(SendOutcome::TooBig));
    for code in [
        libc::ECONNREFUSED,
        libc::ENETUNREACH,
        libc::EPERM,
        libc::EINVAL,
        libc::EIO,
    ] {
        let kind = io::Error::from_raw_os_error(code).kind();
        assert_eq!(judged(code, 1), Ok(SendOutcome::Unreachable(kind)));
    }
    assert_eq!(judged(libc::EBADF, 1), Err(Some(libc::EBADF)));
    assert_eq!(judged(libc::EIO, 2), Ok(SendOutcome::NoGso));
}

#[test]
fn f25_an_icmp_report_on_a_connected_socket_is_swallowed_by_both_directions() {
    let gone = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(gone).unwrap();
    let mut udp = Udp::from_socket(socket, &UdpOptions::default()).unwrap();
    let slices = [IoSlice::new(&[1])];
    let to_gone = Train::single(gone, Ecn::NotEct, &slices);
    assert_eq!(udp.send(&to_gone).unwrap(), SendOutcome::Sent(1));
    assert!(
        udp.wait(Some(Duration::from_secs(5)), false)
            .unwrap()
            .readable
    );
    assert_eq!(udp.recv(10, &mut |_, _| ()).unwrap(), 0);
    assert_eq!(udp.counters().recv_errors, 1);
    // Unread, the report of one datagram must not cost the next, which goes elsewhere.
    assert_eq!(udp.send(&to_gone).unwrap(), SendOutcome::Sent(1));
    let mut other = open(&UdpOptions::default());
    let elsewhere = Train::single(other.local_addr(), Ecn::NotEct, &slices);
    assert_eq!(udp.send(&elsewhere).unwrap(), SendOutcome::Sent(1));
    assert_eq!(lengths(&mut other), [1]);
}

#[test]
fn f24_every_descriptor_is_close_on_exec_even_a_handed_over_one() {
    // SAFETY: fcntl with F_SETFD and F_GETFD takes a descriptor and an int and touches no memory.
    let flags = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_GETFD) };
    assert_eq!(
        flags(open(&UdpOptions::default()).socket.as_raw_fd()),
        libc::FD_CLOEXEC
    );
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // SAFETY: as above.
    let cleared = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFD, 0) };
    assert_eq!(cleared, 0);
    let udp = Udp::from_socket(socket, &UdpOptions::default()).unwrap();
    assert_eq!(flags(udp.raw_fd().unwrap()), libc::FD_CLOEXEC);
}

#[test]
fn addresses_mean_the_same_in_either_form() {
    let mut dual = Udp::bind("[::]:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let mut plain = open(&UdpOptions::default());
    let slices = [IoSlice::new(&[1, 2])];
    let port = plain.local_addr().port();
    for dest in [
        format!("127.0.0.1:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
    ] {
        let single = Train::single(dest.parse().unwrap(), Ecn::Ect0, &slices);
        assert_eq!(dual.send(&single).unwrap(), SendOutcome::Sent(1));
        assert_eq!(dual.path_mtu(single.dest), Some(MAX_TRAIN_BYTES));
    }
    let mut seen = Vec::new();
    plain
        .recv(9, &mut |meta, _| seen.push((meta.from, meta.ecn)))
        .unwrap();
    let dual_as_v4 = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), dual.local_addr().port());
    assert_eq!(seen, [(dual_as_v4, Ecn::Ect0); 2]);
    let mapped = format!("[::ffff:127.0.0.1]:{}", dual.local_addr().port())
        .parse()
        .unwrap();
    let single = Train::single(mapped, Ecn::Ce, &slices);
    assert_eq!(plain.send(&single).unwrap(), SendOutcome::Sent(1));
    seen.clear();
    dual.recv(9, &mut |meta, _| seen.push((meta.from, meta.ecn)))
        .unwrap();
    let expected = (plain.local_addr(), Ecn::Ce);
    assert_eq!(seen, [expected]);
    let single = Train::single("[::1]:9".parse().unwrap(), Ecn::NotEct, &slices);
    let no = SendOutcome::Unreachable(io::ErrorKind::Unsupported);
    assert_eq!(plain.send(&single).unwrap(), no);
}

#[test]
fn a_port_is_shared_only_when_all_ask_for_it() {
    let shared = UdpOptions {
        reuse_port: true,
        ..UdpOptions::default()
    };
    let first = open(&shared);
    Udp::bind(first.local_addr(), &shared).unwrap();
    let refused = Udp::bind(first.local_addr(), &UdpOptions::default()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_receive_slot_out_of_range_is_refused() {
    for recv_slot in [0, 65_537] {
        let options = UdpOptions {
            recv_slot,
            ..UdpOptions::default()
        };
        let error = Udp::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&recv_slot.to_string()));
    }
}

#[test]
fn control_messages_survive_writing_and_reading() {
    let mut control = Control::<RECV_CONTROL>::new();
    control.push(libc::SOL_IP, libc::IP_TOS, &[0b1000_0011]);
    control.push(libc::SOL_UDP, libc::UDP_GRO, &1_400_i32.to_ne_bytes());
    control.push(99, 99, &[1, 2, 3]);
    let to = IpAddr::from([10, 0, 0, 7]);
    control.push_source(to);
    let mut time = 5_i64.to_ne_bytes().to_vec();
    time.extend_from_slice(&7_i64.to_ne_bytes());
    control.push(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS, &time);
    let bytes = &control.bytes[..control.len];
    let expected = cmsg::Received {
        ecn: Ecn::Ce,
        to: Some(to),
        arrived: Some(Duration::new(5, 7)),
        segment: Some(1_400),
    };
    assert_eq!(cmsg::parse(bytes), expected);
    // Nothing that is cut or garbled can do more than be passed over.
    for end in 0..bytes.len() {
        let _ = cmsg::parse(&bytes[..end]);
        let mut garbled = bytes.to_vec();
        garbled[end] = 0xff;
        let _ = cmsg::parse(&garbled);
    }
}

/// A port of this host that refuses our datagrams, and that other tests cannot take: its socket is
/// connected elsewhere.
fn closed_port(ip: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(format!("{ip}:0")).unwrap();
    socket.connect(format!("{ip}:1")).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn f25_a_closed_port_of_this_host_is_reported_with_what_was_sent_there() {
    for (at, ip) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("[::1]:0", "[::1]"),
        ("[::]:0", "127.0.0.1"),
        ("[::]:0", "[::1]"),
        ("0.0.0.0:0", "127.0.0.7"),
    ] {
        let mut udp = Udp::bind(at.parse().unwrap(), &UdpOptions::default()).unwrap();
        let mut other = Udp::bind(at.parse().unwrap(), &UdpOptions::default()).unwrap();
        let mut there = other.local_addr();
        if there.ip().is_unspecified() {
            there.set_ip(ip.trim_matches(['[', ']']).parse().unwrap());
        }
        let (_held, dest) = closed_port(ip);
        let bytes: Vec<u8> = (0..3_000_u32).map(|i| i as u8).collect();
        let slices = [IoSlice::new(&bytes)];
        let lost = train(dest, 1_000, &slices);
        assert_eq!(udp.send(&lost).unwrap(), SendOutcome::Sent(3), "{at} {ip}");
        // A train sent elsewhere meanwhile arrives.
        let to_other = Train::single(there, Ecn::NotEct, &slices);
        assert_eq!(udp.send(&to_other).unwrap(), SendOutcome::Sent(1));
        assert_eq!(lengths(&mut other), [3_000]);
        let report = udp.next_report().unwrap();
        assert_eq!(
            (report.to, report.kind, report.local, report.quoted()),
            (dest, io::ErrorKind::ConnectionRefused, true, &bytes[..32]),
            "{at} {ip}"
        );
        while udp.next_report().is_some() {}
        // Nothing is left that would wake a waiting thread.
        assert_eq!(udp.recv(1, &mut |_, _| ()).unwrap(), 0);
        assert!(!udp.wait(Some(Duration::ZERO), false).unwrap().readable);
    }
}

#[test]
fn f25_a_receive_notices_reports_and_goes_on() {
    let mut udp = open(&UdpOptions::default());
    let (_held, dest) = closed_port("127.0.0.1");
    let slices = [IoSlice::new(b"lost")];
    assert_eq!(
        udp.send(&Train::single(dest, Ecn::NotEct, &slices))
            .unwrap(),
        SendOutcome::Sent(1)
    );
    assert!(
        udp.wait(Some(Duration::from_secs(5)), false)
            .unwrap()
            .readable
    );
    assert_eq!(udp.recv_blocking(&mut |_, _| ()).unwrap(), Some(0));
    let report = udp.next_report().unwrap();
    assert_eq!((report.to, report.quoted()), (dest, &b"lost"[..]));
    assert_eq!(udp.recv_blocking(&mut |_, _| ()).unwrap(), None);
}

#[test]
fn f04_reports_that_nobody_takes_are_bounded() {
    let mut udp = open(&UdpOptions::default());
    let (_held, dest) = closed_port("127.0.0.1");
    let slices = [IoSlice::new(b"lost")];
    for _ in 0..1_000 {
        let sent = udp
            .send(&Train::single(dest, Ecn::NotEct, &slices))
            .unwrap();
        assert_eq!(sent, SendOutcome::Sent(1));
    }
    assert_eq!(std::iter::from_fn(|| udp.next_report()).count(), 64);
    while udp.recv(1, &mut |_, _| ()).unwrap() > 0 {}
    assert!(!udp.wait(Some(Duration::ZERO), false).unwrap().readable);
}

/// A datagram that is too long for its first hop is reported by the kernel, too, and that report is
/// read at once.
#[test]
fn f27_a_datagram_that_is_too_long_leaves_no_report_behind() {
    let mut udp = Udp::bind("[::1]:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    let dest = udp.local_addr();
    let bytes = vec![0; udp.path_mtu(dest).unwrap() + 1];
    let slices = [IoSlice::new(&bytes)];
    let calls = udp.counters().send_calls;
    let single = Train::single(dest, Ecn::NotEct, &slices);
    assert_eq!(udp.send(&single).unwrap(), SendOutcome::TooBig);
    assert_eq!(udp.counters().send_calls, calls + 1, "nothing was repeated");
    assert_eq!(udp.next_report(), None);
    assert!(!udp.wait(Some(Duration::ZERO), false).unwrap().readable);
}

#[test]
fn addresses_of_this_host_are_known() {
    let udp = Udp::bind("0.0.0.0:0".parse().unwrap(), &UdpOptions::default()).unwrap();
    for (ip, own) in [("127.9.9.9", true), ("::1", true), ("192.0.2.1", false)] {
        assert_eq!(udp.is_own(ip.parse().unwrap()), own, "{ip}");
    }
}

/// Receives one datagram, and returns its properties.
fn meta(udp: &mut Udp) -> Meta {
    let mut found = None;
    udp.wait(Some(Duration::from_secs(5)), false).unwrap();
    udp.recv(1, &mut |meta, _| found = Some(*meta)).unwrap();
    found.unwrap()
}

/// F40: a socket with several addresses says at which one it was called, and answers from there,
/// alone and in trains; from where the system chooses once the address is gone.
#[test]
fn f40_answers_leave_from_the_address_that_was_called() {
    for (bound, called, of_caller) in [
        ("0.0.0.0:0", "127.0.0.2", "127.0.0.1:0"),
        ("[::]:0", "127.0.0.2", "127.0.0.1:0"),
        ("[::]:0", "::1", "[::1]:0"),
    ] {
        let options = UdpOptions::default();
        let mut udp = Udp::bind(bound.parse().unwrap(), &options).unwrap();
        let mut caller = Udp::bind(of_caller.parse().unwrap(), &options).unwrap();
        let called: IpAddr = called.parse().unwrap();
        let at = SocketAddr::new(called, udp.local_addr().port());
        let slices = [IoSlice::new(&[7; 1_500])];
        let call = Train::single(at, Ecn::NotEct, &slices);
        assert_eq!(caller.send(&call).unwrap(), SendOutcome::Sent(1));
        let heard = meta(&mut udp);
        assert_eq!(heard.to, Some(called), "{bound}");
        for segment in [1_500, 1_000] {
            let answer = Train {
                source: heard.to,
                segment,
                ..Train::single(heard.from, Ecn::NotEct, &slices)
            };
            let sent = SendOutcome::Sent(answer.segments());
            assert_eq!(udp.send(&answer).unwrap(), sent);
            let heard = meta(&mut caller);
            assert_eq!((heard.from, heard.to), (at, None), "{bound} {segment}");
        }
        let gone = Train {
            source: Some(match called {
                IpAddr::V4(_) => [192, 0, 2, 1].into(),
                IpAddr::V6(_) => "2001:db8::1".parse().unwrap(),
            }),
            ..Train::single(heard.from, Ecn::NotEct, &slices)
        };
        assert_eq!(udp.send(&gone).unwrap(), SendOutcome::Sent(1));
        assert_eq!(lengths(&mut caller).pop(), Some(1_500));
    }
}
