//! Reading a host table from a `FILE *`.

use crate::error::{ERRNO_BIT, Failure};
use std::io;
use std::path::PathBuf;
use suci::AddressBook;

/// The longest table: far more than all nodes that a socket can know.
const MOST: usize = 256 << 20;

/// Bytes per call.
const AT_ONCE: usize = 64 << 10;

/// Reads from the position of `file` to its end.
///
/// # Safety
/// If `file` is not null, it is a stream that is open for reading.
pub(super) unsafe fn read(file: *mut libc::FILE) -> Result<AddressBook, Failure> {
    if file.is_null() {
        return Err(Failure::argument(
            "fp is null: open the file of the host table first",
        ));
    }
    // SAFETY: the caller's promise, here and below.
    let name = name_of(unsafe { libc::fileno(file) });
    let mut text = Vec::new();
    loop {
        let before = text.len();
        text.resize(before + AT_ONCE, 0);
        // SAFETY: as above; there is room for `AT_ONCE` bytes behind the first `before`.
        let got = unsafe { libc::fread(text.as_mut_ptr().add(before).cast(), 1, AT_ONCE, file) };
        text.truncate(before.saturating_add(got));
        if got == 0 {
            break;
        }
        if text.len() > MOST {
            return Err(Failure::argument(format!(
                "{name} is longer than {MOST} bytes"
            )));
        }
    }
    // SAFETY: as above.
    if unsafe { libc::ferror(file) } != 0 {
        let source = io::Error::last_os_error();
        let code = ERRNO_BIT | source.raw_os_error().unwrap_or(libc::EIO);
        return Err(Failure::new(code, format!("reading {name}: {source}")));
    }
    let text = String::from_utf8(text)
        .map_err(|_| Failure::argument(format!("{name} is no text in UTF-8: name a host table")))?;
    Ok(AddressBook::parse(&text, &name)?)
}

/// Returns the name of an open file, for messages.
fn name_of(descriptor: i32) -> String {
    let link = PathBuf::from(format!("/proc/self/fd/{descriptor}"));
    match std::fs::read_link(link) {
        Ok(name) if name.is_absolute() => name.display().to_string(),
        _ => "the host table".into(),
    }
}
