//! Handshakes under the keys of nodes (PROTOCOL.md, section 18).
//!
//! The pre-shared key of a handshake is made of both static keys: so a responder reads message 1
//! without a key exchange, once it has made that key for the pair of nodes.

use super::file::KeyError;
use super::handshake::{self, MESSAGE};
use super::key::{KeyId, Keyring};
use super::node_key::{NodeKey, PublicKey, PublicKeys};
use super::noise::{KeyPair, Secret, Start, hmac};
use super::packet::Cipher;
use super::secret::on_cleared_stack;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use suci_proto::Renewal;
use suci_proto::security::{HandshakeError, Handshakes, Initiator, KeyKind, Responder, Security};
use suci_proto::types::{Layers, NodeId};

/// Tells this protocol from all others that may use the same keys.
const PROLOGUE: &[u8] = b"suci 1 node keys";

/// Separates the hash that makes the pre-shared key from every other use of the key exchange.
const PSK_LABEL: &[u8] = b"suci 1 node keys psk";

/// The keys that a node knows, without any secret: its own and those of all nodes. Never changes.
#[derive(Debug)]
pub(crate) struct KnownKeys {
    node: NodeId,
    /// The public halves of the node's own pairs, in order of preference.
    own: Vec<PublicKey>,
    public: PublicKeys,
}

/// The key pairs of a node, and the public keys of all nodes. Never changes: a change makes another
/// one. It alone owns the private keys, so that they are cleared when another one takes its place.
pub(crate) struct NodeKeyring {
    known: Arc<KnownKeys>,
    /// The node's own pairs that its public keys list, in order of preference; all of them if none
    /// is listed.
    own: Vec<Arc<KeyPair>>,
    /// The beginnings of handshakes made so far, by the own key and the other: at most two for each
    /// key in the public ones.
    starts: Mutex<BTreeMap<(PublicKey, PublicKey), PairStarts>>,
}

/// The beginnings of all handshakes under one pair of keys: the pre-shared key is mixed.
#[derive(Clone)]
struct PairStarts {
    initiating: Arc<Start>,
    responding: Arc<Start>,
}

impl PairStarts {
    /// Makes both, by one key exchange; nothing if the public key is of small order.
    fn new(ours: &Arc<KeyPair>, theirs: &PublicKey) -> Option<Self> {
        let theirs = theirs.as_bytes();
        on_cleared_stack(|| {
            let psk = ours.agree(theirs, |secret| hmac(secret, &[PSK_LABEL]));
            let psk: Secret = psk.ok()?;
            let start =
                |initiates| Arc::new(Start::mutual(PROLOGUE, &psk, ours, theirs, initiates));
            Some(Self {
                initiating: start(true),
                responding: start(false),
            })
        })
    }
}

fn public_half(pair: &KeyPair) -> PublicKey {
    PublicKey::from_bytes(*pair.public())
}

impl KnownKeys {
    /// Checks that other nodes can know a key of this one.
    ///
    /// # Errors
    /// [`KeyError::NotListed`].
    pub(crate) fn check_listed(&self) -> Result<(), KeyError> {
        let listed = self.public.of(self.node);
        if self.own.iter().any(|key| listed.contains(key)) {
            return Ok(());
        }
        let first = self.own.first();
        let line = first.map_or_else(String::new, |key| format!("{} {key}", self.node));
        Err(KeyError::NotListed { line })
    }

    /// The names of the node's own keys.
    pub(crate) fn ids(&self) -> Vec<KeyId> {
        self.own.iter().map(PublicKey::id).collect()
    }

    /// How connections are to get new keys when `new` takes the place of these: of one peer, or of
    /// all.
    pub(crate) fn changes_to(&self, new: &Self) -> Vec<(Option<NodeId>, Renewal)> {
        let mut changes = Vec::new();
        for peer in self.public.nodes().filter(|peer| *peer != self.node) {
            let renewal = renewal(
                (self.public.of(peer), self.public.layers(peer)),
                (new.public.of(peer), new.public.layers(peer)),
            );
            changes.extend(renewal.map(|renewal| (Some(peer), renewal)));
        }
        if !self.own.iter().all(|key| new.own.contains(key)) {
            changes.push((None, Renewal::Revoke));
        } else if self.own != new.own {
            changes.push((None, Renewal::Replace));
        }
        changes
    }
}

