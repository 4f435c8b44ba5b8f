//! Ciphers, and the sealing of packets under the keys of a connection (PROTOCOL.md, section 18).

use super::noise::{Secret, hmac};
use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use suci_proto::security::{AEAD_TAG, NotAuthentic, Open, Seal};
use suci_proto::types::PacketNumber;
use suci_proto::wire::HEADER;
use zeroize::Zeroizing;

/// A cipher that protects packets. Each node seals with the fastest one of its machine, and opens
/// all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128 in Galois counter mode.
    Aes128Gcm = 1,
    /// AES-256 in Galois counter mode.
    Aes256Gcm = 2,
    /// ChaCha20 with Poly1305 (RFC 8439).
    ChaCha20Poly1305 = 3,
}

/// Bytes of the packet that the measurement seals: what Ethernet carries.
const MEASURED: usize = 1_440;

/// Packets that a round of the measurement seals with each cipher.
const PACKETS: u32 = 32;

/// Rounds of the measurement. The fastest one counts, which nothing interrupted.
const ROUNDS: usize = 5;

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The fastest cipher of this machine, measured once in each process, in about a millisecond.
    #[must_use]
    pub fn fastest() -> Self {
        static FASTEST: OnceLock<Cipher> = OnceLock::new();
        *FASTEST.get_or_init(|| {
            let mut best = Self::ALL.map(|cipher| (Duration::MAX, cipher));
            // In turns: a processor that slows down slows all of them.
            for _ in 0..ROUNDS {
                for (time, cipher) in &mut best {
                    *time = (*time).min(cipher.measure());
                }
            }
            let fastest = best.into_iter().min_by_key(|(time, _)| *time);
            fastest.map_or(Self::Aes256Gcm, |(_, cipher)| cipher)
        })
    }

    fn measure(self) -> Duration {
        let mut sealer = Sealer::new(self, Secret::default());
        let (body, mut sealed) = ([0; MEASURED], [0; MEASURED + AEAD_TAG]);
        let begun = Instant::now();
        for number in 0..PACKETS {
            sealer.seal(number.into(), &[0; HEADER], &[&body], &mut sealed);
            std::hint::black_box(&mut sealed);
        }
        begun.elapsed()
    }

    /// The cipher with this number on the wire.
    pub(super) fn from_wire(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|cipher| cipher.to_wire() == number)
    }

    pub(super) fn to_wire(self) -> u8 {
        self as u8
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

/// HKDF-Expand of RFC 5869 for outputs of one block.
fn expand(secret: &Secret, info: &[u8]) -> Secret {
    hmac(secret.as_slice(), &[info, &[1]])
}

/// The keys of one direction and key phase.
struct PhaseKeys {
    cipher: Cipher,
    /// That of this phase, from which all later ones follow. None once the next phase was made. In
    /// a box, which is cleared when it goes.
    secret: Cell<Option<Box<Secret>>>,
    /// None if the library could not make it. Then nothing is authentic.
    key: Option<LessSafeKey>,
    iv: Zeroizing<[u8; 12]>,
}

impl PhaseKeys {
    fn new(cipher: Cipher, secret: Secret) -> Self {
        let bytes = expand(&secret, b"suci key");
        let bytes = bytes.get(..cipher.algorithm().key_len());
        let key = bytes.and_then(|bytes| UnboundKey::new(cipher.algorithm(), bytes).ok());
        let iv = expand(&secret, b"suci iv");
        Self {
            cipher,
            key: key.map(LessSafeKey::new),
            iv: Zeroizing::new(iv.first_chunk().copied().unwrap_or_default()),
            secret: Cell::new(Some(Box::new(secret))),
        }
    }

    /// Makes the next phase and drops the secret of this one, which opens and seals on. A second
    /// call returns keys without a key: there is one next phase.
    fn next(&self) -> Self {
        match self.secret.take() {
            Some(secret) => Self::new(self.cipher, expand(&secret, b"suci next")),
            None => Self {
                cipher: self.cipher,
                secret: Cell::default(),
                key: None,
                iv: Zeroizing::default(),
            },
        }
    }

    fn nonce(&self, number: PacketNumber) -> Nonce {
        let mut nonce = *self.iv;
        let number = number.to_be_bytes();
        let low = nonce.iter_mut().rev();
        low.zip(number.iter().rev())
            .for_each(|(to, byte)| *to ^= byte);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals the packets of a direction.
pub(super) struct Sealer(PhaseKeys);

impl Sealer {
    pub(super) fn new(cipher: Cipher, secret: Secret) -> Self {
        Self(PhaseKeys::new(cipher, secret))
    }

    /// Copies the pieces together and encrypts them there. Returns nothing if lengths do not fit,
    /// or the library fails.
    fn try_seal(
        &self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &[&[u8]],
        sealed: &mut [u8],
    ) -> Option<()> {
        let length = sealed.len().checked_sub(AEAD_TAG)?;
        let (text, end) = sealed.split_at_mut_checked(length)?;
        let mut rest = &mut *text;
        for piece in body {
            let (to, after) = rest.split_at_mut_checked(piece.len())?;
            to.copy_from_slice(piece);
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
        let (key, nonce) = (self.0.key.as_ref()?, self.0.nonce(number));
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(header), text);
        end.copy_from_slice(tag.ok()?.as_ref());
        Some(())
    }
}

impl Seal for Sealer {
    fn seal(
        &mut self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &[&[u8]],
        sealed: &mut [u8],
    ) {
        if self.try_seal(number, header, body, sealed).is_none() {
            // No plaintext may leave.
            sealed.fill(0);
        }
    }

    fn next(&self) -> Box<dyn Seal> {
        Box::new(Self(self.0.next()))
    }
}

/// Opens the packets of a direction.
pub(super) struct Opener(PhaseKeys);

impl Opener {
    pub(super) fn new(cipher: Cipher, secret: Secret) -> Self {
        Self(PhaseKeys::new(cipher, secret))
    }
}

impl Open for Opener {
    fn open(
        &self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &mut [u8],
    ) -> Result<(), NotAuthentic> {
        let key = self.0.key.as_ref().ok_or(NotAuthentic)?;
        let opened = key.open_in_place(self.0.nonce(number), Aad::from(header), body);
        opened.map(|_| ()).map_err(|_| NotAuthentic)
    }

    fn next(&self) -> Box<dyn Open> {
        Box::new(Self(self.0.next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: [u8; HEADER] = [7; HEADER];

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; 32])
    }

    #[test]
    fn every_cipher_opens_what_it_sealed_and_nothing_else() {
        for cipher in Cipher::ALL {
            assert_eq!(Cipher::from_wire(cipher.to_wire()), Some(cipher));
            let mut sealer = Sealer::new(cipher, secret(1));
            let opener = Opener::new(cipher, secret(1));
            for length in [0, 1, 15, 16, 17, 1_440, 65_000] {
                let text: Vec<u8> = (0..length).map(|at| at as u8).collect();
                let (one, two) = text.split_at(length / 3);
                let mut sealed = vec![9; length + AEAD_TAG];
                sealer.seal(5, &HEAD, &[one, &[], two], &mut sealed);
                for (number, header) in [(6, HEAD), (5, [8; HEADER])] {
                    let mut copy = sealed.clone();
                    assert!(opener.open(number, &header, &mut copy).is_err());
                }
                for at in [0, length / 2, length, length + AEAD_TAG - 1] {
                    let mut copy = sealed.clone();
                    copy[at] ^= 1;
                    assert!(opener.open(5, &HEAD, &mut copy).is_err());
                }
                let mut copy = sealed.clone();
                assert!(opener.next().open(5, &HEAD, &mut copy).is_err());
                opener.open(5, &HEAD, &mut sealed).unwrap();
                assert_eq!(sealed[..length], text);
            }
            assert!(opener.open(5, &HEAD, &mut [0; AEAD_TAG - 1]).is_err());
        }
        assert_eq!((Cipher::from_wire(0), Cipher::from_wire(4)), (None, None));
    }

    #[test]
    fn a_failure_lets_no_plaintext_leave() {
        let mut sealer = Sealer::new(Cipher::Aes128Gcm, secret(1));
        for length in [0, 3, AEAD_TAG + 2, AEAD_TAG + 4] {
            let mut sealed = vec![9; length];
            sealer.seal(0, &HEAD, &[b"abc"], &mut sealed);
            assert!(sealed.iter().all(|byte| *byte == 0), "{length}: {sealed:?}");
        }
    }

    #[test]
    fn the_numbers_of_a_phase_make_different_nonces() {
        let phase = PhaseKeys::new(Cipher::Aes128Gcm, secret(3));
        let numbers = [0, 1, 255, 256, 1 << 32, u64::MAX];
        let nonces = numbers.map(|number| *phase.nonce(number).as_ref());
        let all: std::collections::HashSet<[u8; 12]> = nonces.into_iter().collect();
        assert_eq!(all.len(), numbers.len());
        assert!(all.iter().all(|nonce| nonce[..4] == phase.iv[..4]));
    }

    #[test]
    fn a_phase_drops_its_secret_once_the_next_one_is_made() {
        let (mut sealed, mut later) = ([0; 3 + AEAD_TAG], [0; 3 + AEAD_TAG]);
        let mut sealer = Sealer::new(Cipher::Aes128Gcm, secret(4));
        let opener = Opener::new(Cipher::Aes128Gcm, secret(4));
        sealer.next().seal(2, &HEAD, &[b"abc"], &mut later);
        let next = opener.next();
        assert!(opener.0.secret.take().is_none() && sealer.0.secret.take().is_none());
        // Both phases go on.
        sealer.seal(1, &HEAD, &[b"abc"], &mut sealed);
        opener.open(1, &HEAD, &mut sealed).unwrap();
        next.open(2, &HEAD, &mut later).unwrap();
        // Nothing follows from a phase without its secret.
        sealer.next().seal(2, &HEAD, &[b"abc"], &mut later);
        assert_eq!(later, [0; 3 + AEAD_TAG]);
        assert!(opener.next().open(2, &HEAD, &mut later).is_err());
    }

    #[test]
    fn a_cipher_is_chosen_once() {
        assert_eq!(Cipher::fastest(), Cipher::fastest());
    }
}
