//! The kernel's sockets of this library, and questions about those of the program.

use crate::address::{canonical, of_ip};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::RawFd;
use std::time::Duration;

/// Bytes of each buffer of this library's ends. As much again is on its way between the nodes; more
/// would let programs believe that they have sent what waits here.
const BUFFER: usize = 256 << 10;

/// How long a program that ended its direction may be silent until the kernel asks whether it still
/// has its socket, and the time between two questions.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// Questions without an answer after which a connection fails.
const QUESTIONS: u32 = 3;

/// Lends a descriptor of the program. Returns nothing for a negative number.
pub(crate) fn with<T>(fd: c_int, ask: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
    if fd < 0 {
        return None;
    }
    // SAFETY: not negative, and used for system calls alone, while the program's call lasts that
    // named it. If it is not open, they fail.
    Some(ask(unsafe { BorrowedFd::borrow_raw(fd) }))
}

/// Returns true for a socket of TCP.
pub(crate) fn is_tcp(fd: BorrowedFd<'_>) -> bool {
    sockopt::socket_type(fd) == Ok(SocketType::STREAM)
        && sockopt::socket_protocol(fd) == Ok(Some(ipproto::TCP))
}

/// A socket of the program. The program may close its descriptor at any time, and get the number
/// again for another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProgramSocket {
    pub(crate) fd: c_int,
    /// The kernel's name of the socket, which no other one ever has.
    pub(crate) cookie: u64,
}

impl ProgramSocket {
    pub(crate) fn new(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            fd: fd.as_raw_fd(),
            cookie: sockopt::socket_cookie(fd)?,
        })
    }

    /// Returns true if the descriptor is still that of the socket.
    pub(crate) fn is_open(self) -> bool {
        self.is_at(self.fd)
    }

    fn is_at(self, fd: RawFd) -> bool {
        with(fd, |fd| sockopt::socket_cookie(fd)) == Some(Ok(self.cookie))
    }

    /// Returns a descriptor of the socket, if this process has one.
    pub(crate) fn descriptor(self) -> Option<RawFd> {
        let has = |fd: &RawFd| self.is_at(*fd);
        Some(self.fd)
            .filter(has)
            .or_else(|| descriptors().into_iter().find(has))
    }
}

/// Returns the numbers of all open descriptors; none without `/proc`.
pub(crate) fn descriptors() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// Returns the backlog of a socket of TCP, if it listens.
pub(crate) fn backlog(fd: BorrowedFd<'_>) -> Option<c_int> {
    if sockopt::socket_acceptconn(fd) != Ok(true) {
        return None;
    }
    // SAFETY: a `tcp_info` is numbers, for which all bits may be 0.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`.
    let done = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    // Of a listener the kernel tells its backlog here.
    let backlog = (done == 0).then_some(info.tcpi_sacked)?;
    c_int::try_from(backlog).ok()
}

/// Returns true if an address belongs to this host.
pub(crate) fn is_of_this_host(ip: IpAddr) -> bool {
    let at = SocketAddr::new(ip, 0);
    socket(at, SocketType::DGRAM).is_ok_and(|fd| rustix::net::bind(fd, &at).is_ok())
}

/// Returns the port of the loopback interface that is `port`, in the family of `like`.
fn loopback(like: SocketAddr, port: u16) -> SocketAddr {
    match canonical(like) {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, port).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, port).into(),
    }
}

