//! Key files of arbitrary bytes: texts that can be read hold the keys that their lines show, and no
//! error shows a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use suci::security::{ClusterKey, Keyring};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Keyring::parse(text) {
        Ok(keys) => {
            let lines: Vec<String> = keys
                .iter()
                .map(|key| key.to_secret_text().to_string())
                .collect();
            assert!(Keyring::parse(&lines.join("\n")) == Ok(keys));
        }
        Err((line, error)) => {
            let said = format!("{line:?} {error} {error:?}");
            let long = text.split_whitespace().filter(|word| word.len() >= 32);
            long.for_each(|word| assert!(!said.contains(word)));
        }
    }
    // A genuine line with one byte changed is never another key.
    if let [at, with, ..] = *data {
        let key = ClusterKey::from_bytes([0x5a; 32]);
        let mut line = key.to_secret_text().as_bytes().to_vec();
        let at = usize::from(at) % line.len();
        line[at] = with;
        let read = std::str::from_utf8(&line)
            .ok()
            .and_then(|line| line.parse::<ClusterKey>().ok());
        assert!(read.is_none_or(|read| read == key));
    }
});
