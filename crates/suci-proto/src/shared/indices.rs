//! The numbers under which packets name their connection.

use slab::Slab;
use suci_link::types::NodeId;

/// The peer that each connection index leads to.
#[derive(Debug, Default)]
pub(crate) struct Indices {
    peers: Slab<u32>,
}

impl Indices {
    /// Returns an index for packets from `node` to us: its lowest byte is that of the node's ID,
    /// which names the shard; the rest is a key of `peers`.
    pub(crate) fn allocate(&mut self, node: NodeId, peer: usize) -> u32 {
        let key = self.peers.insert(peer as u32) as u32;
        (key << 8) | (node.0 & 0xff)
    }

    /// Gives an index back.
    pub(crate) fn free(&mut self, index: u32) {
        let key = (index >> 8) as usize;
        if self.peers.contains(key) {
            self.peers.remove(key);
        }
    }

    /// Returns the peer that `index` leads to.
    pub(crate) fn peer(&self, index: u32) -> Option<usize> {
        let peer = self.peers.get((index >> 8) as usize)?;
        Some(*peer as usize)
    }
}
