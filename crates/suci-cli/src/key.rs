//! `suci keygen` and `suci key`: making, comparing and changing the keys of a cluster.

use std::path::Path;
use std::process::ExitCode;

use suci::security::KeyFile;

use crate::args::{KeyAction, KeyArgs, KeygenArgs};
use crate::error::{Failure, Result, print};

impl From<suci::security::KeyError> for Failure {
    fn from(error: suci::security::KeyError) -> Self {
        Self::new(error.to_string())
    }
}

/// Makes a file with a new key.
pub(crate) fn keygen(args: &KeygenArgs) -> Result<ExitCode> {
    let keys = KeyFile::new(&args.file).create()?;
    let file = args.file.display();
    print(format_args!(
        "key {} is in {file}, which you alone can read.\n\
         Copy the file to each machine of the cluster, for its user alone (mode 600), for example\n\
         \x20 scp -p {file} HOST:{file}\n\
         Nodes take the key from it where the environment has\n\
         \x20 SUCI_KEY_FILE={}",
        keys.first().id(),
        absolute(&args.file),
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Does with a key file what `args` ask for.
pub(crate) fn run(args: &KeyArgs) -> Result<ExitCode> {
    match &args.action {
        KeyAction::Show { file } => show(file)?,
        KeyAction::Rotate { file } => rotate(file)?,
        KeyAction::Retire { file } => retire(file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(path: &Path) -> Result<()> {
    let keys = KeyFile::new(path).read()?;
    print(format_args!("{} used", keys.first().id()))?;
    match keys.second() {
        Some(second) => print(format_args!("{} accepted", second.id())),
        None => Ok(()),
    }
}

fn rotate(path: &Path) -> Result<()> {
    let keys = KeyFile::new(path).rotate()?;
    let (new, file) = (keys.first().id(), path.display());
    let old = keys.second().map_or(new, |old| old.id());
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

fn retire(path: &Path) -> Result<()> {
    let keys = KeyFile::new(path).retire()?;
    let (key, file) = (keys.first().id(), path.display());
    print(format_args!(
        "{file} holds only key {key} now. Copy it to each machine of the cluster: a node takes the\n\
         old key until it has this file."
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
