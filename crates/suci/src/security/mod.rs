//! Keys of a cluster: their files, and who may join.
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
//! Keys never appear in `Debug` output, errors, logs, statistics or traces; a [`KeyId`] stands for
//! them there. The memory that held a key is cleared when the key is dropped.
//!
//! [`NodeBuilder::cluster_key`]: crate::NodeBuilder::cluster_key
//! [`NodeBuilder::key_file`]: crate::NodeBuilder::key_file

mod changes;
mod cluster;
mod file;
mod key;
mod noise;
mod packet;

pub(crate) use changes::{KeyChanges, SharedKeys};
pub use file::{KeyError, KeyFile};
pub use key::{ClusterKey, KeyId, KeyTextError, Keyring};
pub use packet::Cipher;

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
