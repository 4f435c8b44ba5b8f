//! Changes of the keys of a running node, by its program or by files.

use super::cluster::ClusterHandshakes;
use super::file::{KeyError, KeyFile, PublicKeysFile, Stamp};
use super::key::Keyring;
use super::node::{KnownKeys, NodeHandshakes, NodeKeyring};
use super::node_key::{NodeKey, PublicKeys};
use super::packet::Cipher;
use crate::error::Error;
use crate::log;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use suci_proto::Renewal;
use suci_proto::security::Security;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Time between checks of the files: one system call for each.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Where a node's keys come from.
#[derive(Clone, Debug)]
pub(crate) enum KeySource {
    /// The program, and with a file each change of that.
    Cluster(Keyring),
    /// A file of the cluster's keys.
    ClusterFile(KeyFile),
    /// The program: the node's own keys, and the public ones.
    Node(Keyring<NodeKey>, PublicKeys),
    /// The same in files.
    NodeFiles(NodeFiles),
}

/// The two files of a node with keys of its own.
#[derive(Clone, Debug)]
pub(crate) struct NodeFiles {
    pub(crate) own: KeyFile<NodeKey>,
    pub(crate) public: PublicKeysFile,
}

type Stamps = (Option<Stamp>, Option<Stamp>);

/// The state of files when they were read, and when they were checked last.
#[derive(Debug)]
struct FileStates<S> {
    read: S,
    checked: S,
    /// When the next check may be: drivers do not know of each other's checks.
    check_at: Instant,
}

impl<S: Copy + PartialEq> FileStates<S> {
    fn new(read: S) -> Self {
        Self {
            read,
            checked: read,
            check_at: Instant::ZERO,
        }
    }

    /// Returns true if no driver made a check of late, and notes that one is made `now`.
    fn begin_check(&mut self, now: Instant) -> bool {
        let begins = now >= self.check_at;
        if begins {
            self.check_at = now + CHECK_EVERY;
        }
        begins
    }

    /// Notes their state `now`. Returns whether to read them: they are others than those that were
    /// read, and the same as at the check before. A file that somebody still writes may end at any
    /// line.
    fn is_due(&mut self, now: S) -> bool {
        let is_settled = std::mem::replace(&mut self.checked, now) == now;
        is_settled && self.read != now
    }
}

impl NodeFiles {
    fn stamps(&self) -> Stamps {
        (self.own.stamp(), self.public.stamp())
    }

    fn read(&self, node: NodeId) -> Result<(NodeKeyring, Stamps), KeyError> {
        let (own, first) = self.own.read_stamped()?;
        let (public, second) = self.public.read_stamped()?;
        let keys = NodeKeyring::new(node, &own, public);
        Ok((keys, (Some(first), Some(second))))
    }
}

/// The keys of a node, shared by its drivers.
#[derive(Debug)]
pub(crate) enum SharedKeys {
    Cluster(SharedClusterKeys),
    Node(SharedNodeKeys),
}

impl SharedKeys {
    /// The keys of `node`. Files are read, and checked for changes from then on.
    pub(crate) fn new(node: NodeId, source: KeySource) -> Result<Self, KeyError> {
        Ok(match source {
            KeySource::Cluster(keys) => Self::Cluster(SharedClusterKeys::new(node, keys, None)),
            KeySource::ClusterFile(file) => {
                let file = file.anchored();
                let (keys, stamp) = file.read_stamped()?;
                let file = Some((file, FileStates::new(Some(stamp))));
                Self::Cluster(SharedClusterKeys::new(node, keys, file))
            }
            KeySource::Node(own, public) => {
                let keys = NodeKeyring::new(node, &own, public);
                keys.known().check_listed()?;
                Self::Node(SharedNodeKeys::new(node, keys, None))
            }
            KeySource::NodeFiles(files) => {
                let files = NodeFiles {
                    own: files.own.anchored(),
                    public: files.public.anchored(),
                };
                let (keys, stamps) = files.read(node)?;
                keys.known().check_listed()?;
                let files = Some((files, FileStates::new(stamps)));
                Self::Node(SharedNodeKeys::new(node, keys, files))
            }
        })
    }

    /// The engine's setting.
    pub(crate) fn security(&self) -> Security {
        match self {
            Self::Cluster(keys) => Security::Sealed(keys.handshakes.clone()),
            Self::Node(keys) => Security::Sealed(keys.handshakes.clone()),
        }
    }

