//! The protocol's test vectors of one-sided operations, in both directions.

#[path = "../../../suci-proto/tests/it/page.rs"]
mod page;

use page::{Vector, hex, page, vectors};
use suci_layers::remote::{Access, Action, AtomicOp, Layout, Reply, Request, Signal, SignalUpdate};
use suci_proto::types::Kind;
use suci_proto::wire::{Reader, varint};

fn layout(layout: &Layout) -> String {
    let (start, end, total) = (layout.start(), layout.end(), layout.total());
    format!("bytes={total} within={start}..{end}")
}

fn signal(signal: Signal) -> String {
    let offset = signal.offset;
    match signal.update {
        SignalUpdate::Set(value) => format!(" signal={offset} set={value}"),
        SignalUpdate::Add(value) => format!(" signal={offset} add={value}"),
    }
}

fn op(op: AtomicOp) -> String {
    match op {
        AtomicOp::Fetch => "fetch".into(),
        AtomicOp::Set(operand) => format!("set={operand}"),
        AtomicOp::Add(operand) => format!("add={operand}"),
        AtomicOp::And(operand) => format!("and={operand}"),
        AtomicOp::Or(operand) => format!("or={operand}"),
        AtomicOp::Xor(operand) => format!("xor={operand}"),
        AtomicOp::Swap(operand) => format!("swap={operand}"),
        AtomicOp::CompareSwap { expected, new } => format!("compare={expected} swap={new}"),
    }
}

fn request(request: &Request) -> String {
    let Request::Access(Access {
        region,
        key,
        action,
    }) = request
    else {
        return "FLUSH".into();
    };
    let at = format!("region={region} key={key:#x}");
    match action {
        Action::Put {
            layout: places,
            signal: update,
            fenced,
        } => {
            let update = update.map_or(String::new(), signal);
            let fence = if *fenced { " fenced" } else { "" };
            format!("PUT {at} {}{update}{fence}", layout(places))
        }
        Action::Get { layout: places } => format!("GET {at} {}", layout(places)),
        Action::Atomic {
            offset,
            width,
            op: operation,
        } => {
            let bits = width.bytes() * 8;
            format!("ATOMIC {at} offset={offset} bits={bits} {}", op(*operation))
        }
    }
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Done => "DONE".into(),
        Reply::Data => "DATA".into(),
        Reply::Value { before } => format!("VALUE before={before}"),
        Reply::Error { error, count } => format!(
            "ERROR code={} region={} offset={} length={} count={count}",
            error.kind as u8, error.region, error.offset, error.length
        ),
    }
}

/// Returns the meaning of a vector, and its encoding.
fn explain(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut reader = Reader::new(bytes);
    let kind = Kind(reader.u8().ok()?);
    let total = reader.varint().ok()?;
    let header = reader.rest();
    let (meaning, again) = match Request::read(kind, header, total) {
        Ok(read) => (request(&read), read.header()),
        Err(_) => {
            let read = Reply::read(kind, header, total).ok()?;
            (reply(&read), read.header())
        }
    };
    let mut whole = vec![kind.0];
    varint::put(&mut whole, total);
    whole.extend(again);
    Some((meaning, whole))
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut seen = String::new();
    let of_this_layer = |vector: &Vector| vector.kind == "one-sided";
    for Vector { bytes, meaning, .. } in vectors(&page()).into_iter().filter(of_this_layer) {
        match explain(&bytes) {
            None => assert_eq!(meaning, "refused", "{}", hex(&bytes)),
            Some((text, again)) => {
                assert_eq!(text, meaning, "{}", hex(&bytes));
                assert_eq!(hex(&again), hex(&bytes), "{meaning}");
            }
        }
        seen.push_str(&meaning);
        seen.push(' ');
    }
    let words = "PUT GET ATOMIC FLUSH DONE DATA VALUE ERROR refused fenced bits=32 bits=64 fetch";
    let parts = "signal= set= add= and= or= xor= swap= compare=";
    for word in words.split(' ').chain(parts.split(' ')) {
        assert!(seen.contains(word), "no vector for {word}");
    }
}
