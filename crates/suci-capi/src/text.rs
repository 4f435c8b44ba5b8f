//! Texts from and to C.

use crate::error::{ADDRESS, Failure};
use crate::pointer;
use std::ffi::{CStr, c_char};
use std::net::SocketAddr;
use suci::{AddressBook, NodeId};

/// `SUCI_ADDRESS_SIZE`.
pub(crate) const ADDRESS_SIZE: usize = 64;

/// An address as text, with its null byte.
pub(crate) type AddressText = [u8; ADDRESS_SIZE];

/// Returns a text, if there is one.
///
/// # Safety
/// If `text` is not null, it points to bytes that end with a null byte and live for `'a`, and
/// nothing changes them meanwhile.
pub(crate) unsafe fn optional<'a>(
    text: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Failure> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let wrong = |_| Failure::argument(format!("{name} is no text in UTF-8: pass one"));
    text.to_str().map(Some).map_err(wrong)
}

/// Returns a text that must be there.
///
/// # Safety
/// As [`optional`].
pub(crate) unsafe fn required<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { optional(text, name) }?;
    text.ok_or_else(|| Failure::argument(format!("{name} is null: pass a text")))
}

/// Writes a text as far as there is room, with a null byte, and its full length.
///
/// # Safety
/// If `to` is not null, `size` bytes may be written there; if `length` is not null, a number.
pub(crate) unsafe fn give(
    text: &str,
    to: *mut c_char,
    size: usize,
    length: *mut usize,
) -> Result<(), Failure> {
    pointer::check_length::<u8>(size, "text")?;
    if let Some(room) = size.checked_sub(1) {
        pointer::output(to, "text")?;
        let shown = text.floor_char_boundary(room);
        // SAFETY: `shown` is less than `size`, and at most the length of the text.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), shown);
            to.add(shown).write(0);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { pointer::put(length, text.len()) };
    Ok(())
}

/// Returns an address as text; empty without one.
pub(crate) fn address_text(address: Option<SocketAddr>) -> AddressText {
    let mut text = [0; ADDRESS_SIZE];
    let shown = address
        .map(|address| address.to_string())
        .unwrap_or_default();
    // The longest has 58 bytes; the last byte stays null.
    for (to, from) in text.iter_mut().take(ADDRESS_SIZE - 1).zip(shown.bytes()) {
        *to = from;
    }
    text
}

/// Writes an address to `to`.
///
/// # Safety
/// If `to` is not null, [`ADDRESS_SIZE`] bytes may be written there.
pub(crate) unsafe fn give_address(address: SocketAddr, to: *mut c_char) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer::give(to.cast(), address_text(Some(address)), "address") }
}

/// Returns the address that a numeric text names.
pub(crate) fn numeric_address(text: &str) -> Result<SocketAddr, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // A zone of an IPv6 address may be a name.
    if text.contains('%') {
        return named_address(text);
    }
    Err(Failure::new(
        ADDRESS,
        format!(
            "\"{text}\" is no address: write 192.0.2.7:4000 or [2001:db8::7]:4000; for host names use a book"
        ),
    ))
}

/// Returns the first address that a text names, by number or by a name that is resolved now.
pub(crate) fn named_address(text: &str) -> Result<SocketAddr, Failure> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let entry = |text: &str| {
        let book = AddressBook::parse(&format!("0 {text}"), "the address").ok()?;
        book.get(NodeId(0))
    };
    let one_word = !text.contains(char::is_whitespace) && !text.contains('#');
    let found = one_word.then(|| entry(text)).flatten();
    found.ok_or_else(|| {
        let problem = "is no address that can be used: write address:port, as in 192.0.2.7:4000, [2001:db8::7]:4000 or name:4000";
        Failure::new(ADDRESS, format!("\"{text}\" {problem}"))
    })
}
