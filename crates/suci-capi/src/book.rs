//! Address books. They are used seldom, so one lock for all suffices.

use crate::error::{BUSY, Failure, NOT_FOUND};
use crate::guard::guard;
use crate::handle::{self, BOOK, Handle};
use crate::{pointer, text};
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::sync::{LazyLock, Mutex, PoisonError};
use suci::{AddressBook, NodeId};

/// The most books at a time: as many as an index can tell apart.
const MOST: usize = 1 << 24;

struct Books {
    /// Books by index, each with its generation.
    books: HashMap<u32, (u32, AddressBook)>,
    generation: u32,
    last: u32,
    forks: u32,
}

static BOOKS: LazyLock<Mutex<Books>> = LazyLock::new(|| {
    Mutex::new(Books {
        books: HashMap::new(),
        generation: handle::first_generation(),
        last: 0,
        forks: handle::forks(),
    })
});

/// Runs `work` on all books.
fn with_books<T>(work: impl FnOnce(&mut Books) -> Result<T, Failure>) -> Result<T, Failure> {
    let forks = handle::forks();
    // A thread of the parent may have held the lock at the fork: a child that cannot have it is
    // told, and does not wait.
    let mut books = match BOOKS.try_lock() {
        Ok(books) => books,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) if forks > 0 => return Err(handle::forked()),
        Err(std::sync::TryLockError::WouldBlock) => {
            BOOKS.lock().unwrap_or_else(PoisonError::into_inner)
        }
    };
    if books.forks != forks {
        // The parent's handles are none of this process.
        books.books.clear();
        books.forks = forks;
    }
    work(&mut books)
}

/// Runs `work` on a book.
fn with_book<T>(
    book: Handle,
    work: impl FnOnce(&mut AddressBook) -> Result<T, Failure>,
) -> Result<T, Failure> {
    with_books(|books| {
        let (generation, index) = book.parts(BOOK).ok_or_else(|| handle::no_handle(book.id))?;
        let entry = books.books.get_mut(&(index as u32));
        match entry {
            Some((known, entry)) if *known == generation => work(entry),
            _ => Err(handle::no_handle(book.id)),
        }
    })
}

/// Keeps a book. Returns its handle.
pub(crate) fn insert(book: AddressBook) -> Result<Handle, Failure> {
    with_books(|books| {
        if books.books.len() >= MOST / 2 {
            return Err(Failure::new(
                BUSY,
                "this process has 8388608 books: free one",
            ));
        }
        while books.books.contains_key(&books.last) {
            books.last = (books.last + 1) % MOST as u32;
        }
        books.generation = handle::next_generation(books.generation);
        let (generation, index) = (books.generation, books.last);
        books.books.insert(index, (generation, book));
        Ok(Handle::new(generation, BOOK, index))
    })
}

/// Returns a copy of a book.
pub(crate) fn copy(book: Handle) -> Result<AddressBook, Failure> {
    with_book(book, |book| Ok(book.clone()))
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
        with_book(book, |book| Ok(book.add(NodeId(node), address)?))
    })
}

/// Counts the entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_book_count(book: Handle, count: *mut usize) -> c_int {
    guard(|| {
        let length = with_book(book, |book| Ok(book.len()))?;
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
        let entry = with_book(book, |book| Ok(book.iter().nth(index)))?;
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
        let found = with_book(book, |book| {
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
        let shown = with_book(book, |book| Ok(book.to_string()))?;
        // SAFETY: as suci.h asks.
        unsafe { text::give(&shown, text, size, length) }
    })
}

/// Gives a book back.
pub(crate) fn free(book: Handle) -> Result<(), Failure> {
    with_book(book, |_| Ok(()))?;
    with_books(|books| {
        let index = book.parts(BOOK).map(|(_, index)| index as u32);
        drop(index.and_then(|index| books.books.remove(&index)));
        Ok(())
    })
}

/// Frees a book.
#[unsafe(no_mangle)]
pub extern "C" fn suci_book_free(book: Handle) -> c_int {
    guard(|| free(book))
}
