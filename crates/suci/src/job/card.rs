//! The line of text that a process gives to the others through its launcher.
//!
//! The launchers' stores take a word of at most 1,024 bytes without blanks and `=`. A card is
//! `suci1/HOST/KEY/ADDRESS,ADDRESS`: the host's identity, 64 hexadecimal digits or `-`, and all
//! addresses of the socket.

use super::host::OwnHost;
use crate::book::{self, AddressBook, shown};
use crate::security::{PublicKey, PublicKeys};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use suci_proto::types::NodeId;

/// The format's version.
const VERSION: &str = "suci1";

/// Addresses that a card has at most, as many as a peer may have, with the two of loopback.
const MOST_ADDRESSES: usize = 10;

/// Characters of a host's identity at most.
const LONGEST_HOST: usize = 64;

/// A process as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Card {
    host: String,
    key: Option<PublicKey>,
    addresses: Vec<SocketAddr>,
}

impl Card {
    /// The card of a process that listens at `local`.
    pub(super) fn new(here: &OwnHost, local: SocketAddr, key: Option<PublicKey>) -> Self {
        let (port, ip) = (local.port(), local.ip());
        let addresses = if ip.is_unspecified() {
            let fits = |it: &IpAddr| it.is_ipv4() || ip.is_ipv6();
            let all = here.addresses.iter().map(|it| it.ip).filter(fits);
            let all = all.map(|ip| SocketAddr::new(ip, port));
            all.take(MOST_ADDRESSES).collect()
        } else {
            vec![local]
        };
        Self {
            host: here.identity.clone(),
            key,
            addresses,
        }
    }

    /// Reads the cards of all processes, which are in the order of their ranks.
    ///
    /// # Errors
    /// The problem, with the rank.
    pub(super) fn read_all(told: &[String]) -> Result<Vec<Self>, String> {
        let read = |(rank, text): (usize, &String)| {
            Self::read(text).ok_or_else(|| {
                format!(
                    "process {rank} gave \"{}\", which tells no address: start all processes \
                     with this version of Suci",
                    shown(text)
                )
            })
        };
        told.iter().enumerate().map(read).collect()
    }

    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (version, host, key, addresses) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_host = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
        let is_sound = version == VERSION
            && parts.next().is_none()
            && (1..=LONGEST_HOST).contains(&host.len())
            && host.bytes().all(is_host);
        if !is_sound {
            return None;
        }
        let key = match key {
            "-" => None,
            digits => Some(read_key(digits)?),
        };
        let addresses: Result<Vec<SocketAddr>, _> = addresses.split(',').map(str::parse).collect();
        let addresses = addresses.ok()?;
        let usable = addresses.iter().all(|at| book::no_host(*at).is_none());
        (usable && addresses.len() <= MOST_ADDRESSES).then(|| Self {
            host: host.to_owned(),
            key,
            addresses,
        })
    }
}

/// Reads 64 hexadecimal digits.
fn read_key(digits: &str) -> Option<PublicKey> {
    let mut bytes = [0; 32];
    if digits.len() != 2 * bytes.len() || !digits.bytes().all(|it| it.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(PublicKey::from_bytes(bytes))
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}/{}/", self.host)?;
        match &self.key {
            None => f.write_char('-')?,
            Some(key) => {
                for byte in key.as_bytes() {
                    write!(f, "{byte:02x}")?;
                }
            }
        }
        for (index, address) in self.addresses.iter().enumerate() {
            let before = if index == 0 { '/' } else { ',' };
            write!(f, "{before}{address}")?;
        }
        Ok(())
    }
}

