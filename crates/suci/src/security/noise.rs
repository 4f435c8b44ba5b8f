//! The handshake patterns, after the Noise Protocol Framework, revision 34
//! (<https://noiseprotocol.org/noise.html>): `Noise_NNpsk0_25519_ChaChaPoly_SHA256` for a cluster
//! key, `Noise_KK1psk0_25519_ChaChaPoly_SHA256` for keys of nodes. Message 1 is the same in both;
//! message 2 of the second one mixes in the static keys, which both sides know beforehand:
//! ```text
//! NNpsk0:  -> psk, e   <- e, ee
//! KK1psk0: -> psk, e   <- e, ee, se, es
//! ```
//!
//! The names of that text are `ck` for [`Transcript::chaining_key`], `h` for `hash`, `k` for `key`.
//! In these patterns a new key is mixed before each encryption, so that its counter `n` is always
//! 0.
//!
//! All secrets are cleared when they are dropped. Calls of the cryptographic library leave copies
//! on the stack: a caller that gives a long-lived key does so on a [cleared
//! stack](super::secret::on_cleared_stack). What they leave of a single handshake stays.

use crate::sys;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest::{self, SHA256};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use std::sync::{Arc, Weak};
use zeroize::Zeroizing;

/// Bytes of a hash, of a key, and of a public key alike.
pub(super) const LENGTH: usize = 32;

/// Bytes of an authentication tag.
const TAG: usize = 16;

/// Bytes by which a message is longer than its payload.
pub(super) const OVERHEAD: usize = LENGTH + TAG;

/// The name of the pattern of a cluster key.
const ANONYMOUS: &[u8] = b"Noise_NNpsk0_25519_ChaChaPoly_SHA256";

/// The name of the pattern of keys of nodes.
const MUTUAL: &[u8] = b"Noise_KK1psk0_25519_ChaChaPoly_SHA256";

pub(super) type Secret = Zeroizing<[u8; LENGTH]>;

/// The message is not authentic, or the library failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoiseError;

impl From<Unspecified> for NoiseError {
    fn from(_: Unspecified) -> Self {
        Self
    }
}

/// HMAC-SHA-256 over the concatenation of `pieces`.
pub(super) fn hmac(key: &[u8], pieces: &[&[u8]]) -> Secret {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    let mut context = hmac::Context::with_key(&key);
    pieces.iter().for_each(|piece| context.update(piece));
    let tag = context.sign();
    let mut out = Secret::default();
    let bytes = tag.as_ref().iter();
    out.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
    out
}

/// SHA-256 over the concatenation of `pieces`.
pub(super) fn sha256(pieces: &[&[u8]]) -> [u8; LENGTH] {
    let mut context = digest::Context::new(&SHA256);
    pieces.iter().for_each(|piece| context.update(piece));
    let digest = context.finish();
    let first = digest.as_ref().first_chunk();
    first.copied().unwrap_or_default()
}

/// HKDF of Noise: as many secrets as asked for.
fn hkdf<const N: usize>(chaining_key: &[u8], input: &[u8]) -> [Secret; N] {
    let extracted = hmac(chaining_key, &[input]);
    let mut last: Option<Secret> = None;
    let mut number = 0u8;
    std::array::from_fn(|_| {
        number = number.wrapping_add(1);
        let before: &[u8] = last.as_ref().map_or(&[], |last| last.as_slice());
        let next = hmac(extracted.as_slice(), &[before, &[number]]);
        last = Some(next.clone());
        next
    })
}

/// The state of both sides while messages are exchanged (`SymmetricState` of Noise).
#[derive(Clone)]
struct Transcript {
    chaining_key: Secret,
    hash: [u8; LENGTH],
    key: Secret,
}

impl Transcript {
    /// The state before the first message. `known` are the public keys that both sides know:
    /// the initiator's, then the responder's.
    fn new(name: &[u8], prologue: &[u8], known: &[&[u8]], psk: &[u8; LENGTH]) -> Self {
        let hash = sha256(&[name]);
        let mut transcript = Self {
            chaining_key: Zeroizing::new(hash),
            hash,
            key: Secret::default(),
        };
        transcript.mix_hash(prologue);
        known.iter().for_each(|public| transcript.mix_hash(public));
        let [chaining_key, hash, key] = hkdf(transcript.chaining_key.as_slice(), psk);
        transcript.chaining_key = chaining_key;
        transcript.mix_hash(hash.as_slice());
        transcript.key = key;
        transcript
    }

