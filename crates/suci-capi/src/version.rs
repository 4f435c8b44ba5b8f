//! The version of the library that runs.

use std::ffi::{CStr, c_char};

/// The version as text.
const TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("cargo's version has no null byte"),
    };

/// The number that the decimal digits of `text` make.
const fn number(text: &str) -> u32 {
    let (bytes, mut at, mut number) = (text.as_bytes(), 0, 0);
    while at < bytes.len() {
        number = number * 10 + (bytes[at] - b'0') as u32;
        at += 1;
    }
    number
}

/// `suci_version`.
#[unsafe(no_mangle)]
pub extern "C" fn suci_version() -> *const c_char {
    TEXT.as_ptr()
}

/// `suci_version_number`.
#[unsafe(no_mangle)]
pub extern "C" fn suci_version_number() -> u32 {
    const NUMBER: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) << 16
        | number(env!("CARGO_PKG_VERSION_MINOR")) << 8
        | number(env!("CARGO_PKG_VERSION_PATCH"));
    NUMBER
}
