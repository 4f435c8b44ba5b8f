//! Files of keys: reading, making, and changing them.

use super::key::{ClusterKey, KeyTextError, Keyring, SecretKey, holds_key};
use super::node_key::{NodeKey, PublicKeys};
use crate::sys;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A bound of a file's length in bytes, and the complaint about a longer one.
type Longest = (u64, &'static str);

/// Bytes of a file at most: two keys, and room for comments.
const LONGEST: Longest = (65_536, "longer than 64 KiB");

/// Permission bits of everybody but the file's owner.
const OTHERS: u32 = 0o077;

/// Permission bit with which the file's group may read.
const GROUP_READS: u32 = 0o040;

/// Permission bits with which others may write.
const OTHERS_WRITE: u32 = 0o022;

/// The ID of root, who can read and change every file in any case.
const ROOT: u32 = 0;

/// Bytes of a file of public keys at most: 30,000 nodes, and more.
const LONGEST_PUBLIC: Longest = (4 << 20, "longer than 4 MiB");

/// Why a file of keys cannot be used. No text shows a key.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error(
        "file {}: {source}; name a readable file of keys, which suci keygen makes, or of public keys, \
         whose lines suci key public prints", .path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The file, or one beside it, cannot be written.
    #[error("key file {}: {source}; name a file in a directory that you may write", .path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another file took the place of the key file while a key was changed.
    #[error("key file {}: another file took its place meanwhile: try again", .0.display())]
    Replaced(PathBuf),
    /// Users other than the owner may read or write the file.
    #[error(
        "key file {0} is open to other users (mode {mode:04o}): run `chmod 600 {0}` (a file of root may be readable \
         for a group of this process, mode 0440: in Kubernetes defaultMode: 0400 and fsGroup); if one of them may have \
         read it, change the key, too (`suci key rotate {0}`)", .path.display()
    )]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Users other than the owner may write the file of public keys.
    #[error(
        "file of public keys {0} can be written by other users (mode {mode:04o}), who could let anybody in: run \
         `chmod go-w {0}`", .path.display()
    )]
    WritableByOthers {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns the file, neither root nor that of this process.
    #[error(
        "key file {0} belongs to user {owner}, who can change it, and this process runs as user {user}: run \
         `chown {user} {0}`, or name a file of user {user} or of root; if user {owner} should not have a secret key, \
         change the key, too", .path.display()
    )]
    OfOtherUser {
        /// The file.
        path: PathBuf,
        /// The ID of its owner.
        owner: u32,
        /// The ID of the user that this process acts for.
        user: u32,
    },
    /// The public keys have no line with this node's key.
    #[error(
        "the file of public keys has no line with this node's key: enter the line `{line}` there, at every node"
    )]
    NotListed {
        /// The line, which is no secret.
        line: String,
    },
    /// Only one of the two files that a node with a key of its own needs is named.
    #[error(
        "a node with a key of its own needs two files: its key (SUCI_NODE_KEY_FILE) and the public keys of \
         all nodes (SUCI_PUBLIC_KEYS_FILE); name both"
    )]
    OneFile,
    /// Both a cluster key and a key of the node are named.
    #[error(
        "a cluster key and a key of the node are named, and a node has one of both: drop SUCI_KEY_FILE, or \
         SUCI_NODE_KEY_FILE and SUCI_PUBLIC_KEYS_FILE"
    )]
    BothKinds,
    /// It is no regular file, or too long for one that holds keys.
    #[error(
        "file {}: it is {is}; name a file of keys, which suci keygen makes, or of public keys, whose lines \
         suci key public prints", .path.display()
    )]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// Its kind instead.
        is: &'static str,
    },
    /// The text is not that of one or two keys.
    #[error("key file {}{}: {problem}", .path.display(), AtLine(*.line))]
    Text {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1, if the fault is in one.
        line: Option<usize>,
        /// The fault.
        problem: KeyTextError,
    },
    /// The file has not as many keys as the operation needs.
    #[error("key file {} holds {holds}: {remedy}", .path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// The keys found.
        holds: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A new file would replace one that exists.
    #[error("key file {0} exists: name another one, or change its key (`suci key rotate {0}`)", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system gives no random bytes.
    #[error("asking the system for random bytes: {0}")]
    Random(io::Error),
}