/// The book of a process: of each other one the addresses that lead there from here, those of the
/// same network first.
///
/// # Errors
/// A process offers no address that leads there.
pub(super) fn book(
    here: &OwnHost,
    cards: &[Card],
    (own, local): (NodeId, SocketAddr),
) -> Result<AddressBook, String> {
    // Bridges of virtual machines and containers have the same address on many hosts.
    let mut hosts: BTreeMap<IpAddr, BTreeSet<&str>> = BTreeMap::new();
    for card in cards {
        for address in &card.addresses {
            hosts.entry(address.ip()).or_default().insert(&card.host);
        }
    }
    let is_unique = |ip: IpAddr| hosts.get(&ip).is_some_and(|hosts| hosts.len() == 1);
    let mut book = AddressBook::new();
    for (node, card) in (0..).map(NodeId).zip(cards) {
        let mut addresses = card.addresses.clone();
        if node == own {
            addresses = vec![local];
        } else if card.host == here.identity {
            let is_loopback = |at: &SocketAddr| at.ip().to_canonical().is_loopback();
            if addresses.iter().any(is_loopback) {
                addresses.retain(is_loopback);
            }
        } else {
            addresses.retain(|at| !at.ip().to_canonical().is_loopback() && is_unique(at.ip()));
            let is_near = |at: &SocketAddr| here.addresses.iter().any(|own| own.is_near(at.ip()));
            addresses.sort_by_key(|at| !is_near(at));
        }
        if addresses.is_empty() {
            return Err(format!(
                "process {node} is on another host and offers only {}: let it listen at an \
                 address that the others reach (`suci env` there lists them)",
                Listed(&card.addresses)
            ));
        }
        book.add_all(node, &addresses)
            .map_err(|error| format!("process {node}: {error}"))?;
    }
    Ok(book)
}

struct Listed<'a>(&'a [SocketAddr]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(SocketAddr::to_string).collect();
        f.write_str(&all.join(", "))
    }
}

/// The keys of all processes, if they are `wanted`.
///
/// # Errors
/// A process gave none although others did, or the same as another one.
pub(super) fn public_keys(cards: &[Card], wanted: bool) -> Result<Option<PublicKeys>, String> {
    let without = cards.iter().position(|card| card.key.is_some() != wanted);
    if let Some(rank) = without {
        let (this, other) = match wanted {
            true => ("a key of its own", "none"),
            false => ("keys from elsewhere or none", "one of its own"),
        };
        return Err(format!(
            "this process has {this}, and process {rank} gave {other}: give all processes the \
             same SUCI_KEY_FILE, or none of them"
        ));
    }
    if !wanted {
        return Ok(None);
    }
    let mut text = String::new();
    for (node, key) in cards
        .iter()
        .enumerate()
        .filter_map(|(at, it)| Some((at, it.key?)))
    {
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{node} {key}");
    }
    let keys = PublicKeys::parse(&text);
    keys.map(Some)
        .map_err(|(line, problem)| format!("the key of process {}: {problem}", line - 1))
}

#[cfg(test)]
mod tests {
    use super::super::host::OwnAddress;
    use super::*;