    /// Replaces the cluster's keys. New handshakes use them at once. Drivers renew their
    /// connections when they look next.
    pub(crate) fn set(&self, keys: Keyring) -> Result<(), Error> {
        let Self::Cluster(shared) = self else {
            return Err(Error::NotSealed);
        };
        shared.replace(&mut shared.state(), keys);
        Ok(())
    }

    /// The same for keys of nodes.
    pub(crate) fn set_of_node(
        &self,
        own: &Keyring<NodeKey>,
        public: PublicKeys,
    ) -> Result<(), Error> {
        let Self::Node(shared) = self else {
            return Err(Error::NotSealed);
        };
        let keys = NodeKeyring::new(shared.node, own, public);
        keys.known().check_listed()?;
        shared.replace(keys);
        Ok(())
    }

    fn has_file(&self) -> bool {
        match self {
            Self::Cluster(keys) => keys.state().file.is_some(),
            Self::Node(keys) => keys.files.is_some(),
        }
    }

    fn check_files(&self, now: Instant) {
        match self {
            Self::Cluster(keys) => keys.check_file(now),
            Self::Node(keys) => keys.check_files(now),
        }
    }

    fn seen(&self) -> Seen {
        match self {
            Self::Cluster(keys) => Seen::Counts(keys.counts()),
            Self::Node(keys) => Seen::Keys(Arc::clone(keys.handshakes.keys().known())),
        }
    }
}

/// The keys of a cluster.
#[derive(Debug)]
pub(crate) struct SharedClusterKeys {
    node: NodeId,
    handshakes: Arc<ClusterHandshakes>,
    state: Mutex<KeyState>,
    /// The number of changes that added a key, or put another one first.
    additions: AtomicU64,
    /// The number of changes that took a key out.
    removals: AtomicU64,
}

type WatchedFile = (KeyFile, FileStates<Option<Stamp>>);

#[derive(Debug)]
struct KeyState {
    keys: Keyring,
    /// The file that the keys came from.
    file: Option<WatchedFile>,
}

impl SharedClusterKeys {
    fn new(node: NodeId, keys: Keyring, file: Option<WatchedFile>) -> Self {
        let cipher = Cipher::fastest();
        let ids: Vec<_> = keys.iter().map(|key| key.id()).collect();
        log::sealed(node, cipher, &ids);
        Self {
            node,
            handshakes: Arc::new(ClusterHandshakes::new(&keys, cipher)),
            state: Mutex::new(KeyState { keys, file }),
            additions: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn check_file(&self, now: Instant) {
        let mut state = self.state();
        let Some((file, watch)) = &mut state.file else {
            return;
        };
        if !watch.begin_check(now) {
            return;
        }
        let now = file.stamp();
        if !watch.is_due(now) {
            return;
        }
        let before = std::mem::replace(&mut watch.read, now);
        match file.read_stamped() {
            // It changed just now.
            Ok((_, stamp)) if now != Some(stamp) => watch.read = before,
            Ok((keys, _)) => self.replace(&mut state, keys),
            // It may be readable next time, without another change.
            Err(error @ KeyError::Unreadable { .. }) => {
                watch.read = None;
                if before.is_some() {
                    log::key_file_unusable(self.node, &error);
                }
            }
            Err(error) => log::key_file_unusable(self.node, &error),
        }
    }

    fn counts(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Acquire);
        (load(&self.additions), load(&self.removals))
    }
}

type WatchedFiles = (NodeFiles, FileStates<Stamps>);

/// The keys of a node, and the public keys of all.
#[derive(Debug)]
pub(crate) struct SharedNodeKeys {
    node: NodeId,
    handshakes: Arc<NodeHandshakes>,
    /// The files that the keys came from.
    files: Option<Mutex<WatchedFiles>>,
}

impl SharedNodeKeys {
    fn new(node: NodeId, keys: NodeKeyring, files: Option<WatchedFiles>) -> Self {
        let cipher = Cipher::fastest();
        log::sealed(node, cipher, &keys.known().ids());
        Self {
            node,
            handshakes: Arc::new(NodeHandshakes::new(Arc::new(keys), cipher)),
            files: files.map(Mutex::new),
        }
    }

    fn replace(&self, keys: NodeKeyring) {
        let before = self.handshakes.keys();
        let keys = keys.in_place_of(&before);
        if !before.known().changes_to(keys.known()).is_empty() {
            log::keys_changed(self.node, &keys.known().ids());
        }
        self.handshakes.set_keys(Arc::new(keys));
    }