struct AtLine(Option<usize>);

impl fmt::Display for AtLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |line| write!(f, ", line {line}"))
    }
}

/// A file that holds one or two keys, one on each line. Blank lines, and what follows a `#`, are
/// comments. Nobody but its owner may be able to read it: root, or the user of the process. A file
/// of root may be readable for one of the process's own groups, too, as the volumes are in which
/// containers get secrets.
///
/// # Example
/// ```
/// # fn main() -> Result<(), suci::security::KeyError> {
/// # let dir = tempfile::tempdir().unwrap();
/// let file = suci::security::KeyFile::new(dir.path().join("cluster.key"));
/// let keys = file.create()?;
/// assert_eq!(file.read()?, keys);
/// let both = file.rotate()?;
/// assert_eq!(both.second(), Some(keys.first()));
/// assert_eq!(file.retire()?.second(), None);
/// # Ok(())
/// # }
/// ```
///
/// `K` is the kind of its keys. [`KeyFile::new`] names a file of a cluster's keys,
/// [`KeyFile::of_node`] one of a node's own keys.
#[derive(Clone, Debug)]
pub struct KeyFile<K = ClusterKey> {
    path: PathBuf,
    kind: PhantomData<fn() -> K>,
}

/// The properties of a file that differ once it was changed or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// The state of the file with this path; nothing if there is no such file now.
    pub(super) fn at(path: &Path) -> Option<Self> {
        let info = std::fs::metadata(path).ok()?;
        Some(Self::of(&info))
    }

    fn of(info: &Metadata) -> Self {
        Self {
            device: info.dev(),
            inode: info.ino(),
            length: info.size(),
            modified: (info.mtime(), info.mtime_nsec()),
            changed: (info.ctime(), info.ctime_nsec()),
        }
    }
}

impl KeyFile {
    /// Names a file of a cluster's keys, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::named(path.into())
    }
}

impl KeyFile<NodeKey> {
    /// Names a file of a node's own keys, which need not exist.
    #[must_use]
    pub fn of_node(path: impl Into<PathBuf>) -> Self {
        Self::named(path.into())
    }
}

impl<K: SecretKey> KeyFile<K> {
    fn named(path: PathBuf) -> Self {
        let kind = PhantomData;
        Self { path, kind }
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same file by a path from the root: the process may change its directory.
    pub(crate) fn anchored(&self) -> Self {
        Self::named(anchored(&self.path))
    }

    /// Reads the keys. Blocks for the file system.
    ///
    /// # Errors
    /// The file cannot be read, others could read it, it belongs neither to the user of this
    /// process nor to root, or it does not hold one or two keys.
    pub fn read(&self) -> Result<Keyring<K>, KeyError> {
        self.read_stamped().map(|(keys, _)| keys)
    }

    /// As [`read`](Self::read), whoever owns the file: for root, who looks after a file of the user
    /// whose nodes take their keys from it. Blocks for the file system.
    ///
    /// # Errors
    /// As [`read`](Self::read), but for the owner.
    pub fn read_of_any_user(&self) -> Result<Keyring<K>, KeyError> {
        let file = self.text()?;
        self.parse(&file.text)
    }

    /// Reads the keys, and the state of the file.
    pub(crate) fn read_stamped(&self) -> Result<(Keyring<K>, Stamp), KeyError> {
        self.read_as(&Reader::own())
    }

    /// The same for a `reader`.
    fn read_as(&self, reader: &Reader) -> Result<(Keyring<K>, Stamp), KeyError> {
        let file = FileText::read(&self.path, LONGEST)?;
        file.check_owner(&self.path, reader.user)?;
        self.check_mode(&file, |group| reader.reads_by(group))?;
        Ok((self.parse(&file.text)?, file.stamp))
    }

    /// The state of the file; nothing if there is no such file now.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Stamp::at(&self.path)
    }

