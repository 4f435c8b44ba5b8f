//! The arithmetic of trains, and the one place where their contract is checked.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};

use crate::{Ecn, MAX_SLICES, MAX_TRAIN_BYTES, SendOutcome, Train};

/// The way in which a [`Train`] broke its contract. It is the caller's mistake; nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// `len` is not the sum of the slices.
    #[error("the train says {len} bytes, its slices hold {held}")]
    Length {
        /// The train's `len`, in bytes.
        len: usize,
        /// Bytes in its slices.
        held: usize,
    },
    /// Bytes, but segments of none.
    #[error("the train has {len} bytes in segments of 0")]
    EmptySegments {
        /// The train's `len`, in bytes.
        len: usize,
    },
    /// More slices than one system call takes.
    #[error("the train has {slices} slices, at most {MAX_SLICES} are allowed")]
    Slices {
        /// Number of slices.
        slices: usize,
    },
    /// More segments than the backend's `max_segments`.
    #[error("the train has {segments} segments, this backend takes {max}")]
    Segments {
        /// Number of segments.
        segments: usize,
        /// The backend's limit.
        max: usize,
    },
    /// Several segments that together exceed [`MAX_TRAIN_BYTES`].
    #[error("the train has {len} bytes, at most {MAX_TRAIN_BYTES} are allowed")]
    Bytes {
        /// The train's `len`, in bytes.
        len: usize,
    },
}

impl<'a> Train<'a> {
    /// A train of one datagram made of `slices`.
    #[must_use]
    pub fn single(dest: SocketAddr, ecn: Ecn, slices: &'a [IoSlice<'a>]) -> Self {
        let len = slices.iter().map(|s| s.len()).sum();
        Self {
            dest,
            source: None,
            ecn,
            segment: len,
            slices,
            len,
        }
    }

    /// The number of datagrams that the train becomes: at least 1, since an empty train is an empty
    /// datagram.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.len.div_ceil(self.segment.max(1)).max(1)
    }

    /// Checks the contract, and answers at once if no system call is needed.
    ///
    /// A destination port of 0 is such a case: the kernel answers `EINVAL`, which on a train would
    /// look like refused segmentation offload, and a spoofed source port could switch it off.
    pub(crate) fn admit(&self, max_segments: usize) -> io::Result<Option<SendOutcome>> {
        let held = self
            .slices
            .iter()
            .map(|s| s.len())
            .fold(0, usize::saturating_add);
        let segments = self.segments();
        let broken = if held != self.len {
            Some(TrainError::Length {
                len: self.len,
                held,
            })
        } else if self.len > 0 && self.segment == 0 {
            Some(TrainError::EmptySegments { len: self.len })
        } else if self.slices.len() > MAX_SLICES {
            Some(TrainError::Slices {
                slices: self.slices.len(),
            })
        } else if segments > 1 && max_segments == 1 {
            return Ok(Some(SendOutcome::NoGso));
        } else if segments > max_segments {
            Some(TrainError::Segments {
                segments,
                max: max_segments,
            })
        } else if segments > 1 && self.len > MAX_TRAIN_BYTES {
            Some(TrainError::Bytes { len: self.len })
        } else {
            None
        };
        if let Some(error) = broken {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        if self.dest.port() == 0 {
            return Ok(Some(SendOutcome::Unreachable(io::ErrorKind::InvalidInput)));
        }
        Ok((self.len > MAX_TRAIN_BYTES).then_some(SendOutcome::TooBig))
    }
}

/// Appends those pieces of `slices` that make up the bytes `from..to` of their concatenation.
pub(crate) fn cut<'a>(
    slices: &'a [IoSlice<'a>],
    from: usize,
    to: usize,
    out: &mut Vec<IoSlice<'a>>,
) {
    let mut start = 0_usize;
    for slice in slices {
        let end = start.saturating_add(slice.len());
        if start >= to {
            break;
        }
        let low = from.max(start).saturating_sub(start);
        let high = to.min(end).saturating_sub(start);
        if let Some(piece) = slice.get(low..high)
            && !piece.is_empty()
        {
            out.push(IoSlice::new(piece));
        }
        start = end;
    }
}

/// The IPv4 address that an IPv4-mapped one stands for; others stay as they are.
pub(crate) fn unmapped(addr: SocketAddr) -> SocketAddr {
    match addr {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => addr,
        },
        SocketAddr::V4(_) => addr,
    }
}

#[cfg(test)]
mod tests;
