//! Questions of processes without the node to the one that has it: who is at the other end of a
//! connection that they accepted, or that they have from a program before `exec`?
//!
//! The process with the node listens at an abstract address of AF_UNIX. That belongs to the network
//! namespace, as the connections do, so another process needs no descriptor, no file and no right
//! to ask. The question is the address from which it calls: the answering thread reads nothing and
//! keeps nothing.

use crate::kernel;
use crate::settings::Settings;
use crate::table::{self, Ends};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType,
    acceptfrom_with, bind, connect, listen, recv, send, socket_with, sockopt,
};
use std::net::SocketAddr;

/// Processes that may wait for their answers; others wait until they may.
const BACKLOG: i32 = 4096;

/// The longest answer: two addresses.
const LONGEST: usize = 128;

/// A question about a connection, by how the process has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// It has just accepted it.
    Accepted,
    /// It has it.
    Connected,
}

impl Question {
    const fn word(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Connected => "connected",
        }
    }
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | flags;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Returns where the process answers that has the node.
fn address_of(settings: &Settings) -> Result<SocketAddrUnix, Errno> {
    // No two nodes of a host have the same.
    let at = settings.book.get(settings.own);
    let at = at.map(|at| at.to_string()).unwrap_or_default();
    SocketAddrUnix::new_abstract_name(format!("suci-preload {} {at}", settings.own).as_bytes())
}

/// Listens for questions.
pub(crate) fn listener(settings: &Settings) -> Result<OwnedFd, Errno> {
    let listener = socket(SocketFlags::NONBLOCK)?;
    bind(&listener, &address_of(settings)?)?;
    listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// Answers all who wait.
pub(crate) fn answer(listener: impl AsFd) {
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (asking, from) = match acceptfrom_with(&listener, flags) {
            Ok((asking, Some(from))) => (asking, from),
            Ok((_, None)) | Err(Errno::INTR | Errno::CONNABORTED) => continue,
            Err(_) => return,
        };
        let ends = read(from).and_then(|(question, peer)| match question {
            Question::Accepted => table::lock().accepted(peer),
            Question::Connected => table::lock().ends(peer),
        });
        let text = ends.map(|ends| format!("{} {}", ends.local, ends.peer));
        // Its process may have ended.
        let _ = send(
            &asking,
            text.unwrap_or_default().as_bytes(),
            SendFlags::NOSIGNAL,
        );
    }
}

/// Reads a question.
fn read(from: SocketAddrAny) -> Option<(Question, SocketAddr)> {
    let from = SocketAddrUnix::try_from(from).ok()?;
    let text = str::from_utf8(from.abstract_name()?).ok()?;
    let mut words = text.split(' ').skip(2);
    let question = match words.next()? {
        "accepted" => Question::Accepted,
        "connected" => Question::Connected,
        _ => return None,
    };
    Some((question, words.next()?.parse().ok()?))
}

/// Asks who is at the ends of a connection, whose peer to the kernel is at `peer`. Returns nothing
/// if it is no connection with another node. Blocks until the process with the node answers.
pub(crate) fn ask(settings: &Settings, question: Question, peer: SocketAddr) -> Option<Ends> {
    if !kernel::is_of_this_host(peer.ip()) {
        return None;
    }
    let asking = socket(SocketFlags::empty()).ok()?;
    // The number makes the address different from all others.
    let number = sockopt::socket_cookie(&asking).ok()?;
    let text = format!("suci-preload {number} {} {peer}", question.word());
    bind(
        &asking,
        &SocketAddrUnix::new_abstract_name(text.as_bytes()).ok()?,
    )
    .ok()?;
    let to = address_of(settings).ok()?;
    while let Err(error) = connect(&asking, &to) {
        if error != Errno::INTR {
            return None;
        }
    }
    if !is_trusted(&asking) {
        return None;
    }
    let mut answer = [0; LONGEST];
    let length = loop {
        match recv(&asking, &mut answer, RecvFlags::empty()) {
            Ok((length, _)) => break length,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    };
    let text = str::from_utf8(answer.get(..length)?).ok()?;
    let (local, peer) = text.split_once(' ')?;
    Some(Ends {
        local: local.parse().ok()?,
        peer: peer.parse().ok()?,
    })
}

/// Returns true if the other end belongs to root or to the user of this process: another user could
/// take the address while no process has the node, and lie.
fn is_trusted(asking: impl AsFd) -> bool {
    let own = rustix::process::geteuid();
    sockopt::socket_peercred(asking).is_ok_and(|it| it.uid.is_root() || it.uid == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Entry;
    use suci::{AddressBook, NodeId};

    fn settings(port: u16) -> Settings {
        let book = format!("0 127.0.0.1:{port}\n");
        Settings::new(NodeId(0), AddressBook::parse(&book, "test").unwrap(), false)
    }

    #[test]
    fn another_process_is_told_the_ends_of_a_connection() {
        let (asked, unknown) = (
            "127.0.0.1:7".parse().unwrap(),
            "127.0.0.1:8".parse().unwrap(),
        );
        let settings = settings(1);
        let listener = listener(&settings).unwrap();
        assert!(super::listener(&settings).is_err(), "one process answers");
        let ends = Ends {
            local: "192.0.2.1:80".parse().unwrap(),
            peer: "[2001:db8::2]:32768".parse().unwrap(),
        };
        let _entry = Entry::new(asked, ends);
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let known = ask(&settings, Question::Connected, asked).unwrap();
                assert_eq!((known.local, known.peer), (ends.local, ends.peer));
                assert!(ask(&settings, Question::Accepted, unknown).is_none());
            });
            while !asking.is_finished() {
                answer(&listener);
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn nobody_answers_for_a_node_that_is_not_open() {
        let peer = "127.0.0.1:7".parse().unwrap();
        assert!(ask(&settings(2), Question::Connected, peer).is_none());
    }
}
