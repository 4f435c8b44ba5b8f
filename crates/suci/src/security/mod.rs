//! Keys of a cluster and of its nodes: their files, and who may join.
//!
//! A node with a [`Keyring`] seals every packet, and talks only to nodes that share one of its
//! [`ClusterKey`]s. It takes the keyring from [`NodeBuilder::cluster_key`], or from a file:
//! [`NodeBuilder::key_file`], or the variable `SUCI_KEY_FILE`. `suci keygen` makes such a file.
//!
//! **Changing the key of a running cluster.** [`KeyFile::rotate`] (`suci key rotate`) puts a new
//! key in front of the old one. Copy the file to each machine. A node notices within some seconds
//! that its file changed, and makes fresh handshakes with its peers under the new key; where a peer
//! does not have it yet, under the old one. Once all have the file, [`KeyFile::retire`] (`suci key
//! retire`) takes the old key out. Sessions go on all the time, and no message is lost.
//!
//! **A key for each node.** Every member of a cluster with one key can pose as any other. Where
//! that matters, give each node a [`NodeKey`] (`suci keygen --node`) and all of them a file of
//! [`PublicKeys`] with a line for each node (`suci key public`): [`NodeBuilder::node_keys`],
//! [`NodeBuilder::node_key_files`], or the variables `SUCI_NODE_KEY_FILE` and
//! `SUCI_PUBLIC_KEYS_FILE`. A node is then who its key says, and a line names the layers that it
//! may use, if not all: [`Layer`](crate::Layer). Running nodes notice changed files. A key that was
//! taken out ends the session of its node, and so does a layer.
//!
//! Keys never appear in `Debug` output, errors, logs, statistics or traces; a [`KeyId`] stands for
//! them there. The memory that held a key is cleared when the key is dropped; keys are on the heap
//! alone, never by value on the stack.
//!
//! [`NodeBuilder::cluster_key`]: crate::NodeBuilder::cluster_key
//! [`NodeBuilder::key_file`]: crate::NodeBuilder::key_file
//! [`NodeBuilder::node_keys`]: crate::NodeBuilder::node_keys
//! [`NodeBuilder::node_key_files`]: crate::NodeBuilder::node_key_files

mod changes;
mod cluster;
mod file;
mod handshake;
mod key;
mod node;
mod node_key;
mod noise;
mod packet;
mod secret;

pub(crate) use changes::{KeyChanges, KeySource, NodeFiles, SharedKeys};
pub use file::{KeyError, KeyFile, PublicKeysFile};
pub use key::{ClusterKey, KeyId, KeyTextError, Keyring, SecretKey};
pub use node_key::{NodeKey, PublicKey, PublicKeys};
pub use packet::Cipher;

/// docs/protocol-vectors.md.
#[cfg(test)]
#[path = "../../../suci-proto/tests/it/page.rs"]
mod page;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// The crates in docs/security.md are those that are built.
    #[test]
    fn the_record_of_cryptographic_crates_is_that_of_the_lock_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
        let page = fs::read_to_string(root.join("docs/security.md")).unwrap();
        let (_, table) = page.split_once("| crate | version |").unwrap();
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with("| "));
        let mut seen = 0;
        for row in rows {
            let cells: Vec<&str> = row.trim_matches([' ', '|']).split(" | ").collect();
            let [name, version, checksum] = cells[..] else {
                panic!("{row}");
            };
            let package = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            let (_, entry) = lock.split_once(&package).expect(row);
            let entry = entry.split("[[package]]").next().unwrap();
            assert!(
                entry.contains(&format!("checksum = \"{checksum}\"")),
                "{row}"
            );
            assert_eq!(
                lock.matches(&format!("name = \"{name}\"\n")).count(),
                1,
                "{row}"
            );
            seen += 1;
        }
        assert_eq!(seen, 5);
    }
}
