//! The messages between processes, as bytes.
//!
//! Numbers are varints (LEB128). Nothing here is trusted: every count is bounded by the bytes that
//! are left, every number by the size of its table.

use std::fmt;

use crate::expand::{Name, State};
use crate::formula::{Formula, Formulas, Id, Literal};

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Hub to workers: a question begins. The hub's version, how many workers there are, and the
    /// numbered formulas.
    Begin = 128,
    /// Worker to hub: ready for it. The worker's version. Before the first question: it is there.
    Ready,
    /// Worker to hub: which numbers do the states of these names have?
    Ask,
    /// Hub to worker: the numbers, in the order of the names.
    Numbers,
    /// To the owner of states: their contents, for it to expand.
    States,
    /// Worker to hub: the steps of states that were expanded.
    Steps,
    /// Hub to workers: the question is answered; which of these states do you own?
    Show,
    /// Worker to hub: its states among them, with their contents.
    Shown,
    /// Hub to workers: the request for their counters.
    Count,
    /// Worker to hub: its counters.
    Counted,
    /// The run is over, for this reason.
    Stop,
    /// Hub to workers: the run is over.
    Bye,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::Begin,
        Self::Ready,
        Self::Ask,
        Self::Numbers,
        Self::States,
        Self::Steps,
        Self::Show,
        Self::Shown,
        Self::Count,
        Self::Counted,
        Self::Stop,
        Self::Bye,
    ];

    /// The kind of this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == number)
    }

    /// Whether a process waits for it. Other kinds only have to come some time.
    #[must_use]
    pub fn is_urgent(self) -> bool {
        !matches!(self, Self::States | Self::Steps | Self::Shown)
    }
}

/// A message to another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The destination process.
    pub to: u32,
    /// The kind of the message.
    pub kind: Kind,
    /// The number of its question, from 1.
    pub question: u64,
    /// The rest.
    pub body: Vec<u8>,
}

/// Bytes that no process of this program sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

type Read<T> = Result<T, Malformed>;

/// The version on which both ends must agree: the release, and within it the number of this
/// protocol, which changes with every change of messages, names or expansion.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/2");

/// No version is as long.
const LONGEST_VERSION: usize = 64;

/// Appends a number.
pub(crate) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    to.push(u8::try_from(number).unwrap_or(0));
}

pub(crate) fn put_len(to: &mut Vec<u8>, len: usize) {
    put(to, len as u64);
}

pub(crate) fn put_version(to: &mut Vec<u8>) {
    put_len(to, VERSION.len());
    to.extend_from_slice(VERSION.as_bytes());
}

pub(crate) fn put_name(to: &mut Vec<u8>, name: Name) {
    to.extend_from_slice(&name.0.to_le_bytes());
}

/// A sorted set, by differences.
pub(crate) fn put_set(to: &mut Vec<u8>, ids: &[Id]) {
    put_len(to, ids.len());
    let mut least = 0;
    for id in ids {
        put(to, u64::from(id.number() - least));
        least = id.number() + 1;
    }
}

pub(crate) fn put_table(to: &mut Vec<u8>, table: &Formulas) {
    put_len(to, table.atoms().len());
    for atom in table.atoms() {
        put_len(to, atom.len());
        to.extend_from_slice(atom.as_bytes());
    }
    put_len(to, table.parts().len());
    for formula in table.parts() {
        let (operator, [a, b]) = match *formula {
            // Never among the parts.
            Formula::False | Formula::True => continue,
            Formula::Literal(Literal { atom, positive }) => {
                (u64::from(positive), [Some(atom as u64), None])
            }
            Formula::And(a, b) => (2, pair(a, b)),
            Formula::Or(a, b) => (3, pair(a, b)),
            Formula::Next(a) => (4, [Some(u64::from(a.number())), None]),
            Formula::Until(a, b) => (5, pair(a, b)),
            Formula::Release(a, b) => (6, pair(a, b)),
        };
        put(to, operator);
        [a, b]
            .into_iter()
            .flatten()
            .for_each(|operand| put(to, operand));
    }
}

fn pair(a: Id, b: Id) -> [Option<u64>; 2] {
    [a, b].map(|id| Some(u64::from(id.number())))
}

