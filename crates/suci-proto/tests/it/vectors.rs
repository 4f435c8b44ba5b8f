//! The protocol's test vectors and its table of constants against this implementation: pages and
//! code must agree, in both directions.

use crate::page::{Vector, hex, page, vectors};
use std::fmt::Write;
use suci_proto::limits;
use suci_proto::types::ProtocolError;
use suci_proto::wire::{
    Accept, Cookie, Crc, CrcScope, Credit, Frame, Header, Hello, Init, PLAIN_OVERHEAD, PacketType,
    Params, Reader, Refused, frames, open, put_header, seal, varint,
};

fn credit(c: &Credit) -> String {
    let Credit {
        generation,
        limit,
        control,
        memory,
    } = c;
    format!("generation={generation} limit={limit} control={control} memory={memory}")
}

fn frame(frame: &Frame<'_>) -> String {
    match frame {
        Frame::Padding(len) => format!("PADDING {len}"),
        Frame::Ping => "PING".into(),
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack
                .ranges()
                .map(|r| format!("{}..={}", r.start(), r.end()))
                .collect();
            let mut text = format!("ACK {} delay={}ns", ranges.join(","), ack.delay.as_nanos());
            if let Some(e) = ack.ecn {
                write!(text, " ect0={} ect1={} ce={}", e.ect0, e.ect1, e.ce).unwrap();
            }
            if let Some(c) = &ack.credit {
                write!(text, " {}", credit(c)).unwrap();
            }
            text
        }
        Frame::Credit(c) => format!("CREDIT {}", credit(c)),
        Frame::Reclaim { generation } => format!("RECLAIM generation={generation}"),
        Frame::Return {
            generation,
            highest,
            size,
        } => {
            format!("RETURN generation={generation} highest={highest} size={size}")
        }
        Frame::Blocked(b) => format!(
            "BLOCKED generation={} limit={} memory={} waiting={}",
            b.generation, b.limit, b.memory, b.waiting
        ),
        Frame::MaxChannel { channel, limit } => {
            format!("MAX_CHANNEL channel={} limit={limit}", channel.0)
        }
        Frame::ChannelBlocked { channel, limit } => {
            format!("CHANNEL_BLOCKED channel={} limit={limit}", channel.0)
        }
        Frame::Rts(r) => format!(
            "RTS channel={} message={} total={} tag={} kind={} header={}",
            r.channel.0,
            r.message,
            r.total,
            r.tag,
            r.kind.0,
            hex(r.user_header)
        ),
        Frame::Cts { channel, message } => format!("CTS channel={} message={message}", channel.0),
        Frame::Refuse {
            channel,
            message,
            reason,
        } => {
            format!(
                "REFUSE channel={} message={message} reason={reason}",
                channel.0
            )
        }
        Frame::Mode { number, mode } => format!("MODE number={number} mode={}", *mode as u8),
        Frame::Fin { channel, count } => format!("FIN channel={} count={count}", channel.0),
        Frame::MaxChannels { limit } => format!("MAX_CHANNELS limit={limit}"),
        Frame::Suspend { number } => format!("SUSPEND number={number}"),
        Frame::Resume { number } => format!("RESUME number={number}"),
        Frame::Close(c) => {
            format!(
                "CLOSE code={} sent={} received={}",
                c.code, c.sent, c.received
            )
        }
        Frame::Challenge(value) => format!("CHALLENGE {value:#x}"),
        Frame::Response(value) => format!("RESPONSE {value:#x}"),
        Frame::Frag(f) => {
            let mut text = format!(
                "FRAG channel={} message={} offset={}",
                f.channel.0, f.message, f.offset
            );
            if f.end {
                text.push_str(" end");
            }
            if let Some(s) = &f.start {
                let (tag, kind, header) = (s.tag, s.kind.0, hex(s.user_header));
                write!(
                    text,
                    " total={} tag={tag} kind={kind} header={header}",
                    s.total
                )
                .unwrap();
            }
            write!(text, " data={}", hex(f.data)).unwrap();
            text
        }
    }
}

fn payload(bytes: &[u8]) -> Result<String, ProtocolError> {
    let texts: Result<Vec<_>, _> = frames(bytes).map(|f| f.map(|f| frame(&f))).collect();
    Ok(texts?.join("; "))
}

/// Encodes again; the last FRAG of a packet is tried without its length, too.
fn payload_again(bytes: &[u8], original: &[u8]) -> Vec<u8> {
    let list: Vec<_> = frames(bytes).map(Result::unwrap).collect();
    let mut buf = Vec::new();
    for (i, frame) in list.iter().enumerate() {
        let before = buf.len();
        frame.put(&mut buf);
        if let (Frame::Frag(f), true) = (frame, i + 1 == list.len() && buf != original) {
            buf.truncate(before);
            f.head().put(&mut buf, f.data.len(), true);
            buf.extend_from_slice(f.data);
        }
    }
    buf
}

