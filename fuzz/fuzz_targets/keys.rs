//! Key files and files of public keys of arbitrary bytes: texts that can be read hold the keys that
//! their lines show, and no error shows a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use suci::NodeId;
use suci::security::{ClusterKey, Keyring, NodeKey, PublicKeys};

/// Files of public keys: a text that can be read says what its own text says again, no node has
/// more than two keys, and no key belongs to two nodes.
fn public_keys(text: &str) {
    let _ = Keyring::<NodeKey>::parse(text);
    let Ok(keys) = PublicKeys::parse(text) else {
        return;
    };
    assert!(PublicKeys::parse(&keys.to_string()) == Ok(keys.clone()));
    let nodes: Vec<NodeId> = keys.nodes().collect();
    let mut all: Vec<_> = nodes.iter().flat_map(|node| keys.of(*node)).collect();
    assert!(
        nodes
            .iter()
            .all(|node| (1..=2).contains(&keys.of(*node).len()))
    );
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    public_keys(text);
    match Keyring::<ClusterKey>::parse(text) {
        Ok(keys) => {
            let lines: Vec<String> = keys
                .iter()
                .map(|key| key.to_secret_text().to_string())
                .collect();
            assert!(Keyring::<ClusterKey>::parse(&lines.join("\n")) == Ok(keys));
        }
        Err((line, error)) => {
            let said = format!("{line:?} {error} {error:?}");
            let long = text.split_whitespace().filter(|word| word.len() >= 32);
            long.for_each(|word| assert!(!said.contains(word)));
        }
    }
    // A genuine line with one byte changed is never another key.
    if let [at, with, ..] = *data {
        let key = ClusterKey::from_bytes(&[0x5a; 32]);
        let mut line = key.to_secret_text().as_bytes().to_vec();
        let at = usize::from(at) % line.len();
        line[at] = with;
        let read = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| line.parse::<ClusterKey>().ok());
        assert!(read.is_none_or(|read| read == key));
    }
});
