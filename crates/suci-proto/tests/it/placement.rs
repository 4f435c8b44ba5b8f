//! The way of bytes from a datagram to memory that a layer named.

use crate::net::message;
use crate::pair::Pair;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use suci_proto::message::IncomingInfo;
use suci_proto::types::{ChannelId, Source};
use suci_proto::{
    LentMemory, Outgoing, Place, PlacedBy, Placement, Port, PortInput, ReceiveBuffer,
};

const LENGTH: usize = 64 << 10;

/// The copies to and from the memory of the messages.
#[derive(Debug, Default)]
struct Copies {
    /// The bytes, each with the number of copies to it.
    bytes: Vec<(u8, u32)>,
    /// Bytes that did not come straight from the datagram that was handled.
    detours: usize,
    /// Bytes that were copied away from the memory.
    reads: usize,
}

/// Names memory for each message of [`LENGTH`] bytes.
struct Counting {
    copies: Arc<Mutex<Copies>>,
    datagram: Arc<Mutex<Range<usize>>>,
}

impl Placement for Counting {
    fn place(&self, _: Source, message: &IncomingInfo) -> Place {
        if message.total != LENGTH as u64 {
            return Place::Own;
        }
        self.copies.lock().unwrap().bytes = vec![(0, 0); LENGTH];
        let (copies, datagram) = (Arc::clone(&self.copies), Arc::clone(&self.datagram));
        Place::Named(ReceiveBuffer::lent(Counting { copies, datagram }))
    }
}

impl LentMemory for Counting {
    fn length(&self) -> usize {
        LENGTH
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        let (mut copies, datagram) = (self.copies.lock().unwrap(), self.datagram.lock().unwrap());
        let from = bytes.as_ptr_range();
        let direct = datagram.start <= from.start.addr() && from.end.addr() <= datagram.end;
        copies.detours += if direct { 0 } else { bytes.len() };
        for (to, byte) in copies.bytes[at..].iter_mut().zip(bytes) {
            *to = (*byte, to.1 + 1);
        }
    }

    fn read(&self, _: usize, bytes: &mut [u8]) {
        self.copies.lock().unwrap().reads += bytes.len();
    }
}

/// Without loss each byte is copied once, from the datagram to where it belongs: the payload of a
/// put, that of a message for a call that lent its buffer, and that of a collective operation.
#[test]
fn placed_bytes_are_copied_once_from_the_datagram() {
    let bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    for channel in [
        ChannelId(0),
        ChannelId::of_remote(0),
        ChannelId::of_group(0),
    ] {
        let (copies, datagram) = (Arc::default(), Arc::default());
        let placed = PlacedBy::new(Arc::new(Counting {
            copies: Arc::clone(&copies),
            datagram: Arc::clone(&datagram),
        }));
        let mut pair = Pair::with_placement(placed, datagram);
        // A connection is there before, as between nodes that work.
        pair.send(0, message(b"first"));
        pair.run(suci_proto::time::Duration::from_secs(1));
        pair.received(1);
        let outgoing = Outgoing {
            channel,
            ..message(&bytes)
        };
        pair.send(0, outgoing);
        pair.run(suci_proto::time::Duration::from_secs(1));
        let sender = pair.id(0);
        let of_group = pair.engine_mut(1).recv_of_group(sender, channel);
        let mut inputs = std::iter::from_fn(|| pair.engine_mut(1).poll_port(Port::Remote));
        let input = inputs.find(|input| !matches!(input, PortInput::Up(_)));
        let length = match (of_group, input) {
            (Some((_, message)), None) => message.payload.placed(),
            (None, Some(PortInput::Message(_, message))) => message.payload.placed(),
            (None, None) => pair.received(1)[0].payload.placed(),
            other => panic!("{other:?}"),
        };
        assert_eq!(length, Some(LENGTH as u64));
        let copies = copies.lock().unwrap();
        assert_eq!((copies.detours, copies.reads), (0, 0));
        let once = bytes.iter().map(|byte| (*byte, 1));
        assert!(copies.bytes.iter().copied().eq(once), "each byte, once");
        println!(
            "figure: {LENGTH} B on channel {}: 1 copy of each",
            channel.0
        );
    }
}
