//! A cluster's key, its ID, and the keyring of a node.

use super::cluster::ClusterHandshakes;
use super::noise::{LENGTH, sha256};
use super::packet::Cipher;
use super::secret::{KeyBytes, on_cleared_stack};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use suci_proto::security::Security;
use zeroize::Zeroizing;

/// How the text of a key begins; its number is the version of the format.
const PREFIX: &str = "suci-key-1";

/// Separates the hash that makes a key's ID from every other use of the key.
const ID_LABEL: &[u8] = b"suci cluster key id 1";

/// The key of a cluster: 256 random bits. Every node that has it can join, and can read and make
/// each packet of the cluster.
///
/// Its text is one line: `suci-key-1`, 64 hexadecimal digits, and the key's ID in 8 digits, which
/// shows a mistake in the others.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    bytes: KeyBytes,
}

/// The name of a key, which tells nothing about the key itself: 32 bits of its SHA-256. Errors and
/// logs show it, so that people can compare keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// Why a text is no key. It never shows the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyTextError {
    /// It does not begin as keys of this kind do: with this word.
    #[error(
        "this is no such key: it is a line \"{0} DIGITS ID\", as suci keygen (with --node: for a node) or suci key \
         public writes it"
    )]
    Prefix(&'static str),
    /// The key has not as many digits as it should, or other characters.
    #[error("the key is not 64 hexadecimal digits: copy the whole line anew")]
    Digits,
    /// The ID is missing, or not eight digits.
    #[error(
        "the key's ID, 8 hexadecimal digits behind the key, is missing or damaged: copy the whole line anew"
    )]
    Id,
    /// Something follows the ID that is no comment.
    #[error("something follows the key's ID: begin comments with \"#\"")]
    Trailing,
    /// The ID is not that of the key.
    #[error("the key does not match its ID: a digit was changed; copy the whole line anew")]
    Mismatch,
    /// A text of several lines has no key in it.
    #[error(
        "there is no key: make one with suci keygen; for a file of public keys, enter NODE and what suci key public \
         prints"
    )]
    Missing,
    /// A third key.
    #[error("this is a third key: a node accepts two at most; remove the lines of older keys")]
    TooMany,
    /// The cryptographic library cannot use the key.
    #[error("the cryptographic library cannot use this key: make another one")]
    Unusable,
    /// The last line of a file of public keys has no end.
    #[error(
        "the line does not end, so more may be missing: write the whole file under another name, then rename it"
    )]
    Cut,
    /// A line of a file of public keys does not begin with the ID of a node.
    #[error(
        "the line does not begin with the ID of a node: it is \"NODE suci-public-1 DIGITS ID\""
    )]
    Node,
    /// A word behind a public key is no layer.
    #[error(
        "a word behind the key is no layer: name those that the node may use, of messages, groups, active, one-sided, \
         membership, sockets, routes and matching; or \"nothing\"; without a word it may use all"
    )]
    Layer,
    /// Two lines of a node name different layers.
    #[error("the lines of this node name different layers: name the same in both")]
    OtherLayers,
    /// The key is that of another node.
    #[error(
        "this is the key of another node, too, which could pose as this one: make a key for each"
    )]
    Shared,
    /// The same key again.
    #[error("this is the same key again: remove the line")]
    Twice,
}

impl ClusterKey {
    /// Makes a key from random bytes of the system. May block until the system has gathered
    /// randomness after its start.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> io::Result<Self> {
        KeyBytes::random().map(|bytes| Self { bytes })
    }

    /// Copies 32 bytes as the key. They must be as hard to guess as random ones: a password is not.
    /// The caller clears its own memory of them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; LENGTH]) -> Self {
        let bytes = KeyBytes::copy_of(bytes);
        Self { bytes }
    }

    /// The key's name.
    #[must_use]
    pub fn id(&self) -> KeyId {
        key_id(ID_LABEL, &self.bytes)
    }

    /// The secret itself, for handshakes.
    pub(super) fn secret(&self) -> &[u8; LENGTH] {
        &self.bytes
    }

    /// The line of text from which [`str::parse`] makes the key again. It is the secret: write it
    /// only where nobody else can read. Its memory is cleared when it is dropped.
    #[must_use]
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        write_line(PREFIX, &self.bytes, self.id())
    }
}

/// A secret key that a [`KeyFile`](super::KeyFile) can hold: a [`ClusterKey`] or a
/// [`NodeKey`](super::NodeKey).
pub trait SecretKey: FromStr<Err = KeyTextError> + Clone + PartialEq {
    /// The comment at the head of a new file.
    #[doc(hidden)]
    const HEADING: &'static str;

    /// Makes a key from random bytes of the system.
    ///
    /// # Errors
    /// The system gives no random bytes.
    fn generate() -> io::Result<Self>;

