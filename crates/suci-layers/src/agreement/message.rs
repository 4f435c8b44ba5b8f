//! The bytes of the messages of an agreement.

use super::Knowledge;
use std::collections::BTreeSet;

/// The number that stands for "no proposal was accepted" in the place of a leader's rank.
const NONE: u32 = u32::MAX;

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Its sender follows the receiver from now on, and no leader of a lower rank.
    Join(Join),
    /// Its sender, a leader, proposes this.
    Propose(Knowledge),
    /// Its sender accepted the receiver's proposal, and takes nothing from these dead members.
    Accept(BTreeSet<usize>),
    /// All members that are left agree on this.
    Decided(Knowledge),
    /// These members are dead.
    Dead(BTreeSet<usize>),
    /// The receiver is silent for these members, which do not count on it any more.
    Doubt(BTreeSet<usize>),
    /// Its sender takes part no longer, and has no result.
    Left,
}

/// The part that a member contributes to the proposal of its leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Join {
    /// Its value.
    pub(super) value: u64,
    /// Its number.
    pub(super) number: u32,
    /// Members that it takes for silent.
    pub(super) silent: BTreeSet<usize>,
    /// The newest proposal that it accepted, and the rank of the leader that made it.
    pub(super) accepted: Option<(usize, Knowledge)>,
}

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![match self {
            Self::Join(_) => 1,
            Self::Propose(_) => 2,
            Self::Accept(_) => 3,
            Self::Decided(_) => 4,
            Self::Dead(_) => 5,
            Self::Doubt(_) => 6,
            Self::Left => 7,
        }];
        match self {
            Self::Join(join) => put_join(&mut bytes, join),
            Self::Propose(known) | Self::Decided(known) => put_knowledge(&mut bytes, known),
            Self::Accept(ranks) | Self::Dead(ranks) | Self::Doubt(ranks) => {
                put_ranks(&mut bytes, ranks);
            }
            Self::Left => {}
        }
        bytes
    }

    /// Parses a message between two of `size` members.
    pub(super) fn from_bytes(bytes: &[u8], size: usize) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        Some(match kind {
            1 => Self::Join(take_join(rest, size)?),
            2 => Self::Propose(take_knowledge(rest, size)?),
            3 => Self::Accept(take_ranks(rest, size)?),
            4 => Self::Decided(take_knowledge(rest, size)?),
            5 => Self::Dead(take_ranks(rest, size)?),
            6 => Self::Doubt(take_ranks(rest, size)?),
            7 if rest.is_empty() => Self::Left,
            _ => return None,
        })
    }
}

fn word(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(NONE)
}

fn put_ranks(bytes: &mut Vec<u8>, ranks: &BTreeSet<usize>) {
    bytes.extend(ranks.iter().flat_map(|rank| word(*rank).to_le_bytes()));
}

fn put_knowledge(bytes: &mut Vec<u8>, known: &Knowledge) {
    bytes.extend(known.number.to_le_bytes());
    bytes.extend(known.value.to_le_bytes());
    put_ranks(bytes, &known.failed);
}

fn put_join(bytes: &mut Vec<u8>, join: &Join) {
    let accepted = join.accepted.as_ref();
    let leader = accepted.map_or(NONE, |(leader, _)| word(*leader));
    bytes.extend(join.number.to_le_bytes());
    bytes.extend(join.value.to_le_bytes());
    bytes.extend(word(join.silent.len()).to_le_bytes());
    put_ranks(bytes, &join.silent);
    bytes.extend(leader.to_le_bytes());
    if let Some((_, known)) = accepted {
        put_knowledge(bytes, known);
    }
}

fn take_ranks(bytes: &[u8], size: usize) -> Option<BTreeSet<usize>> {
    let (ranks, rest) = bytes.as_chunks();
    let ranks = ranks.iter().map(|rank| u32::from_le_bytes(*rank) as usize);
    let ranks: BTreeSet<_> = ranks.collect();
    let is_sound = rest.is_empty() && ranks.iter().all(|rank| *rank < size);
    is_sound.then_some(ranks)
}

fn take_knowledge(bytes: &[u8], size: usize) -> Option<Knowledge> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    Some(Knowledge {
        failed: take_ranks(rest, size)?,
        value: u64::from_le_bytes(*value),
        number: u32::from_le_bytes(*number),
    })
}

fn take_join(bytes: &[u8], size: usize) -> Option<Join> {
    let (number, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (count, rest) = rest.split_first_chunk()?;
    let silent = (u32::from_le_bytes(*count) as usize).checked_mul(size_of::<u32>())?;
    let (silent, rest) = rest.split_at_checked(silent)?;
    let (leader, rest) = rest.split_first_chunk()?;
    let accepted = match u32::from_le_bytes(*leader) {
        NONE => rest.is_empty().then_some(None)?,
        leader if (leader as usize) < size => Some((leader as usize, take_knowledge(rest, size)?)),
        _ => return None,
    };
    Some(Join {
        value: u64::from_le_bytes(*value),
        number: u32::from_le_bytes(*number),
        silent: take_ranks(silent, size)?,
        accepted,
    })
}
