//! Prints what the cipher of sealed mode alone takes for a byte, to seal and to open it: in ns,
//! which are seconds for a GB; and the cipher's name. It measures packets of MTU 1500, under the
//! cipher that nodes of this machine choose.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use suci::security::{Cipher, ClusterKey, Keyring};
use suci_proto::security::{AEAD_TAG, Security};
use suci_proto::types::NodeId;

/// A cluster key is that of all nodes.
const PEER: NodeId = NodeId(0);

/// Bytes of a packet behind its header, and before its tag.
const BODY: usize = 1_440;

/// Packets of one round; the median of [`ROUNDS`] is printed.
const PACKETS: u64 = 20_000;
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let keys = Keyring::from(ClusterKey::from_bytes(&[1; 32]));
    let Security::Sealed(makes) = keys.security(Cipher::fastest()) else {
        return Err("a keyring seals".into());
    };
    let (mut first, mut second) = (vec![0; makes.message_len()], vec![0; makes.message_len()]);
    let mut initiator = makes.initiate(PEER, 0, b"INIT", &mut first)?;
    let mut theirs = makes
        .respond(PEER, b"INIT", &first)?
        .answer(b"ACCEPT", &mut second)?;
    let ours = initiator.finish(b"ACCEPT", &second)?;
    let (body, header) = ([7; BODY], [0x10; 16]);
    let mut sealed = vec![0; BODY + AEAD_TAG];
    let mut rounds = Vec::new();
    let mut number = 0;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..PACKETS {
            theirs.seal.seal(number, &header, &[&body], &mut sealed);
            ours.open.open(number, &header, black_box(&mut sealed))?;
            number += 1;
        }
        let bytes = PACKETS as f64 * BODY as f64;
        rounds.push(begun.elapsed().as_secs_f64() * 1e9 / bytes);
    }
    rounds.sort_by(f64::total_cmp);
    let median = rounds.get(ROUNDS / 2).ok_or("no round")?;
    println!("{median:.4} {}", Cipher::fastest());
    Ok(())
}
