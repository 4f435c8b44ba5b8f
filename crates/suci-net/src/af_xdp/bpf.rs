//! The program that the kernel runs on each frame that an interface receives (eBPF, `bpf(2)`), and
//! the map by which it names sockets.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ethernet::frame::{
    ETHERNET, FRAGMENT, HEADERS, IP, PROTOCOL_UDP, TYPE_IPV4, VERSION_AND_LENGTH,
};

/// A program that takes the datagrams of one port out of what an interface receives, for the
/// sockets of a map. It leaves the interface when this is dropped, or when the process ends.
#[derive(Debug)]
pub(super) struct Attached {
    _link: OwnedFd,
}

/// The sockets of an interface's receive queues.
#[derive(Debug)]
pub(super) struct SocketMap {
    fd: OwnedFd,
    queues: u32,
}

impl SocketMap {
    /// A map for `queues` sockets.
    pub(super) fn new(queues: u32) -> io::Result<Self> {
        /// `BPF_MAP_TYPE_XSKMAP`
        const SOCKETS: u32 = 17;
        let attributes = MapCreate {
            kind: SOCKETS,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
            flags: 0,
        };
        // SAFETY: the attributes hold no pointers.
        let fd = unsafe { bpf_fd(MAP_CREATE, &attributes) }?;
        Ok(Self { fd, queues })
    }

    pub(super) fn queues(&self) -> u32 {
        self.queues
    }

    /// Names the socket of a queue.
    pub(super) fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = socket.as_raw_fd();
        let attributes = MapUpdate {
            map: self.fd.as_raw_fd(),
            padding: 0,
            key: std::ptr::from_ref(&queue) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        // SAFETY: both pointers come from references that outlive the call, to 4 bytes each, as
        // the map was made with.
        unsafe { bpf(MAP_UPDATE, &attributes) }.map(drop)
    }
}

/// Loads the program and attaches it to the interface `index`, for datagrams to `local`.
pub(super) fn attach(
    map: &SocketMap,
    index: u32,
    ethernet: [u8; 6],
    local: SocketAddrV4,
) -> io::Result<Attached> {
    /// `BPF_PROG_TYPE_XDP`
    const XDP: u32 = 6;
    /// `BPF_XDP`
    const AT_INTERFACE: u32 = 37;
    let instructions = program(map.fd.as_fd(), ethernet, local);
    let license = c"MIT OR Apache-2.0";
    let load = ProgramLoad {
        kind: XDP,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    // SAFETY: the instructions, as many as said, and the string outlive the call.
    let program = unsafe { bpf_fd(PROGRAM_LOAD, &load) }?;
    let create = LinkCreate {
        program: program.as_raw_fd(),
        index,
        place: AT_INTERFACE,
        flags: 0,
    };
    // SAFETY: the attributes hold no pointers.
    let link = unsafe { bpf_fd(LINK_CREATE, &create) }?;
    Ok(Attached { _link: link })
}

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;

/// The beginnings of `union bpf_attr` (linux/bpf.h); the kernel takes the rest as zero.
#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

#[repr(C)]
struct MapUpdate {
    map: i32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgramLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
}

#[repr(C)]
struct LinkCreate {
    program: i32,
    index: u32,
    place: u32,
    flags: u32,
}

/// # Safety
/// `attributes` are those of `command`, and pointers in them are valid for what it does.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_long> {
    let pointer = std::ptr::from_ref(attributes);
    // SAFETY: the attributes outlive the call and are as long as said; the rest as the caller
    // promises.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// # Safety
/// As [`bpf`], and `command` answers with a new descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel answered with a new descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// One instruction of eBPF (`struct bpf_insn`).
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u8,
    /// The destination's register in the lower half, the source's in the upper.
    registers: u8,
    offset: i16,
    value: i32,
}

const fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset,
        value,
    }
}

const LOAD_WORD: u8 = 0x61;
const LOAD_HALF: u8 = 0x69;
const LOAD_BYTE: u8 = 0x71;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const JUMP_IF_GREATER: u8 = 0x2d;
const JUMP_IF_OTHER: u8 = 0x56;
const LOAD_MAP: u8 = 0x18;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// The kernel goes on with the frame as without the program.
const PASS: i32 = 2;

/// Frames with an unfragmented UDP datagram for `local` go to the socket of their receive queue;
/// all others, and those whose queue has no socket, to the kernel.
fn program(map: BorrowedFd<'_>, ethernet: [u8; 6], local: SocketAddrV4) -> Vec<Instruction> {
    /// `bpf_redirect_map`
    const REDIRECT: i32 = 51;
    /// Where `struct xdp_md` has the frame's begin and end, and its queue.
    const BEGIN: i16 = 0;
    const END: i16 = 4;
    const QUEUE: i16 = 16;
    let word = |bytes| i32::from_ne_bytes(bytes);
    let half = |bytes| i32::from(u16::from_ne_bytes(bytes));
    let [a, b, c, d, e, f] = ethernet;
    let ip = ETHERNET as i16;
    let udp = (ETHERNET + IP) as i16;
    let checks = [
        (LOAD_WORD, 0, word([a, b, c, d])),
        (LOAD_HALF, 4, half([e, f])),
        (LOAD_HALF, 12, half(TYPE_IPV4)),
        (LOAD_BYTE, ip, VERSION_AND_LENGTH.into()),
        (LOAD_BYTE, ip + 9, PROTOCOL_UDP.into()),
        (LOAD_WORD, ip + 16, word(local.ip().octets())),
        (LOAD_HALF, udp + 2, half(local.port().to_be_bytes())),
    ];
    let mut out = vec![
        instruction(COPY, 6, 1, 0, 0),
        instruction(LOAD_WORD, 2, 1, BEGIN, 0),
        instruction(LOAD_WORD, 3, 1, END, 0),
        instruction(COPY, 4, 2, 0, 0),
        instruction(ADD, 4, 0, 0, HEADERS as i32),
        instruction(JUMP_IF_GREATER, 4, 3, 0, 0),
    ];
    for (load, at, value) in checks {
        out.push(instruction(load, 5, 2, at, 0));
        out.push(instruction(JUMP_IF_OTHER, 5, 0, 0, value));
    }
    out.push(instruction(LOAD_HALF, 5, 2, ip + 6, 0));
    out.push(instruction(AND, 5, 0, 0, half(FRAGMENT.to_be_bytes())));
    out.push(instruction(JUMP_IF_OTHER, 5, 0, 0, 0));
    out.extend([
        instruction(LOAD_WORD, 2, 6, QUEUE, 0),
        // An instruction of two, whose source 1 says that the value is a descriptor.
        instruction(LOAD_MAP, 1, 1, 0, map.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(SET, 3, 0, 0, PASS),
        instruction(CALL, 0, 0, 0, REDIRECT),
        instruction(EXIT, 0, 0, 0, 0),
    ]);
    // Jumps lead behind the exit.
    let pass = out.len();
    for (at, it) in out.iter_mut().enumerate() {
        if matches!(it.code, JUMP_IF_GREATER | JUMP_IF_OTHER) {
            it.offset = (pass - at - 1) as i16;
        }
    }
    out.push(instruction(SET, 0, 0, 0, PASS));
    out.push(instruction(EXIT, 0, 0, 0, 0));
    out
}
