//! One file to all nodes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use suci::{Bytes, Error, NodeId, OutgoingMessage};

use super::{Cluster, PATIENCE, peak_memory};
use crate::error::{Context, Failure, Result, print};

/// A part of the file; its end, with its length; and the meeting after it.
const PART: u64 = 3;
const END: u64 = 4;
const WRITTEN: u64 = 5;

/// Bytes per message: short enough to need no asking first.
const CHUNK: usize = 256 << 10;

/// Resident bytes of the sender allowed beyond the file itself.
const ALLOWANCE: u64 = 64 << 20;

/// Checks that the file can be read and copies can be written. Every process checks both, so that
/// none waits for another that has ended because of it.
pub(super) fn check(file: &Path, into: &Path) -> Result<()> {
    let name = file.display();
    let remedy = "name a regular file that can be read with --file";
    let trouble = |error| Failure::new(format!("{name}: {error}; {remedy}"));
    // Checked before opening: opening waits for ever with some files that are not regular.
    if !std::fs::metadata(file).map_err(trouble)?.is_file() {
        return Err(Failure::new(format!("{name} is no regular file: {remedy}")));
    }
    File::open(file).map_err(trouble)?;
    tempfile::tempfile_in(into).map_err(|error| {
        let (name, remedy) = (into.display(), "name a directory to write to with --into");
        Failure::new(format!("{name}: {error}; {remedy}"))
    })?;
    Ok(())
}

pub(super) fn run(cluster: &mut Cluster, file: &Path, into: &Path) -> Result<()> {
    if cluster.node.id() == NodeId(0) {
        send(cluster, file)
    } else {
        receive(cluster, into)
    }
}

fn send(cluster: &mut Cluster, file: &Path) -> Result<()> {
    let before = cluster.node.counters()?.payload_copied;
    let bytes = Bytes::from(std::fs::read(file).context(file.display())?);
    let (begun, total) = (Instant::now(), bytes.len());
    let mut at = 0;
    while at < total {
        let part = bytes.slice(at..total.min(at + CHUNK));
        at += part.len();
        to_all(cluster, &OutgoingMessage::new(part).tag(PART))?;
    }
    let copied = cluster
        .node
        .counters()?
        .payload_copied
        .saturating_sub(before);
    to_all(cluster, &OutgoingMessage::new(total.to_string()).tag(END))?;
    cluster.meet(WRITTEN, 0)?;
    let seconds = begun.elapsed().as_secs_f64();
    let (peak, total) = (peak_memory()?, u64::try_from(total).unwrap_or(u64::MAX));
    let (receivers, mib) = (cluster.peers.len(), total >> 20);
    print(format_args!(
        "node 0: {mib} MiB to {receivers} others in {seconds:.2} s, written out by each of them"
    ))?;
    print(format_args!(
        "node 0: {copied} payload bytes copied by the sending side, {} MiB resident at most",
        peak >> 20
    ))?;
    // The last part may be short, and short messages are copied.
    let short = (bytes.len() % CHUNK).saturating_mul(cluster.peers.len());
    if copied > u64::try_from(short).unwrap_or(u64::MAX) {
        return Err(Failure::new(format!(
            "{copied} payload bytes were copied, at most {short} should be: a bug"
        )));
    }
    if peak >= total.saturating_add(ALLOWANCE) {
        let limit = total.saturating_add(ALLOWANCE);
        return Err(Failure::new(format!(
            "{peak} bytes resident, less than {limit} should be: a bug"
        )));
    }
    Ok(())
}

/// Offers a message to all. A peer without room now gets it when there is some.
fn to_all(cluster: &mut Cluster, draft: &OutgoingMessage) -> Result<()> {
    let peers = cluster.peers.clone();
    for (peer, sent) in cluster.node.broadcast(&peers, draft.clone())? {
        match sent {
            Ok(_) => {}
            Err(Error::WouldBlock { message, .. }) => {
                cluster.node.send_timeout(peer, *message, PATIENCE)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn receive(cluster: &mut Cluster, into: &Path) -> Result<()> {
    let path = into.join(format!("copy-{}", cluster.node.id()));
    let what = path.display();
    let mut copy = BufWriter::new(File::create(&path).context(what.to_string())?);
    let (mut written, mut heard) = (0_usize, Instant::now());
    loop {
        let Some(message) = cluster.node.try_recv()? else {
            cluster.wait(heard + PATIENCE)?;
            continue;
        };
        heard = Instant::now();
        match message.tag {
            PART => {
                copy.write_all(&message.payload).context(what.to_string())?;
                written = written.saturating_add(message.payload.len());
            }
            END if message.payload == written.to_string() => break,
            tag => {
                let from = message.from;
                return Err(Failure::new(format!(
                    "after {written} bytes, tag {tag} from node {from}: a bug"
                )));
            }
        }
    }
    copy.flush().context(what.to_string())?;
    cluster.meet(WRITTEN, 0)
}
