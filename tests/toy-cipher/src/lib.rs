//! A toy cipher for tests and the simulator, which remembers every key and number it sealed under.
//!
//! It is deterministic and not secure. It detects what a real cipher detects: changed bytes, other
//! keys, another header or number.

use core::hash::Hasher;
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher128};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use suci_link::security::{
    AEAD_TAG, ConnectionKeys, HandshakeError, Handshakes, Initiator, KeyKind, NotAuthentic, Open,
    Responder, Seal,
};
use suci_link::types::{Layers, NodeId, PacketNumber};
use suci_link::wire::{HEADER, SealedHeader};

/// Bytes of a handshake message: an ephemeral and a tag.
const MESSAGE: usize = 8 + AEAD_TAG;

#[derive(Debug, Default)]
struct Record {
    /// Numbers sealed under each key.
    sealed: HashMap<u64, HashSet<PacketNumber>>,
    repeats: Vec<(u64, PacketNumber)>,
    ephemerals: u64,
    handshakes: u64,
    phases: u64,
    /// Handshakes that began, at either end.
    connections: u64,
}

/// The record of all sealing in a run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SealLedger(Arc<Mutex<Record>>);

impl SealLedger {
    fn with<R>(&self, f: impl FnOnce(&mut Record) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the pairs of key and number that were used a second time; there must be none.
    #[must_use]
    pub fn repeats(&self) -> Vec<(u64, PacketNumber)> {
        self.with(|record| record.repeats.clone())
    }

    /// Returns how many packets were sealed.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.with(|record| record.sealed.values().map(HashSet::len).sum())
    }

    /// Forgets which packets were sealed, and so what repeats them: the record of a long run stays
    /// small.
    pub fn forget(&self) {
        self.with(|record| record.sealed = HashMap::new());
    }

    /// Returns how many handshakes responders answered.
    #[must_use]
    pub fn handshakes(&self) -> u64 {
        self.with(|record| record.handshakes)
    }

    /// Returns how many times a sender moved to its next key phase.
    #[must_use]
    pub fn phases(&self) -> u64 {
        self.with(|record| record.phases)
    }

    /// Returns the packet that the sender of `like` would seal `ahead` numbers later, with this
    /// body: a member that breaks the protocol does. The record does not change. `None` if `like`
    /// was not sealed in this run.
    #[must_use]
    pub fn forged(&self, like: &[u8], ahead: u64, body: &[u8]) -> Option<Vec<u8>> {
        let header = SealedHeader::read(like).ok()?;
        let (head, sealed) = like.split_first_chunk()?;
        let fits = |key: &u64| {
            let opener = Opener { key: *key };
            opener
                .open(header.number, head, &mut sealed.to_vec())
                .is_ok()
        };
        let key = self.with(|record| record.sealed.keys().copied().find(fits))?;
        let number = header.number.checked_add(ahead)?;
        let head = SealedHeader { number, ..header }.bytes();
        let mut text = body.to_vec();
        crypt(number, &mut text);
        let end = tag(key, number, &[&head, &text]);
        Some([&head[..], &text, &end].concat())
    }

    /// Notes that `number` is sealed under `key`, which another process may have, too, if it is
    /// `shared`.
    fn seals(&self, key: u64, number: PacketNumber, shared: bool) {
        self.with(|record| {
            let is_new = record.sealed.entry(key).or_default().insert(number);
            if shared || !is_new {
                record.repeats.push((key, number));
            }
        });
    }

    /// Returns the number of a new connection.
    fn connection(&self) -> u64 {
        self.with(|record| {
            record.connections = record.connections.wrapping_add(1);
            record.connections
        })
    }

    /// Returns an ephemeral that was never returned before.
    fn ephemeral(&self) -> u64 {
        let count = self.with(|record| {
            record.ephemerals = record.ephemerals.wrapping_add(1);
            record.ephemerals
        });
        mix(count, b"ephemeral")
    }
}

