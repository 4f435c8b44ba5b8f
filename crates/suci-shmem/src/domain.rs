//! The processes with which this one can have memory in common.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;

/// Namespaces that two processes must have in common to find each other and to name each other's
/// users and processes.
const NAMESPACES: [&str; 3] = ["net", "pid", "user"];

/// A number that processes have in common if they can map each other's memory: those of one user
/// in the same namespaces of one machine that runs, with the same version of the library. Nothing
/// if the system does not tell, or by chance, once in 2^64 times.
pub(crate) fn domain() -> Option<u64> {
    let mut hash = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    fs::read("/proc/sys/kernel/random/boot_id")
        .ok()?
        .hash(&mut hash);
    for namespace in NAMESPACES {
        let about = fs::metadata(format!("/proc/self/ns/{namespace}")).ok()?;
        (about.dev(), about.ino()).hash(&mut hash);
    }
    // SAFETY: asks for a number, and cannot fail.
    unsafe { libc::geteuid() }.hash(&mut hash);
    Some(hash.finish()).filter(|domain| *domain != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_domain() {
        assert!(domain().is_some());
        assert_eq!(domain(), domain());
    }
}
