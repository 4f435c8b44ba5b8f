//! Bytes of messages in texts for people: an error gives a message back, and may be unwrapped.

use core::fmt;

/// Number of bytes shown.
const SHOWN: usize = 32;

/// Shows the first bytes of a message, and how many there are: it may have gigabytes.
///
/// ```
/// use suci_channels::message::Brief;
/// assert_eq!(format!("{:?}", Brief(b"a\n")), r#"b"a\n""#);
/// assert_eq!(format!("{:?}", Brief(&[b'a'; 33])), r#"b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".. of 33 bytes"#);
/// ```
pub struct Brief<'a>(pub &'a [u8]);

impl fmt::Debug for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.get(..SHOWN).unwrap_or(self.0);
        write!(f, "b\"{}\"", shown.escape_ascii())?;
        if shown.len() < self.0.len() {
            write!(f, ".. of {} bytes", self.0.len())?;
        }
        Ok(())
    }
}