/// Makes a socket that does not block.
fn socket(like: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = match like {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// Makes a socket for this library's end of a connection.
fn own_end(like: SocketAddr) -> io::Result<OwnedFd> {
    let fd = socket(like, SocketType::STREAM)?;
    sockopt::set_socket_recv_buffer_size(&fd, BUFFER)?;
    sockopt::set_socket_send_buffer_size(&fd, BUFFER)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    Ok(fd)
}

/// Returns where a socket is.
pub(crate) fn local(fd: impl AsFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(fd)?;
    of_ip(address)
        .map(canonical)
        .ok_or_else(|| Errno::AFNOSUPPORT.into())
}

/// Returns the address of this host from which packets to `to` leave.
pub(crate) fn source_towards(to: SocketAddr) -> io::Result<IpAddr> {
    let fd = socket(to, SocketType::DGRAM)?;
    rustix::net::connect(&fd, &to)?;
    Ok(local(&fd)?.ip())
}

/// Begins to connect.
fn begin(fd: OwnedFd, to: SocketAddr) -> io::Result<TcpStream> {
    match rustix::net::connect(&fd, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd.into()),
        Err(error) => Err(error.into()),
    }
}

/// A socket that is about to connect to a listener of the program.
#[derive(Debug)]
pub(crate) struct Caller {
    fd: OwnedFd,
    /// Where it is.
    pub(crate) address: SocketAddr,
}

impl Caller {
    /// Makes one at `source`, an address of this host, for a listener at `to`.
    pub(crate) fn new(source: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let fd = own_end(to)?;
        rustix::net::bind(&fd, &SocketAddr::new(source, 0))?;
        let address = local(&fd)?;
        Ok(Self { fd, address })
    }

    /// Begins to connect.
    pub(crate) fn call(self, to: SocketAddr) -> io::Result<TcpStream> {
        begin(self.fd, to)
    }
}

/// A listener that answers nobody: sockets that connect to it wait.
#[derive(Debug)]
pub(crate) struct Silence {
    _listener: OwnedFd,
    /// Where it is.
    pub(crate) address: SocketAddr,
}

impl Silence {
    /// Makes one that sockets of the family of `like` reach.
    pub(crate) fn new(like: SocketAddr) -> io::Result<Self> {
        let at = loopback(like, 0);
        let listener = socket(at, SocketType::STREAM)?;
        // So that the answering socket gets the same port.
        sockopt::set_socket_reuseport(&listener, true)?;
        drop_all(&listener)?;
        rustix::net::bind(&listener, &at)?;
        rustix::net::listen(&listener, 1)?;
        let address = local(&listener)?;
        Ok(Self {
            _listener: listener,
            address,
        })
    }

    /// Connects to the socket that waits, which is at `waiting`.
    pub(crate) fn answer(&self, waiting: SocketAddr) -> io::Result<TcpStream> {
        let fd = own_end(self.address)?;
        sockopt::set_socket_reuseport(&fd, true)?;
        rustix::net::bind(&fd, &self.address)?;
        begin(fd, waiting)
    }
}

/// Has the kernel drop all packets to a socket.
fn drop_all(fd: &OwnedFd) -> io::Result<()> {
    // BPF_RET | BPF_K: so many bytes of the packet are kept.
    let mut none = libc::sock_filter {
        code: 0x06,
        jt: 0,
        jf: 0,
        k: 0,
    };
    let program = libc::sock_fprog {
        len: 1,
        filter: &raw mut none,
    };
    // SAFETY: the option takes a `sock_fprog`, whose program lives until the call returns; the
    // kernel copies it.
    let set = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns true once a connection is open that was begun.
pub(crate) fn is_connected(stream: &TcpStream) -> bool {
    rustix::net::getpeername(stream).is_ok()
}

/// Fails if a connection did, for which no call has told it yet.
pub(crate) fn check(stream: &TcpStream) -> io::Result<()> {
    Ok(sockopt::socket_error(stream)??)
}

/// Returns how many bytes the other end has not taken yet.
pub(crate) fn unsent(stream: &TcpStream) -> usize {
    unacknowledged(stream.as_raw_fd())
}

fn unacknowledged(fd: c_int) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes a number.
    let asked = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut bytes) };
    if asked == 0 {
        usize::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}

/// Returns how many bytes the other end sent that were not read yet.
pub(crate) fn unread(stream: &TcpStream) -> usize {
    let mut bytes: c_int = 0;
    // SAFETY: the request writes a number.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    // After a failure the bytes are read, which tells of it.
    let bytes = if asked == 0 { bytes } else { 1 };
    usize::try_from(bytes).unwrap_or(0)
}