fn params(p: &Params) -> String {
    format!(
        "max_ack_delay={}ns channel_memory={} max_channels={} max_message={} max_datagram={} unattended={} mode={} \
         extensions={:#x} sealed={}",
        p.max_ack_delay.as_nanos(),
        p.channel_memory,
        p.max_channels,
        p.max_message,
        p.max_datagram,
        u8::from(p.unattended),
        p.mode as u8,
        p.extensions,
        p.sealed.as_deref().map_or("none".into(), hex),
    )
}

/// Meaning of a body, and the body encoded again.
fn body(kind: PacketType, bytes: &[u8]) -> Result<(String, Vec<u8>), ProtocolError> {
    let mut again = Vec::new();
    let text = match kind {
        PacketType::Data => {
            again = payload_again(bytes, bytes);
            payload(bytes)?
        }
        PacketType::Unknown => String::new(),
        PacketType::Hello => {
            let hello = Hello::read(bytes)?;
            hello.put(&mut again);
            format!(
                "target={} incarnation={:#x}",
                hello.target, hello.incarnation.0
            )
        }
        PacketType::Cookie => {
            let c = Cookie::read(bytes)?;
            c.put(&mut again);
            let (target, incarnation) = (c.target, c.incarnation.0);
            format!(
                "target={target} incarnation={incarnation:#x} cookie={} epoch={}",
                hex(&c.cookie),
                c.epoch.0
            )
        }
        PacketType::Init => {
            let i = Init::read(bytes)?;
            i.put(&mut again);
            format!(
                "target={} incarnation={:#x} peer={:#x} epoch={} index={:#x} tag={:#x} cookie={} \
                 {} {} ride: {}",
                i.target,
                i.incarnation.0,
                i.peer_incarnation.0,
                i.epoch.0,
                i.index,
                i.tag,
                hex(&i.cookie),
                credit(&i.grant),
                params(&i.params),
                payload(i.ride)?,
            )
        }
        PacketType::Accept => {
            let a = Accept::read(bytes)?;
            a.put(&mut again);
            format!(
                "target={} incarnation={:#x} peer={:#x} epoch={} index={:#x} tag={:#x} {} {}",
                a.target,
                a.incarnation.0,
                a.peer_incarnation.0,
                a.epoch.0,
                a.index,
                a.tag,
                credit(&a.grant),
                params(&a.params),
            )
        }
        PacketType::Refused => {
            let r = Refused::read(bytes)?;
            r.put(&mut again);
            let (target, incarnation, code) = (r.target, r.incarnation.0, r.code.to_wire());
            format!("target={target} incarnation={incarnation:#x} code={code}")
        }
    };
    Ok((text, again))
}

fn header(h: &Header) -> String {
    let name = format!("{:?}", h.kind).to_uppercase();
    let scope = if h.scope == CrcScope::Header {
        " scope=header"
    } else {
        ""
    };
    format!(
        "{name} index={:#x} number={} tag={:#x}{scope}",
        h.index, h.number, h.tag
    )
}

/// Meaning of a datagram, and the datagram encoded again; `None` if it is refused.
fn packet(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (head, rest) = open(bytes).ok()?;
    let (text, body) = body(head.kind, rest).ok()?;
    let mut again = Vec::new();
    put_header(&mut again, &head);
    assert_eq!(again.len(), PLAIN_OVERHEAD);
    again.extend_from_slice(&body);
    seal(&mut again);
    Some((
        format!("{}: {text}", header(&head)).trim_end().to_owned(),
        again,
    ))
}

/// Meaning and encoding of a vector's bytes.
fn explain(kind: &str, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    match kind {
        "varint" => {
            let mut r = Reader::new(bytes);
            let value = r.varint().ok().filter(|_| r.is_empty())?;
            let mut again = Vec::new();
            varint::put(&mut again, value);
            Some((value.to_string(), again))
        }
        "crc" => {
            let mut crc = Crc::new();
            crc.update(bytes);
            Some((format!("{:#010x}", crc.finish()), bytes.to_vec()))
        }
        "frames" => Some((payload(bytes).ok()?, payload_again(bytes, bytes))),
        "packet" => packet(bytes),
        other => panic!("unknown kind of vector: {other}"),
    }
}

