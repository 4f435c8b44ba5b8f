//! Address books of arbitrary text: a book that can be read says what its own text says again, each
//! of its nodes has an address, and no address belongs to two nodes. Texts with names are left out,
//! which the system would look up.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::net::SocketAddr;
use suci::AddressBook;

/// Whether reading `text` may look up a name.
fn has_name(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '#');
    words.any(|word| {
        let bare = word.replace(['[', ']'], "");
        let port = bare.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        matches!(port, Some(Ok(_))) && word.parse::<SocketAddr>().is_err()
    })
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if has_name(text) {
        return;
    }
    let Ok(book) = AddressBook::parse(text, "text") else {
        return;
    };
    let again = AddressBook::parse(&book.to_string(), "its text");
    assert!(again.is_ok_and(|again| again == book));
    let mut all: Vec<SocketAddr> = book.iter().map(|(_, address)| address).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), book.len());
    for (node, address) in book.iter() {
        assert_eq!(book.get(node), Some(address));
        let vias = book.route(node).unwrap_or_default();
        assert!(!vias.contains(&node));
    }
});
