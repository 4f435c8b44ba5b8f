//! The errors of suci.h, and the last one of each thread.

use crate::guard::quietly;
use crate::pointer::{self, Growable};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use suci::security::KeyError;
use suci::{AnswerError, BookError, ChannelId, EndReason, Error, IncomingError, NodeId, PeerError};

/// The values of `enum suci_error`: name, number and text of each.
macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        $(
            #[doc = $text]
            pub const $name: c_int = $number;
        )*

        /// Returns the text of a code that is no system error.
        fn text_of(code: c_int) -> Option<&'static CStr> {
            let text = match code {
                $($number => concat!($text, "\0"),)*
                _ => return None,
            };
            CStr::from_bytes_with_nul(text.as_bytes()).ok()
        }
    };
}

codes! {
    OK = 0, "no error";
    ARGUMENT = 1, "an argument is null or out of its range";
    SIZE = 2, "the size of a struct is not one that the library knows";
    HANDLE = 3, "the handle is null, freed, or not of this process";
    BUSY = 4, "another call is inside the node";
    FORKED = 5, "the handle belongs to the parent of this process";
    NODE_KIND = 6, "only the other kind of node does this";
    INTERNAL = 7, "a fault of the library";
    TIMED_OUT = 16, "nothing came within the time limit";
    WOKEN = 17, "the wait was ended by suci_wake";
    QUEUE_FULL = 18, "the send queue to the peer is full";
    NOT_FLUSHED = 19, "not everything was delivered";
    NOT_ALL = 20, "the broadcast was not accepted for every peer";
    TOO_LONG = 32, "the message is longer than any may be";
    HEADER_TOO_LONG = 33, "the user header is longer than 255 bytes";
    RESERVED_KIND = 34, "the kind belongs to the library";
    RESERVED_CHANNEL = 35, "the channel belongs to the library";
    RESERVED = 36, "a request or reply sets what belongs to the library";
    NOT_A_REQUEST = 37, "the message is no request";
    BUFFER_TOO_SHORT = 38, "the message is longer than the buffer";
    NEEDS_ANSWER = 39, "a long message waits for an answer of the program";
    NOT_WAITING = 40, "no such announced message waits for an answer";
    NEEDS_BUFFER = 41, "the announced message needs a buffer of the program";
    MEMORY_FULL = 42, "untaken messages of other channels fill the memory";
    NO_REGION = 48, "the target has no such region";
    NO_RIGHT = 49, "the key is wrong, or the region lacks the right";
    OUT_OF_REGION = 50, "the bytes are not in the region, or the integer is not aligned";
    NOT_PERMITTED = 51, "the peer does not permit this node that layer";
    UNKNOWN_PEER = 64, "the node knows no such peer";
    SUSPENDED = 65, "the session is suspended";
    CLOSING = 66, "the session is being closed";
    UNREAD = 67, "messages of four ended sessions with the peer are unread";
    CHANNELS = 68, "the peer lets no more channels be open";
    FINISHED_CHANNEL = 69, "the channel was finished";
    ENDED = 70, "the session with the peer ended";
    PROCESS_DIED = 71, "the process of the peer died";
    REFUSED = 72, "the peer refused the request";
    REPLY_TOO_LONG = 73, "the reply is longer than this node takes unasked";
    CALL_TO_ITSELF = 74, "the node would wait for its own reply";
    TOO_MANY_PEERS = 75, "as many peers are known as may be";
    MEMBER = 76, "a member of the group failed";
    EXCLUDED = 77, "the group goes on without this member";
    DIFFERENT = 78, "the members called different operations";
    CLOSED = 96, "the node is closed";
    ADDRESS = 97, "the text is no address that a node can have";
    ADDRESS_IN_USE = 98, "the address is in use";
    UNREACHABLE = 99, "the address cannot be reached from here";
    INSECURE = 100, "an address beyond loopback needs a key, or permission";
    BOOK = 101, "the address book has a fault";
    NOT_IN_BOOK = 102, "this node is not in its address book";
    CONFIG = 103, "a setting is out of its range";
    MISSING = 104, "a setting is missing";
    ENVIRONMENT = 105, "a variable of the environment makes no sense";
    NO_ROOM = 106, "the receive buffer has no room for a peer";
    NOT_FOUND = 107, "there is no such entry";
    LOG_TAKEN = 108, "another logger of the process was installed before";
    KEY = 109, "the key file cannot be used";
}

