//! The user header of an active message (docs/protocol-layers.md, section 17).

use bytes::Bytes;

/// The most words that an active message carries beside its payload.
pub const MAX_WORDS: usize = 8;

/// Bytes of the handler's number.
const NUMBER: usize = size_of::<u16>();

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The longest header.
const LONGEST: usize = NUMBER + MAX_WORDS * WORD;

const _: () = assert!(LONGEST <= suci_proto::limits::MAX_USER_HEADER);

/// The user header of an active message: the number of its handler, and up to [`MAX_WORDS`] words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveHeader {
    handler: u16,
    words: [u64; MAX_WORDS],
    count: u8,
}

impl ActiveHeader {
    /// Makes a header. Returns nothing if there are more than [`MAX_WORDS`] words.
    #[must_use]
    pub fn new(handler: u16, words: &[u64]) -> Option<Self> {
        let mut header = Self {
            handler,
            words: [0; MAX_WORDS],
            count: u8::try_from(words.len()).ok()?,
        };
        header.words.get_mut(..words.len())?.copy_from_slice(words);
        Some(header)
    }

    /// Reads a header. Returns nothing if no header is written so: its length is not that of a
    /// number and up to [`MAX_WORDS`] words.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (chunks, beyond) = rest.as_chunks::<WORD>();
        let mut words = [0; MAX_WORDS];
        if !beyond.is_empty() || chunks.len() > MAX_WORDS {
            return None;
        }
        for (word, bytes) in words.iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Self {
            handler: u16::from_le_bytes(*number),
            words,
            count: u8::try_from(chunks.len()).ok()?,
        })
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn write(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(LONGEST);
        bytes.extend(self.handler.to_le_bytes());
        bytes.extend(self.words().iter().flat_map(|word| word.to_le_bytes()));
        bytes.into()
    }

    /// Returns the number of the handler.
    #[must_use]
    pub const fn handler(&self) -> u16 {
        self.handler
    }

    /// Returns the words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.words
            .get(..usize::from(self.count))
            .unwrap_or_default()
    }
}
