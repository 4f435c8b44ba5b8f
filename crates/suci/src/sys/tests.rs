use super::*;

fn ready(fd: RawFd) -> bool {
    sleep(fd, None, Some(Duration::ZERO)).unwrap().input
}

#[test]
fn a_bell_rings_until_it_is_hushed() {
    let bell = Bell::new().unwrap();
    assert!(!ready(bell.as_raw_fd()));
    bell.ring();
    bell.ring();
    assert!(ready(bell.as_raw_fd()));
    bell.hush();
    assert!(!ready(bell.as_raw_fd()));
}

#[test]
fn an_alarm_goes_off_at_once_or_never() {
    let alarm = Alarm::new().unwrap();
    alarm.set(Some(Duration::ZERO)).unwrap();
    assert!(sleep(alarm.as_raw_fd(), None, None).unwrap().input);
    alarm.set(None).unwrap();
    assert!(!ready(alarm.as_raw_fd()));
}

#[test]
fn epoll_nests_its_members() {
    let (one, other) = (Bell::new().unwrap(), Bell::new().unwrap());
    let epoll = epoll_of(&[one.as_raw_fd(), other.as_raw_fd()]).unwrap();
    assert!(!ready(epoll.as_raw_fd()));
    other.ring();
    assert!(ready(epoll.as_raw_fd()));
}

#[test]
fn random_bytes_differ() {
    assert_ne!(random::<32>().unwrap(), random::<32>().unwrap());
}

#[test]
fn f24_descriptors_are_close_on_exec() {
    let bell = Bell::new().unwrap();
    let alarm = Alarm::new().unwrap();
    let epoll = epoll_of(&[]).unwrap();
    for fd in [bell.as_raw_fd(), alarm.as_raw_fd(), epoll.as_raw_fd()] {
        // SAFETY: asks for the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    }
}

#[test]
fn tells_datagram_sockets_from_other_descriptors() {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(is_datagram_socket(socket.as_raw_fd()));
    assert!(!is_datagram_socket(Bell::new().unwrap().as_raw_fd()));
    assert!(!is_datagram_socket(-1));
}
