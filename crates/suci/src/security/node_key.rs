//! The key pair of a node, and the public keys of all nodes with what each may use.

use super::key::{
    KeyId, KeyTextError, SecretKey, holds_key, key_id, read_line, read_words, write_line,
};
use super::noise::{KeyPair, LENGTH, NoiseError};
use super::secret::{KeyBytes, on_cleared_stack};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::str::FromStr;
use suci_proto::types::{Layer, Layers, NodeId};
use zeroize::Zeroizing;

/// How the text of a node's secret key begins; its number is the version of the format.
const PREFIX: &str = "suci-node-key-1";

/// How the text of a public key begins.
const PUBLIC_PREFIX: &str = "suci-public-1";

/// Separates the hash that makes a key's ID from every other use of the key.
const ID_LABEL: &[u8] = b"suci node key id 1";

/// Keys that a node may have: one, and while it changes its key, another one.
const MOST_KEYS: usize = 2;

/// The word for a node that may use no layer.
const NOTHING: &str = "nothing";

/// The secret key of one node: an X25519 key pair. Who has it can pose as that node, and as no
/// other one. [`PublicKeys`] tell the other nodes which key belongs to which node.
///
/// Its text is one line: `suci-node-key-1`, 64 hexadecimal digits, and the key's ID in 8 digits,
/// which is that of its [`PublicKey`].
#[derive(Clone, PartialEq, Eq)]
pub struct NodeKey {
    bytes: KeyBytes,
    public: PublicKey,
}

/// The public half of a [`NodeKey`]: no secret.
///
/// Its text is `suci-public-1`, 64 hexadecimal digits, and its ID in 8 digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; LENGTH]);

impl NodeKey {
    /// Makes a key from random bytes of the system. May block until the system has gathered
    /// randomness after its start.
    ///
    /// # Errors
    /// The system gives no random bytes, or the cryptographic library failed.
    pub fn generate() -> io::Result<Self> {
        Self::new(KeyBytes::random()?).map_err(io::Error::other)
    }

    /// Copies 32 bytes as the private key. They must be as hard to guess as random ones. The caller
    /// clears its own memory of them.
    ///
    /// # Errors
    /// [`KeyTextError::Unusable`].
    pub fn from_bytes(bytes: &[u8; LENGTH]) -> Result<Self, KeyTextError> {
        Self::new(KeyBytes::copy_of(bytes))
    }

    fn new(bytes: KeyBytes) -> Result<Self, KeyTextError> {
        let public = on_cleared_stack(|| KeyPair::from_private(&bytes).map(|pair| *pair.public()));
        let public = PublicKey(public.map_err(|NoiseError| KeyTextError::Unusable)?);
        Ok(Self { bytes, public })
    }

    /// The public half, for the files of the other nodes.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The key's name, which is that of its public half.
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.public.id()
    }

    /// The line of text from which [`str::parse`] makes the key again. It is the secret: write it
    /// only where nobody else can read. Its memory is cleared when it is dropped.
    #[must_use]
    pub fn to_secret_text(&self) -> Zeroizing<String> {
        write_line(PREFIX, &self.bytes, self.id())
    }

    /// The pair, for handshakes.
    pub(super) fn pair(&self) -> Result<KeyPair, NoiseError> {
        on_cleared_stack(|| KeyPair::from_private(&self.bytes))
    }
}

impl SecretKey for NodeKey {
    const HEADING: &'static str =
        "# The key of one Suci node. Whoever reads this file can pose as that node.
# `suci key public` prints the line for the file of public keys, which every node needs.
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

impl FromStr for NodeKey {
    type Err = KeyTextError;

    /// Reads one line. What follows a `#` behind the ID is a comment.
    fn from_str(line: &str) -> Result<Self, KeyTextError> {
        let (bytes, id) = read_line(PREFIX, line)?;
        let key = Self::new(bytes)?;
        (key.id() == id)
            .then_some(key)
            .ok_or(KeyTextError::Mismatch)
    }
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.id())
    }
}

