//! Headers of active messages, made of arbitrary bytes: those that can be read are written again as
//! they were.
#![no_main]

use libfuzzer_sys::fuzz_target;
use suci_layers::ActiveHeader;

fuzz_target!(|data: &[u8]| {
    if let Some(header) = ActiveHeader::read(data) {
        assert_eq!(header.write(), data);
    }
});