impl NodeKeyring {
    /// The keys of `node`.
    pub(crate) fn new(node: NodeId, keys: &Keyring<NodeKey>, public: PublicKeys) -> Self {
        let listed = public.of(node);
        let is_listed = |key: &&NodeKey| listed.contains(&key.public());
        let pairs = keys.iter().filter(is_listed).map(NodeKey::pair);
        let mut own: Vec<_> = pairs.flatten().map(Arc::new).collect();
        if own.is_empty() {
            own = keys.iter().flat_map(NodeKey::pair).map(Arc::new).collect();
        }
        let known = KnownKeys {
            node,
            own: own.iter().map(|pair| public_half(pair)).collect(),
            public,
        };
        Self {
            known: Arc::new(known),
            own,
            starts: Mutex::default(),
        }
    }

    /// These keys in the place of `before`: pairs of keys that are in both need no further key
    /// exchange, and handshakes that began under them go on.
    pub(crate) fn in_place_of(mut self, before: &Self) -> Self {
        for pair in &mut self.own {
            let same = |kept: &&Arc<KeyPair>| kept.public() == pair.public();
            if let Some(kept) = before.own.iter().find(same) {
                *pair = Arc::clone(kept);
            }
        }
        let KnownKeys { own, public, .. } = &*self.known;
        let theirs = public.nodes().flat_map(|node| public.of(node));
        let theirs: BTreeSet<_> = theirs.collect();
        let mut starts = before.starts().clone();
        starts.retain(|(ours, other), _| own.contains(ours) && theirs.contains(other));
        self.starts = Mutex::new(starts);
        self
    }

    /// The same keys without the secrets.
    pub(crate) fn known(&self) -> &Arc<KnownKeys> {
        &self.known
    }

    fn starts(&self) -> MutexGuard<'_, BTreeMap<(PublicKey, PublicKey), PairStarts>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The beginnings of handshakes under the own key with this number and a key of another node:
    /// made the first time, with a key exchange.
    fn starts_with(&self, number: usize, theirs: PublicKey) -> Option<PairStarts> {
        let ours = self.own.get(number)?;
        let pair = (public_half(ours), theirs);
        let made = self.starts().get(&pair).cloned();
        if made.is_some() {
            return made;
        }
        let made = PairStarts::new(ours, &theirs)?;
        self.starts().insert(pair, made.clone());
        Some(made)
    }

    /// The keys of `peer`.
    #[cfg(not(suci_plant))]
    fn keys_of(&self, peer: NodeId) -> Vec<PublicKey> {
        self.known.public.of(peer).to_vec()
    }

    /// The keys of `peer`, or with the planted fault `key-of-any-node` those of all.
    #[cfg(suci_plant)]
    fn keys_of(&self, peer: NodeId) -> Vec<PublicKey> {
        if suci_proto::plant::active("key-of-any-node") {
            let all = self.known.public.nodes();
            return all
                .flat_map(|node| self.known.public.of(node))
                .copied()
                .collect();
        }
        self.known.public.of(peer).to_vec()
    }

    /// The pairs of an own key's number and a key of `peer`, in order of preference.
    fn pairs(&self, peer: NodeId) -> Vec<(usize, PublicKey)> {
        let theirs = self.keys_of(peer);
        let pairs =
            (0..self.own.len()).flat_map(|number| theirs.iter().map(move |key| (number, *key)));
        pairs.collect()
    }
}

/// How the connections of a peer are to get new keys, of which these were known before and are
/// known now, if they are.
fn renewal(
    (keys, layers): (&[PublicKey], Layers),
    (new_keys, new_layers): (&[PublicKey], Layers),
) -> Option<Renewal> {
    if new_keys.is_empty() || !new_layers.contains(layers) {
        Some(Renewal::EndSession)
    } else if !keys.iter().all(|key| new_keys.contains(key)) {
        Some(Renewal::Revoke)
    } else if keys != new_keys || layers != new_layers {
        Some(Renewal::Replace)
    } else {
        None
    }
}

impl PublicKeys {
    /// The engine's setting for `node` with these public keys, which seals with `cipher`: for tests
    /// that drive an engine themselves.
    ///
    /// # Errors
    /// [`KeyError::NotListed`].
    #[doc(hidden)]
    pub fn security(
        self,
        node: NodeId,
        own: &Keyring<NodeKey>,
        cipher: Cipher,
    ) -> Result<Security, KeyError> {
        let keys = NodeKeyring::new(node, own, self);
        keys.known().check_listed()?;
        let makes = NodeHandshakes::new(Arc::new(keys), cipher);
        Ok(Security::Sealed(Arc::new(makes)))
    }
}

impl fmt::Debug for NodeKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeKeyring").field(&self.known).finish()
    }
}