/// The bit of system errors.
pub const ERRNO_BIT: c_int = 0x10000;

/// `suci_error_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ErrorInfo {
    pub(crate) size: u32,
    pub(crate) result: c_int,
    pub(crate) node: u32,
    pub(crate) channel: u32,
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) limit: u64,
    pub(crate) reason: u64,
    pub(crate) count: u64,
}

// SAFETY: plain numbers, the first of which is the size.
unsafe impl Growable for ErrorInfo {
    const NAME: &'static str = "suci_error_info";
    const SMALLEST: usize = 56;
}

/// `suci_unflushed`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Unflushed {
    pub(crate) node: u32,
    pub(crate) reserved: u32,
    pub(crate) messages: u64,
}

/// Why a call fails: its result, the text, and what it is about.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) info: ErrorInfo,
    text: Cow<'static, str>,
    unflushed: Vec<Unflushed>,
}

impl Failure {
    pub(crate) fn new(code: c_int, text: impl Into<Cow<'static, str>>) -> Self {
        let info = ErrorInfo {
            result: code,
            ..ErrorInfo::default()
        };
        Self {
            info,
            text: text.into(),
            unflushed: Vec::new(),
        }
    }

    pub(crate) fn argument(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ARGUMENT, text)
    }

    pub(crate) fn code(&self) -> c_int {
        self.info.result
    }

    /// Returns the same, about an announced message.
    pub(crate) fn about(mut self, from: NodeId, channel: ChannelId, number: u64) -> Self {
        (self.info.node, self.info.channel, self.info.number) = (from.0, channel.0, number);
        self
    }

    /// Returns the same, about a peer.
    pub(crate) fn at(mut self, node: NodeId) -> Self {
        self.info.node = node.0;
        self
    }

    /// Returns the same with another code.
    pub(crate) fn with_code(mut self, code: c_int) -> Self {
        self.info.result = code;
        self
    }

    pub(crate) fn internal() -> Self {
        Self::new(
            INTERNAL,
            "the library panicked, which is a defect: please report it",
        )
    }

    pub(crate) const fn timed_out() -> Self {
        Self {
            info: ErrorInfo {
                size: 0,
                result: TIMED_OUT,
                node: 0,
                channel: 0,
                number: 0,
                length: 0,
                limit: 0,
                reason: 0,
                count: 0,
            },
            text: Cow::Borrowed(
                "nothing came within the time limit: call again, or allow more time",
            ),
            unflushed: Vec::new(),
        }
    }
}

fn system(source: &io::Error) -> c_int {
    source
        .raw_os_error()
        .map_or(INTERNAL, |errno| ERRNO_BIT | errno)
}

/// Returns the code of `reason` in `enum suci_end`.
pub(crate) fn end_code(reason: &EndReason) -> u32 {
    match reason {
        EndReason::Closed => 1,
        EndReason::CutShort { .. } => 2,
        EndReason::ClosedHere => 3,
        EndReason::Restarted => 4,
        EndReason::Reset => 5,
        EndReason::PeerEnded => 6,
        EndReason::Silent => 7,
        EndReason::ProcessDied => 8,
        EndReason::Protocol(_) => 9,
        EndReason::PeerProtocol(_) => 10,
        EndReason::Revoked => 11,
        EndReason::RevokedThere => 12,
    }
}