    /// Makes the file with a new key, for its owner alone (mode 0600). Blocks for the file system.
    ///
    /// # Errors
    /// The file exists, or cannot be made.
    pub fn create(&self) -> Result<Keyring<K>, KeyError> {
        let key = K::generate().map_err(KeyError::Random)?;
        let mut text = Zeroizing::new(String::with_capacity(K::HEADING.len() + 256));
        text.push_str(K::HEADING);
        text.push_str(&key.to_secret_text());
        text.push('\n');
        let file = create_new(&self.path);
        let mut file = file.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists {
                path: self.path.clone(),
            },
            _ => self.unwritable(source),
        })?;
        write_out(&mut file, &text).map_err(|source| {
            // Otherwise the next attempt finds a file, which holds no key.
            let _ = std::fs::remove_file(&self.path);
            self.unwritable(source)
        })?;
        Ok(key.into())
    }

    /// Puts a new key in front of the file's key, which stays as the second one. Readers find the
    /// file as it was or as it is afterwards. Blocks for the file system.
    ///
    /// # Errors
    /// As [`KeyFile::read`]; the file holds two keys already; or it cannot be replaced.
    pub fn rotate(&self) -> Result<Keyring<K>, KeyError> {
        let file = self.text()?;
        let (text, keys) = (&*file.text, self.parse(&file.text)?);
        if keys.second().is_some() {
            let remedy = "once every node has both, drop the older one (`suci key retire`), then rotate again";
            return Err(KeyError::Count {
                path: self.path.clone(),
                holds: "two keys already",
                remedy,
            });
        }
        let new = K::generate().map_err(KeyError::Random)?;
        let mut changed = Zeroizing::new(String::with_capacity(text.len() + 256));
        let mut put = false;
        for line in text.lines() {
            if holds_key(line) && !put {
                put = true;
                changed.push_str(&new.to_secret_text());
                changed.push('\n');
            }
            changed.push_str(line);
            changed.push('\n');
        }
        self.replace(&changed, &file)?;
        Ok(Keyring::of_two(new, keys.first().clone()))
    }

    /// Drops the second key. Readers find the file as it was or as it is afterwards. Blocks for the
    /// file system.
    ///
    /// # Errors
    /// As [`KeyFile::read`]; the file holds only one key; or it cannot be replaced.
    pub fn retire(&self) -> Result<Keyring<K>, KeyError> {
        let file = self.text()?;
        let (text, keys) = (&*file.text, self.parse(&file.text)?);
        if keys.second().is_none() {
            let remedy = "there is no older key to drop; `suci key rotate` makes a new one";
            return Err(KeyError::Count {
                path: self.path.clone(),
                holds: "one key",
                remedy,
            });
        }
        let mut changed = Zeroizing::new(String::with_capacity(text.len()));
        let mut kept = false;
        for line in text.lines() {
            if holds_key(line) && std::mem::replace(&mut kept, true) {
                continue;
            }
            changed.push_str(line);
            changed.push('\n');
        }
        self.replace(&changed, &file)?;
        Ok(keys.first().clone().into())
    }

    /// Reads the file, if it is for its owner alone, or root's and for a group.
    fn text(&self) -> Result<FileText, KeyError> {
        let file = FileText::read(&self.path, LONGEST)?;
        // Root chose the group: that of nodes, to which the process need not belong.
        let mut reader = Reader::own();
        reader.groups.push(file.group);
        self.check_mode(&file, |group| reader.reads_by(group))?;
        Ok(file)
    }

    /// Checks that the file is open to nobody but its owner and, if that is root, a group that
    /// `may_read`.
    fn check_mode(&self, file: &FileText, may_read: impl Fn(u32) -> bool) -> Result<(), KeyError> {
        let (path, mode) = (self.path.clone(), file.mode);
        let refused = match file.owner == ROOT && may_read(file.group) {
            true => OTHERS & !GROUP_READS,
            false => OTHERS,
        };
        match mode & refused {
            0 => Ok(()),
            _ => Err(KeyError::OpenToOthers { path, mode }),
        }
    }

    fn parse(&self, text: &str) -> Result<Keyring<K>, KeyError> {
        Keyring::parse(text).map_err(|(line, problem)| KeyError::Text {
            path: self.path.clone(),
            line,
            problem,
        })
    }

    /// Replaces the file that was `read`, keeping its owner and mode, once the new text is on the
    /// disk. A process that opens the file meanwhile finds the old text or the new one.
    ///
    /// Root may do so in a directory of another user, who can put a link in the place of each part
    /// of the path meanwhile. So the directory and the new file are those that were opened,
    /// whatever their names lead to by now.
    fn replace(&self, text: &str, read: &FileText) -> Result<(), KeyError> {
        let unwritable = |source| self.unwritable(source);
        // A link stays: what it leads to is replaced.
        let real = std::fs::canonicalize(&self.path).map_err(unwritable)?;
        let directory = Directory::of(&real).map_err(unwritable)?;
        let old = directory.at(real.file_name().unwrap_or_default());
        let found = std::fs::symlink_metadata(&old).map_err(unwritable)?;
        if (found.dev(), found.ino()) != (read.stamp.device, read.stamp.inode) {
            return Err(KeyError::Replaced(self.path.clone()));
        }
        let number: u64 = sys::random()
            .map(u64::from_ne_bytes)
            .map_err(KeyError::Random)?;
        let mut name = old.clone().into_os_string();
        name.push(format!(".{number:016x}"));
        let mut new = Written::new(name.into()).map_err(unwritable)?;
        write_out(&mut new.file, text).map_err(unwritable)?;
        new.give_to(&found).map_err(unwritable)?;
        std::fs::rename(&new.path, &old).map_err(unwritable)
    }

    fn unwritable(&self, source: io::Error) -> KeyError {
        KeyError::Unwritable {
            path: self.path.clone(),
            source,
        }
    }
}