#[test]
fn every_vector_means_what_the_page_says() {
    let mut seen = Vec::new();
    for Vector {
        kind,
        bytes,
        meaning,
    } in vectors(&page())
    {
        // Those of other layers, and of the cryptographic library, have tests there.
        let elsewhere = [
            "one-sided",
            "ethernet",
            "active",
            "sealed",
            "node-keys",
            "membership",
            "sockets",
            "routes",
        ];
        if elsewhere.contains(&kind.as_str()) {
            continue;
        }
        let (kind, decode_only) = match kind.strip_suffix(" decode") {
            Some(kind) => (kind, true),
            None => (kind.as_str(), false),
        };
        let entry = hex(&bytes);
        match explain(kind, &bytes) {
            None => assert_eq!(meaning, "refused", "{entry}"),
            Some((text, again)) => {
                assert_eq!(text, meaning, "{entry}");
                assert_eq!(
                    again == bytes,
                    !decode_only,
                    "{entry} encodes as {}",
                    hex(&again)
                );
            }
        }
        seen.push(
            meaning
                .split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    // Every frame and packet is there.
    for name in [
        "PADDING",
        "PING",
        "ACK",
        "CREDIT",
        "RECLAIM",
        "RETURN",
        "BLOCKED",
        "MAX_CHANNEL",
        "CHANNEL_BLOCKED",
        "RTS",
        "CTS",
        "REFUSE",
        "MODE",
        "SUSPEND",
        "RESUME",
        "CLOSE",
        "CHALLENGE",
        "RESPONSE",
        "FIN",
        "MAX_CHANNELS",
        "FRAG",
        "DATA",
        "HELLO",
        "COOKIE",
        "INIT",
        "ACCEPT",
        "UNKNOWN",
        "REFUSED",
        "refused",
    ] {
        assert!(seen.iter().any(|word| word == name), "no vector for {name}");
    }
}

#[test]
fn the_table_of_constants_is_true() {
    let seconds = |d: core::time::Duration| format!("{} s", d.as_secs());
    let expected = [
        ("VERSION", limits::VERSION.to_string()),
        ("MAX_MESSAGE", limits::MAX_MESSAGE.to_string()),
        ("MAX_USER_HEADER", limits::MAX_USER_HEADER.to_string()),
        ("MAX_DATAGRAM", limits::MAX_DATAGRAM.to_string()),
        ("MIN_MTU", limits::MIN_MTU.to_string()),
        ("DATA_CHARGE", limits::DATA_CHARGE.to_string()),
        ("CONTROL_CHARGE", limits::CONTROL_CHARGE.to_string()),
        ("CONTROL_PACKET", limits::CONTROL_PACKET.to_string()),
        ("MAX_ACK_RANGES", limits::MAX_ACK_RANGES.to_string()),
        ("DEDUP_WINDOW", limits::DEDUP_WINDOW.to_string()),
        ("SKIP_INTERVAL", limits::SKIP_INTERVAL.to_string()),
        ("MESSAGE_CHARGE", limits::MESSAGE_CHARGE.to_string()),
        ("RIDE_CREDIT", limits::RIDE_CREDIT.to_string()),
        ("REPLY_RESERVE", limits::REPLY_RESERVE.to_string()),
        ("GROUP_RESERVE", limits::GROUP_RESERVE.to_string()),
        ("MAX_CHANNELS", limits::MAX_CHANNELS.to_string()),
        ("MIN_CHANNELS", limits::MIN_CHANNELS.to_string()),
        ("CREDIT_LAPSE", seconds(limits::CREDIT_LAPSE)),
        (
            "EXTRA_PAUSE",
            format!("{} ms", limits::EXTRA_PAUSE.as_millis()),
        ),
        (
            "SECOND_PAUSE",
            format!("{} s", limits::SECOND_PAUSE.as_secs()),
        ),
        ("COOKIE_LIFETIME", seconds(limits::COOKIE_LIFETIME)),
        ("MAX_RETIRED", limits::MAX_RETIRED.to_string()),
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../PROTOCOL.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (name, value) in expected {
        let row = format!("| {name} | {value} |");
        assert!(page.contains(&row), "PROTOCOL.md lacks {row:?}");
    }
    let absent = Params::default();
    for (row, value) in [
        (
            "| 25 ms |",
            absent.max_ack_delay == core::time::Duration::from_millis(25),
        ),
        (
            "each channel (section 8) | 65,536 |",
            absent.channel_memory == 65_536,
        ),
        (
            "without being asked | 65,536 |",
            absent.max_message == 65_536,
        ),
        ("can be received | 65,507 |", absent.max_datagram == 65_507),
        ("in this session | 1,024 |", absent.max_channels == 1_024),
    ] {
        assert!(page.contains(row) && value, "default of a parameter: {row}");
    }
}
