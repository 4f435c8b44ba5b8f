//! Questions and answers about regions between processes of one machine, over a local socket.

use aws_lc_rs::digest::{self, SHA256};
use std::fmt::Write as _;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use suci_layers::remote::{RegionId, RemoteRegion, Rights};
use suci_proto::types::{Incarnation, NodeId};

/// The version of the conversation and of segments. Processes with another version do not find each
/// other, and use the network.
const VERSION: &[u8] = b"suci shared memory 2";

/// The first message to a process that connected. The file with the mark of its sender comes with
/// it.
pub(super) const GREETING: [u8; 1] = [0];

/// Bytes of a question and of an answer.
pub(super) const QUESTION: usize = 12;
pub(super) const ANSWER: usize = 9;

/// Returns the abstract address at which a process answers. It is gone with the process. Only a
/// process that has a session with this one, or can watch its packets, knows the incarnation; the
/// address does not tell it.
pub(super) fn address(node: NodeId, incarnation: Incarnation) -> io::Result<SocketAddr> {
    let mut hash = digest::Context::new(&SHA256);
    hash.update(VERSION);
    hash.update(&node.0.to_le_bytes());
    hash.update(&incarnation.0.to_le_bytes());
    let mut name = String::from("suci-");
    for byte in hash.finish().as_ref().iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    SocketAddr::from_abstract_name(name)
}

/// A region that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionQuestion {
    pub(super) region: RegionId,
    pub(super) key: u64,
}

impl RegionQuestion {
    pub(super) const fn about(region: &RemoteRegion) -> Self {
        Self {
            region: region.region,
            key: region.key,
        }
    }

    pub(super) fn bytes(self) -> [u8; QUESTION] {
        let mut bytes = [0; QUESTION];
        let (region, key) = bytes.split_at_mut(4);
        region.copy_from_slice(&self.region.0.to_le_bytes());
        key.copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (region, key) = bytes.split_first_chunk()?;
        Some(Self {
            region: RegionId(u32::from_le_bytes(*region)),
            key: u64::from_le_bytes(key.try_into().ok()?),
        })
    }
}

/// The description of a region whose file comes with it. One without rights is a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionAnswer {
    pub(super) rights: Option<Rights>,
    pub(super) length: u64,
}

/// The rights of a region, each with its bit.
const RIGHTS: [(Rights, u8); 3] = [(Rights::READ, 1), (Rights::WRITE, 2), (Rights::ATOMIC, 4)];

impl RegionAnswer {
    pub(super) const REFUSAL: Self = Self {
        rights: None,
        length: 0,
    };

    pub(super) fn bytes(self) -> [u8; ANSWER] {
        let mut bytes = [0; ANSWER];
        let (rights, length) = bytes.split_at_mut(1);
        let has = |right| self.rights.is_some_and(|rights| rights.contains(right));
        let bits = RIGHTS.iter().filter(|(right, _)| has(*right));
        rights.fill(bits.map(|(_, bit)| bit).sum());
        length.copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (bits, length) = bytes.split_first()?;
        let rights = RIGHTS.iter().filter(|(_, bit)| bits & bit != 0);
        Some(Self {
            rights: rights.map(|(right, _)| *right).reduce(|a, b| a | b),
            length: u64::from_le_bytes(length.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_answers_are_read_as_they_were_written() {
        let question = RegionQuestion {
            region: RegionId(7),
            key: u64::MAX - 3,
        };
        assert_eq!(RegionQuestion::read(&question.bytes()), Some(question));
        assert_eq!(RegionQuestion::read(&[0; QUESTION + 1]), None);
        assert_eq!(RegionQuestion::read(&[0; 3]), None);
        for rights in [Rights::READ, Rights::READ | Rights::ATOMIC, Rights::WRITE] {
            let answer = RegionAnswer {
                rights: Some(rights),
                length: 1 << 40,
            };
            assert_eq!(RegionAnswer::read(&answer.bytes()), Some(answer));
        }
        assert_eq!(
            RegionAnswer::read(&RegionAnswer::REFUSAL.bytes()),
            Some(RegionAnswer::REFUSAL)
        );
        assert_eq!(RegionAnswer::read(&[]), None);
    }

    #[test]
    fn each_process_has_an_address_of_its_own() {
        let name = |node, incarnation| {
            let address = address(NodeId(node), Incarnation(incarnation)).unwrap();
            address.as_abstract_name().unwrap().to_vec()
        };
        assert_eq!(name(1, 5), name(1, 5));
        assert_ne!(name(1, 5), name(1, 6));
        assert_ne!(name(1, 5), name(2, 5));
    }
}
