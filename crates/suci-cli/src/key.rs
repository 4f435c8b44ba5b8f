//! `suci keygen` and `suci key`: making, comparing and changing the keys of a cluster and of nodes.

use std::path::Path;
use std::process::ExitCode;

use suci::security::{ClusterKey, KeyError, KeyFile, KeyTextError, Keyring, NodeKey, SecretKey};

use crate::args::{KeyAction, KeyArgs, KeygenArgs};
use crate::error::{Failure, Result, print};

impl From<KeyError> for Failure {
    fn from(error: KeyError) -> Self {
        Self::new(error.to_string())
    }
}

/// A file of either kind, and its keys.
enum AnyFile {
    Cluster(KeyFile, Keyring<ClusterKey>),
    Node(KeyFile<NodeKey>, Keyring<NodeKey>),
}

impl AnyFile {
    /// Reads a file, whose text says of which kind it is.
    fn read(path: &Path) -> Result<Self> {
        let cluster = KeyFile::new(path);
        let is_other = |problem: &KeyTextError| matches!(problem, KeyTextError::Prefix(_));
        match cluster.read_of_any_user() {
            Ok(keys) => Ok(Self::Cluster(cluster, keys)),
            Err(KeyError::Text { problem, .. }) if is_other(&problem) => {
                let node = KeyFile::of_node(path);
                let keys = node.read_of_any_user()?;
                Ok(Self::Node(node, keys))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes a file with a new key.
pub(crate) fn keygen(args: &KeygenArgs) -> Result<ExitCode> {
    match args.node {
        true => keygen_of_node(&args.file)?,
        false => keygen_of_cluster(&args.file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn keygen_of_cluster(path: &Path) -> Result<()> {
    let keys = KeyFile::new(path).create()?;
    let file = path.display();
    print(format_args!(
        "key {} is in {file}, which you alone can read.\n\
         Copy the file to each machine of the cluster, for its user alone (mode 600), for example\n\
         \x20 scp -p {file} HOST:{file}\n\
         Nodes take the key from it where the environment has\n\
         \x20 SUCI_KEY_FILE={}",
        keys.first().id(),
        absolute(path),
    ))
}

fn keygen_of_node(path: &Path) -> Result<()> {
    let keys = KeyFile::of_node(path).create()?;
    let file = path.display();
    print(format_args!(
        "key {} of one node is in {file}, which you alone can read.\n\
         Enter its public key into the file of public keys, which every node needs, for node 7:\n\
         \x20 suci key public --id 7 {file} >> public.keys\n\
         The node takes both where its environment has\n\
         \x20 SUCI_NODE_KEY_FILE={}\n\
         \x20 SUCI_PUBLIC_KEYS_FILE=the path of public.keys",
        keys.first().id(),
        absolute(path),
    ))
}

/// Does with a key file what `args` ask for.
pub(crate) fn run(args: &KeyArgs) -> Result<ExitCode> {
    match &args.action {
        KeyAction::Show { file } => match AnyFile::read(file)? {
            AnyFile::Cluster(_, keys) => show(&keys)?,
            AnyFile::Node(_, keys) => show(&keys)?,
        },
        KeyAction::Public { id, file } => {
            for key in KeyFile::of_node(file).read_of_any_user()?.iter() {
                print(format_args!("{id} {}", key.public()))?;
            }
        }
        KeyAction::Rotate { file } => match AnyFile::read(file)? {
            AnyFile::Cluster(cluster, _) => rotate_cluster(&cluster)?,
            AnyFile::Node(node, _) => rotate_node(&node)?,
        },
        KeyAction::Retire { file } => match AnyFile::read(file)? {
            AnyFile::Cluster(cluster, _) => retire_cluster(&cluster)?,
            AnyFile::Node(node, _) => retire_node(&node)?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn show<K: SecretKey>(keys: &Keyring<K>) -> Result<()> {
    print(format_args!("{} used", keys.first().id()))?;
    match keys.second() {
        Some(second) => print(format_args!("{} accepted", second.id())),
        None => Ok(()),
    }
}

/// Returns the IDs of the new key and the old one.
fn rotated<K: SecretKey>(keys: &Keyring<K>) -> (suci::security::KeyId, suci::security::KeyId) {
    let new = keys.first().id();
    (new, keys.second().map_or(new, SecretKey::id))
}

fn rotate_cluster(file: &KeyFile) -> Result<()> {
    let (new, old) = rotated(&file.rotate()?);
    let file = file.path().display();
    print(format_args!(
        "new key {new} is in {file}; the old key {old} is still accepted.\n\
         1. Copy the file to each machine of the cluster. Running nodes notice within seconds and\n\
         \x20  change to the new key; no message is lost. `suci key show {file}` on each machine shows\n\
         \x20  that it has both.\n\
         2. Once every machine has it, on one of them run\n\
         \x20  suci key retire {file}\n\
         \x20  and copy the file again. From then on the old key opens nothing."
    ))
}

fn rotate_node(file: &KeyFile<NodeKey>) -> Result<()> {
    let (new, old) = rotated(&file.rotate()?);
    let file = file.path().display();
    print(format_args!(
        "new key {new} is in {file}; the node goes on with the old key {old} until its file of public\n\
         keys has the new one, too.\n\
         1. `suci key public --id NODE {file}` prints the line of the new key first. Enter it beside\n\
         \x20  the old one, in the file of public keys of every node. Running nodes notice within\n\
         \x20  seconds; no message is lost.\n\
         2. Then run\n\
         \x20  suci key retire {file}\n\
         \x20  and take the old line out of the file of public keys of every node."
    ))
}

fn retire_cluster(file: &KeyFile) -> Result<()> {
    let keys = file.retire()?;
    let (key, file) = (keys.first().id(), file.path().display());
    print(format_args!(
        "{file} holds only key {key} now. Copy it to each machine of the cluster: a node takes the\n\
         old key until it has this file."
    ))
}

fn retire_node(file: &KeyFile<NodeKey>) -> Result<()> {
    let keys = file.retire()?;
    let (key, file) = (keys.first().id(), file.path().display());
    print(format_args!(
        "{file} holds only key {key} now. Take the old line out of the file of public keys of every\n\
         node: a node takes the old key until its file has that line no more."
    ))
}

/// The path from the root, since a variable of the environment is used in other directories, too.
fn absolute(path: &Path) -> String {
    let full = std::path::absolute(path);
    full.map_or_else(
        |_| path.display().to_string(),
        |full| full.display().to_string(),
    )
}
