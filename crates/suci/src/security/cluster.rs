//! Handshakes under the keys of a cluster (PROTOCOL.md, section 18).

use super::handshake::{self, MESSAGE};
use super::key::{ClusterKey, Keyring};
use super::noise::Start;
use super::packet::Cipher;
use super::secret::on_cleared_stack;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use suci_proto::security::{HandshakeError, Handshakes, Initiator, Responder};
use suci_proto::types::NodeId;

/// Tells this protocol from all others that may use the same key.
const PROLOGUE: &[u8] = b"suci 1 cluster key";

/// Makes the handshakes of a node under the keys of its keyring, which may change at any time.
pub(crate) struct ClusterHandshakes {
    cipher: Cipher,
    /// In order of preference.
    keys: RwLock<Vec<Arc<Start>>>,
}

impl ClusterHandshakes {
    /// Handshakes of a node that seals with `cipher`.
    pub(crate) fn new(keys: &Keyring, cipher: Cipher) -> Self {
        Self {
            cipher,
            keys: RwLock::new(starts(keys)),
        }
    }

    /// Replaces the keys. Handshakes that began before go on under theirs.
    pub(crate) fn set_keys(&self, keys: &Keyring) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = starts(keys);
    }

    fn keys(&self) -> Vec<Arc<Start>> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl fmt::Debug for ClusterHandshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterHandshakes({})", self.cipher)
    }
}

fn starts(keys: &Keyring) -> Vec<Arc<Start>> {
    let start =
        |key: &ClusterKey| on_cleared_stack(|| Arc::new(Start::anonymous(PROLOGUE, key.secret())));
    keys.iter().map(start).collect()
}

impl Handshakes for ClusterHandshakes {
    fn message_len(&self) -> usize {
        MESSAGE
    }