    /// The key's name.
    fn id(&self) -> KeyId;

    /// The line of a file that holds the key. It is the secret.
    fn to_secret_text(&self) -> Zeroizing<String>;
}

impl SecretKey for ClusterKey {
    const HEADING: &'static str =
        "# Keys of a Suci cluster. Whoever reads this file can join the cluster and read its messages.
# Nodes use the first key, and accept the second one, too, if there is one (suci key --help).
";

    fn generate() -> io::Result<Self> {
        Self::generate()
    }

    fn id(&self) -> KeyId {
        self.id()
    }

    fn to_secret_text(&self) -> Zeroizing<String> {
        self.to_secret_text()
    }
}

/// Returns the name of a key: the first 32 bits of a hash.
pub(super) fn key_id(label: &[u8], bytes: &[u8; LENGTH]) -> KeyId {
    let hash = on_cleared_stack(|| sha256(&[label, bytes]));
    KeyId(
        hash.first_chunk()
            .map_or(0, |first| u32::from_be_bytes(*first)),
    )
}

/// Returns a line with `prefix`, the bytes of a key in digits, and its ID.
pub(super) fn write_line(prefix: &str, bytes: &[u8; LENGTH], id: KeyId) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Long enough from the start: memory that a longer one leaves behind is not cleared.
    let mut text = Zeroizing::new(String::with_capacity(prefix.len() + 2 * LENGTH + 10));
    text.push_str(prefix);
    text.push(' ');
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    text.push(' ');
    text.push_str(&id.to_string());
    text
}

/// Reads what [`write_line`] wrote, and leaves the words behind the ID in `words`.
pub(super) fn read_words<'a>(
    prefix: &'static str,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<(KeyBytes, KeyId), KeyTextError> {
    if words.next() != Some(prefix) {
        return Err(KeyTextError::Prefix(prefix));
    }
    let digits = words.next().ok_or(KeyTextError::Digits)?;
    let mut bytes = KeyBytes::zeroed();
    if digits.len() != 2 * LENGTH {
        return Err(KeyTextError::Digits);
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        let value = |digit: &u8| char::from(*digit).to_digit(16);
        let pair = pair
            .first()
            .and_then(value)
            .zip(pair.get(1).and_then(value));
        let (high, low) = pair.ok_or(KeyTextError::Digits)?;
        *byte = u8::try_from(high << 4 | low).map_err(|_| KeyTextError::Digits)?;
    }
    let id = words.next().ok_or(KeyTextError::Id)?.parse()?;
    Ok((bytes, id))
}

/// Reads a line that holds a key and nothing else. What follows a `#` behind the ID is a comment.
pub(super) fn read_line(
    prefix: &'static str,
    line: &str,
) -> Result<(KeyBytes, KeyId), KeyTextError> {
    let mut words = line.split_ascii_whitespace();
    let read = read_words(prefix, &mut words)?;
    match words.next() {
        Some(word) if !word.starts_with('#') => Err(KeyTextError::Trailing),
        _ => Ok(read),
    }
}

impl FromStr for ClusterKey {
    type Err = KeyTextError;

    /// Reads one line. What follows a `#` behind the ID is a comment.
    fn from_str(line: &str) -> Result<Self, KeyTextError> {
        let (bytes, id) = read_line(PREFIX, line)?;
        let key = Self { bytes };
        (key.id() == id)
            .then_some(key)
            .ok_or(KeyTextError::Mismatch)
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({})", self.id())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for KeyId {
    type Err = KeyTextError;

    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        let digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u32::from_str_radix(text, 16).ok();
        value
            .filter(|_| digits && text.len() == 8)
            .map(Self)
            .ok_or(KeyTextError::Id)
    }
}

/// The keys of a node: one that it uses, and while the cluster changes its key, a second one that
/// it accepts as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyring<K = ClusterKey> {
    first: K,
    second: Option<K>,
}

impl<K: SecretKey> Keyring<K> {
    /// A keyring of two keys. The node begins connections with `first`, and with `second` where the
    /// peer does not know `first`; it accepts both.
    #[must_use]
    pub fn of_two(first: K, second: K) -> Self {
        let second = Some(second).filter(|second| *second != first);
        Self { first, second }
    }

    /// The key that the node prefers.
    #[must_use]
    pub fn first(&self) -> &K {
        &self.first
    }

    /// The other key that the node accepts, if it has two.
    #[must_use]
    pub fn second(&self) -> Option<&K> {
        self.second.as_ref()
    }