    fn mix_hash(&mut self, data: &[u8]) {
        self.hash = sha256(&[&self.hash, data]);
    }

    fn mix_key(&mut self, input: &[u8]) {
        let [chaining_key, key] = hkdf(self.chaining_key.as_slice(), input);
        self.chaining_key = chaining_key;
        self.key = key;
    }

    /// Takes a public key into the hash and, since there is a pre-shared key, into the keys.
    fn mix_ephemeral(&mut self, public: &[u8]) {
        self.mix_hash(public);
        self.mix_key(public);
    }

    fn cipher(&self) -> Result<LessSafeKey, NoiseError> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, self.key.as_slice())?;
        Ok(LessSafeKey::new(key))
    }

    /// Encrypts `payload` behind the public key of `message`.
    fn write(
        &mut self,
        public: &[u8],
        payload: &[u8],
        message: &mut [u8],
    ) -> Result<(), NoiseError> {
        let (head, rest) = message.split_at_mut_checked(LENGTH).ok_or(NoiseError)?;
        let (text, end) = rest.split_at_mut_checked(payload.len()).ok_or(NoiseError)?;
        if public.len() != LENGTH || end.len() != TAG {
            return Err(NoiseError);
        }
        head.copy_from_slice(public);
        text.copy_from_slice(payload);
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let cipher = self.cipher()?;
        let tag = cipher.seal_in_place_separate_tag(nonce, Aad::from(self.hash), text)?;
        end.copy_from_slice(tag.as_ref());
        self.mix_hash(rest);
        Ok(())
    }

    /// Decrypts the payload `sealed`, which follows the public key of a message.
    fn read(&mut self, sealed: &[u8], payload: &mut [u8]) -> Result<(), NoiseError> {
        let mut buffer = Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let text = (self.cipher()?).open_in_place(nonce, Aad::from(self.hash), &mut buffer)?;
        if text.len() != payload.len() {
            return Err(NoiseError);
        }
        payload.copy_from_slice(text);
        self.mix_hash(sealed);
        Ok(())
    }

    /// The secrets of both directions (`Split()`): first for packets of the initiator.
    fn split(&self) -> [Secret; 2] {
        hkdf(self.chaining_key.as_slice(), &[])
    }
}

/// A public key.
pub(super) type Public = [u8; LENGTH];

/// A key pair: of one handshake, or of a node.
pub(super) struct KeyPair {
    private: PrivateKey,
    public: Public,
}

impl KeyPair {
    /// Makes a pair from the randomness of the system. The library's own generator keeps a state in
    /// memory, which two machines that run on from one snapshot would share.
    pub(super) fn generate() -> Result<Self, NoiseError> {
        let private = sys::random().map_err(|_| NoiseError)?;
        Self::from_private(&Zeroizing::new(private))
    }

    /// The pair of a private key.
    pub(super) fn from_private(private: &[u8; LENGTH]) -> Result<Self, NoiseError> {
        let private = PrivateKey::from_private_key(&X25519, private);
        let private = private.map_err(|_| NoiseError)?;
        let public = private.compute_public_key()?;
        let public = *public.as_ref().first_chunk().ok_or(NoiseError)?;
        Ok(Self { private, public })
    }

    /// The public key.
    pub(super) fn public(&self) -> &Public {
        &self.public
    }

    /// Calls `with` with the shared secret. Fails for public keys of small order.
    pub(super) fn agree<T>(
        &self,
        theirs: &Public,
        with: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, NoiseError> {
        let theirs = UnparsedPublicKey::new(&X25519, theirs);
        agreement::agree(&self.private, theirs, NoiseError, |secret| Ok(with(secret)))
    }
}

/// The static keys of one side. A private key that was taken out is cleared at once: handshakes
/// that began under it fail.
#[derive(Clone)]
struct Statics {
    ours: Weak<KeyPair>,
    theirs: Public,
}

impl Statics {
    fn ours(&self) -> Result<Arc<KeyPair>, NoiseError> {
        self.ours.upgrade().ok_or(NoiseError)
    }
}

/// Keys, ready for handshakes: everything that comes before the first message is mixed.
pub(super) struct Start {
    transcript: Transcript,
    /// None for a cluster key.
    statics: Option<Statics>,
}

impl Start {
    /// Begins with a cluster key, in either role.
    pub(super) fn anonymous(prologue: &[u8], psk: &[u8; LENGTH]) -> Self {
        Self {
            transcript: Transcript::new(ANONYMOUS, prologue, &[], psk),
            statics: None,
        }
    }

