//! The environment variables of OpenSHMEM.

use std::env;

/// Bytes of the symmetric heap.
const SYMMETRIC_SIZE: &str = "SHMEM_SYMMETRIC_SIZE";
/// Prints the version at the beginning, if it is set.
const VERSION: &str = "SHMEM_VERSION";
/// Prints the settings at the beginning, if it is set.
const INFO: &str = "SHMEM_INFO";

/// The heap's bytes unless the variable says otherwise. Memory that is never written costs nothing.
const DEFAULT_HEAP: usize = 512 << 20;

/// A size that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{SYMMETRIC_SIZE} is {0}, which is no size: set it to a number of bytes above 0, with k, m, g or t behind it for powers of 1,024, or unset it"
)]
pub(crate) struct WrongSize(String);

/// The bytes of the heap.
pub(crate) fn heap_size() -> Result<usize, WrongSize> {
    match env::var_os(SYMMETRIC_SIZE) {
        None => Ok(DEFAULT_HEAP),
        Some(value) => {
            let value = value.to_string_lossy();
            size(&value).ok_or_else(|| WrongSize(value.into_owned()))
        }
    }
}

/// Reads a number, possibly with a fraction, and a unit.
fn size(text: &str) -> Option<usize> {
    let text = text.trim();
    let text = text.strip_suffix(['b', 'B']).unwrap_or(text);
    let (number, shift) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (text.get(..at)?, 10),
        (at, 'm' | 'M') => (text.get(..at)?, 20),
        (at, 'g' | 'G') => (text.get(..at)?, 30),
        (at, 't' | 'T') => (text.get(..at)?, 40),
        _ => (text, 0),
    };
    let number: f64 = number.trim().parse().ok()?;
    let bytes = number * f64::from(2).powi(shift);
    // Beyond 2^47 no process has addresses, and below it a double names every byte.
    (bytes >= 1.0 && bytes < f64::from(2).powi(47)).then_some(bytes as usize)
}

/// Prints what the variables ask for.
pub(crate) fn print(heap: usize) {
    if env::var_os(VERSION).is_some() || env::var_os(INFO).is_some() {
        println!("OpenSHMEM 1.5, Suci {}", env!("CARGO_PKG_VERSION"));
    }
    if env::var_os(INFO).is_some() {
        println!("{SYMMETRIC_SIZE}={heap}: bytes of the symmetric heap");
        println!("{VERSION}, {INFO}: print these lines");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4_096),
            ("2k", 2_048),
            ("1.5M", 3 << 19),
            (" 1 gb", 1 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "0", "-1", "k", "NaN", "inf", "1x", "1e30", "nonsense"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