    /// The keys in order of preference: one or two.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        std::iter::once(&self.first).chain(&self.second)
    }

    /// Reads a text of lines with a key each, as files have them: one or two keys, blank lines, and
    /// comments from a `#`.
    ///
    /// # Errors
    /// The problem, and the number of its line, counted from 1, if it is in one.
    pub fn parse(text: &str) -> Result<Self, (Option<usize>, KeyTextError)> {
        let mut keys: Vec<K> = Vec::with_capacity(2);
        for (at, line) in text.lines().enumerate().filter(|(_, line)| holds_key(line)) {
            let wrong = |problem| (Some(at + 1), problem);
            let key: K = line.parse().map_err(wrong)?;
            if keys.contains(&key) {
                return Err(wrong(KeyTextError::Twice));
            }
            if keys.len() == 2 {
                return Err(wrong(KeyTextError::TooMany));
            }
            keys.push(key);
        }
        let mut keys = keys.into_iter();
        let first = keys.next().ok_or((None, KeyTextError::Missing))?;
        Ok(Self {
            first,
            second: keys.next(),
        })
    }
}

impl Keyring {
    /// The engine's setting for a node with these keys that seals with `cipher`: for tests that
    /// drive an engine themselves.
    #[doc(hidden)]
    #[must_use]
    pub fn security(&self, cipher: Cipher) -> Security {
        Security::Sealed(Arc::new(ClusterHandshakes::new(self, cipher)))
    }
}

/// Whether a line of a file is neither blank nor a comment.
pub(super) fn holds_key(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

impl<K: SecretKey> From<K> for Keyring<K> {
    fn from(first: K) -> Self {
        Self {
            first,
            second: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::from_bytes(&[byte; LENGTH])
    }

    #[test]
    fn a_key_is_read_from_its_text() {
        let key = ClusterKey::generate().unwrap();
        let text = key.to_secret_text();
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_eq!(format!("  {}  # ours\n", *text).parse(), Ok(key.clone()));
        assert_eq!(
            text.to_uppercase().replace("SUCI-KEY", "suci-key").parse(),
            Ok(key)
        );
        assert_ne!(
            ClusterKey::generate().unwrap(),
            ClusterKey::generate().unwrap()
        );
    }

    /// Other implementations must find the same ID.
    #[test]
    fn the_text_of_a_known_key() {
        let bytes = std::array::from_fn(|at| at as u8);
        let key = ClusterKey::from_bytes(&bytes);
        let text = key.to_secret_text();
        let digits = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        assert_eq!(*text, format!("suci-key-1 {digits} {}", key.id()));
        assert_eq!(key.id().to_string(), "1dcab2e9");
    }

    #[test]
    fn a_damaged_text_is_refused_without_being_shown() {
        let text = key(0xa5).to_secret_text();
        let digits = "a5".repeat(LENGTH);
        let id = key(0xa5).id();
        for (line, error) in [
            (String::new(), KeyTextError::Prefix(PREFIX)),
            (
                format!("suci-key-2 {digits} {id}"),
                KeyTextError::Prefix(PREFIX),
            ),
            ("suci-key-1".into(), KeyTextError::Digits),
            (text.replacen("a5", "a", 1), KeyTextError::Digits),
            (text.replacen("a5", "g5", 1), KeyTextError::Digits),
            (text.replacen("a5a5", "\u{e9}a5", 1), KeyTextError::Digits),
            (text.replacen("a5", "+5", 1), KeyTextError::Digits),
            (format!("suci-key-1 {digits}"), KeyTextError::Id),
            (format!("suci-key-1 {digits} +1234567"), KeyTextError::Id),
            (format!("{} more", *text), KeyTextError::Trailing),
            (text.replacen("a5", "a4", 1), KeyTextError::Mismatch),
        ] {
            let found = line.parse::<ClusterKey>();
            assert_eq!(found, Err(error), "{line}");
            assert!(!error.to_string().contains("a5a5"));
        }
        // Two neighbours that changed places.
        let other: ClusterKey = {
            let mut bytes = [0xa5; LENGTH];
            bytes[7] = 0x5a;
            ClusterKey::from_bytes(&bytes)
        };
        let swapped = other.to_secret_text().replacen("5a", "a5", 1);
        assert!(swapped.parse::<ClusterKey>().is_err());
    }

    #[test]
    fn debug_output_shows_the_id_alone() {
        let ring = Keyring::of_two(key(0xa5), key(0x5a));
        let shown = format!("{ring:?} {ring:#?}");
        assert!(shown.contains(&key(0xa5).id().to_string()), "{shown}");
        assert!(!shown.contains("165") && !shown.contains("a5a5"), "{shown}");
    }

    #[test]
    fn a_keyring_has_no_key_twice() {
        assert_eq!(Keyring::of_two(key(1), key(1)), key(1).into());
        assert_eq!(Keyring::of_two(key(1), key(2)).iter().count(), 2);
    }
}
