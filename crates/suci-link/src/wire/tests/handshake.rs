use super::*;
use crate::limits::{
    CONTROL_PACKET, LONGEST_ACK_DELAY, MAX_DATAGRAM, MAX_MESSAGE, MAX_SEALED, MIN_CHANNELS, MIN_MTU,
};
use crate::time::{Duration, nanos};
use crate::types::{Epoch, Incarnation, Layers, NodeId};

fn params() -> impl Strategy<Value = Params> {
    let channels = MIN_CHANNELS..=u64::MAX;
    let sizes = (number(), 0..=MAX_MESSAGE, MIN_MTU..=MAX_DATAGRAM, channels);
    let delay = 0..=nanos(LONGEST_ACK_DELAY);
    let sealed = prop::option::of(prop::collection::vec(any::<u8>(), 0..=MAX_SEALED));
    let keys = (any::<u16>(), any::<bool>());
    let settings = (delay, sizes, any::<bool>(), mode(), number(), keys, sealed);
    settings.prop_map(
        |(
            delay,
            (channel_memory, max_message, max_datagram, max_channels),
            unattended,
            mode,
            extensions,
            (layers, node_keys),
            sealed,
        )| {
            Params {
                max_ack_delay: Duration::from_nanos(delay),
                channel_memory,
                max_channels,
                max_message,
                max_datagram,
                unattended,
                mode,
                extensions,
                layers: Layers::from_wire(layers.into()),
                node_keys,
                sealed,
            }
        },
    )
}

fn init() -> impl Strategy<Value = Init<'static>> {
    let names = (
        any::<u32>(),
        any::<u128>(),
        any::<u128>(),
        number(),
        any::<u32>(),
        any::<u64>(),
    );
    (
        names,
        any::<[u8; COOKIE]>(),
        credit(),
        params(),
        slice(1_000),
    )
        .prop_map(
            |((target, own, peer, epoch, index, tag), cookie, grant, params, ride)| Init {
                target: NodeId(target),
                incarnation: Incarnation(own),
                peer_incarnation: Incarnation(peer),
                epoch: Epoch(epoch),
                index,
                tag,
                cookie,
                grant,
                params,
                ride,
            },
        )
}

fn accept_of(init: &Init<'_>) -> Accept {
    Accept {
        target: init.target,
        incarnation: init.incarnation,
        peer_incarnation: init.peer_incarnation,
        epoch: init.epoch,
        index: init.index,
        tag: init.tag,
        grant: init.grant,
        params: init.params.clone(),
    }
}

fn body(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buf = Vec::new();
    put(&mut buf);
    buf
}

const HELLO: Hello = Hello {
    target: NodeId(7),
    incarnation: Incarnation(1 << 100),
};

#[test]
fn f01_hello_is_as_long_as_its_cookie() {
    let hello = body(|buf| HELLO.put(buf));
    assert_eq!(hello.len() + PLAIN_OVERHEAD, HELLO_LEN);
    assert_eq!(Hello::read(&hello), Ok(HELLO));
    assert!(
        Hello::read(&hello[..hello.len() - 1]).is_err(),
        "it would be answered by more"
    );

    let cookie = Cookie {
        target: NodeId(1),
        incarnation: Incarnation(2),
        cookie: [3; COOKIE],
        epoch: Epoch(4),
    };
    let cookie = body(|buf| cookie.put(buf));
    assert_eq!(cookie.len() + PLAIN_OVERHEAD, COOKIE_LEN);
    assert_eq!(cookie.len(), hello.len());
}

#[test]
fn hello_has_room_to_grow_but_not_more() {
    let mut hello = body(|buf| HELLO.put(buf));
    hello.resize(CONTROL_PACKET - PLAIN_OVERHEAD, 0);
    assert_eq!(Hello::read(&hello), Ok(HELLO));
    hello.push(0);
    assert!(Hello::read(&hello).is_err());
    hello.truncate(60);
    hello[59] = 1;
    assert!(Hello::read(&hello).is_err(), "padding is zero");
}

#[test]
fn refused_codes_keep_their_numbers() {
    let codes = (0..15).map(RefusedCode::from_wire).collect::<Vec<_>>();
    assert_eq!(codes[0], RefusedCode::Other(0));
    assert_eq!(
        codes[1..14]
            .iter()
            .filter(|c| matches!(c, RefusedCode::Other(_)))
            .count(),
        0
    );
    assert_eq!(codes[14], RefusedCode::Other(14));
    assert!(
        codes
            .iter()
            .enumerate()
            .all(|(i, code)| code.to_wire() == i as u64)
    );
}

/// A parameter list of these (type, value bytes).
fn list(entries: &[(u64, &[u8])]) -> Vec<u8> {
    let mut inner = Vec::new();
    for (kind, value) in entries {
        varint::put(&mut inner, *kind);
        varint::put(&mut inner, value.len() as u64);
        inner.extend_from_slice(value);
    }
    body(|buf| {
        varint::put(buf, inner.len() as u64);
        buf.extend_from_slice(&inner);
    })
}

fn read_list(entries: &[(u64, &[u8])]) -> Result<Params, Malformed> {
    Params::read(&mut Reader::new(&list(entries)))
}

fn number_bytes(value: u64) -> Vec<u8> {
    body(|buf| varint::put(buf, value))
}

