//! The environment variables of OpenSHMEM.

use std::env;
use std::time::Duration;

/// Bytes of the symmetric heap.
const SYMMETRIC_SIZE: &str = "SHMEM_SYMMETRIC_SIZE";
/// Prints the version at the beginning, if it is set.
const VERSION: &str = "SHMEM_VERSION";
/// Prints the settings at the beginning, if it is set.
const INFO: &str = "SHMEM_INFO";
/// Seconds after which a process that does not answer counts as failed.
const SILENCE_TIMEOUT: &str = "SHMEM_SILENCE_TIMEOUT";
/// Seconds for which `shmem_finalize` waits until all others have everything.
const FINALIZE_TIMEOUT: &str = "SHMEM_FINALIZE_TIMEOUT";

/// The heap's bytes unless the variable says otherwise. Memory that is never written costs nothing.
const DEFAULT_HEAP: usize = 512 << 20;

/// How long `shmem_finalize` waits without a launcher that reports the ends of the others.
const FINALIZE_LIMIT: Duration = Duration::from_secs(60);

/// A setting that cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WrongSetting {
    #[error(
        "{SYMMETRIC_SIZE} is {0}, which is no size: set it to a number of bytes above 0, with k, m, g or t behind it for powers of 1,024, or unset it"
    )]
    Size(String),
    #[error(
        "{name} is {value}, which is no time: set it to a number of seconds from 0.1 to 1e9, or unset it"
    )]
    Time { name: &'static str, value: String },
}

/// The bytes of the heap.
pub(crate) fn heap_size() -> Result<usize, WrongSetting> {
    match env::var_os(SYMMETRIC_SIZE) {
        None => Ok(DEFAULT_HEAP),
        Some(value) => {
            let value = value.to_string_lossy();
            size(&value).ok_or_else(|| WrongSetting::Size(value.into_owned()))
        }
    }
}

/// How long a process may be silent, if the variable says so. Without it silence shows nothing
/// under a launcher that reports ends, and elsewhere the limits of the library hold.
pub(crate) fn silence_timeout() -> Result<Option<Duration>, WrongSetting> {
    time(SILENCE_TIMEOUT)
}

/// How long `shmem_finalize` waits. A launcher reports the end of each process, so that under it no
/// limit is needed: a process that is stopped goes on, or its end is known.
pub(crate) fn finalize_limit() -> Result<Duration, WrongSetting> {
    let default = match env::var_os(suci::env::NOTICES) {
        Some(_) => Duration::MAX,
        None => FINALIZE_LIMIT,
    };
    Ok(time(FINALIZE_TIMEOUT)?.unwrap_or(default))
}

/// Reads a number of seconds, possibly with a fraction.
fn time(name: &'static str) -> Result<Option<Duration>, WrongSetting> {
    let Some(value) = env::var_os(name) else {
        return Ok(None);
    };
    let value = value.to_string_lossy();
    match seconds(&value) {
        None => Err(WrongSetting::Time {
            name,
            value: value.into_owned(),
        }),
        time => Ok(time),
    }
}

fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (0.1..=1e9)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
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
        for (name, text) in [
            (SILENCE_TIMEOUT, "seconds for which a PE may be silent"),
            (FINALIZE_TIMEOUT, "seconds for which shmem_finalize() waits"),
        ] {
            let set = env::var_os(name);
            let set = set.map_or("not set".into(), |set| set.to_string_lossy().into_owned());
            println!("{name}={set}: {text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(seconds("30"), Some(Duration::from_secs(30)));
        assert_eq!(seconds(" 0.5 "), Some(Duration::from_millis(500)));
        for text in ["", "0", "-1", "NaN", "inf", "30s", "1e10"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

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