/// Makes the handshakes of a node under its own keys, which may change at any time.
pub(crate) struct NodeHandshakes {
    cipher: Cipher,
    keys: RwLock<Arc<NodeKeyring>>,
}

impl NodeHandshakes {
    /// Handshakes of a node that seals with `cipher`.
    pub(crate) fn new(keys: Arc<NodeKeyring>, cipher: Cipher) -> Self {
        let keys = RwLock::new(keys);
        Self { cipher, keys }
    }

    /// Replaces the keys. Handshakes that began before go on if their keys are among the new ones,
    /// which are [in place of](NodeKeyring::in_place_of) these; the others are cleared.
    pub(crate) fn set_keys(&self, keys: Arc<NodeKeyring>) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }

    /// The present keys.
    pub(crate) fn keys(&self) -> Arc<NodeKeyring> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for NodeHandshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeHandshakes({})", self.cipher)
    }
}

impl Handshakes for NodeHandshakes {
    fn message_len(&self) -> usize {
        MESSAGE
    }

    fn kind(&self) -> KeyKind {
        KeyKind::Node
    }

    fn layers(&self, peer: NodeId) -> Layers {
        self.keys().known.public.layers(peer)
    }

    fn initiate(
        &self,
        peer: NodeId,
        turn: u32,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<Box<dyn Initiator>, HandshakeError> {
        let keys = self.keys();
        let pairs = keys.pairs(peer);
        let at = usize::try_from(turn).unwrap_or(0).checked_rem(pairs.len());
        let pair = at.and_then(|at| pairs.get(at));
        let (number, theirs) = *pair.ok_or(HandshakeError::UnknownPeer)?;
        let starts = keys.starts_with(number, theirs);
        // A public key of small order is none.
        let starts = starts.ok_or(HandshakeError::UnknownPeer)?;
        handshake::initiate(&starts.initiating, self.cipher, context, message)
    }

    fn respond(
        &self,
        peer: NodeId,
        context: &[u8],
        message: &[u8],
    ) -> Result<Box<dyn Responder>, HandshakeError> {
        let keys = self.keys();
        let pairs = keys.pairs(peer).into_iter();
        let starts = pairs.filter_map(|(number, theirs)| keys.starts_with(number, theirs));
        let starts = starts.map(|starts| starts.responding);
        handshake::respond(starts, self.cipher, context, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::handshake::{check, payload};
    use crate::security::noise::{LENGTH, OVERHEAD};
    use crate::security::page::{hex, page, vectors};
    use suci_proto::types::Layer;

    const ONE: NodeId = NodeId(1);
    const TWO: NodeId = NodeId(2);

    fn key(byte: u8) -> NodeKey {
        NodeKey::from_bytes(&[byte; LENGTH]).unwrap()
    }

    /// The keys of `node`: these of its own, and these public ones.
    fn keyring(node: NodeId, own: impl Into<Keyring<NodeKey>>, lines: &[(u32, u8)]) -> NodeKeyring {
        let line = |(node, byte): &(u32, u8)| format!("{node} {}\n", key(*byte).public());
        let public = PublicKeys::parse(&lines.iter().map(line).collect::<String>()).unwrap();
        NodeKeyring::new(node, &own.into(), public)
    }

    /// Handshakes of `node` with these keys.
    fn makes(
        node: NodeId,
        own: impl Into<Keyring<NodeKey>>,
        lines: &[(u32, u8)],
    ) -> NodeHandshakes {
        let keys = keyring(node, own, lines);
        NodeHandshakes::new(Arc::new(keys), Cipher::Aes256Gcm)
    }

    /// Message 1 of `by` to node 2.
    fn first(by: &NodeHandshakes, turn: u32) -> (Box<dyn Initiator>, Vec<u8>) {
        let mut message = vec![0; by.message_len()];
        let initiator = by.initiate(TWO, turn, b"init", &mut message).unwrap();
        (initiator, message)
    }

    #[test]
    fn each_side_needs_its_own_key_and_that_of_the_other() {
        let both = [(1, 1), (2, 2)];
        let a = makes(ONE, key(1), &both);
        let b = makes(TWO, key(2), &both);
        let (mut initiator, one) = first(&a, 0);
        let mut two = vec![0; a.message_len()];
        let responder = b.respond(ONE, b"init", &one).unwrap();
        responder.answer(b"accept", &mut two).unwrap();
        initiator.finish(b"accept", &two).unwrap();
        // In another name, at another node, with another key of either side.
        let three = [(1, 1), (2, 2), (3, 3)];
        assert!(
            makes(TWO, key(2), &three)
                .respond(NodeId(3), b"init", &one)
                .is_err()
        );
        assert!(
            makes(NodeId(3), key(3), &three)
                .respond(ONE, b"init", &one)
                .is_err()
        );
        assert!(
            makes(TWO, key(2), &[(1, 3), (2, 2)])
                .respond(ONE, b"init", &one)
                .is_err()
        );
        assert!(
            makes(TWO, key(3), &[(1, 1), (2, 3)])
                .respond(ONE, b"init", &one)
                .is_err()
        );
        assert!(
            makes(TWO, key(2), &[(2, 2)])
                .respond(ONE, b"init", &one)
                .is_err()
        );
        let unknown = makes(ONE, key(1), &[(1, 1)]);
        let none = unknown.initiate(TWO, 0, b"init", &mut two).err();
        assert_eq!(none, Some(HandshakeError::UnknownPeer));
    }

    #[test]
    fn any_pair_of_keys_is_accepted_and_turns_choose_one() {
        let both = [(1, 1), (1, 3), (2, 2), (2, 4)];
        let a = makes(ONE, Keyring::of_two(key(3), key(1)), &both);
        let expected = [(3, 2), (3, 4), (1, 2), (1, 4)];
        for (turn, (own, theirs)) in (0..8).zip(expected.into_iter().cycle()) {
            let (_, message) = first(&a, turn);
            for (ours, of_one) in expected.map(|(a, b)| (b, a)) {
                let b = makes(TWO, key(ours), &[(1, of_one), (2, ours)]);
                let fits = b.respond(ONE, b"init", &message).is_ok();
                assert_eq!(fits, (ours, of_one) == (theirs, own), "turn {turn}");
            }
        }
    }

    /// The beginnings made so far of handshakes that others initiate.
    fn starts_of(makes: &NodeHandshakes) -> BTreeMap<(PublicKey, PublicKey), Arc<Start>> {
        let made = makes.keys().starts().clone().into_iter();
        made.map(|(pair, starts)| (pair, starts.responding))
            .collect()
    }

    fn is_same(one: &Arc<Start>, other: Option<&Arc<Start>>) -> bool {
        other.is_some_and(|other| Arc::ptr_eq(one, other))
    }

    /// Neither key exchange nor transcript is repeated for an INIT, nor after a change that leaves
    /// both keys of the pair.
    #[test]
    fn what_a_pair_of_keys_needs_is_made_once() {
        let lines = [(1, 1), (1, 3), (2, 2), (2, 4)];
        let b = makes(TWO, Keyring::of_two(key(4), key(2)), &lines);
        // The last pair that b tries.
        let a = makes(ONE, key(3), &[(1, 3), (2, 2)]);
        let (_, one) = first(&a, 0);
        b.respond(ONE, b"init", &one).unwrap();
        let made = starts_of(&b);
        assert_eq!(made.len(), 4);
        b.respond(ONE, b"init", &one).unwrap();
        let again = starts_of(&b);
        assert!(made.iter().all(|(pair, it)| is_same(it, again.get(pair))));
        assert_eq!(again.len(), 4);
        // Key 1 of node 1 goes, key 5 of node 3 comes.
        let changed = [(1, 3), (2, 2), (2, 4), (3, 5)];
        let new = keyring(TWO, Keyring::of_two(key(4), key(2)), &changed);
        b.set_keys(Arc::new(new.in_place_of(&b.keys())));
        let kept = starts_of(&b);
        let stays: Vec<_> = made.keys().filter(|it| it.1 == key(3).public()).collect();
        assert_eq!(kept.keys().collect::<Vec<_>>(), stays);
        assert!(kept.iter().all(|(pair, it)| is_same(it, made.get(pair))));
        b.respond(ONE, b"init", &one).unwrap();
        // An own key goes.
        let new = keyring(TWO, key(4), &changed);
        b.set_keys(Arc::new(new.in_place_of(&b.keys())));
        let left: Vec<_> = starts_of(&b).into_keys().collect();
        assert_eq!(left, [(key(4).public(), key(3).public())]);
        assert!(b.respond(ONE, b"init", &one).is_err());
    }

    /// A handshake that waits for its answer goes on after a change that leaves its own key, and
    /// fails after one that takes it out: nothing keeps that key.
    #[test]
    fn a_key_that_was_taken_out_is_cleared_though_a_handshake_waits() {
        let lines = [(1, 1), (1, 3), (2, 2)];
        let b = makes(TWO, key(2), &lines);
        for (own, goes_on) in [
            (Keyring::of_two(key(3), key(1)), true),
            (key(3).into(), false),
        ] {
            let a = makes(ONE, key(1), &lines);
            let pair = Arc::downgrade(a.keys().own.first().unwrap());
            let (mut initiator, one) = first(&a, 0);
            let mut two = vec![0; a.message_len()];
            let responder = b.respond(ONE, b"init", &one).unwrap();
            responder.answer(b"accept", &mut two).unwrap();
            let new = keyring(ONE, own, &lines).in_place_of(&a.keys());
            a.set_keys(Arc::new(new));
            assert_eq!(pair.upgrade().is_some(), goes_on);
            assert_eq!(initiator.finish(b"accept", &two).is_ok(), goes_on);
        }
    }

    #[test]
    fn rights_are_those_of_the_file() {
        let text = format!("1 {}\n2 {} sockets\n", key(1).public(), key(2).public());
        let public = PublicKeys::parse(&text).unwrap();
        let keys = NodeKeyring::new(ONE, &key(1).into(), public);
        let makes = NodeHandshakes::new(Arc::new(keys), Cipher::Aes128Gcm);
        assert_eq!(makes.layers(TWO), Layers::NONE.with(Layer::Sockets));
        assert_eq!(makes.layers(NodeId(3)), Layers::NONE);
        let shown = format!("{makes:?} {:?}", makes.keys());
        let secret = key(1).to_secret_text();
        assert!(
            !shown.contains(secret.split(' ').nth(1).unwrap()),
            "{shown}"
        );
    }

    /// The bytes from `first` on, each one more than the last.
    fn rising(first: u8) -> [u8; LENGTH] {
        std::array::from_fn(|at| first + at as u8)
    }

    /// The vectors of docs/protocol-vectors.md: each value and its name.
    fn values() -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, bytes: &[u8]| all.push((name.to_owned(), bytes.to_vec()));
        let pair = |first| Arc::new(KeyPair::from_private(&rising(first)).unwrap());
        let (ours, theirs) = (pair(0x60), pair(0x80));
        add("private key of the initiator", &rising(0x60));
        add("private key of the responder", &rising(0x80));
        add("public key of the initiator", ours.public());
        add("public key of the responder", theirs.public());
        let psk = ours.agree(theirs.public(), |secret| hmac(secret, &[PSK_LABEL]));
        let psk = psk.unwrap();
        add("pre-shared key", psk.as_slice());
        let start = |ours: &Arc<KeyPair>, theirs: &Arc<KeyPair>, initiates| {
            Start::mutual(PROLOGUE, &psk, ours, theirs.public(), initiates)
        };
        let (init, accept) = (b"context of INIT", b"context of ACCEPT");
        let ephemeral = |first| KeyPair::from_private(&rising(first)).unwrap();
        let (mut first, mut second) = ([0; MESSAGE], [0; MESSAGE]);
        let sent = payload(Cipher::Aes128Gcm, init);
        let initiated = start(&ours, &theirs, true).initiate(ephemeral(0x20), &sent, &mut first);
        add("message 1, which names AES-128-GCM", &first);
        let mut taken = [0; MESSAGE - OVERHEAD];
        let responding = start(&theirs, &ours, false)
            .respond(&first, &mut taken)
            .unwrap();
        assert_eq!(check(&taken, init), Ok(Cipher::Aes128Gcm));
        let sent = payload(Cipher::ChaCha20Poly1305, accept);
        let answered = responding
            .answer(&ephemeral(0x40), &sent, &mut second)
            .unwrap();
        add("message 2, which names ChaCha20-Poly1305", &second);
        let finished = initiated.unwrap().finish(&second, &mut taken).unwrap();
        assert_eq!(check(&taken, accept), Ok(Cipher::ChaCha20Poly1305));
        assert_eq!(finished, answered);
        let [initiator, responder] = finished;
        add("secret of the initiator, phase 0", initiator.as_slice());
        add("secret of the responder, phase 0", responder.as_slice());
        all
    }

    #[test]
    fn the_vectors_of_node_keys_are_those_of_the_page() {
        let on_page = vectors(&page()).into_iter();
        let on_page = on_page.filter(|vector| vector.kind == "node-keys");
        let on_page: Vec<_> = on_page
            .map(|vector| (vector.meaning, vector.bytes))
            .collect();
        let mut block = String::from("\n```vectors node-keys\n");
        for (name, bytes) in values() {
            let lines: Vec<String> = bytes.chunks(32).map(hex).collect();
            block += &format!("{}\n= {name}\n\n", lines.join("\n"));
        }
        assert!(
            on_page == values(),
            "docs/protocol-vectors.md must have{}```",
            block.trim_end_matches('\n')
        );
    }
}