    fn initiate(
        &self,
        _peer: NodeId,
        turn: u32,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<Box<dyn Initiator>, HandshakeError> {
        let keys = self.keys();
        let at = usize::try_from(turn).unwrap_or(0).checked_rem(keys.len());
        let start = at
            .and_then(|at| keys.get(at))
            .ok_or(HandshakeError::Unavailable)?;
        handshake::initiate(start, self.cipher, context, message)
    }

    fn respond(
        &self,
        _peer: NodeId,
        context: &[u8],
        message: &[u8],
    ) -> Result<Box<dyn Responder>, HandshakeError> {
        handshake::respond(self.keys(), self.cipher, context, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::handshake::{check, payload};
    use crate::security::noise::{KeyPair, LENGTH, OVERHEAD, hmac};
    use crate::security::packet::Sealer;
    use crate::security::page::{Vector, hex, page, vectors};
    use suci_proto::security::{AEAD_TAG, Seal};
    use suci_proto::wire::HEADER;

    const PAYLOAD: usize = MESSAGE - OVERHEAD;
    const PEER: NodeId = NodeId(1);

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::from_bytes(&[byte; LENGTH])
    }

    fn makes(keys: impl Into<Keyring>, cipher: Cipher) -> ClusterHandshakes {
        ClusterHandshakes::new(&keys.into(), cipher)
    }

    /// The bytes from `first` on, each one more than the last.
    fn rising(first: u8) -> [u8; LENGTH] {
        std::array::from_fn(|at| first + at as u8)
    }

    /// The vectors of docs/protocol-vectors.md: each value and its name.
    fn values() -> Vec<(String, Vec<u8>)> {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        let mut add = |name: &str, bytes: &[u8]| all.push((name.to_owned(), bytes.to_vec()));
        let (init, accept) = (b"context of INIT", b"context of ACCEPT");
        add("cluster key", &rising(0));
        add("private ephemeral key of the initiator", &rising(0x20));
        add("private ephemeral key of the responder", &rising(0x40));
        add("context of message 1", init);
        add("context of message 2", accept);
        let start = Start::anonymous(PROLOGUE, &rising(0));
        let (mut first, mut second) = ([0; PAYLOAD + OVERHEAD], [0; PAYLOAD + OVERHEAD]);
        let ephemeral = |first| KeyPair::from_private(&rising(first)).unwrap();
        let sent = payload(Cipher::Aes128Gcm, init);
        let initiated = start.initiate(ephemeral(0x20), &sent, &mut first);
        add("message 1, which names AES-128-GCM", &first);
        let mut taken = [0; PAYLOAD];
        let responding = start.respond(&first, &mut taken).unwrap();
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
        let expand = |info: &[u8]| hmac(initiator.as_slice(), &[info, &[1]]);
        add("key of the initiator, phase 0", &expand(b"suci key")[..16]);
        add("iv of the initiator, phase 0", &expand(b"suci iv")[..12]);
        add(
            "secret of the initiator, phase 1",
            expand(b"suci next").as_slice(),
        );
        let header = [0x10, 0, 0, 0, 4, 3, 2, 1, 7, 0, 0, 0, 0, 0, 0, 0];
        add("header of packet 7, phase 0", &header);
        let sealed = |sealer: &mut dyn Seal, header: &[u8; HEADER]| {
            let mut sealed = [0; 4 + AEAD_TAG];
            sealer.seal(7, header, &[b"su", b"ci"], &mut sealed);
            sealed
        };
        for cipher in Cipher::ALL {
            let mut sealer = Sealer::new(cipher, initiator.clone());
            let body = sealed(&mut sealer, &header);
            add(&format!("body of packet 7, `suci`, {cipher}"), &body);
        }
        let mut sealer = Sealer::new(Cipher::Aes128Gcm, initiator).next();
        let mut header = header;
        header[1] = 1;
        add(
            "body of packet 7, `suci`, AES-128-GCM, phase 1",
            &sealed(&mut *sealer, &header),
        );
        all
    }

    #[test]
    fn the_vectors_are_those_of_the_page() {
        let on_page = vectors(&page()).into_iter();
        let on_page: Vec<_> = on_page.filter(|vector| vector.kind == "sealed").collect();
        let mut block = String::from("\n```vectors sealed\n");
        for (name, bytes) in values() {
            let lines: Vec<String> = bytes.chunks(32).map(hex).collect();
            block += &format!("{}\n= {name}\n\n", lines.join("\n"));
        }
        let found = |vector: Vector| (vector.meaning, vector.bytes);
        let found: Vec<_> = on_page.into_iter().map(found).collect();
        assert!(
            found == values(),
            "docs/protocol-vectors.md must have{}```",
            block.trim_end_matches('\n')
        );
    }

    #[test]
    fn each_side_opens_with_the_cipher_that_the_other_named() {
        for ours in Cipher::ALL {
            for theirs in Cipher::ALL {
                let (a, b) = (makes(key(1), ours), makes(key(1), theirs));
                let (mut first, mut second) = (vec![0; a.message_len()], vec![0; a.message_len()]);
                let mut initiator = a.initiate(PEER, 0, b"init", &mut first).unwrap();
                let responder = b.respond(PEER, b"init", &first).unwrap();
                let mut b = responder.answer(b"accept", &mut second).unwrap();
                assert!(initiator.finish(b"other", &second).is_err());
                let mut a = initiator.finish(b"accept", &second).unwrap();
                let mut packet = [0; 3 + AEAD_TAG];
                a.seal.seal(1, &[0; HEADER], &[b"abc"], &mut packet);
                b.open.open(1, &[0; HEADER], &mut packet).unwrap();
                assert_eq!(packet[..3], *b"abc");
                b.seal.seal(1, &[0; HEADER], &[b"def"], &mut packet);
                a.open.open(1, &[0; HEADER], &mut packet).unwrap();
                assert_eq!(packet[..3], *b"def");
            }
        }
    }

    #[test]
    fn either_key_is_accepted_and_turns_choose_one() {
        let cipher = Cipher::Aes256Gcm;
        let both = makes(Keyring::of_two(key(2), key(1)), cipher);
        let mut message = vec![0; both.message_len()];
        for (turn, takes) in [(0, 2), (1, 1), (2, 2), (u32::MAX, 1)] {
            both.initiate(PEER, turn, b"init", &mut message).unwrap();
            for byte in [1, 2] {
                let taken = makes(key(byte), cipher).respond(PEER, b"init", &message);
                assert_eq!(taken.is_ok(), byte == takes, "turn {turn}, key {byte}");
            }
            assert!(both.respond(PEER, b"init", &message).is_ok());
            assert!(both.respond(PEER, b"INIT", &message).is_err());
        }
        both.set_keys(&key(3).into());
        assert!(both.respond(PEER, b"init", &message).is_err());
        let short = message.get(..80).unwrap();
        assert!(matches!(
            both.respond(PEER, b"init", short),
            Err(HandshakeError::WrongKey)
        ));
    }

    #[test]
    fn handshakes_never_repeat_an_ephemeral() {
        let makes = makes(key(1), Cipher::Aes128Gcm);
        let (mut one, mut two) = (vec![0; 81], vec![0; 81]);
        makes.initiate(PEER, 0, b"init", &mut one).unwrap();
        makes.initiate(PEER, 0, b"init", &mut two).unwrap();
        assert_ne!(one[..32], two[..32]);
        let answer = |message: &mut [u8]| {
            let responder = makes.respond(PEER, b"init", &one).unwrap();
            responder.answer(b"accept", message).unwrap();
        };
        let (mut three, mut four) = (vec![0; 81], vec![0; 81]);
        answer(&mut three);
        answer(&mut four);
        assert_ne!(three[..32], four[..32]);
    }
}