    /// Reads the files again if one of them was changed. If they cannot be used, nothing changes;
    /// that is logged once.
    fn check_files(&self, now: Instant) {
        let Some(files) = &self.files else {
            return;
        };
        let mut files = files.lock().unwrap_or_else(PoisonError::into_inner);
        let (files, watch) = &mut *files;
        if !watch.begin_check(now) {
            return;
        }
        let now = files.stamps();
        if !watch.is_due(now) {
            return;
        }
        let before = std::mem::replace(&mut watch.read, now);
        match files.read(self.node) {
            // One of them changed just now.
            Ok((_, stamps)) if now != stamps => watch.read = before,
            Ok((keys, _)) => {
                // Other nodes that were taken out are out, whatever became of this one's line.
                if let Err(error) = keys.known().check_listed() {
                    log::key_file_unusable(self.node, &error);
                }
                self.replace(keys);
            }
            // They may be readable next time, without another change.
            Err(error @ KeyError::Unreadable { .. }) => {
                watch.read = (None, None);
                if before != watch.read {
                    log::key_file_unusable(self.node, &error);
                }
            }
            Err(error) => log::key_file_unusable(self.node, &error),
        }
    }
}

/// A driver's view of the keys: what changed since it looked last.
#[derive(Debug)]
pub(crate) struct KeyChanges {
    keys: Arc<SharedKeys>,
    /// When the files are checked next; never without a file.
    check_at: Option<Instant>,
    seen: Seen,
}

/// The state of the keys when a driver looked last.
#[derive(Debug)]
enum Seen {
    /// The changes that added a key, and those that took one out.
    Counts((u64, u64)),
    /// The keys, without the secrets: those must not wait for the driver.
    Keys(Arc<KnownKeys>),
}

impl KeyChanges {
    pub(crate) fn new(keys: Arc<SharedKeys>, now: Instant) -> Self {
        Self {
            check_at: keys.has_file().then(|| now + CHECK_EVERY),
            seen: keys.seen(),
            keys,
        }
    }

    /// The keys, shared with the node's other drivers.
    pub(crate) fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// When the files are checked next.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.check_at
    }