/// The file of the public keys of all nodes ([`PublicKeys`]). Everybody may read it, but nobody
/// except its owner may be able to write it: root, or the user of the process.
#[derive(Clone, Debug)]
pub struct PublicKeysFile {
    path: PathBuf,
}

impl PublicKeysFile {
    /// Names a file, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its name.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As [`KeyFile::anchored`].
    pub(crate) fn anchored(&self) -> Self {
        Self::new(anchored(&self.path))
    }

    /// Reads the keys. Blocks for the file system.
    ///
    /// # Errors
    /// The file cannot be read, others could write it, it belongs neither to the user of this
    /// process nor to root, or a line is wrong.
    pub fn read(&self) -> Result<PublicKeys, KeyError> {
        self.read_stamped().map(|(keys, _)| keys)
    }

    /// Reads the keys, and the state of the file.
    pub(crate) fn read_stamped(&self) -> Result<(PublicKeys, Stamp), KeyError> {
        self.read_as(&Reader::own())
    }

    /// The same for a `reader`.
    fn read_as(&self, reader: &Reader) -> Result<(PublicKeys, Stamp), KeyError> {
        let path = || self.path.clone();
        let file = FileText::read(&self.path, LONGEST_PUBLIC)?;
        file.check_owner(&self.path, reader.user)?;
        let (text, mode) = (&*file.text, file.mode);
        if mode & OTHERS_WRITE != 0 {
            return Err(KeyError::WritableByOthers { path: path(), mode });
        }
        let wrong = |(line, problem)| KeyError::Text {
            path: path(),
            line: Some(line),
            problem,
        };
        // A line that was cut behind the key would permit all layers.
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(wrong((text.lines().count(), KeyTextError::Cut)));
        }
        Ok((PublicKeys::parse(text).map_err(wrong)?, file.stamp))
    }

    /// The state of the file; nothing if there is no such file now.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        Stamp::at(&self.path)
    }
}