/// Returns true if a socket of the program holds bytes that it has not sent, or that the other end
/// has not acknowledged: they may be on their way.
pub(crate) fn is_sending(fd: c_int) -> bool {
    unacknowledged(fd) > 0
}

/// Acknowledges at once what was read. The kernel may wait 40 ms for more.
pub(crate) fn acknowledge(stream: &TcpStream) {
    // It fails if the connection is over.
    let _ = sockopt::set_tcp_quickack(stream, true);
}

/// Has the kernel ask the program's end of a connection whether it is still there. If no process
/// has it any more, the connection fails: 60 s after the last one closed it (`tcp_fin_timeout`),
/// since the kernel answers for it until then.
pub(crate) fn ask_for_the_other_end(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(stream, QUESTIONS)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// Resets a connection, although the child of a fork may have the descriptor, too.
pub(crate) fn reset(stream: &TcpStream) {
    // It fails if the connection is over.
    let _ = rustix::net::connect_unspec(stream);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{ErrorKind, Read, Write};
    use std::time::Duration;

    fn waiting(like: &str) -> (Silence, TcpStream) {
        let silence = Silence::new(like.parse().unwrap()).unwrap();
        let program = socket(silence.address, SocketType::STREAM).unwrap();
        let waiting = begin(program, silence.address).unwrap();
        (silence, waiting)
    }

    fn is_writable(stream: &TcpStream, patience: Duration) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut polled = [PollFd::new(stream, PollFlags::OUT)];
        let patience = patience.try_into().unwrap();
        poll(&mut polled, Some(&patience)).unwrap() == 1
    }

    #[test]
    fn a_socket_waits_for_the_answer_and_has_it_at_once() {
        for like in ["127.0.0.1:0", "[::1]:0"] {
            let (silence, mut waiting) = waiting(like);
            assert!(!is_writable(&waiting, Duration::from_millis(50)), "{like}");
            let mut own = silence.answer(local(&waiting).unwrap()).unwrap();
            assert!(is_writable(&waiting, Duration::from_secs(30)), "{like}");
            assert_eq!(waiting.peer_addr().unwrap(), silence.address);
            drop(silence);
            waiting.set_nonblocking(false).unwrap();
            own.set_nonblocking(false).unwrap();
            waiting.write_all(b"there").unwrap();
            own.write_all(b"back").unwrap();
            let mut read = [0; 5];
            own.read_exact(&mut read).unwrap();
            assert_eq!(&read, b"there");
            waiting.read_exact(&mut read[..4]).unwrap();
            assert_eq!(&read[..4], b"back");
        }
    }

    #[test]
    fn a_socket_is_not_another_one_that_got_its_number() {
        let (_silence, program) = waiting("127.0.0.1:0");
        let socket = ProgramSocket::new(program.as_fd()).unwrap();
        assert_eq!(socket.descriptor(), Some(program.as_raw_fd()));
        let copy = program.try_clone().unwrap();
        let (_other, stranger) = waiting("127.0.0.1:0");
        let mut number = program.into();
        rustix::io::dup2(&stranger, &mut number).unwrap();
        assert_eq!(socket.descriptor(), Some(copy.as_raw_fd()));
        drop(copy);
        assert_eq!(socket.descriptor(), None);
    }

    #[test]
    fn a_reset_comes_after_what_was_sent() {
        let (silence, mut waiting) = waiting("127.0.0.1:0");
        let mut own = silence.answer(local(&waiting).unwrap()).unwrap();
        assert!(is_writable(&waiting, Duration::from_secs(30)));
        own.write_all(b"last").unwrap();
        while unsent(&own) > 0 {
            std::thread::yield_now();
        }
        let copy = own.try_clone().unwrap();
        reset(&own);
        drop(own);
        waiting.set_nonblocking(false).unwrap();
        let mut read = Vec::new();
        let error = waiting.read_to_end(&mut read).unwrap_err();
        assert_eq!(
            (read.as_slice(), error.kind()),
            (&b"last"[..], ErrorKind::ConnectionReset)
        );
        drop(copy);
    }
}
