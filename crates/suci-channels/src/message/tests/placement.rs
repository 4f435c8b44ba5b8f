//! Memory that a layer names for its messages.

use super::*;
use crate::port::{Port, Ports};
use std::sync::{Arc, Mutex, PoisonError};
use suci_link::types::{SessionNumber, Source};

/// A channel of the layer.
const CHANNEL: ChannelId = ChannelId::of_remote(1);
const TOTAL: usize = 3_000;

/// Memory of a layer, with room for `len` bytes; `None` once it is withdrawn.
#[derive(Clone, Default)]
struct Region(Arc<Mutex<Option<Vec<u8>>>>);

impl Region {
    fn with<T>(&self, use_it: impl FnOnce(&mut Option<Vec<u8>>) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn bytes(&self) -> Vec<u8> {
        self.with(|memory| memory.clone()).unwrap()
    }
}

impl LentMemory for Region {
    fn length(&self) -> usize {
        4 << 20
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.with(|memory| {
            if let Some(memory) = memory {
                memory.resize(memory.len().max(at + bytes.len()), 0);
                memory[at..at + bytes.len()].copy_from_slice(bytes);
            }
        });
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        self.with(|memory| {
            if let Some(memory) = memory {
                bytes.copy_from_slice(&memory[at..at + bytes.len()]);
            }
        });
    }
}

/// Names a region of its own for each message.
#[derive(Default)]
struct Layer {
    asked: Mutex<Vec<(MessageNumber, Region)>>,
}

impl Layer {
    fn regions(&self) -> Vec<(MessageNumber, Region)> {
        self.asked.lock().unwrap().clone()
    }

    fn numbers(&self) -> Vec<MessageNumber> {
        self.regions().iter().map(|(number, _)| *number).collect()
    }
}

impl Placement for Layer {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        assert_eq!(from.node, NodeId(7));
        assert!([C0, CHANNEL].contains(&message.channel));
        let region = Region::default();
        region.with(|memory| *memory = Some(Vec::new()));
        let mut asked = self.asked.lock().unwrap();
        asked.push((message.number, region.clone()));
        Place::Named(ReceiveBuffer::lent(region))
    }
}

fn with_layer() -> (Inbox, Arc<Layer>) {
    let (mut inbox, layer) = (inbox(), Arc::new(Layer::default()));
    let (node, session) = (NodeId(7), SessionNumber(0));
    let by = PlacedBy::new(layer.clone());
    inbox.set_layers(Source { node, session }, by, Ports::ALL);
    (inbox, layer)
}

/// A piece of message `number`, which has `TOTAL` bytes.
fn piece(inbox: &mut Inbox, number: u64, range: Range<usize>) {
    let bytes = content(number, TOTAL);
    let mut piece = Frag {
        channel: CHANNEL,
        ..frag(
            number,
            TOTAL as u64,
            range.start as u64,
            &bytes[range.clone()],
        )
    };
    piece.end |= range.end == TOTAL;
    inbox.on_frag(&piece).unwrap();
}

fn handled(inbox: &mut Inbox) -> Vec<Message> {
    std::iter::from_fn(|| inbox.pop_for(Port::Remote)).collect()
}

#[test]
fn bytes_go_to_the_named_memory_in_any_order() {
    let (mut inbox, layer) = with_layer();
    piece(&mut inbox, 0, 0..1_000);
    piece(&mut inbox, 0, 2_000..3_000);
    let (_, region) = layer.regions().remove(0);
    assert_eq!(region.bytes()[2_000..], content(0, TOTAL)[2_000..]);
    piece(&mut inbox, 0, 500..2_500);
    let message = handled(&mut inbox).remove(0);
    assert_eq!(message.payload.placed(), Some(TOTAL as u64));
    assert!(message.payload.is_empty());
    assert_eq!(region.bytes(), content(0, TOTAL));
    assert_eq!(Arc::strong_count(&region.0), 2, "the inbox returned it");
    assert_eq!(inbox.memory_used(), 0);
}

#[test]
fn pieces_before_the_first_are_buffered_and_then_moved() {
    let (mut inbox, layer) = with_layer();
    piece(&mut inbox, 0, 1_000..2_000);
    assert!(layer.regions().is_empty(), "nobody knows what it is");
    piece(&mut inbox, 0, 0..1_000);
    piece(&mut inbox, 0, 2_000..3_000);
    assert_eq!(layer.regions()[0].1.bytes(), content(0, TOTAL));
    assert_eq!(handled(&mut inbox).len(), 1);
}