    /// Begins with keys of nodes, as the initiator or as the responder.
    pub(super) fn mutual(
        prologue: &[u8],
        psk: &[u8; LENGTH],
        ours: &Arc<KeyPair>,
        theirs: &Public,
        initiates: bool,
    ) -> Self {
        let known = match initiates {
            true => [&ours.public[..], &theirs[..]],
            false => [&theirs[..], &ours.public[..]],
        };
        let statics = Statics {
            ours: Arc::downgrade(ours),
            theirs: *theirs,
        };
        Self {
            transcript: Transcript::new(MUTUAL, prologue, &known, psk),
            statics: Some(statics),
        }
    }

    /// Writes message 1, which fills `message`.
    pub(super) fn initiate(
        &self,
        ephemeral: KeyPair,
        payload: &[u8],
        message: &mut [u8],
    ) -> Result<Initiated, NoiseError> {
        let mut transcript = self.transcript.clone();
        transcript.mix_ephemeral(&ephemeral.public);
        transcript.write(&ephemeral.public, payload, message)?;
        Ok(Initiated {
            transcript,
            ephemeral,
            statics: self.statics.clone(),
        })
    }

    /// Reads message 1. No key exchange yet: this costs 10 hashes and a decryption.
    pub(super) fn respond(
        &self,
        message: &[u8],
        payload: &mut [u8],
    ) -> Result<Responding, NoiseError> {
        let (theirs, sealed) = message.split_first_chunk().ok_or(NoiseError)?;
        let mut transcript = self.transcript.clone();
        transcript.mix_ephemeral(theirs);
        transcript.read(sealed, payload)?;
        Ok(Responding {
            transcript,
            theirs: *theirs,
            statics: self.statics.clone(),
        })
    }
}

/// The initiator after message 1.
pub(super) struct Initiated {
    transcript: Transcript,
    ephemeral: KeyPair,
    statics: Option<Statics>,
}

impl Initiated {
    /// Reads message 2. After a failure another message may be read.
    pub(super) fn finish(
        &self,
        message: &[u8],
        payload: &mut [u8],
    ) -> Result<[Secret; 2], NoiseError> {
        let (theirs, sealed) = message.split_first_chunk().ok_or(NoiseError)?;
        let mut transcript = self.transcript.clone();
        transcript.mix_ephemeral(theirs);
        let mut mix =
            |pair: &KeyPair, public| pair.agree(public, |secret| transcript.mix_key(secret));
        mix(&self.ephemeral, theirs)?;
        if let Some(statics) = &self.statics {
            mix(&*statics.ours()?, theirs)?;
            mix(&self.ephemeral, &statics.theirs)?;
        }
        transcript.read(sealed, payload)?;
        Ok(transcript.split())
    }
}

/// The responder after message 1.
pub(super) struct Responding {
    transcript: Transcript,
    theirs: Public,
    statics: Option<Statics>,
}

impl Responding {
    /// Writes message 2, which fills `message`.
    pub(super) fn answer(
        mut self,
        ephemeral: &KeyPair,
        payload: &[u8],
        message: &mut [u8],
    ) -> Result<[Secret; 2], NoiseError> {
        self.transcript.mix_ephemeral(&ephemeral.public);
        let transcript = &mut self.transcript;
        let mut mix =
            |pair: &KeyPair, public| pair.agree(public, |secret| transcript.mix_key(secret));
        mix(ephemeral, &self.theirs)?;
        if let Some(statics) = &self.statics {
            mix(ephemeral, &statics.theirs)?;
            mix(&*statics.ours()?, &self.theirs)?;
        }
        transcript.write(&ephemeral.public, payload, message)?;
        Ok(transcript.split())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn fixed(hex: &str) -> KeyPair {
        KeyPair::from_private(bytes(hex).first_chunk().unwrap()).unwrap()
    }

    /// Encrypts as Noise does after the handshake, with its counter.
    fn transport(key: &Secret, counter: u64, payload: &[u8]) -> Vec<u8> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice()).unwrap();
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_le_bytes());
        let mut text = payload.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = LessSafeKey::new(key).seal_in_place_append_tag(nonce, Aad::empty(), &mut text);
        sealed.unwrap();
        text
    }

    /// The vector of the Noise implementation cacophony for this protocol.
    #[test]
    fn the_published_vector() {
        let psk = *b"This is my Austrian perspective!";
        let start = Start::anonymous(b"John Galt", &psk);
        let ours = fixed("893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a");
        let theirs = fixed("bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b");
        let mut first = [0; 16 + OVERHEAD];
        let initiated = start
            .initiate(ours, b"Ludwig von Mises", &mut first)
            .unwrap();
        let expected = "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944\
                        79b962b8aff8485742ac32f905ba45369e2465fb59e138a93d67a0d1266b6a54";
        assert_eq!(first[..], bytes(expected));
        let mut payload = [0; 16];
        let responding = start.respond(&first, &mut payload).unwrap();
        assert_eq!(payload, *b"Ludwig von Mises");
        let mut second = [0; 15 + OVERHEAD];
        let answered = responding
            .answer(&theirs, b"Murray Rothbard", &mut second)
            .unwrap();
        let expected = "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843\
                        d6062704d5a9c422a8e834423f8c1feada7e8d0d910a1a2cd030fb584221e3";
        assert_eq!(second[..], bytes(expected));
        let mut payload = [0; 15];
        let finished = initiated.finish(&second, &mut payload).unwrap();
        assert_eq!((payload, &finished), (*b"Murray Rothbard", &answered));
        let third = transport(&finished[0], 0, b"F. A. Hayek");
        assert_eq!(
            third,
            bytes("e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f")
        );
        let fourth = transport(&finished[1], 0, b"Carl Menger");
        assert_eq!(
            fourth,
            bytes("64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e")
        );
    }

    /// Both roles against another implementation.
    #[test]
    fn snow_understands_us_and_we_snow() {
        let psk = [0x42; LENGTH];
        let start = Start::anonymous(b"prologue", &psk);
        let builder = || {
            let name = std::str::from_utf8(ANONYMOUS).unwrap();
            let builder = snow::Builder::new(name.parse().unwrap());
            builder.prologue(b"prologue").unwrap().psk(0, &psk).unwrap()
        };
        let (mut first, mut second, mut payload) = ([0; 5 + OVERHEAD], [0; 4 + OVERHEAD], [0; 64]);

        let initiated = start.initiate(KeyPair::generate().unwrap(), b"hello", &mut first);
        let mut other = builder().build_responder().unwrap();
        assert_eq!(other.read_message(&first, &mut payload), Ok(5));
        other.write_message(b"back", &mut second).unwrap();
        let split = initiated.unwrap().finish(&second, &mut [0; 4]).unwrap();
        let (one, two) = other.dangerously_get_raw_split();
        assert_eq!([*split[0], *split[1]], [one, two]);

        let mut other = builder().build_initiator().unwrap();
        other.write_message(b"hello", &mut first).unwrap();
        let responding = start.respond(&first, &mut [0; 5]).unwrap();
        let ephemeral = KeyPair::generate().unwrap();
        let split = responding.answer(&ephemeral, b"back", &mut second).unwrap();
        assert_eq!(other.read_message(&second, &mut payload), Ok(4));
        let (one, two) = other.dangerously_get_raw_split();
        assert_eq!([*split[0], *split[1]], [one, two]);
    }

    /// The same for keys of nodes.
    #[test]
    fn snow_understands_us_and_we_snow_with_static_keys() {
        let psk = [0x42; LENGTH];
        let (ours, theirs) = ([1; LENGTH], [2; LENGTH]);
        let [own, other] = [ours, theirs].map(|key| Arc::new(KeyPair::from_private(&key).unwrap()));
        let start = |initiates| Start::mutual(b"prologue", &psk, &own, other.public(), initiates);
        let builder = || {
            let name = std::str::from_utf8(MUTUAL).unwrap();
            let builder = snow::Builder::new(name.parse().unwrap());
            let builder = builder.prologue(b"prologue").unwrap().psk(0, &psk).unwrap();
            let builder = builder.local_private_key(&theirs).unwrap();
            builder.remote_public_key(own.public()).unwrap()
        };
        let (mut first, mut second, mut payload) = ([0; 5 + OVERHEAD], [0; 4 + OVERHEAD], [0; 64]);

        let ephemeral = KeyPair::generate().unwrap();
        let initiated = start(true).initiate(ephemeral, b"hello", &mut first);
        let mut snow = builder().build_responder().unwrap();
        assert_eq!(snow.read_message(&first, &mut payload), Ok(5));
        snow.write_message(b"back", &mut second).unwrap();
        let split = initiated.unwrap().finish(&second, &mut [0; 4]).unwrap();
        let (one, two) = snow.dangerously_get_raw_split();
        assert_eq!([*split[0], *split[1]], [one, two]);

        let mut snow = builder().build_initiator().unwrap();
        snow.write_message(b"hello", &mut first).unwrap();
        let responding = start(false).respond(&first, &mut [0; 5]).unwrap();
        let ephemeral = KeyPair::generate().unwrap();
        let split = responding.answer(&ephemeral, b"back", &mut second).unwrap();
        assert_eq!(snow.read_message(&second, &mut payload), Ok(4));
        let (one, two) = snow.dangerously_get_raw_split();
        assert_eq!([*split[0], *split[1]], [one, two]);
    }

    /// Key compromise impersonation: the thief of the responder's key has the pre-shared key and
    /// can make message 1 in anybody's name, but without the initiator's private key it does not
    /// get the keys of the connection.
    #[test]
    fn a_stolen_key_gives_no_keys_in_the_name_of_others() {
        let [initiator, responder, thief] =
            [1, 2, 3].map(|byte| Arc::new(KeyPair::from_private(&[byte; LENGTH]).unwrap()));
        let start = |ours: &Arc<KeyPair>, theirs: &KeyPair, initiates| {
            Start::mutual(b"", &[7; LENGTH], ours, theirs.public(), initiates)
        };
        let (mut first, mut second) = ([0; OVERHEAD], [0; OVERHEAD]);
        let ephemeral = KeyPair::generate().unwrap();
        let start_of_initiator = start(&initiator, &responder, true);
        let mut initiated = start_of_initiator
            .initiate(ephemeral, b"", &mut first)
            .unwrap();
        let reading = start(&responder, &initiator, false).respond(&first, &mut []);
        let ephemeral = KeyPair::generate().unwrap();
        let answered = reading
            .unwrap()
            .answer(&ephemeral, b"", &mut second)
            .unwrap();
        assert_eq!(initiated.finish(&second, &mut []).as_ref(), Ok(&answered));
        for other in [&thief, &responder] {
            initiated.statics.as_mut().unwrap().ours = Arc::downgrade(other);
            assert!(initiated.finish(&second, &mut []).is_err());
        }
    }

    #[test]
    fn changed_messages_fail_and_a_later_genuine_one_succeeds() {
        let start = Start::anonymous(b"", &[1; LENGTH]);
        let mut first = [0; 3 + OVERHEAD];
        let ephemeral = KeyPair::generate().unwrap();
        let initiated = start.initiate(ephemeral, b"abc", &mut first).unwrap();
        for at in 0..first.len() {
            let mut changed = first;
            changed[at] ^= 0x80;
            assert!(start.respond(&changed, &mut [0; 3]).is_err(), "{at}");
            assert!(start.respond(&first[..at], &mut [0; 3]).is_err(), "{at}");
        }
        assert!(
            Start::anonymous(b"", &[2; LENGTH])
                .respond(&first, &mut [0; 3])
                .is_err()
        );
        assert!(
            Start::anonymous(b"x", &[1; LENGTH])
                .respond(&first, &mut [0; 3])
                .is_err()
        );
        let responding = start.respond(&first, &mut [0; 3]).unwrap();
        let mut second = [0; OVERHEAD];
        let ephemeral = KeyPair::generate().unwrap();
        let answered = responding.answer(&ephemeral, b"", &mut second).unwrap();
        // The highest bit of the public key means nothing in X25519, but it is hashed.
        for at in 0..second.len() {
            let mut changed = second;
            changed[at] ^= 0x80;
            assert!(initiated.finish(&changed, &mut []).is_err(), "{at}");
        }
        // A public key of small order gives a secret that everybody knows.
        let mut zeros = second;
        zeros[..LENGTH].fill(0);
        assert!(initiated.finish(&zeros, &mut []).is_err());
        assert_eq!(initiated.finish(&second, &mut []).as_ref(), Ok(&answered));
    }
}
