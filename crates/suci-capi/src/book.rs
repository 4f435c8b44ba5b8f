//! Address books.

use crate::error::{Failure, NOT_FOUND};
use crate::guard::guard;
use crate::handle::{BOOK, Handle};
use crate::table::{AtFork, Table};
use crate::{pointer, text};
use std::ffi::{c_char, c_int};
use suci::{AddressBook, NodeId};

static BOOKS: Table<AddressBook> = Table::new(BOOK, AtFork::Keep);

/// Keeps a book. Returns its handle.
pub(crate) fn insert(book: AddressBook) -> Result<Handle, Failure> {
    BOOKS.insert(book)
}

/// Returns a copy of a book.
pub(crate) fn copy(book: Handle) -> Result<AddressBook, Failure> {
    BOOKS.with(book, |book| Ok(book.clone()))
}

/// Makes an empty book.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_new(book: *mut Handle) -> c_int {
    guard(|| {
        pointer::output(book, "book")?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(book, insert(AddressBook::new())?) };
        Ok(())
    })
}

/// Makes a book from a file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_read(path: *const c_char, book: *mut Handle) -> c_int {
    guard(|| {
        pointer::output(book, "book")?;
        // SAFETY: as suci.h asks.
        let path = unsafe { text::required(path, "path") }?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(book, insert(AddressBook::read(path)?)?) };
        Ok(())
    })
}

/// Makes a book from a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_parse(
    text: *const c_char,
    source: *const c_char,
    book: *mut Handle,
) -> c_int {
    guard(|| {
        pointer::output(book, "book")?;
        // SAFETY: as suci.h asks.
        let text = unsafe { text::required(text, "text") }?;
        // SAFETY: as suci.h asks.
        let source = unsafe { text::required(source, "source") }?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(book, insert(AddressBook::parse(text, source)?)?) };
        Ok(())
    })
}

/// Enters a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_add(book: Handle, node: u32, address: *const c_char) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let address = unsafe { text::required(address, "address") }?;
        let address = text::numeric_address(address)?;
        BOOKS.with(book, |book| Ok(book.add(NodeId(node), address)?))
    })
}

/// Counts the entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_count(book: Handle, count: *mut usize) -> c_int {
    guard(|| {
        let length = BOOKS.with(book, |book| Ok(book.len()))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(count, length, "count") }
    })
}

fn no_entry(index: usize) -> Failure {
    let text = format!("the book has no entry {index}: count from 0");
    Failure::new(NOT_FOUND, text)
}

/// Gives the node of an entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_entry(book: Handle, index: usize, node: *mut u32) -> c_int {
    guard(|| {
        let entry = BOOKS.with(book, |book| Ok(book.iter().nth(index)))?;
        let (id, _) = entry.ok_or_else(|| no_entry(index))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(node, id.0, "node") }
    })
}

/// Gives an address of a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_address(
    book: Handle,
    node: u32,
    index: usize,
    address: *mut c_char,
) -> c_int {
    guard(|| {
        let found = BOOKS.with(book, |book| {
            Ok(book.addresses(NodeId(node)).get(index).copied())
        })?;
        let missing = || {
            let text = format!("the book has no address {index} of node {node}: count from 0");
            Failure::new(NOT_FOUND, text)
        };
        // SAFETY: as suci.h asks.
        unsafe { text::give_address(found.ok_or_else(missing)?, address) }
    })
}

/// Gives the text of a book.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_text(
    book: Handle,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        let shown = BOOKS.with(book, |book| Ok(book.to_string()))?;
        // SAFETY: as suci.h asks.
        unsafe { text::give(&shown, text, size, length) }
    })
}

/// Gives a book back.
pub(crate) fn free(book: Handle) -> Result<(), Failure> {
    BOOKS.remove(book, |_| Ok(())).map(drop)
}

/// Frees a book.
#[unsafe(no_mangle)]
pub extern "C" fn suci_book_free(book: Handle) -> c_int {
    guard(|| free(book))
}