fn code_of(error: &Error) -> c_int {
    match error {
        Error::UnknownPeer(_) => UNKNOWN_PEER,
        Error::CallToItself(_) => CALL_TO_ITSELF,
        Error::WouldBlock { .. } => QUEUE_FULL,
        Error::Unread { .. } => UNREAD,
        Error::Suspended { .. } => SUSPENDED,
        Error::Closing { .. } => CLOSING,
        Error::TimedOut { .. } | Error::NotJoined { .. } => TIMED_OUT,
        Error::Woken => WOKEN,
        Error::Reserved { .. } => RESERVED,
        Error::NotARequest(_) => NOT_A_REQUEST,
        Error::Ended { .. } => ENDED,
        Error::ProcessDied(_) => PROCESS_DIED,
        Error::Refused { .. } => REFUSED,
        Error::ReplyTooLong { .. } => REPLY_TOO_LONG,
        Error::TooLong { .. } => TOO_LONG,
        Error::HeaderTooLong { .. } => HEADER_TOO_LONG,
        Error::ReservedKind { .. } => RESERVED_KIND,
        Error::ReservedChannel { .. } => RESERVED_CHANNEL,
        Error::Channels { .. } => CHANNELS,
        Error::FinishedChannel { .. } => FINISHED_CHANNEL,
        Error::NotPermitted { .. } => NOT_PERMITTED,
        Error::Closed => CLOSED,
        Error::Forked => FORKED,
        Error::AddressInUse { .. } => ADDRESS_IN_USE,
        Error::Bind { source, .. } | Error::Io { source, .. } => system(source),
        Error::Book(BookError::Unreadable { source, .. }) if source.raw_os_error().is_some() => {
            system(source)
        }
        Error::Book(_) => BOOK,
        Error::Key(KeyError::Unreadable { source, .. }) if source.raw_os_error().is_some() => {
            system(source)
        }
        Error::Key(_) | Error::NotSealed => KEY,
        Error::PlainOnNetwork { .. } => INSECURE,
        Error::NoRoom { .. } => NO_ROOM,
        Error::Unreachable { .. } => UNREACHABLE,
        Error::Config(_) | Error::Threads(_) => CONFIG,
        Error::Missing { .. } => MISSING,
        Error::Variable { .. } | Error::Launcher { .. } => ENVIRONMENT,
        Error::NotFlushed { .. } => NOT_FLUSHED,
        Error::BufferTooShort { .. } => BUFFER_TOO_SHORT,
        Error::NeedsAnswer { .. } => NEEDS_ANSWER,
        Error::MemoryFull { .. } => MEMORY_FULL,
        Error::Incoming(IncomingError::UnknownPeer(_)) => UNKNOWN_PEER,
        Error::Incoming(IncomingError::Inbox(answer)) => match answer {
            AnswerError::NotWaiting => NOT_WAITING,
            AnswerError::TooShort { .. } => BUFFER_TOO_SHORT,
            AnswerError::NeedsBuffer { .. } => NEEDS_BUFFER,
        },
        Error::Peer(PeerError::Itself(_)) => ARGUMENT,
        Error::Peer(PeerError::TooMany(_)) => TOO_MANY_PEERS,
        Error::NotInBook { .. } => NOT_IN_BOOK,
        _ => INTERNAL,
    }
}

