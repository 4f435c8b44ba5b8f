//! Writing to descriptors that other programs opened.

use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, write};

/// Writes all of `bytes`. It waits for a descriptor that another process set to non-blocking, as
/// shells and remote logins do: "try again" is no failure.
pub(crate) fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    let to = to.as_fd();
    while !bytes.is_empty() {
        match write(to, bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(to, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sleeps until `fd` is ready, or broken, which the next call on it tells.
pub(crate) fn wait(fd: impl AsFd, readiness: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(&fd, readiness)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_full_descriptor_that_does_not_block_is_waited_for() {
        let (to, mut from) = UnixStream::pair().unwrap();
        to.set_nonblocking(true).unwrap();
        let sent = vec![7; 4 << 20];
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            from.read_to_end(&mut all).unwrap();
            all
        });
        write_all(&to, &sent).unwrap();
        drop(to);
        assert!(reader.join().unwrap() == sent);
    }

    #[test]
    fn a_broken_one_is_an_error() {
        let (to, from) = UnixStream::pair().unwrap();
        drop(from);
        let error = write_all(&to, b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    }
}