    fn host(identity: &str, addresses: &[(&str, u32)]) -> OwnHost {
        let own = |(ip, prefix): &(&str, u32)| OwnAddress {
            ip: ip.parse().unwrap(),
            prefix: *prefix,
        };
        OwnHost {
            identity: identity.to_owned(),
            addresses: addresses.iter().map(own).collect(),
        }
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_card_is_read_as_it_is_written() {
        let here = host(
            "ab-1",
            &[
                ("127.0.0.1", 8),
                ("10.0.0.1", 24),
                ("::1", 128),
                ("fd00::1", 64),
            ],
        );
        let key = PublicKey::from_bytes([0xA7; 32]);
        for (local, key, offered) in [
            ("0.0.0.0:7000", Some(key), "127.0.0.1:7000,10.0.0.1:7000"),
            ("[::]:7", None, "127.0.0.1:7,10.0.0.1:7,[::1]:7,[fd00::1]:7"),
            ("10.0.0.1:7", None, "10.0.0.1:7"),
        ] {
            let card = Card::new(&here, at(local), key);
            let text = card.to_string();
            assert!(text.ends_with(&format!("/{offered}")), "{text}");
            assert!(!text.contains([' ', '=', '\n']), "{text}");
            assert_eq!(Card::read(&text), Some(card));
        }
        let many: Vec<_> = (0..40)
            .map(|it| (format!("fd00:1111:2222:3333:4444:5555:6666:{it:x}"), 64))
            .collect();
        let many: Vec<_> = many
            .iter()
            .map(|(ip, prefix)| (ip.as_str(), *prefix))
            .collect();
        let longest = Card::new(
            &host(&"f".repeat(LONGEST_HOST), &many),
            at("[::]:65535"),
            Some(key),
        );
        assert!(longest.to_string().len() < 1_024);
    }

    #[test]
    fn garbled_cards_are_refused_with_their_rank() {
        let good = format!("suci1/ab-1/{}/10.0.0.1:7", "0f".repeat(32));
        assert!(Card::read(&good).is_some());
        for bad in [
            "",
            "suci1",
            "suci2/ab-1/-/10.0.0.1:7",
            "suci1//-/10.0.0.1:7",
            "suci1/ab-1/-/",
            "suci1/ab-1/-/10.0.0.1",
            "suci1/ab-1/-/10.0.0.1:0",
            "suci1/ab-1/-/0.0.0.0:7",
            "suci1/ab-1/-/name:7",
            "suci1/ab-1/-/10.0.0.1:7/more",
            "suci1/ab-1/0f/10.0.0.1:7",
            "suci1/\u{1b}[2J/-/10.0.0.1:7",
            &good.replace("0f0f", "+f0f"),
            &good.replace("0f0f", "\u{e9}0f"),
            &format!("suci1/ab-1/-/{}", ["10.0.0.1:7"; 11].join(",")),
        ] {
            let said = Card::read_all(&[good.clone(), bad.to_owned()]).unwrap_err();
            assert!(said.starts_with("process 1 gave \""), "{said}");
            assert!(!said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn a_book_has_the_addresses_that_lead_there() {
        let here = host(
            "aa-1",
            &[("127.0.0.1", 8), ("172.17.0.1", 16), ("10.0.1.1", 24)],
        );
        let near = host(
            "aa-1",
            &[("127.0.0.1", 8), ("172.17.0.1", 16), ("10.0.1.1", 24)],
        );
        let far = host(
            "bb-1",
            &[
                ("127.0.0.1", 8),
                ("172.17.0.1", 16),
                ("192.0.2.2", 24),
                ("10.0.1.2", 24),
            ],
        );
        let local = at("0.0.0.0:1");
        let card = |host, port| Card::new(host, SocketAddr::new(local.ip(), port), None);
        let cards = [card(&here, 1), card(&near, 2), card(&far, 3), card(&far, 4)];
        let book = book(&here, &cards, (NodeId(0), local)).unwrap();
        let entries = |node| book.addresses(NodeId(node)).to_vec();
        assert_eq!(entries(0), [local]);
        assert_eq!(entries(1), [at("127.0.0.1:2")]);
        assert_eq!(entries(2), [at("10.0.1.2:3"), at("192.0.2.2:3")]);
        assert_eq!(entries(3), [at("10.0.1.2:4"), at("192.0.2.2:4")]);
    }

    #[test]
    fn a_process_that_only_its_host_reaches_is_named() {
        let here = host("aa-1", &[("127.0.0.1", 8), ("10.0.1.1", 24)]);
        let far = host("bb-1", &[("127.0.0.1", 8)]);
        let cards = [
            Card::new(&here, at("0.0.0.0:1"), None),
            Card::new(&far, at("0.0.0.0:2"), None),
        ];
        let said = book(&here, &cards, (NodeId(0), at("0.0.0.0:1"))).unwrap_err();
        assert!(
            said.starts_with("process 1 is on another host and offers only 127.0.0.1:2"),
            "{said}"
        );
    }

    #[test]
    fn keys_are_of_all_or_of_none() {
        let here = host("aa-1", &[("10.0.1.1", 24)]);
        let card = |key: Option<u8>| {
            let key = key.map(|byte| PublicKey::from_bytes([byte; 32]));
            Card::new(&here, at("10.0.1.1:1"), key)
        };
        let all = public_keys(&[card(Some(1)), card(Some(2))], true)
            .unwrap()
            .unwrap();
        assert_eq!(all.of(NodeId(1)), [PublicKey::from_bytes([2; 32])]);
        assert_eq!(public_keys(&[card(None), card(None)], false), Ok(None));
        for (cards, wanted, part) in [
            ([card(Some(1)), card(None)], true, "process 1 gave none"),
            (
                [card(None), card(Some(1))],
                false,
                "process 1 gave one of its own",
            ),
            (
                [card(Some(1)), card(Some(1))],
                true,
                "the key of process 1: ",
            ),
        ] {
            let said = public_keys(&cards, wanted).unwrap_err();
            assert!(said.contains(part), "{said}");
        }
    }
}