impl PublicKey {
    /// Takes 32 bytes as the key.
    #[must_use]
    pub fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// Its name: 32 bits of its SHA-256.
    #[must_use]
    pub fn id(&self) -> KeyId {
        key_id(ID_LABEL, &self.0)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write_line(PUBLIC_PREFIX, &self.0, self.id()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

/// The public keys of nodes, and the layers that each node may use towards the one that has them.
///
/// Their text has a line for each key: the ID of the node, the key, and the names of the layers
/// that the node may use, if not all: `messages`, `groups`, `active`, `one-sided`, `membership`,
/// `sockets`, `routes`; or `nothing`. A node that changes its key has two lines meanwhile. Blank
/// lines, and what follows a `#`, are comments.
///
/// # Example
/// ```
/// use suci::security::{NodeKey, PublicKeys};
/// use suci::{Layer, NodeId};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (a, b) = (NodeKey::generate()?, NodeKey::generate()?);
/// let text = format!("0 {}\n1 {} messages sockets\n", a.public(), b.public());
/// let keys = PublicKeys::parse(&text).map_err(|(line, it)| format!("line {line}: {it}"))?;
/// assert!(keys.layers(NodeId(0)).permits(Layer::OneSided));
/// assert!(!keys.layers(NodeId(1)).permits(Layer::OneSided));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicKeys(BTreeMap<NodeId, NodeEntry>);

/// The keys and rights of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeEntry {
    /// One or two.
    keys: Vec<PublicKey>,
    layers: Layers,
}

impl PublicKeys {
    /// Reads a text as files have it, with one key at least.
    ///
    /// # Errors
    /// The problem, and the number of its line, counted from 1.
    pub fn parse(text: &str) -> Result<Self, (usize, KeyTextError)> {
        let (mut all, mut known) = (Self::default(), BTreeSet::new());
        for (at, line) in text.lines().enumerate().filter(|(_, line)| holds_key(line)) {
            let wrong = |problem| (at + 1, problem);
            let (node, key, layers) = read_entry(line).map_err(wrong)?;
            let is_new = known.insert(key);
            let entry = all.0.entry(node).or_insert_with(|| NodeEntry {
                keys: Vec::new(),
                layers,
            });
            let problem = if entry.keys.contains(&key) {
                KeyTextError::Twice
            } else if !is_new {
                KeyTextError::Shared
            } else if entry.keys.len() >= MOST_KEYS {
                KeyTextError::TooMany
            } else if entry.layers != layers {
                KeyTextError::OtherLayers
            } else {
                entry.keys.push(key);
                continue;
            };
            return Err(wrong(problem));
        }
        match known.is_empty() {
            // Otherwise a file that lost its text would end all sessions.
            true => Err((text.lines().count().max(1), KeyTextError::Missing)),
            false => Ok(all),
        }
    }

    /// The nodes, in the order of their IDs.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    /// The keys of a node: none if it is unknown, at most two.
    #[must_use]
    pub fn of(&self, node: NodeId) -> &[PublicKey] {
        self.0.get(&node).map_or(&[], |entry| &entry.keys)
    }

    /// The layers that a node may use.
    #[must_use]
    pub fn layers(&self, node: NodeId) -> Layers {
        self.0.get(&node).map_or(Layers::NONE, |entry| entry.layers)
    }
}

/// Writes the text from which [`PublicKeys::parse`] makes the keys again.
impl fmt::Display for PublicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (node, entry) in &self.0 {
            for key in &entry.keys {
                write!(f, "{node} {key}")?;
                write_layers(f, entry.layers)?;
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

fn write_layers(f: &mut fmt::Formatter<'_>, layers: Layers) -> fmt::Result {
    match layers {
        Layers::ALL => Ok(()),
        Layers::NONE => write!(f, " {NOTHING}"),
        _ => Layer::DENIABLE
            .iter()
            .filter(|layer| layers.permits(**layer))
            .try_for_each(|layer| write!(f, " {layer}")),
    }
}

/// Reads a line: node, key, layers.
fn read_entry(line: &str) -> Result<(NodeId, PublicKey, Layers), KeyTextError> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    let node = words
        .next()
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let node = node.and_then(|word| word.parse().ok());
    let node = NodeId(node.ok_or(KeyTextError::Node)?);
    let (bytes, id) = read_words(PUBLIC_PREFIX, &mut words)?;
    let key = PublicKey(*bytes);
    if key.id() != id {
        return Err(KeyTextError::Mismatch);
    }
    check_point(&key)?;
    Ok((node, key, read_layers(words)?))
}

/// The points of low order on Curve25519 and its twist: 0, 1, the two of order 8, and -1, modulo
/// p = 2^255 - 19.
const LOW_ORDER: [[u8; LENGTH]; 5] = [
    [0; LENGTH],
    number(1, 0, 0),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    number(0xec, 0xff, 0x7f),
];

/// A number by its lowest byte, those between, and its highest one.
const fn number(lowest: u8, between: u8, highest: u8) -> [u8; LENGTH] {
    let mut bytes = [between; LENGTH];
    [bytes[0], bytes[LENGTH - 1]] = [lowest, highest];
    bytes
}

/// Refuses numbers from p on: X25519 passes over the highest bit and takes the others modulo p (RFC
/// 7748, section 5), so two texts would name one key. Refuses points of low order, with which every
/// exchange fails (section 6.1): an exchange for each line would hold up a node whose file changed.
fn check_point(key: &PublicKey) -> Result<(), KeyTextError> {
    let [lowest, between @ .., highest] = &key.0;
    let is_short = between.iter().any(|byte| *byte != 0xff) || *lowest < 0xed;
    let is_below_p = *highest < 0x7f || *highest == 0x7f && is_short;
    match is_below_p && !LOW_ORDER.contains(&key.0) {
        true => Ok(()),
        false => Err(KeyTextError::Unusable),
    }
}

/// Reads the words behind a key.
fn read_layers<'a>(words: impl Iterator<Item = &'a str>) -> Result<Layers, KeyTextError> {
    let mut layers = None;
    let mut is_nothing = false;
    for word in words {
        let before = layers.unwrap_or(Layers::NONE);
        let named = Layer::DENIABLE.iter().find(|layer| layer.name() == word);
        layers = Some(match named {
            Some(layer) if !is_nothing => before.with(*layer),
            None if word == NOTHING && layers.is_none() => {
                is_nothing = true;
                before
            }
            _ => return Err(KeyTextError::Layer),
        });
    }
    Ok(layers.unwrap_or(Layers::ALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> NodeKey {
        NodeKey::from_bytes(&[byte; LENGTH]).unwrap()
    }

    #[test]
    fn a_key_is_read_from_its_text_and_shows_its_id_alone() {
        let key = NodeKey::generate().unwrap();
        let text = key.to_secret_text();
        assert_eq!(text.parse(), Ok(key.clone()));
        assert_ne!(NodeKey::generate().unwrap(), key);
        let digits = text.split(' ').nth(1).unwrap();
        let shown = format!("{key:?} {}", key.public());
        assert!(!shown.contains(digits) && shown.contains(&key.id().to_string()));
        let changed = text.replacen(&digits[..1], if &digits[..1] == "0" { "1" } else { "0" }, 1);
        assert!(changed.parse::<NodeKey>().is_err());
    }

    #[test]
    fn a_line_names_node_key_and_layers() {
        let (a, b, c) = (key(1).public(), key(2).public(), key(3).public());
        let text = format!(
            "# all\n0 {a}\n\n7 {b} messages one-sided # rack 7\n7 {c} one-sided messages\n9 {} nothing",
            key(4).public()
        );
        let keys = PublicKeys::parse(&text).unwrap();
        assert_eq!(keys.nodes().collect::<Vec<_>>(), [0, 7, 9].map(NodeId));
        assert_eq!(keys.of(NodeId(7)), [b, c]);
        assert_eq!(keys.of(NodeId(1)), []);
        assert_eq!(keys.layers(NodeId(0)), Layers::ALL);
        let some = Layers::NONE.with(Layer::OneSided).with(Layer::Messages);
        assert_eq!(keys.layers(NodeId(7)), some);
        assert_eq!(keys.layers(NodeId(9)), Layers::NONE);
        assert_eq!(keys.layers(NodeId(1)), Layers::NONE);
        assert_eq!(PublicKeys::parse(&keys.to_string()), Ok(keys));
    }

    /// Exactly those with which the library makes no exchange, and second texts of a key.
    #[test]
    fn keys_of_low_order_and_second_texts_are_refused() {
        let any = KeyPair::from_private(&[1; LENGTH]).unwrap();
        let secret = |bytes: &[u8; LENGTH]| any.agree(bytes, <[u8]>::to_vec).ok();
        let refuses = |bytes| check_point(&PublicKey(bytes)).is_err();
        for point in LOW_ORDER {
            for by in -2..=2 {
                let mut near = point;
                near[0] = near[0].wrapping_add_signed(by);
                let is_beyond = point == number(0xec, 0xff, 0x7f) && by > 0;
                assert!(is_beyond || refuses(near) == secret(&near).is_none());
                assert!(refuses(near) || by != 0);
            }
        }
        // From p = 2^255 - 19 on.
        for above in 0..19 {
            let second = number(0xed + above, 0xff, 0x7f);
            assert!(refuses(second), "p + {above}");
            assert_eq!(secret(&second), secret(&number(above, 0, 0)));
        }
        for byte in 2..100 {
            let first = *key(byte).public().as_bytes();
            let mut second = first;
            second[LENGTH - 1] |= 0x80;
            assert!(!refuses(first) && refuses(second));
            assert_eq!(secret(&second), secret(&first), "the highest bit");
        }
        // The greatest number that is a key: p - 2.
        assert!(!refuses(number(0xeb, 0xff, 0x7f)));
    }

    #[test]
    fn a_wrong_line_is_refused() {
        let (a, b, c) = (key(1).public(), key(2).public(), key(3).public());
        for (text, error) in [
            (a.to_string(), KeyTextError::Node),
            (format!("+1 {a}"), KeyTextError::Node),
            (format!("4294967296 {a}"), KeyTextError::Node),
            ("1".into(), KeyTextError::Prefix(PUBLIC_PREFIX)),
            (
                format!("1 {}", *key(1).to_secret_text()),
                KeyTextError::Prefix(PUBLIC_PREFIX),
            ),
            (
                format!("1 {PUBLIC_PREFIX} zz {}", a.id()),
                KeyTextError::Digits,
            ),
            (format!("1 {a} socket"), KeyTextError::Layer),
            (format!("1 {a} nothing sockets"), KeyTextError::Layer),
            (format!("1 {a} sockets nothing"), KeyTextError::Layer),
            (format!("1 {a}\n1 {b} sockets"), KeyTextError::OtherLayers),
            (
                format!("1 {}", PublicKey([0; LENGTH])),
                KeyTextError::Unusable,
            ),
            (String::new(), KeyTextError::Missing),
            ("# none\n\n".into(), KeyTextError::Missing),
            (format!("1 {a}\n1 {a}"), KeyTextError::Twice),
            (format!("1 {a}\n2 {a}"), KeyTextError::Shared),
            (format!("1 {a}\n1 {b}\n1 {c}"), KeyTextError::TooMany),
        ] {
            let found = PublicKeys::parse(&text).map_err(|(_, problem)| problem);
            assert_eq!(found, Err(error), "{text}");
        }
    }
}