    /// Checks the files if it is time, and returns how the connections of one peer, or of all, are
    /// to get new keys, if they are. Blocks for the file system, at most once every two seconds.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<(Option<NodeId>, Renewal)> {
        if self.check_at.is_some_and(|at| at <= now) {
            self.check_at = Some(now + CHECK_EVERY);
            self.keys.check_files(now);
        }
        let seen = self.keys.seen();
        match (std::mem::replace(&mut self.seen, seen), &self.seen) {
            (Seen::Counts(before), Seen::Counts(now)) if now.1 != before.1 => {
                vec![(None, Renewal::Revoke)]
            }
            (Seen::Counts(before), Seen::Counts(now)) if now.0 != before.0 => {
                vec![(None, Renewal::Replace)]
            }
            (Seen::Keys(before), Seen::Keys(now)) if !Arc::ptr_eq(&before, now) => {
                before.changes_to(now)
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::ClusterKey;
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn key(byte: u8) -> ClusterKey {
        ClusterKey::from_bytes(&[byte; 32])
    }

    fn of_all(renewal: Option<Renewal>) -> Vec<(Option<NodeId>, Renewal)> {
        renewal.map(|renewal| (None, renewal)).into_iter().collect()
    }

    fn later(checks: u32) -> Instant {
        NOW + CHECK_EVERY * checks
    }

    #[test]
    fn each_driver_renews_once_for_each_change() {
        let keys = Arc::new(SharedKeys::new(NodeId(1), KeySource::Cluster(key(1).into())).unwrap());
        let mut drivers = [0, 1].map(|_| KeyChanges::new(keys.clone(), NOW));
        let mut expect = |renewal: Option<Renewal>| {
            for driver in &mut drivers {
                assert_eq!(driver.due_at(), None);
                assert_eq!(driver.take(NOW), of_all(renewal));
                assert_eq!(driver.take(NOW), []);
            }
        };
        expect(None);
        keys.set(key(1).into()).unwrap();
        expect(None);
        keys.set(Keyring::of_two(key(2), key(1))).unwrap();
        expect(Some(Renewal::Replace));
        keys.set(Keyring::of_two(key(1), key(2))).unwrap();
        expect(Some(Renewal::Replace));
        keys.set(key(2).into()).unwrap();
        expect(Some(Renewal::Revoke));
        // Both between two looks.
        keys.set(Keyring::of_two(key(3), key(2))).unwrap();
        keys.set(key(3).into()).unwrap();
        expect(Some(Renewal::Revoke));
    }

    #[test]
    fn a_changed_file_is_noticed_and_an_unusable_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = KeyFile::new(dir.path().join("cluster.key"));
        file.create().unwrap();
        let keys = SharedKeys::new(NodeId(1), KeySource::ClusterFile(file.clone()));
        let mut changes = KeyChanges::new(Arc::new(keys.unwrap()), NOW);
        let held = |changes: &KeyChanges| match changes.keys() {
            SharedKeys::Cluster(keys) => keys.state().keys.clone(),
            SharedKeys::Node(_) => unreachable!("the file has keys of a cluster"),
        };
        assert_eq!(changes.due_at(), Some(later(1)));
        assert_eq!(changes.take(later(1)), []);
        let both = file.rotate().unwrap();
        assert_eq!(changes.take(later(1)), [], "not before the next check");
        assert_eq!(changes.take(later(2)), [], "not before it stayed the same");
        assert_eq!(changes.take(later(3)), of_all(Some(Renewal::Replace)));
        assert_eq!(held(&changes), both);
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(file.path(), open).unwrap();
        assert_eq!(changes.take(later(4)), []);
        assert_eq!(changes.take(later(5)), []);
        let closed = fs::Permissions::from_mode(0o600);
        fs::set_permissions(file.path(), closed).unwrap();
        assert_eq!(changes.take(later(6)), []);
        assert_eq!(changes.take(later(7)), []);
        let last = file.retire().unwrap();
        assert_eq!(changes.take(later(8)), []);
        assert_eq!(changes.take(later(9)), of_all(Some(Renewal::Revoke)));
        assert_eq!(held(&changes), last);
        fs::remove_file(file.path()).unwrap();
        assert_eq!(changes.take(later(10)), []);
        assert_eq!(changes.take(later(11)), []);
        assert_eq!(held(&changes), last);
    }

    /// Keeps a file from being opened, and changes nothing of it: until this is dropped, the system
    /// answers an `open` that does not wait by EAGAIN (a lease, `fcntl(2)`).
    struct Barred {
        file: fs::File,
    }

    impl Barred {
        fn new(path: &Path) -> Self {
            /// Names the signal that tells of such an `open`; the `libc` crate lacks it.
            const F_SETSIG: libc::c_int = 10;
            let file = fs::File::options().read(true).write(true).open(path);
            let barred = Self {
                file: file.unwrap(),
            };
            // The default signal would end the process; this one is ignored.
            assert_eq!(barred.call(F_SETSIG, libc::SIGURG), 0);
            // Nobody else may have it open: a child that another test forks may, until it is gone.
            while barred.call(libc::F_SETLEASE, libc::F_WRLCK) != 0 {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
                std::thread::yield_now();
            }
            barred
        }

        fn call(&self, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
            // SAFETY: the descriptor is open, and neither command takes a pointer.
            unsafe { libc::fcntl(self.file.as_raw_fd(), command, argument) }
        }
    }

    impl Drop for Barred {
        fn drop(&mut self) {
            self.call(libc::F_SETLEASE, libc::F_UNLCK);
        }
    }

    /// The system may have lacked a descriptor, or the disk an answer.
    #[test]
    fn a_file_that_could_not_be_read_is_read_later_though_it_did_not_change() {
        let dir = tempfile::tempdir().unwrap();
        let file = KeyFile::new(dir.path().join("cluster.key"));
        file.create().unwrap();
        let keys = SharedKeys::new(NodeId(1), KeySource::ClusterFile(file.clone()));
        let mut changes = KeyChanges::new(Arc::new(keys.unwrap()), NOW);
        file.rotate().unwrap();
        let (stamp, barred) = (file.stamp(), Barred::new(file.path()));
        assert_eq!(changes.take(later(1)), []);
        assert_eq!(changes.take(later(2)), []);
        drop(barred);
        assert_eq!(file.stamp(), stamp);
        assert_eq!(changes.take(later(3)), of_all(Some(Renewal::Replace)));
        assert_eq!(changes.take(later(4)), []);
    }

    #[test]
    fn each_file_of_a_node_that_could_not_be_read_is_read_later() {
        let dir = tempfile::tempdir().unwrap();
        let files = NodeFiles {
            own: KeyFile::of_node(dir.path().join("own.key")),
            public: PublicKeysFile::new(dir.path().join("public.keys")),
        };
        let own = files.own.create().unwrap().first().public();
        let (two, three) = (node_key(2).public(), node_key(3).public());
        let write = |text: String| fs::write(files.public.path(), text).unwrap();
        write(format!("1 {own}\n2 {two}\n3 {three}\n"));
        let keys = SharedKeys::new(NodeId(1), KeySource::NodeFiles(files.clone()));
        let mut changes = KeyChanges::new(Arc::new(keys.unwrap()), NOW);
        let mut checks = 0;
        for (path, text, expelled) in [
            (files.own.path(), format!("1 {own}\n2 {two}\n"), 3),
            (files.public.path(), format!("1 {own}\n"), 2),
        ] {
            write(text);
            let (stamps, barred) = (files.stamps(), Barred::new(path));
            assert_eq!(changes.take(later(checks + 1)), []);
            assert_eq!(changes.take(later(checks + 2)), []);
            drop(barred);
            assert_eq!(files.stamps(), stamps);
            checks += 3;
            let expelled = [(Some(NodeId(expelled)), Renewal::EndSession)];
            assert_eq!(changes.take(later(checks)), expelled);
        }
    }

    fn node_key(byte: u8) -> NodeKey {
        NodeKey::from_bytes(&[byte; 32]).unwrap()
    }

    /// The keys of nodes 1 to 3 as node 1 has them, with `more` lines.
    fn public(lines: &[(u32, u8, &str)]) -> PublicKeys {
        let line = |(node, key, layers): &(u32, u8, &str)| {
            format!("{node} {} {layers}\n", node_key(*key).public())
        };
        PublicKeys::parse(&lines.iter().map(line).collect::<String>()).unwrap()
    }

    /// Such a file still takes other nodes out.
    #[test]
    fn a_file_without_this_nodes_own_line_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let files = NodeFiles {
            own: KeyFile::of_node(dir.path().join("own.key")),
            public: PublicKeysFile::new(dir.path().join("public.keys")),
        };
        let own = files.own.create().unwrap().first().public();
        let (two, three) = (node_key(2).public(), node_key(3).public());
        let at = dir.path().join("public.keys");
        let write = |text: String| {
            let beside = dir.path().join("beside");
            fs::write(&beside, text).unwrap();
            fs::rename(beside, &at).unwrap();
        };
        write(format!("1 {own}\n2 {two}\n3 {three}\n"));
        let keys = SharedKeys::new(NodeId(1), KeySource::NodeFiles(files)).unwrap();
        let mut changes = KeyChanges::new(Arc::new(keys), NOW);
        write(format!("2 {two}\n"));
        let expelled = [(Some(NodeId(3)), Renewal::EndSession)];
        assert_eq!(changes.take(later(1)), []);
        assert_eq!(changes.take(later(2)), expelled);
        write(format!("1 {own}\n"));
        let expelled = [(Some(NodeId(2)), Renewal::EndSession)];
        assert_eq!(changes.take(later(3)), []);
        assert_eq!(changes.take(later(4)), expelled);
    }