#[test]
fn absent_parameters_have_their_defaults() {
    assert_eq!(read_list(&[]), Ok(Params::default()));
    assert_eq!(body(|buf| Params::default().put(buf)), [1], "an empty list");
}

#[test]
fn unknown_parameters_are_skipped() {
    let expected = Params {
        channel_memory: 3,
        extensions: 1,
        ..Params::default()
    };
    let read = read_list(&[(2, &[7]), (8, &[3]), (11, b"later"), (1_000, b"")]);
    assert_eq!(read, Ok(expected));
}

#[test]
fn parameters_come_once_and_in_order() {
    let disorder = Err(Malformed("parameters not in ascending order"));
    assert_eq!(read_list(&[(2, &[7]), (2, &[7])]), disorder);
    assert_eq!(read_list(&[(8, &[3]), (2, &[7])]), disorder);
    assert_eq!(
        read_list(&[(99, &[]), (99, &[])]),
        disorder,
        "unknown ones too"
    );
}

#[test]
fn parameters_out_of_range_are_refused() {
    let one = |kind, value| read_list(&[(kind, &number_bytes(value))]);
    let longest = nanos(LONGEST_ACK_DELAY);
    assert_eq!(one(1, longest).unwrap().max_ack_delay, LONGEST_ACK_DELAY);
    assert!(one(1, longest + 1).is_err());
    assert_eq!(
        one(4, u64::MAX).unwrap().max_message,
        MAX_MESSAGE,
        "more is no promise we need"
    );
    assert_eq!(one(3, 0).unwrap().max_channels, MIN_CHANNELS);
    assert_eq!(one(3, u64::MAX).unwrap().max_channels, u64::MAX);
    assert_eq!(one(5, MIN_MTU as u64).unwrap().max_datagram, MIN_MTU);
    assert!(one(5, MIN_MTU as u64 - 1).is_err());
    assert_eq!(one(5, u64::MAX).unwrap().max_datagram, MAX_DATAGRAM);
    assert!(!one(6, 0b10).unwrap().unattended);
    assert!(one(6, 0b11).unwrap().unattended);
    assert!(one(7, 3).is_err());
    assert!(read_list(&[(16, &POOL[..MAX_SEALED])]).is_ok());
    assert!(read_list(&[(16, &POOL[..MAX_SEALED + 1])]).is_err());
}

#[test]
fn f03_parameter_lengths_are_checked() {
    assert!(Params::read(&mut Reader::new(&[])).is_err());
    // A list longer than the packet, a value longer than the list, than its type.
    assert!(
        Params::read(&mut Reader::new(&[
            0, 255, 255, 255, 255, 255, 255, 255, 255
        ]))
        .is_err()
    );
    assert!(Params::read(&mut Reader::new(&[7, 5, 5, 1])).is_err());
    assert!(read_list(&[(2, &[7, 7])]).is_err());
    assert!(read_list(&[(2, &[])]).is_err());
}

proptest! {
    #[test]
    fn init_round_trip(init in init()) {
        let bytes = body(|buf| init.put(buf));
        let read = Init::read(&bytes);
        prop_assert_eq!(read.as_ref(), Ok(&init));
        let fixed = bytes.len() - init.ride.len();
        for cut in [0, 1, 30, fixed / 2, fixed - 1] {
            prop_assert!(Init::read(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn accept_round_trip(init in init()) {
        let accept = accept_of(&init);
        let mut bytes = body(|buf| accept.put(buf));
        prop_assert_eq!(Accept::read(&bytes), Ok(accept));
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            prop_assert!(Accept::read(&bytes[..cut]).is_err());
        }
        bytes.push(0);
        prop_assert!(Accept::read(&bytes).is_err());
    }

    #[test]
    fn cookie_and_refused_round_trip(
        target: u32,
        incarnation: u128,
        cookie: [u8; COOKIE],
        epoch: u64,
        code in number(),
    ) {
        let (target, incarnation) = (NodeId(target), Incarnation(incarnation));
        let epoch = Epoch(epoch);
        let cookie = Cookie { target, incarnation, cookie, epoch };
        let mut bytes = body(|buf| cookie.put(buf));
        prop_assert_eq!(Cookie::read(&bytes), Ok(cookie));
        bytes.push(0);
        prop_assert!(Cookie::read(&bytes).is_err());

        let refused = Refused { target, incarnation, code: RefusedCode::from_wire(code) };
        let bytes = body(|buf| refused.put(buf));
        prop_assert_eq!(Refused::read(&bytes), Ok(refused));
        prop_assert!(Refused::read(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn f08_any_body_decodes_or_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(hello) = Hello::read(&bytes) {
            prop_assert_eq!(Hello::read(&body(|buf| hello.put(buf))), Ok(hello));
        }
        if let Ok(cookie) = Cookie::read(&bytes) {
            prop_assert_eq!(body(|buf| cookie.put(buf)), bytes.clone());
        }
        if let Ok(init) = Init::read(&bytes) {
            let again = body(|buf| init.put(buf));
            prop_assert_eq!(Init::read(&again), Ok(init));
        }
        if let Ok(accept) = Accept::read(&bytes) {
            prop_assert_eq!(Accept::read(&body(|buf| accept.put(buf))), Ok(accept));
        }
        let _ = Refused::read(&bytes);
    }
}
