//! Changes of the keys of a running node, by its program or by the key file.

use super::cluster::ClusterHandshakes;
use super::file::{KeyFile, Stamp};
use super::key::Keyring;
use super::packet::Cipher;
use crate::log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use suci_proto::Renewal;
use suci_proto::security::Security;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Time between checks of the key file: one system call each.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The keys of a node, shared by its drivers.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    node: NodeId,
    handshakes: Arc<ClusterHandshakes>,
    state: Mutex<KeyState>,
    /// The number of changes that added a key, or put another one first.
    additions: AtomicU64,
    /// The number of changes that took a key out.
    removals: AtomicU64,
}

#[derive(Debug)]
struct KeyState {
    keys: Keyring,
    /// The file that the keys came from, and its state when it was checked last.
    file: Option<(KeyFile, Option<Stamp>)>,
}

impl SharedKeys {
    /// The keys of `node`, which change with `file` if there is one.
    pub(crate) fn new(node: NodeId, keys: Keyring, file: Option<(KeyFile, Stamp)>) -> Self {
        let cipher = Cipher::fastest();
        let ids: Vec<_> = keys.iter().map(|key| key.id()).collect();
        log::sealed(node, cipher, &ids);
        Self {
            node,
            handshakes: Arc::new(ClusterHandshakes::new(&keys, cipher)),
            state: Mutex::new(KeyState {
                keys,
                file: file.map(|(file, stamp)| (file, Some(stamp))),
            }),
            additions: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }
    }

    /// The engine's setting.
    pub(crate) fn security(&self) -> Security {
        Security::Sealed(self.handshakes.clone())
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the keys. New handshakes use them at once. Drivers renew their connections when
    /// they look next.
    pub(crate) fn set(&self, keys: Keyring) {
        self.replace(&mut self.state(), keys);
    }

    fn replace(&self, state: &mut KeyState, keys: Keyring) {
        if state.keys == keys {
            return;
        }
        let ids: Vec<_> = keys.iter().map(|key| key.id()).collect();
        log::keys_changed(self.node, &ids);
        let stays = |old| keys.iter().any(|key| key == old);
        let counter = match state.keys.iter().all(stays) {
            true => &self.additions,
            false => &self.removals,
        };
        self.handshakes.set_keys(&keys);
        state.keys = keys;
        // After the keys: a driver that sees the count must find them.
        counter.fetch_add(1, Ordering::Release);
    }

    /// Reads the file again if it was changed. A file that cannot be used changes nothing; that is
    /// logged once.
    fn check_file(&self) {
        let mut state = self.state();
        let Some((file, last)) = &mut state.file else {
            return;
        };
        let now = file.stamp();
        if now == *last {
            return;
        }
        *last = now;
        match file.read_stamped() {
            Ok((keys, stamp)) => {
                *last = Some(stamp);
                self.replace(&mut state, keys);
            }
            Err(error) => log::key_file_unusable(self.node, &error),
        }
    }

    fn counts(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        (load(&self.additions), load(&self.removals))
    }
}

/// A driver's view of the keys: what changed since it looked last.
#[derive(Debug)]
pub(crate) struct KeyChanges {
    keys: Arc<SharedKeys>,
    /// When the file is checked next; never without a file.
    check_at: Option<Instant>,
    seen: (u64, u64),
}

impl KeyChanges {
    pub(crate) fn new(keys: Arc<SharedKeys>, now: Instant) -> Self {
        let has_file = keys.state().file.is_some();
        Self {
            check_at: has_file.then(|| now + CHECK_EVERY),
            seen: keys.counts(),
            keys,
        }
    }

    /// The keys, shared with the node's other drivers.
    pub(crate) fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// When the file is checked next.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Checks the file if it is time, and returns how connections are to get new keys, if they are.
    /// Blocks for the file system, at most once every two seconds.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Renewal> {
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_at = Some(now + CHECK_EVERY);
            self.keys.check_file();
        }
        let counts = self.keys.counts();
        let before = std::mem::replace(&mut self.seen, counts);
        if counts.1 != before.1 {
            Some(Renewal::Revoke)
        } else if counts.0 != before.0 {
            Some(Renewal::Replace)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::ClusterKey;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::from_bytes([byte; 32])
    }

    fn later(checks: u32) -> Instant {
        NOW + CHECK_EVERY * checks
    }

    #[test]
    fn each_driver_renews_once_for_each_change() {
        let keys = Arc::new(SharedKeys::new(NodeId(1), key(1).into(), None));
        let mut drivers = [0, 1].map(|_| KeyChanges::new(keys.clone(), NOW));
        let mut expect = |renewal| {
            for driver in &mut drivers {
                assert_eq!(driver.due_at(), None);
                assert_eq!(driver.take(NOW), renewal);
                assert_eq!(driver.take(NOW), None);
            }
        };
        expect(None);
        keys.set(key(1).into());
        expect(None);
        keys.set(Keyring::of_two(key(2), key(1)));
        expect(Some(Renewal::Replace));
        keys.set(Keyring::of_two(key(1), key(2)));
        expect(Some(Renewal::Replace));
        keys.set(key(2).into());
        expect(Some(Renewal::Revoke));
        // Both between two looks.
        keys.set(Keyring::of_two(key(3), key(2)));
        keys.set(key(3).into());
        expect(Some(Renewal::Revoke));
    }

    #[test]
    fn a_changed_file_is_noticed_and_an_unusable_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = KeyFile::new(dir.path().join("cluster.key"));
        file.create().unwrap();
        let (ring, stamp) = file.read_stamped().unwrap();
        let keys = SharedKeys::new(NodeId(1), ring, Some((file.clone(), stamp)));
        let mut changes = KeyChanges::new(Arc::new(keys), NOW);
        assert_eq!(changes.due_at(), Some(later(1)));
        assert_eq!(changes.take(later(1)), None);
        let both = file.rotate().unwrap();
        assert_eq!(changes.take(later(1)), None, "not before the next check");
        assert_eq!(changes.take(later(2)), Some(Renewal::Replace));
        assert_eq!(changes.keys().state().keys, both);
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file.path(), open).unwrap();
        assert_eq!(changes.take(later(3)), None);
        let closed = fs::Permissions::from_mode(0o600);
        fs::set_permissions(file.path(), closed).unwrap();
        assert_eq!(changes.take(later(4)), None);
        let last = file.retire().unwrap();
        assert_eq!(changes.take(later(5)), Some(Renewal::Revoke));
        assert_eq!(changes.keys().state().keys, last);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(changes.take(later(6)), None);
        assert_eq!(changes.keys().state().keys, last);
    }
}
