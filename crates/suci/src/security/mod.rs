//! Keys of a cluster: their files, and who may join.
//!
//! A node with a [`Keyring`] seals every packet, and talks only to nodes that share one of its
//! [`ClusterKey`]s. It takes the keyring from [`NodeBuilder::cluster_key`], or from the file that
//! the variable `SUCI_KEY_FILE` names. `suci keygen` makes such a file.
//!
//! Keys never appear in `Debug` output, errors, logs, statistics or traces; a [`KeyId`] stands for
//! them there. The memory that held a key is cleared when the key is dropped.
//!
//! [`NodeBuilder::cluster_key`]: crate::NodeBuilder::cluster_key

mod file;
mod key;

pub use file::{KeyError, KeyFile};
pub use key::{ClusterKey, KeyId, KeyTextError, Keyring};
