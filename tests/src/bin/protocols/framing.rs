//! The packets of a stream without losses, by the library's own frames.

use suci_proto::message::SMALL;
use suci_proto::types::{ChannelId, Kind};
use suci_proto::wire::{FragHead, PLAIN_OVERHEAD, Start};

/// The packets that carry a stream, and the bytes of their datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
    /// The longest datagram.
    datagram: usize,
    /// Bytes that are left in the newest one.
    room: usize,
}

impl Packets {
    /// Packs `count` messages of `size` bytes, as a node does whose queue is never empty: short
    /// ones whole, longer ones cut wherever a packet ends.
    pub(crate) fn of_stream(size: usize, count: u64, datagram: usize) -> Self {
        let mut packets = Self {
            count: 0,
            bytes: 0,
            datagram,
            room: 0,
        };
        for message in 0..count {
            let mut done = 0;
            while done < size {
                match packets.put(message, size, done) {
                    Some(put) => done += put,
                    None => packets.begin(),
                }
            }
        }
        packets
    }

    fn begin(&mut self) {
        self.count += 1;
        self.bytes += PLAIN_OVERHEAD as u64;
        self.room = self.datagram - PLAIN_OVERHEAD;
    }

    /// Puts bytes of a message behind the first `done` ones, and returns how many. None if the
    /// packet has no room.
    fn put(&mut self, message: u64, size: usize, done: usize) -> Option<usize> {
        let start = Start {
            total: size as u64,
            tag: 0,
            kind: Kind::USER,
            user_header: &[],
        };
        let mut head = FragHead {
            channel: ChannelId(0),
            message,
            offset: done as u64,
            end: true,
            start: (done == 0).then_some(start),
        };
        let rest = size - done;
        let whole = head.size(rest, false) + rest;
        if whole <= self.room {
            self.take(whole);
            return Some(rest);
        }
        if size <= SMALL {
            return None;
        }
        // The last frame of a packet needs no length.
        head.end = head.capacity(self.room)? >= rest;
        let put = head.capacity(self.room)?.min(rest);
        if put == 0 {
            return None;
        }
        self.take(head.size(put, true) + put);
        self.room = 0;
        Some(put)
    }

    fn take(&mut self, bytes: usize) {
        self.room -= bytes;
        self.bytes += bytes as u64;
    }
}
