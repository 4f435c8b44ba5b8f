//! libfabric's error codes.

use core::ffi::c_int;
use suci::Error;

/// An error code: positive here, negative where a function of C returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) c_int);

/// The result of what a function of C does.
pub(crate) type Outcome<T> = Result<T, Code>;

impl Code {
    pub(crate) const AGAIN: Self = Self(libc::EAGAIN);
    pub(crate) const ADDRINUSE: Self = Self(libc::EADDRINUSE);
    pub(crate) const BADF: Self = Self(libc::EBADF);
    pub(crate) const BUSY: Self = Self(libc::EBUSY);
    pub(crate) const CANCELED: Self = Self(libc::ECANCELED);
    pub(crate) const HOSTUNREACH: Self = Self(libc::EHOSTUNREACH);
    pub(crate) const INVAL: Self = Self(libc::EINVAL);
    pub(crate) const IO: Self = Self(libc::EIO);
    pub(crate) const MFILE: Self = Self(libc::EMFILE);
    pub(crate) const MSGSIZE: Self = Self(libc::EMSGSIZE);
    pub(crate) const NODATA: Self = Self(libc::ENODATA);
    pub(crate) const NOENT: Self = Self(libc::ENOENT);
    pub(crate) const NOMEM: Self = Self(libc::ENOMEM);
    pub(crate) const NOMSG: Self = Self(libc::ENOMSG);
    pub(crate) const NOPROTOOPT: Self = Self(libc::ENOPROTOOPT);
    pub(crate) const NOSYS: Self = Self(libc::ENOSYS);
    pub(crate) const OPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    pub(crate) const TIMEDOUT: Self = Self(libc::ETIMEDOUT);
    /// `FI_ETOOSMALL`.
    pub(crate) const TOOSMALL: Self = Self(257);
    /// `FI_EOPBADSTATE`.
    pub(crate) const OPBADSTATE: Self = Self(258);
    /// `FI_EAVAIL`: an error is there to be read.
    pub(crate) const AVAIL: Self = Self(259);
    /// `FI_EBADFLAGS`.
    pub(crate) const BADFLAGS: Self = Self(260);
    /// `FI_EDOMAIN`: objects of two domains.
    pub(crate) const DOMAIN: Self = Self(262);
    /// `FI_ENOCQ`.
    pub(crate) const NOCQ: Self = Self(263);
    /// `FI_ETRUNC`.
    pub(crate) const TRUNC: Self = Self(265);
    /// `FI_ENOAV`.
    pub(crate) const NOAV: Self = Self(267);
}

impl From<Error> for Code {
    fn from(error: Error) -> Self {
        match error {
            Error::WouldBlock { .. } | Error::Unread { .. } | Error::Suspended { .. } => {
                Self::AGAIN
            }
            Error::UnknownPeer(_)
            | Error::Closing { .. }
            | Error::Ended { .. }
            | Error::ProcessDied(_) => Self::HOSTUNREACH,
            Error::TooLong { .. } => Self::MSGSIZE,
            Error::Closed | Error::Forked => Self::OPBADSTATE,
            _ => Self::IO,
        }
    }
}

/// The result in C of a function that has no other one.
pub(crate) fn status(result: Outcome<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(code) => -code.0,
    }
}

/// The result in C of a function that counts, or that only accepts an operation.
pub(crate) fn count(result: Outcome<usize>) -> isize {
    match result {
        Ok(count) => isize::try_from(count).unwrap_or(isize::MAX),
        Err(code) => -(code.0 as isize),
    }
}

/// The function of slots that the provider does not fill.
pub(crate) extern "C" fn not_there() -> isize {
    -(libc::ENOSYS as isize)
}
