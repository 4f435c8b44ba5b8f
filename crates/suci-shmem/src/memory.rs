//! The memory of this process that is symmetric: the heap, and the program's variables.

use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};

/// Consecutive bytes of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The address of the first byte.
    pub(crate) start: usize,
    /// The number of bytes.
    pub(crate) length: usize,
}

impl Span {
    /// The offset of an address, if `length` bytes from there on are in the span.
    pub(crate) fn offset(self, address: usize, length: usize) -> Option<usize> {
        let offset = address.checked_sub(self.start)?;
        let end = offset.checked_add(length)?;
        (end <= self.length).then_some(offset)
    }

    pub(crate) fn pointer(self, offset: usize) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.start + offset)
    }

    pub(crate) fn first(self) -> NonNull<u8> {
        NonNull::new(self.pointer(0).cast()).unwrap_or(NonNull::dangling())
    }
}

/// Where the heap lies in every process, if nothing else does.
const HEAP_ADDRESS: usize = 0x5000_0000_0000;

/// Maps `length` bytes of zeros for the heap. They take memory once they are written.
pub(crate) fn map_heap(length: usize) -> io::Result<Span> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(HEAP_ADDRESS, length, flags | libc::MAP_FIXED_NOREPLACE).or_else(|_| map(0, length, flags))
}

fn map(address: usize, length: usize, flags: c_int) -> io::Result<Span> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let address = ptr::without_provenance_mut(address);
    // SAFETY: a new mapping replaces no memory: the address is a hint, or must be free.
    let start = unsafe { libc::mmap(address, length, rights, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.expose_provenance();
    Ok(Span { start, length })
}

/// The parts of the program, without shared libraries.
#[derive(Clone, Copy, Debug, Default)]
struct Program {
    variables: Option<Span>,
    code: Option<Span>,
}

/// The static and global variables of the program, `.data` and `.bss`: its writable segment,
/// without what the dynamic linker made read-only. Those of shared libraries are not among them.
pub(crate) fn variables() -> Option<Span> {
    program().variables
}

/// The functions of the program: its executable segment.
pub(crate) fn code() -> Option<Span> {
    program().code
}

fn program() -> Program {
    let mut found = Program::default();
    // SAFETY: `visit` treats its third argument as what it is, and does not keep it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut found).cast()) };
    found
}

/// Notes the parts of the first object, which is the program, and ends the iteration.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, and `program` its own variable.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Program>()) };
    // SAFETY: the description has this many headers there.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let ends = |header: &libc::Elf64_Phdr| {
        let start = usize::try_from(info.dlpi_addr + header.p_vaddr).ok()?;
        let length = usize::try_from(header.p_memsz).ok()?;
        Some((start, start.checked_add(length)?))
    };
    let all = |kind, flags| {
        let wanted = move |header: &&libc::Elf64_Phdr| {
            header.p_type == kind && header.p_flags & flags == flags
        };
        let found = headers.iter().filter(wanted).filter_map(ends);
        found.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    };
    let span = |(start, end): (usize, usize)| {
        let length = end.checked_sub(start)?;
        Some(Span { start, length })
    };
    let read_only = all(libc::PT_GNU_RELRO, 0).map_or(0, |(_, end)| end);
    found.variables = all(libc::PT_LOAD, libc::PF_W).and_then(|(start, end)| {
        // Atomic operations need an aligned region; the bytes before are of the segment's page.
        span((start.max(read_only) & !7, end))
    });
    found.code = all(libc::PT_LOAD, libc::PF_X).and_then(span);
    1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    static ZERO: AtomicU64 = AtomicU64::new(0);
    static SEVEN: AtomicU64 = AtomicU64::new(7);

    #[test]
    fn variables_are_found() {
        let span = variables().unwrap();
        for variable in [&ZERO, &SEVEN] {
            assert!(
                span.offset(variable.as_ptr().expose_provenance(), 8)
                    .is_some()
            );
        }
        let local = 0_u64;
        assert_eq!(span.offset((&raw const local).expose_provenance(), 8), None);
        let function = variables as fn() -> _ as usize;
        assert_eq!(span.offset(function, 1), None);
        assert!(code().unwrap().offset(function, 1).is_some());
    }

    #[test]
    fn offsets_are_within_their_span() {
        let span = Span {
            start: 100,
            length: 10,
        };
        assert_eq!(span.offset(100, 10), Some(0));
        assert_eq!(span.offset(110, 0), Some(10));
        for (address, length) in [(99, 1), (100, 11), (109, 2), (usize::MAX, 2)] {
            assert_eq!(span.offset(address, length), None, "{address} {length}");
        }
    }
}