/// The path from the root, or as it is if there is no present directory.
fn anchored(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The user and the groups for which a process acts.
struct Reader {
    user: u32,
    groups: Vec<u32>,
}

impl Reader {
    fn own() -> Self {
        let (user, groups) = (sys::user(), sys::groups());
        Self { user, groups }
    }

    /// Whether the process may get root's secrets by this group. Root itself does not need its own
    /// group for that: there the mode is a mistake.
    fn reads_by(&self, group: u32) -> bool {
        self.groups.contains(&group) && (self.user != ROOT || group != ROOT)
    }
}

/// The text of a file, and what the system says of the file.
struct FileText {
    text: Zeroizing<String>,
    stamp: Stamp,
    /// Its permission bits.
    mode: u32,
    /// The ID of its user.
    owner: u32,
    /// The ID of its group.
    group: u32,
}

impl FileText {
    fn read(path: &Path, (most, too_long): Longest) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let not_a_file = |is| KeyError::NotAFile {
            path: path.to_owned(),
            is,
        };
        // Does not wait for the other end of a pipe.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let file = options.open(path).map_err(unreadable)?;
        let info = file.metadata().map_err(unreadable)?;
        if !info.is_file() {
            return Err(not_a_file("no regular file"));
        }
        if info.size() > most {
            return Err(not_a_file(too_long));
        }
        // Room for all from the start: memory that a growing buffer leaves is not cleared.
        let room = usize::try_from(info.size()).unwrap_or(0);
        let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
        let read = file.take(info.size()).read_to_end(&mut bytes);
        read.map_err(unreadable)?;
        let not_text = || match bytes[..] {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "text in UTF-16, not in UTF-8",
            _ => "not text",
        };
        let text = std::str::from_utf8(&bytes).map_err(|_| not_a_file(not_text()))?;
        // Some editors begin files with an invisible mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Ok(Self {
            text: Zeroizing::new(text.to_owned()),
            stamp: Stamp::of(&info),
            mode: info.mode() & 0o7777,
            owner: info.uid(),
            group: info.gid(),
        })
    }

    /// Refuses a file that neither root nor `user`, for whom the process acts, owns: whoever owns a
    /// file can change it, whatever its mode says.
    fn check_owner(&self, path: &Path, user: u32) -> Result<(), KeyError> {
        let (path, owner) = (path.to_owned(), self.owner);
        match owner == ROOT || owner == user {
            true => Ok(()),
            false => Err(KeyError::OfOtherUser { path, owner, user }),
        }
    }
}

/// An open directory.
struct Directory(File);

impl Directory {
    /// Opens the directory of `file`.
    fn of(file: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        let path = file.parent().unwrap_or(Path::new("/"));
        options.open(path).map(Self)
    }

    /// The path of a file in this directory. It holds as long as the directory is open.
    fn at(&self, name: &OsStr) -> PathBuf {
        Path::new(&format!("/proc/self/fd/{}", self.0.as_raw_fd())).join(name)
    }
}

/// A file under a name for the time being, which goes away with this unless it was renamed.
struct Written {
    path: PathBuf,
    file: File,
}

impl Written {
    /// Makes a file that only its owner may read.
    fn new(path: PathBuf) -> io::Result<Self> {
        let file = create_new(&path)?;
        Ok(Self { path, file })
    }