fn mix(key: u64, bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(key, 0);
    hasher.write(bytes);
    hasher.finish()
}

fn tag(key: u64, number: u64, pieces: &[&[u8]]) -> [u8; AEAD_TAG] {
    let mut hasher = SipHasher128::new_with_keys(key, number);
    for piece in pieces {
        hasher.write_u64(piece.len() as u64);
        hasher.write(piece);
    }
    hasher.finish128().as_bytes()
}

/// The prime of the toy key exchange, 2^61 - 1, and its base.
const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 37;

/// Returns `base` to the power of `exponent`, modulo [`PRIME`].
fn power(base: u64, mut exponent: u64) -> u64 {
    let times = |a: u64, b: u64| {
        let product = u128::from(a).wrapping_mul(b.into()) % u128::from(PRIME);
        u64::try_from(product).unwrap_or(0)
    };
    let (mut result, mut square) = (1, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

/// Returns the private key that `node` has under the number `key`.
fn private(node: NodeId, key: u64) -> u64 {
    mix(key, &node.0.to_le_bytes())
}

/// Returns the public key that everybody knows of `node`, under the number `key`.
fn public(node: NodeId, key: u64) -> u64 {
    power(BASE, private(node, key))
}

/// Makes toy handshakes under one or several cluster keys, or under keys of nodes.
#[derive(Clone, Debug)]
pub struct RecordingHandshakes {
    ledger: SealLedger,
    keys: Arc<Mutex<Vec<u64>>>,
    /// The node whose private keys these are; none with cluster keys. All nodes number their keys
    /// alike: each one has those of the numbers in `keys`, and takes those of others.
    owner: Option<NodeId>,
    /// The layers that others may use, if not all.
    permitted: Arc<Mutex<HashMap<NodeId, Layers>>>,
    /// Handshakes up to this number have keys that another process may have, too.
    shared: Arc<AtomicU64>,
}

impl RecordingHandshakes {
    /// Makes handshakes under `keys`, the newest first, and records them in `ledger`.
    #[must_use]
    pub fn new(ledger: SealLedger, keys: &[u64]) -> Self {
        let keys = Arc::new(Mutex::new(keys.to_vec()));
        Self {
            ledger,
            keys,
            owner: None,
            permitted: Arc::default(),
            shared: Arc::default(),
        }
    }

    /// Makes handshakes under the private keys of `owner` with these numbers, the newest first.
    #[must_use]
    pub fn of_node(ledger: SealLedger, owner: NodeId, keys: &[u64]) -> Self {
        Self {
            owner: Some(owner),
            ..Self::new(ledger, keys)
        }
    }

    /// Lets `peer` use these layers alone.
    pub fn permit(&self, peer: NodeId, layers: Layers) {
        let mut permitted = self
            .permitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        permitted.insert(peer, layers);
    }

    /// Returns the keys for handshakes with `peer`, in the order of turns.
    fn keys_with(&self, peer: NodeId) -> Vec<u64> {
        let keys = self.keys();
        let Some(owner) = self.owner else {
            return keys;
        };
        let theirs = |key: &u64| public(peer, *key);
        let ours = |key: &u64| private(owner, *key);
        let pairs = keys
            .iter()
            .flat_map(|our| keys.iter().map(move |their| (ours(our), theirs(their))));
        pairs.map(|(our, their)| power(their, our)).collect()
    }

    /// Notes that another process has all keys that were made so far: sealing under them is
    /// recorded as a second use from now on.
    pub fn restored(&self) {
        let connections = self.ledger.with(|record| record.connections);
        self.shared.store(connections, Ordering::Relaxed);
    }

    /// Replaces the keys.
    pub fn set_keys(&self, keys: &[u64]) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = keys.to_vec();
    }

    /// Returns the keys.
    #[must_use]
    pub fn keys(&self) -> Vec<u64> {
        let keys = self.keys.lock();
        keys.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Fills `message` with an ephemeral and the tag under `key` over it and `context`.
fn write(key: u64, ephemeral: u64, context: &[u8], message: &mut [u8]) {
    let ephemeral = ephemeral.to_le_bytes();
    let tag = tag(key, 0, &[&ephemeral, context]);
    let bytes = ephemeral.into_iter().chain(tag);
    message
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, byte)| *to = byte);
}

/// Returns the ephemeral in `message`, if its tag fits.
fn read(key: u64, context: &[u8], message: &[u8]) -> Option<u64> {
    let (ephemeral, rest) = message.split_first_chunk()?;
    (rest == tag(key, 0, &[ephemeral, context])).then(|| u64::from_le_bytes(*ephemeral))
}

/// The secrets of both directions, from the initiator's.
fn split(key: u64, ephemerals: [u64; 2]) -> [u64; 2] {
    let secret = ephemerals
        .iter()
        .fold(key, |key, ephemeral| mix(key, &ephemeral.to_le_bytes()));
    [mix(secret, b"to responder"), mix(secret, b"to initiator")]
}

impl Handshakes for RecordingHandshakes {
    fn message_len(&self) -> usize {
        MESSAGE
    }

    fn kind(&self) -> KeyKind {
        match self.owner {
            None => KeyKind::Cluster,
            Some(_) => KeyKind::Node,
        }
    }

    fn layers(&self, peer: NodeId) -> Layers {
        let permitted = self
            .permitted
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        permitted.get(&peer).copied().unwrap_or_default()
    }

    fn initiate(
        &self,
        peer: NodeId,
        turn: u32,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<Box<dyn Initiator>, HandshakeError> {
        let keys = self.keys_with(peer);
        let key = (turn as usize).checked_rem(keys.len());
        let key = key.and_then(|at| keys.get(at).copied());
        let key = key.ok_or(HandshakeError::Unavailable)?;
        let ephemeral = self.ledger.ephemeral();
        write(key, ephemeral, context, message);
        Ok(Box::new(Half::new(self, key, ephemeral)))
    }

    fn respond(
        &self,
        peer: NodeId,
        context: &[u8],
        message: &[u8],
    ) -> Result<Box<dyn Responder>, HandshakeError> {
        let fits = |key| Some((key, read(key, context, message)?));
        let (key, ephemeral) =
            (self.keys_with(peer).into_iter().find_map(fits)).ok_or(HandshakeError::WrongKey)?;
        Ok(Box::new(Half::new(self, key, ephemeral)))
    }
}

/// A handshake whose first message was made or read.
struct Half {
    by: RecordingHandshakes,
    /// Its number: another process that has this state can make the connection's keys.
    connection: u64,
    key: u64,
    /// The initiator's ephemeral.
    ephemeral: u64,
}

impl Half {
    fn new(by: &RecordingHandshakes, key: u64, ephemeral: u64) -> Self {
        Self {
            by: by.clone(),
            connection: by.ledger.connection(),
            key,
            ephemeral,
        }
    }

    fn keys(&self, seals: u64, opens: u64) -> ConnectionKeys {
        ConnectionKeys {
            seal: Box::new(Sealer {
                by: self.by.clone(),
                connection: self.connection,
                key: seals,
            }),
            open: Box::new(Opener { key: opens }),
        }
    }
}

impl Initiator for Half {
    fn finish(&mut self, context: &[u8], message: &[u8]) -> Result<ConnectionKeys, HandshakeError> {
        let under = mix(self.key, &self.ephemeral.to_le_bytes());
        let theirs = read(under, context, message).ok_or(HandshakeError::WrongKey)?;
        let [seals, opens] = split(self.key, [self.ephemeral, theirs]);
        Ok(self.keys(seals, opens))
    }
}

impl Responder for Half {
    fn answer(
        self: Box<Self>,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<ConnectionKeys, HandshakeError> {
        let ours = self.by.ledger.ephemeral();
        self.by.ledger.with(|record| record.handshakes += 1);
        let under = mix(self.key, &self.ephemeral.to_le_bytes());
        write(under, ours, context, message);
        let [opens, seals] = split(self.key, [self.ephemeral, ours]);
        Ok(self.keys(seals, opens))
    }
}

/// Returns what the sealed `packet` says: the simulator listens on the wire.
#[must_use]
pub fn reveal(packet: &[u8]) -> Vec<u8> {
    let Ok(header) = SealedHeader::read(packet) else {
        return Vec::new();
    };
    let end = packet.len().saturating_sub(AEAD_TAG);
    let mut body = packet.get(HEADER..end).unwrap_or_default().to_vec();
    crypt(header.number, &mut body);
    body
}

/// Changes `bytes` in place; a second call with the same number undoes it. The key has no part in
/// it, so that [`reveal`] needs none: only the tag depends on it.
fn crypt(number: PacketNumber, bytes: &mut [u8]) {
    let pad = mix(1, &number.to_le_bytes()).to_le_bytes();
    bytes
        .iter_mut()
        .zip(pad.into_iter().cycle())
        .for_each(|(byte, pad)| *byte ^= pad);
}

struct Sealer {
    by: RecordingHandshakes,
    connection: u64,
    key: u64,
}

impl Seal for Sealer {
    fn seal(
        &mut self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &[&[u8]],
        sealed: &mut [u8],
    ) {
        let shared = self.connection <= self.by.shared.load(Ordering::Relaxed);
        self.by.ledger.seals(self.key, number, shared);
        let Some(len) = sealed.len().checked_sub(AEAD_TAG) else {
            return;
        };
        let (text, end) = sealed.split_at_mut(len);
        let bytes = body.iter().flat_map(|piece| piece.iter());
        text.iter_mut()
            .zip(bytes)
            .for_each(|(to, byte)| *to = *byte);
        crypt(number, text);
        end.copy_from_slice(&tag(self.key, number, &[header, text]));
    }

    fn next(&self) -> Box<dyn Seal> {
        self.by.ledger.with(|record| record.phases += 1);
        Box::new(Self {
            by: self.by.clone(),
            connection: self.connection,
            key: mix(self.key, b"next"),
        })
    }
}

struct Opener {
    key: u64,
}

impl Open for Opener {
    fn open(
        &self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        let len = body.len().checked_sub(AEAD_TAG).ok_or(NotAuthentic)?;
        let (text, end) = body.split_at_mut(len);
        if end != tag(self.key, number, &[header, text]) {
            return Err(NotAuthentic);
        }
        crypt(number, text);
        Ok(())
    }

    fn next(&self) -> Box<dyn Open> {
        Box::new(Self {
            key: mix(self.key, b"next"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId(1);
    const HEAD: [u8; HEADER] = [7; HEADER];

    /// Makes the keys of both ends of a connection.
    fn ends(ledger: &SealLedger) -> (ConnectionKeys, ConnectionKeys) {
        keys(&RecordingHandshakes::new(ledger.clone(), &[1, 2]))
    }

    fn keys(makes: &RecordingHandshakes) -> (ConnectionKeys, ConnectionKeys) {
        let (mut first, mut second) = ([0; MESSAGE], [0; MESSAGE]);
        let mut initiator = makes.initiate(PEER, 1, b"init", &mut first).unwrap();
        let responder = makes.respond(PEER, b"init", &first).unwrap();
        let theirs = responder.answer(b"accept", &mut second).unwrap();
        assert!(initiator.finish(b"other", &second).is_err());
        (initiator.finish(b"accept", &second).unwrap(), theirs)
    }

    #[test]
    fn what_one_end_seals_the_other_opens() {
        let ledger = SealLedger::default();
        let (mut ours, theirs) = ends(&ledger);
        let mut sealed = [0; 5 + AEAD_TAG];
        ours.seal.seal(3, &HEAD, &[b"ab", b"cde"], &mut sealed);
        assert_ne!(sealed[..5], *b"abcde");
        for (number, header) in [(4, HEAD), (3, [8; HEADER])] {
            let mut copy = sealed;
            assert!(theirs.open.open(number, &header, &mut copy).is_err());
        }
        let mut copy = sealed;
        theirs.open.open(3, &HEAD, &mut copy).unwrap();
        assert_eq!(copy[..5], *b"abcde");
        let mut copy = sealed;
        assert!(theirs.open.next().open(3, &HEAD, &mut copy).is_err());
        ours.seal
            .next()
            .seal(3, &HEAD, &[], &mut sealed[..AEAD_TAG]);
        let open = theirs.open.next();
        open.open(3, &HEAD, &mut sealed[..AEAD_TAG]).unwrap();
        assert_eq!((ledger.repeats(), ledger.phases()), (vec![], 1));
    }

    #[test]
    fn a_forged_packet_opens_and_is_not_recorded() {
        let ledger = SealLedger::default();
        let (mut ours, theirs) = ends(&ledger);
        let (index, number, phase) = (7, 3, 0);
        let head = SealedHeader {
            index,
            number,
            phase,
        }
        .bytes();
        let mut sealed = [0; AEAD_TAG];
        ours.seal.seal(number, &head, &[], &mut sealed);
        let like = [&head[..], &sealed].concat();
        let mut forged = ledger.forged(&like, 2, b"a lie").unwrap();
        let (head, body) = forged.split_first_chunk_mut().unwrap();
        theirs.open.open(5, head, body).unwrap();
        assert_eq!(body[..5], *b"a lie");
        assert_eq!(ledger.packets(), 1);
        assert_eq!(ledger.forged(b"never sealed", 1, &[]), None);
    }

    #[test]
    fn other_keys_do_not_fit() {
        let ledger = SealLedger::default();
        let of = |key| RecordingHandshakes::new(ledger.clone(), &[key]);
        let mut message = [0; MESSAGE];
        of(1).initiate(PEER, 0, b"init", &mut message).unwrap();
        assert!(of(2).respond(PEER, b"init", &message).is_err());
        assert!(of(1).respond(PEER, b"INIT", &message).is_err());
        assert!(of(1).respond(PEER, b"init", &message).is_ok());
    }

    #[test]
    fn a_node_needs_its_own_key() {
        let ledger = SealLedger::default();
        let of =
            |node, keys: &[u64]| RecordingHandshakes::of_node(ledger.clone(), NodeId(node), keys);
        let mut message = [0; MESSAGE];
        of(1, &[7])
            .initiate(NodeId(2), 0, b"init", &mut message)
            .unwrap();
        let takes = |node, keys: &[u64], from| {
            let taken = of(node, keys).respond(NodeId(from), b"init", &message);
            taken.is_ok()
        };
        assert!(takes(2, &[7], 1) && takes(2, &[8, 7], 1));
        assert!(!takes(2, &[8], 1), "another key");
        assert!(!takes(2, &[7], 3), "in another name");
        assert!(!takes(3, &[7], 1), "meant for another node");
    }

    #[test]
    fn a_second_use_is_recorded() {
        let ledger = SealLedger::default();
        let makes = RecordingHandshakes::new(ledger.clone(), &[1, 2]);
        let (mut ours, _) = keys(&makes);
        let mut sealed = [0; AEAD_TAG];
        for number in [5, 6, 5] {
            ours.seal.seal(number, &HEAD, &[], &mut sealed);
        }
        assert_eq!(ledger.repeats().len(), 1);
        assert_eq!(ledger.packets(), 2);
        makes.restored();
        let later = keys(&makes).0;
        for (mut keys, repeats) in [(later, 1), (ours, 2)] {
            keys.seal.seal(9, &HEAD, &[], &mut sealed);
            assert_eq!(ledger.repeats().len(), repeats);
        }
    }
}
