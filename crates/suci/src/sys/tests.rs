use super::*;

fn ready(fd: RawFd) -> bool {
    sleep(fd, None, Some(Duration::ZERO)).unwrap().input
}

#[test]
fn an_event_fd_is_readable_until_it_is_cleared() {
    let event_fd = EventFd::new().unwrap();
    assert!(!ready(event_fd.as_raw_fd()));
    event_fd.signal();
    event_fd.signal();
    assert!(ready(event_fd.as_raw_fd()));
    event_fd.clear();
    assert!(!ready(event_fd.as_raw_fd()));
}

#[test]
fn an_alarm_goes_off_at_once_or_never() {
    let timer_fd = TimerFd::new().unwrap();
    timer_fd.set(Some(Duration::ZERO)).unwrap();
    assert!(sleep(timer_fd.as_raw_fd(), None, None).unwrap().input);
    timer_fd.set(None).unwrap();
    assert!(!ready(timer_fd.as_raw_fd()));
}

#[test]
fn epoll_nests_its_members() {
    let (one, other) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    let epoll = epoll_of(&[one.as_raw_fd(), other.as_raw_fd()]).unwrap();
    assert!(!ready(epoll.as_raw_fd()));
    other.signal();
    assert!(ready(epoll.as_raw_fd()));
}

#[test]
fn random_bytes_differ() {
    assert_ne!(random::<32>().unwrap(), random::<32>().unwrap());
}

#[test]
fn f24_descriptors_are_close_on_exec() {
    let event_fd = EventFd::new().unwrap();
    let timer_fd = TimerFd::new().unwrap();
    let epoll = epoll_of(&[]).unwrap();
    for fd in [
        event_fd.as_raw_fd(),
        timer_fd.as_raw_fd(),
        epoll.as_raw_fd(),
    ] {
        // SAFETY: asks for the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}

#[test]
fn tells_datagram_sockets_from_other_descriptors() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(is_datagram_socket(socket.as_raw_fd()));
    assert!(!is_datagram_socket(EventFd::new().unwrap().as_raw_fd()));
    assert!(!is_datagram_socket(-1));
}