#[test]
fn f10_bytes_never_get_ahead_of_a_message_in_the_inbox() {
    let (mut inbox, layer) = with_layer();
    // The beginning of message 0 is late.
    piece(&mut inbox, 0, 1_500..3_000);
    piece(&mut inbox, 1, 0..1_500);
    assert!(layer.numbers().is_empty());
    piece(&mut inbox, 0, 0..1_500);
    piece(&mut inbox, 1, 1_500..3_000);
    // Message 1 waits in the inbox, so message 2 would get ahead of it.
    piece(&mut inbox, 2, 0..1_500);
    assert_eq!(layer.numbers(), [0]);
    let taken = handled(&mut inbox);
    assert_eq!(taken[0].payload.placed(), Some(TOTAL as u64));
    assert_eq!(taken[1].payload, content(1, TOTAL));
    // Message 2 began before.
    piece(&mut inbox, 2, 1_500..3_000);
    handled(&mut inbox);
    // Of messages that go to memory of their own any number may wait, also incomplete ones.
    for number in 3..6 {
        piece(&mut inbox, number, 0..1_500);
    }
    assert_eq!(layer.numbers(), [0, 3, 4, 5]);
    for number in 3..6 {
        piece(&mut inbox, number, 1_500..3_000);
    }
    assert_eq!(handled(&mut inbox).len(), 3);
}

/// A short message whose end comes first is in the chunk until its layer names memory.
#[test]
fn a_message_that_moves_to_named_memory_leaves_the_chunk() {
    let (mut inbox, _) = with_layer();
    let end = Frag {
        channel: CHANNEL,
        end: true,
        ..frag(0, 300, 150, &[2; 150])
    };
    inbox.on_frag(&end).unwrap();
    let begin = Frag {
        channel: CHANNEL,
        ..frag(0, 300, 0, &[1; 150])
    };
    inbox.on_frag(&begin).unwrap();
    assert_eq!(handled(&mut inbox)[0].payload.placed(), Some(300));
    assert!(inbox.shrink(), "nothing is lent from the chunk");
}

fn announce(inbox: &mut Inbox, number: MessageNumber, total: u64) {
    let rts = Rts {
        channel: CHANNEL,
        message: number,
        total,
        tag: 0,
        kind: Kind::USER,
        user_header: &[],
    };
    inbox.on_rts(&rts).unwrap();
}

#[test]
fn announced_messages_are_permitted_into_named_memory_however_long_they_are() {
    let (mut inbox, layer) = with_layer();
    piece(&mut inbox, 0, 1_000..3_000);
    // Longer than any message into our own memory.
    announce(&mut inbox, 1, 2 << 20);
    assert!(
        !inbox.has_answers(),
        "nobody knows where the earlier message goes"
    );
    piece(&mut inbox, 0, 0..1_000);
    handled(&mut inbox);
    assert_eq!(layer.numbers(), [0, 1]);
}

/// The program's memory, from which it takes messages back that it does not wait for any more.
#[test]
fn f04_lent_memory_that_is_taken_back_gets_no_byte_more() {
    let (mut inbox, layer) = with_layer();
    let piece = |inbox: &mut Inbox, number: u64, range: Range<usize>| {
        let bytes = content(number, TOTAL);
        let offset = range.start as u64;
        let mut piece = frag(number, TOTAL as u64, offset, &bytes[range.clone()]);
        piece.end |= range.end == TOTAL;
        inbox.on_frag(&piece).unwrap();
    };
    piece(&mut inbox, 0, 0..TOTAL - 1);
    piece(&mut inbox, 0, TOTAL - 1..TOTAL);
    piece(&mut inbox, 1, 0..1_000);
    assert_eq!(layer.numbers(), [0, 1]);
    inbox.take_back();
    piece(&mut inbox, 1, 1_000..3_000);
    let received = pop_all(&mut inbox);
    assert_eq!(layer.regions()[1].1.bytes(), content(1, TOTAL)[..1_000]);
    for (message, number) in received.iter().zip(0..2) {
        assert_eq!(message.payload, content(number, TOTAL));
    }
    for (_, region) in layer.regions() {
        assert_eq!(Arc::strong_count(&region.0), 2, "nothing else has it");
    }
}

#[test]
fn without_a_layer_its_messages_go_to_the_program() {
    let mut inbox = inbox();
    inbox
        .on_frag(&Frag {
            channel: CHANNEL,
            ..frag(0, 5, 0, b"hello")
        })
        .unwrap();
    assert!(handled(&mut inbox).is_empty());
    assert_eq!(pop_all(&mut inbox).len(), 1);
}