/// Reads the output of the functions above.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Everything was read.
    pub(crate) fn end(&self) -> Read<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Malformed::new("more than was announced")),
        }
    }

    fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (bytes, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| Malformed::new("less than was announced"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn number(&mut self) -> Read<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let &[byte] = self.bytes(1)? else { break };
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed::new("a number of more than 64 bits"))
    }

    pub(crate) fn small(&mut self) -> Read<u32> {
        u32::try_from(self.number()?).map_err(|_| Malformed::new("a number of more than 32 bits"))
    }

    /// The number of items that follow, each of which takes at least `least` bytes.
    pub(crate) fn count(&mut self, least: usize) -> Read<usize> {
        let count = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        match count <= self.0.len() / least {
            true => Ok(count),
            false => Err(Malformed::new("a count of more than there is")),
        }
    }

    /// The number of one of `found` states.
    pub(crate) fn state_number(&mut self, found: u32) -> Read<u32> {
        let number = self.small()?;
        match number < found {
            true => Ok(number),
            false => Err(Malformed::new("a state that has no number yet")),
        }
    }

    /// Refuses any version but ours.
    pub(crate) fn version(&mut self) -> Read<()> {
        let length = self.count(1)?.min(LONGEST_VERSION);
        let theirs = self.bytes(length)?;
        if theirs == VERSION.as_bytes() {
            return Ok(());
        }
        let theirs = String::from_utf8_lossy(theirs);
        Err(Malformed(format!(
            "it runs version {theirs} of tableau, this process {VERSION}"
        )))
    }

    pub(crate) fn name(&mut self) -> Read<Name> {
        let bytes = self.bytes(16)?.try_into();
        let bytes = bytes.map_err(|_| Malformed::new("no name"))?;
        Ok(Name(u128::from_le_bytes(bytes)))
    }

    /// A set of formulas of a table of `formulas`.
    pub(crate) fn set(&mut self, formulas: usize) -> Read<Box<[Id]>> {
        let unknown = || Malformed::new("a formula that the table does not have");
        let mut least = 0_u32;
        let mut ids = Vec::new();
        for _ in 0..self.count(1)? {
            let number = least.checked_add(self.small()?).ok_or_else(unknown)?;
            ids.push(Id::of(number, formulas).ok_or_else(unknown)?);
            least = number.saturating_add(1);
        }
        Ok(ids.into())
    }

    pub(crate) fn state(&mut self, formulas: usize) -> Read<State> {
        Ok(State::from_set(self.set(formulas)?))
    }

    pub(crate) fn table(&mut self) -> Read<Formulas> {
        let mut atoms = Vec::new();
        for _ in 0..self.count(1)? {
            let length = self.count(1)?;
            let name = String::from_utf8(self.bytes(length)?.to_vec());
            atoms.push(name.map_err(|_| Malformed::new("a proposition that is no text"))?);
        }
        // Each takes two bytes at least.
        let count = self.count(2)?;
        let most = count.saturating_add(2);
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(self.formula(most)?);
        }
        let table = Formulas::from_parts(atoms, parts);
        table.ok_or_else(|| Malformed::new("a table that is none"))
    }

    fn formula(&mut self, most: usize) -> Read<Formula> {
        let operator = self.number()?;
        if let 0 | 1 = operator {
            let atom = self.small()? as usize;
            let positive = operator == 1;
            return Ok(Formula::Literal(Literal { atom, positive }));
        }
        let mut operand = || {
            let id = Id::of(self.small()?, most);
            id.ok_or_else(|| Malformed::new("an operand that the table does not have"))
        };
        Ok(match operator {
            2 => Formula::And(operand()?, operand()?),
            3 => Formula::Or(operand()?, operand()?),
            4 => Formula::Next(operand()?),
            5 => Formula::Until(operand()?, operand()?),
            6 => Formula::Release(operand()?, operand()?),
            _ => return Err(Malformed::new("an operator that there is not")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse;

    #[test]
    fn numbers_come_back() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(number));
            assert_eq!(reader.end(), Ok(()));
        }
        for bad in [&[0x80; 10][..], &[0xff; 10], &[0x80], &[]] {
            assert!(Reader::new(bad).number().is_err(), "{bad:?}");
        }
    }

    fn table_bytes(text: &str) -> (Formulas, Vec<u8>) {
        let mut table = Formulas::default();
        table.read(&parse(text).unwrap(), true);
        let mut bytes = Vec::new();
        put_table(&mut bytes, &table);
        (table, bytes)
    }

    #[test]
    fn tables_come_back() {
        let (table, bytes) = table_bytes("G (a -> F !b) & (X a U c) & (b R \"d e\")");
        let mut reader = Reader::new(&bytes);
        let back = reader.table().unwrap();
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(back.atoms(), table.atoms());
        assert_eq!(back.parts(), table.parts());
    }

    #[test]
    fn what_was_cut_or_damaged_is_refused_or_means_something_else() {
        let (_, bytes) = table_bytes("G (a -> F !b) & (X a U c)");
        for end in 0..bytes.len() {
            assert!(Reader::new(&bytes[..end]).table().is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // Must only not panic, and not take memory for a length that is claimed.
                let _ = Reader::new(&damaged).table();
            }
        }
    }

    #[test]
    fn sets_are_bounded_by_their_table() {
        let ids: Box<[Id]> = [0, 3, 4, 9].map(|n| Id::of(n, 10).unwrap()).into();
        let mut bytes = Vec::new();
        put_set(&mut bytes, &ids);
        assert_eq!(Reader::new(&bytes).set(10), Ok(ids));
        assert!(Reader::new(&bytes).set(9).is_err());
        let mut huge = Vec::new();
        put(&mut huge, u64::MAX);
        assert!(Reader::new(&huge).set(10).is_err());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Vec::new();
        put_version(&mut bytes);
        assert_eq!(Reader::new(&bytes).version(), Ok(()));
        *bytes.last_mut().unwrap() = b'0';
        let why = Reader::new(&bytes).version().unwrap_err().to_string();
        assert!(
            why.contains("it runs version") && why.contains(VERSION),
            "{why}"
        );
    }

    #[test]
    fn kinds_have_the_numbers_of_users() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, 128 + at);
            assert_eq!(Kind::of(kind as u8), Some(kind));
        }
        assert_eq!(Kind::of(127), None);
    }
}