/// Fills in what the error is about.
fn describe(error: &Error, info: &mut ErrorInfo) {
    match *error {
        Error::UnknownPeer(node)
        | Error::CallToItself(node)
        | Error::NotARequest(node)
        | Error::ProcessDied(node)
        | Error::Incoming(IncomingError::UnknownPeer(node)) => info.node = node.0,
        Error::WouldBlock { to, .. }
        | Error::Unread { to, .. }
        | Error::Suspended { to, .. }
        | Error::Closing { to, .. } => info.node = to.0,
        Error::Ended { node, ref reason } => {
            (info.node, info.reason) = (node.0, end_code(reason).into());
        }
        Error::Refused { node, reason } => (info.node, info.reason) = (node.0, reason),
        Error::ReplyTooLong { node, length } => (info.node, info.length) = (node.0, length),
        Error::TooLong { length } => info.length = length,
        Error::HeaderTooLong { length } => info.length = length as u64,
        Error::ReservedChannel { channel } => info.channel = channel.0,
        Error::Channels { to, open } => (info.node, info.limit) = (to.0, open),
        Error::FinishedChannel { to, channel } => (info.node, info.channel) = (to.0, channel.0),
        Error::BufferTooShort { length, buffer } => (info.length, info.limit) = (length, buffer),
        Error::NeedsAnswer {
            from,
            channel,
            number,
            length,
            limit,
        } => {
            (info.node, info.channel, info.number) = (from.0, channel.0, number);
            (info.length, info.limit) = (length, limit);
        }
        Error::MemoryFull {
            from,
            channel,
            bytes,
            ..
        } => (info.node, info.channel, info.length) = (from.0, channel.0, bytes),
        Error::Incoming(IncomingError::Inbox(ref answer)) => match *answer {
            AnswerError::TooShort { ref buffer, needed } => {
                (info.length, info.limit) = (needed, buffer.len() as u64);
            }
            AnswerError::NeedsBuffer { total, max } => (info.length, info.limit) = (total, max),
            AnswerError::NotWaiting => {}
        },
        _ => {}
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let mut failure = Self::new(code_of(&error), error.to_string());
        describe(&error, &mut failure.info);
        if let Error::NotFlushed { peers } = error {
            let each = |(node, messages): (suci::NodeId, u64)| Unflushed {
                node: node.0,
                reserved: 0,
                messages,
            };
            failure.unflushed = peers.into_iter().map(each).collect();
            failure.info.count = failure.unflushed.len() as u64;
        }
        failure
    }
}

/// The last failure of a thread, and its text once C asked for it.
#[derive(Default)]
struct Last {
    failure: Option<Failure>,
    text: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Keeps the failure for the calls that ask for it. Returns its code.
#[cold]
pub(crate) fn keep(failure: Failure) -> c_int {
    let code = failure.code();
    // A thread that is ending keeps nothing.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Last {
                failure: Some(failure),
                text: None,
            };
        }
    });
    code
}

/// Returns the short text of a result.
#[unsafe(no_mangle)]
pub extern "C" fn suci_strerror(result: c_int) -> *const c_char {
    if result & ERRNO_BIT != 0 {
        // SAFETY: the call takes any number and returns a text that is never freed, or null.
        let text = unsafe { libc::strerror(result & 0xffff) };
        if !text.is_null() {
            return text;
        }
    }
    text_of(result)
        .unwrap_or(c"an error of a later version")
        .as_ptr()
}

/// Returns the text of this thread's last failure.
#[unsafe(no_mangle)]
pub extern "C" fn suci_last_error_message() -> *const c_char {
    let text = |last: &RefCell<Last>| {
        let mut last = last.try_borrow_mut().ok()?;
        let Last { failure, text } = &mut *last;
        let failure = failure.as_ref()?;
        let text = text.get_or_insert_with(|| {
            let bytes: Vec<u8> = failure.text.bytes().filter(|byte| *byte != 0).collect();
            CString::new(bytes).unwrap_or_default()
        });
        Some(text.as_ptr())
    };
    LAST.try_with(text).ok().flatten().unwrap_or(c"".as_ptr())
}

/// Returns what this thread's last failure was about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_last_error_info(info: *mut ErrorInfo) -> c_int {
    quietly(|| {
        let known = LAST.try_with(|last| {
            let last = last.try_borrow().ok()?;
            last.failure.as_ref().map(|failure| failure.info)
        });
        let known = known.ok().flatten().unwrap_or_default();
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(info, known) }
    })
}

/// Lists the peers of this thread's last failure to flush.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_last_error_unflushed(
    peers: *mut Unflushed,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    quietly(|| {
        let known = LAST.try_with(|last| {
            let last = last.try_borrow().ok()?;
            Some(last.failure.as_ref()?.unflushed.clone())
        });
        let known = known.ok().flatten().unwrap_or_default();
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill_list(peers, capacity, count, known.into_iter()) }
    })
}