    /// Gives the open file, not what its name leads to, to the owner of another one, with its mode.
    fn give_to(&self, other: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (other.uid(), other.gid()) {
            std::os::unix::fs::fchown(&self.file, Some(other.uid()), Some(other.gid()))?;
        }
        self.file.set_permissions(other.permissions())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Makes a file that only its owner may read.
fn create_new(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Writes the text of a file onto the disk.
fn write_out(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn scratch() -> (tempfile::TempDir, KeyFile) {
        let dir = tempfile::tempdir().unwrap();
        let file = KeyFile::new(dir.path().join("cluster.key"));
        (dir, file)
    }

    #[test]
    fn a_missing_file_of_public_keys_is_not_said_to_be_one_of_keygen() {
        let missing = PublicKeysFile::new("/nonexistent/public.keys").read();
        let said = missing.unwrap_err().to_string();
        assert!(said.starts_with("file /nonexistent/public.keys"), "{said}");
        assert!(said.contains("suci key public"), "{said}");
    }

    fn mode(file: &KeyFile) -> u32 {
        fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777
    }

    fn said(file: &KeyFile) -> String {
        let error = file.read().unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("suci-key-1 0"), "{shown}");
        error.to_string()
    }

    #[test]
    fn a_key_is_made_rotated_and_retired() {
        let (dir, file) = scratch();
        let first = file.create().unwrap();
        assert_eq!((file.read().unwrap(), mode(&file)), (first.clone(), 0o600));
        assert!(matches!(file.create(), Err(KeyError::Exists { .. })));
        assert!(matches!(file.retire(), Err(KeyError::Count { .. })));
        let both = file.rotate().unwrap();
        assert_eq!(both.second(), Some(first.first()));
        assert_eq!((file.read().unwrap(), mode(&file)), (both.clone(), 0o600));
        assert!(matches!(file.rotate(), Err(KeyError::Count { .. })));
        let last = file.retire().unwrap();
        assert_eq!((last.first(), last.second()), (both.first(), None));
        assert_eq!((file.read().unwrap(), mode(&file)), (last, 0o600));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn comments_stay_and_a_link_keeps_leading_to_the_file() {
        let (dir, file) = scratch();
        file.create().unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), format!("# rack 7\n\n{text}# the end\n")).unwrap();
        let link = KeyFile::new(dir.path().join("link"));
        std::os::unix::fs::symlink("cluster.key", link.path()).unwrap();
        let both = link.rotate().unwrap();
        assert_eq!(file.read().unwrap(), both);
        assert!(fs::symlink_metadata(link.path()).unwrap().is_symlink());
        link.retire().unwrap();
        let changed = fs::read_to_string(file.path()).unwrap();
        assert!(changed.starts_with("# rack 7\n\n# Keys") && changed.ends_with("# the end\n"));
    }

    #[test]
    fn a_file_that_others_can_read_or_write_is_refused_with_the_remedy() {
        let (_dir, file) = scratch();
        file.create().unwrap();
        for wrong in [0o644, 0o640, 0o604, 0o620, 0o602, 0o601] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(wrong)).unwrap();
            let said = said(&file);
            let chmod = format!("run `chmod 600 {}`", file.path().display());
            assert!(
                said.contains(&chmod) && said.contains(&format!("{wrong:04o}")),
                "{said}"
            );
            assert!(file.rotate().is_err());
        }
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o400)).unwrap();
        assert!(file.read().is_ok());
    }

    /// Gives a file to another user, where this process may, and returns the ID of its owner.
    fn give_away(path: &Path) -> u32 {
        let owner = sys::user().max(4711);
        match std::os::unix::fs::chown(path, Some(owner), None) {
            Ok(()) => owner,
            Err(_) => sys::user(),
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused_with_the_remedy() {
        let (dir, file) = scratch();
        file.create().unwrap();
        let public = PublicKeysFile::new(dir.path().join("public.keys"));
        let line = format!("1 {}\n", NodeKey::generate().unwrap().public());
        fs::write(&public.path, line).unwrap();
        let owner = give_away(&file.path);
        give_away(&public.path);
        for user in [owner + 1, ROOT] {
            let errors = [
                (file.read_as(&reader(user)).map(drop), &file.path),
                (public.read_as(&reader(user)).map(drop), &public.path),
            ];
            for (read, path) in errors {
                let said = read.unwrap_err().to_string();
                let path = path.display();
                for part in [
                    format!("{path} belongs to user {owner}"),
                    format!("this process runs as user {user}"),
                    format!("`chown {user} {path}`"),
                ] {
                    assert!(said.contains(&part), "{said}");
                }
            }
        }
        file.read_as(&reader(owner)).unwrap();
        public.read_as(&reader(owner)).unwrap();
        // Root looks after the files of others, which stay theirs.
        file.rotate().unwrap();
        file.read_of_any_user().unwrap();
        file.read_as(&reader(owner)).unwrap();
    }

    /// A process of `user` with no group of its own.
    fn reader(user: u32) -> Reader {
        let groups = Vec::new();
        Reader { user, groups }
    }

    /// As in the volume of a Kubernetes secret with fsGroup: mode 0440, root and that group.
    #[test]
    fn f36_a_group_of_the_process_may_read_a_file_of_root() {
        let (_dir, file) = scratch();
        let text = |owner, mode| FileText {
            text: Zeroizing::default(),
            stamp: Stamp::at(Path::new("/")).unwrap(),
            mode,
            owner,
            group: 2000,
        };
        let reader = |user, groups: &[u32]| Reader {
            user,
            groups: groups.to_vec(),
        };
        let allowed = |owner, mode, groups: &[u32]| {
            let reader = reader(4711, groups);
            let may_read = |group| reader.reads_by(group);
            file.check_mode(&text(owner, mode), may_read).is_ok()
        };
        assert!(reader(ROOT, &[ROOT, 2000]).reads_by(2000), "a pod of root");
        assert!(!reader(ROOT, &[ROOT, 2000]).reads_by(ROOT));
        assert!(reader(4711, &[ROOT]).reads_by(ROOT), "a pod of OpenShift");
        for mode in [0o440, 0o640] {
            assert!(allowed(ROOT, mode, &[1000, 2000]), "{mode:o}");
            assert!(!allowed(ROOT, mode, &[1000]), "{mode:o}: another group");
            assert!(
                !allowed(4711, mode, &[2000]),
                "{mode:o}: a user can mend it"
            );
        }
        for mode in [0o460, 0o450, 0o444, 0o442, 0o441] {
            assert!(!allowed(ROOT, mode, &[2000]), "{mode:o}");
        }
    }

    /// Nodes that read the file by its group find the new key, too.
    #[test]
    fn a_changed_file_keeps_its_mode() {
        let (_dir, file) = scratch();
        file.create().unwrap();
        // Only root's own may be for a group.
        let given = match std::os::unix::fs::chown(file.path(), None, Some(4712)) {
            Ok(()) if sys::user() == ROOT => 0o440,
            _ => 0o400,
        };
        fs::set_permissions(file.path(), fs::Permissions::from_mode(given)).unwrap();
        file.rotate().unwrap();
        assert_eq!(mode(&file), given);
        file.retire().unwrap();
        assert_eq!(mode(&file), given);
    }

    #[test]
    fn the_mark_of_an_editor_is_skipped_and_another_encoding_named() {
        let (_dir, file) = scratch();
        file.create().unwrap();
        let keys = file.read().unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        fs::write(file.path(), format!("\u{feff}{text}").replace('\n', "\r\n")).unwrap();
        assert_eq!(file.read().unwrap(), keys);
        let line = keys.first().to_secret_text();
        fs::write(file.path(), format!("\u{feff}{}", *line)).unwrap();
        assert_eq!(file.read().unwrap(), keys);
        let wide = text.encode_utf16().flat_map(u16::to_le_bytes);
        fs::write(
            file.path(),
            [0xff, 0xfe].into_iter().chain(wide).collect::<Vec<u8>>(),
        )
        .unwrap();
        let said = said(&file);
        assert!(
            said.contains("it is text in UTF-16, not in UTF-8"),
            "{said}"
        );
    }

    /// Root rotates a key in the directory of a user, who puts links in the place of names.
    #[test]
    fn names_that_change_meanwhile_lead_to_no_other_file() {
        let (dir, file) = scratch();
        file.create().unwrap();
        let path = |name: &str| dir.path().join(name);
        let link = |to: &str, name: &str| {
            let _ = fs::remove_file(path(name));
            std::os::unix::fs::symlink(path(to), path(name)).unwrap();
        };
        fs::write(path("victim"), "the victim's").unwrap();
        let victim = || {
            let owner = fs::metadata(path("victim")).unwrap().uid();
            (owner, fs::read_to_string(path("victim")).unwrap())
        };
        let untouched = victim();
        // The key file, once it was read.
        let read = file.text().unwrap();
        fs::rename(&file.path, path("moved")).unwrap();
        link("victim", "cluster.key");
        let said = file.replace("new", &read).unwrap_err().to_string();
        assert!(said.contains("another file took its place"), "{said}");
        // The new file, before it gets its owner.
        let new = Written::new(path("new")).unwrap();
        link("victim", "new");
        give_away(&path("moved"));
        let owner = fs::metadata(path("moved")).unwrap();
        new.give_to(&owner).unwrap();
        assert_eq!(new.file.metadata().unwrap().uid(), owner.uid());
        drop(new);
        assert_eq!(victim(), untouched);
        // The directory.
        fs::create_dir(path("sub")).unwrap();
        let sub = Directory::of(&path("sub/cluster.key")).unwrap();
        fs::rename(path("sub"), path("own")).unwrap();
        link(".", "sub");
        create_new(&sub.at("cluster.key".as_ref())).unwrap();
        assert!(path("own/cluster.key").exists());
    }

    #[test]
    fn a_file_of_root_is_for_all_its_readers() {
        let file = FileText {
            text: Zeroizing::default(),
            stamp: Stamp::at(Path::new("/")).unwrap(),
            mode: 0o400,
            owner: ROOT,
            group: ROOT,
        };
        assert!(file.check_owner(Path::new("/"), 4711).is_ok());
    }

    #[test]
    fn a_file_of_public_keys_that_was_cut_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = PublicKeysFile::new(dir.path().join("public.keys"));
        let key = crate::security::NodeKey::from_bytes(&[1; 32]).unwrap();
        let whole = format!("# all\n7 {} messages\n", key.public());
        fs::write(&file.path, &whole).unwrap();
        assert!(file.read().is_ok());
        for cut in [1, " messages\n".len()] {
            fs::write(&file.path, &whole[..whole.len() - cut]).unwrap();
            let said = file.read().unwrap_err().to_string();
            assert!(said.contains("line 2: the line does not end"), "{said}");
        }
    }

    #[test]
    fn what_is_no_key_file_is_refused() {
        let (dir, file) = scratch();
        assert!(said(&file).contains("No such file"));
        assert!(said(&KeyFile::new(dir.path())).contains("no regular file"));
        let pipe = dir.path().join("pipe");
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name ends with a null byte and outlives the call.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(said(&KeyFile::new(pipe)).contains("no regular file"));
        let key = |byte| ClusterKey::from_bytes(&[byte; 32]).to_secret_text();
        let (one, two, three) = (key(0x0a), key(0x0b), key(0x0c));
        for (text, part) in [
            (String::new(), "there is no key"),
            ("# nothing\n\n".into(), "there is no key"),
            (
                format!("#\n{}\n{}\n{}", *one, *two, *three),
                "line 4: this is a third",
            ),
            (
                format!("{}\n{} # again", *one, *one),
                "line 2: this is the same key again",
            ),
            (format!("{}\n\n{}0", *one, *two), "line 3: the key's ID"),
            ("x".repeat(70_000), "longer than 64 KiB"),
        ] {
            fs::write(file.path(), text).unwrap();
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
            let said = said(&file);
            assert!(said.contains(part), "{said}");
        }
        fs::write(file.path(), b"\xffkey").unwrap();
        assert!(said(&file).contains("not text"));
    }
}
