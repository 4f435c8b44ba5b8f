//! Handshake messages and sealed packets, by the real library: arbitrary bytes, and genuine ones
//! that were changed, are refused and change nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::Arc;
use suci::NodeId;
use suci::security::{Cipher, ClusterKey, Keyring, NodeKey, PublicKeys};
use suci_proto::security::{AEAD_TAG, Handshakes, Security};

const INIT: &[u8] = b"context of INIT";
const ACCEPT: &[u8] = b"context of ACCEPT";

/// The node at the other end, which is also this one: it knows its own key.
const PEER: NodeId = NodeId(1);

/// Handshakes with a cluster key, or with the key of a node.
fn makes(cipher: Cipher, of_node: bool) -> Arc<dyn Handshakes> {
    let security = if of_node {
        let own = NodeKey::from_bytes(&[7; 32]).unwrap();
        let public = PublicKeys::parse(&format!("{PEER} {}", own.public())).unwrap();
        public.security(PEER, &own.into(), cipher).unwrap()
    } else {
        Keyring::from(ClusterKey::from_bytes(&[7; 32])).security(cipher)
    };
    match security {
        Security::Sealed(makes) => makes,
        Security::Plain => unreachable!("keys seal"),
    }
}

/// Returns `genuine` with the bytes of `change` added from `at` on, and whether that differs.
fn changed(genuine: &[u8], at: u8, change: &[u8]) -> (Vec<u8>, bool) {
    let mut bytes = genuine.to_vec();
    let at = usize::from(at) % bytes.len();
    for (byte, with) in bytes.iter_mut().skip(at).zip(change) {
        *byte ^= with;
    }
    let differs = bytes != genuine;
    (bytes, differs)
}

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, at, cipher, low, high], rest)) = data.split_first_chunk::<5>() else {
        return;
    };
    let (cipher, of_node) = (Cipher::ALL[usize::from(cipher) % 3], cipher >= 128);
    let makes = makes(cipher, of_node);
    let mut first = vec![0; makes.message_len()];
    let mut initiator = makes.initiate(PEER, 0, INIT, &mut first).unwrap();
    if kind % 4 == 0 {
        assert!(makes.respond(PEER, rest, &first).is_err() || rest == INIT);
        assert!(makes.respond(PEER, INIT, rest).is_err());
        assert!(initiator.finish(ACCEPT, rest).is_err());
    }
    let (message, differs) = changed(&first, at, rest);
    assert_eq!(makes.respond(PEER, INIT, &message).is_err(), differs);
    if kind % 4 < 2 {
        return;
    }
    let mut second = vec![0; makes.message_len()];
    let responder = makes.respond(PEER, INIT, &first).unwrap();
    let mut theirs = responder.answer(ACCEPT, &mut second).unwrap();
    let (message, differs) = changed(&second, at, rest);
    if differs {
        assert!(initiator.finish(ACCEPT, &message).is_err());
    }
    let ours = initiator.finish(ACCEPT, &second).unwrap();
    if kind % 4 < 3 {
        return;
    }
    let (number, header) = (u64::from(low) | u64::from(high) << 56, [at; 16]);
    let mut sealed = vec![0; rest.len() + AEAD_TAG];
    theirs.seal.seal(number, &header, &[rest], &mut sealed);
    assert!(ours.open.open(number, &header, &mut rest.to_vec()).is_err());
    assert!(
        ours.open
            .open(number ^ 1, &header, &mut sealed.clone())
            .is_err()
    );
    let (mut packet, differs) = changed(&sealed, at, rest);
    assert_eq!(
        ours.open.open(number, &header, &mut packet).is_err(),
        differs
    );
    ours.open.open(number, &header, &mut sealed).unwrap();
    assert_eq!(&sealed[..rest.len()], rest);
});