    /// A tool that copies a file onto another may write it piece by piece. An empty file, or one
    /// of comments alone, expels nobody, however long it stays.
    #[test]
    fn a_file_that_is_still_written_or_has_no_key_expels_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let files = NodeFiles {
            own: KeyFile::of_node(dir.path().join("own.key")),
            public: PublicKeysFile::new(dir.path().join("public.keys")),
        };
        let own = files.own.create().unwrap().first().public();
        let all = format!("1 {own}\n2 {}\n", node_key(2).public());
        let at = files.public.path().to_owned();
        fs::write(&at, &all).unwrap();
        let keys = SharedKeys::new(NodeId(1), KeySource::NodeFiles(files)).unwrap();
        let keys = Arc::new(keys);
        // One driver checks right after the other.
        let mut drivers = [0, 1].map(|_| KeyChanges::new(keys.clone(), NOW));
        let mut check = |number, text: &str| {
            for driver in &mut drivers {
                assert_eq!(driver.take(later(number)), [], "{text:?}");
            }
        };
        fs::write(&at, format!("1 {own}\n")).unwrap();
        check(1, "half of the lines");
        fs::write(&at, format!("{all}# all\n")).unwrap();
        check(2, "all lines");
        check(3, "all lines");
        for (number, text) in [(4, ""), (6, "# none\n"), (8, "\n")] {
            fs::write(&at, text).unwrap();
            check(number, text);
            check(number + 1, text);
        }
    }

    /// Daemons change their directory once they run.
    #[test]
    fn files_are_found_from_every_directory() {
        let dir = tempfile::tempdir_in(".").unwrap();
        let here = Path::new(dir.path().file_name().unwrap());
        let at = |name| here.join(name);
        let cluster = KeyFile::new(at("cluster.key"));
        let own = KeyFile::of_node(at("own.key"));
        let public = PublicKeysFile::new(at("public.keys"));
        cluster.create().unwrap();
        let line = format!("1 {}\n", own.create().unwrap().first().public());
        fs::write(public.path(), line).unwrap();
        let SharedKeys::Cluster(keys) =
            SharedKeys::new(NodeId(1), KeySource::ClusterFile(cluster)).unwrap()
        else {
            unreachable!("the file has keys of a cluster")
        };
        let state = keys.state();
        assert!(state.file.as_ref().unwrap().0.path().is_absolute());
        let files = KeySource::NodeFiles(NodeFiles { own, public });
        let SharedKeys::Node(keys) = SharedKeys::new(NodeId(1), files).unwrap() else {
            unreachable!("the files have keys of nodes")
        };
        let (files, _) = &*keys.files.as_ref().unwrap().lock().unwrap();
        assert!(files.own.path().is_absolute() && files.public.path().is_absolute());
    }

    /// A driver that sleeps keeps no secret: it looks later.
    #[test]
    fn keys_that_were_taken_out_do_not_wait_for_drivers() {
        let lines = public(&[(1, 1, ""), (1, 9, ""), (2, 2, "")]);
        let source = KeySource::Node(node_key(1).into(), lines.clone());
        let keys = Arc::new(SharedKeys::new(NodeId(1), source).unwrap());
        let mut changes = KeyChanges::new(keys.clone(), NOW);
        let SharedKeys::Node(shared) = &*keys else {
            unreachable!("they are of a node")
        };
        let before = Arc::downgrade(&shared.handshakes.keys());
        keys.set_of_node(&node_key(9).into(), lines).unwrap();
        assert!(before.upgrade().is_none());
        assert_eq!(changes.take(NOW), [(None, Renewal::Revoke)]);
    }

    #[test]
    fn a_change_of_public_keys_concerns_the_peers_that_it_names() {
        let before = public(&[(1, 1, ""), (2, 2, ""), (3, 3, "messages")]);
        let source = KeySource::Node(node_key(1).into(), before.clone());
        let keys = Arc::new(SharedKeys::new(NodeId(1), source).unwrap());
        let mut changes = KeyChanges::new(keys.clone(), NOW);
        let (two, three) = (Some(NodeId(2)), Some(NodeId(3)));
        for (lines, expected) in [
            (
                vec![(1, 1, ""), (2, 2, ""), (3, 3, "messages"), (4, 4, "")],
                vec![],
            ),
            (
                vec![(1, 1, ""), (3, 3, "messages sockets")],
                vec![(two, Renewal::EndSession), (three, Renewal::Replace)],
            ),
            (
                vec![(1, 1, ""), (2, 2, "sockets"), (3, 3, "sockets")],
                vec![(two, Renewal::EndSession), (three, Renewal::EndSession)],
            ),
            (
                vec![(1, 1, ""), (2, 2, ""), (2, 5, ""), (3, 6, "messages")],
                vec![(two, Renewal::Replace), (three, Renewal::Revoke)],
            ),
        ] {
            keys.set_of_node(&node_key(1).into(), public(&lines))
                .unwrap();
            assert_eq!(changes.take(NOW), expected);
            keys.set_of_node(&node_key(1).into(), before.clone())
                .unwrap();
            changes.take(NOW);
        }
        let both = public(&[(1, 1, ""), (1, 9, ""), (2, 2, ""), (3, 3, "messages")]);
        let two_keys = Keyring::of_two(node_key(9), node_key(1));
        keys.set_of_node(&two_keys, before).unwrap();
        assert_eq!(changes.take(NOW), [], "nobody could know the new key");
        keys.set_of_node(&two_keys, both.clone()).unwrap();
        assert_eq!(changes.take(NOW), [(None, Renewal::Replace)]);
        keys.set_of_node(&node_key(9).into(), both).unwrap();
        assert_eq!(changes.take(NOW), [(None, Renewal::Revoke)]);
        let other = keys.set_of_node(&node_key(8).into(), public(&[(1, 1, "")]));
        let said = other.unwrap_err().to_string();
        assert!(
            said.contains(&format!("1 {}", node_key(8).public())),
            "{said}"
        );
    }
}
