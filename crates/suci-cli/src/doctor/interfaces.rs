//! The network interfaces of this process's own network namespace.
//!
//! `/sys/class/net` lists those of the namespace in which that folder was mounted: `unshare --net`
//! and some containers leave the folder of the outer namespace in place. So the kernel is asked
//! through a socket.

use std::ffi::CStr;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libc::{c_ulong, ifreq};

/// A network interface, as the kernel tells of it.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) mtu: u32,
    pub(super) is_ethernet: bool,
    /// It carries nothing: it is switched off, or its link is not there.
    pub(super) is_down: bool,
}

impl Interface {
    /// Asks the kernel about an interface.
    fn read(socket: BorrowedFd<'_>, name: &CStr) -> io::Result<Self> {
        let mtu = ask(socket, libc::SIOCGIFMTU, name)?;
        let hardware = ask(socket, libc::SIOCGIFHWADDR, name)?;
        let flags = ask(socket, libc::SIOCGIFFLAGS, name)?;
        // SAFETY: the kernel wrote the field that belongs to the request, and any bit pattern is
        // valid in each.
        let (mtu, kind, flags) = unsafe {
            (
                mtu.ifr_ifru.ifru_mtu,
                hardware.ifr_ifru.ifru_hwaddr.sa_family,
                libc::c_int::from(flags.ifr_ifru.ifru_flags),
            )
        };
        let works = libc::IFF_UP | libc::IFF_RUNNING;
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            mtu: u32::try_from(mtu).unwrap_or(0),
            is_ethernet: kind == libc::ARPHRD_ETHER,
            is_down: flags & works != works,
        })
    }
}

/// Returns the interfaces, sorted by name; none if the kernel tells of none. One that goes away
/// meanwhile is left out.
pub(super) fn all() -> Vec<Interface> {
    // Every socket serves for questions about interfaces. This one is not used for packets.
    let Ok(socket) = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0")) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    // SAFETY: the function takes nothing. Its list is freed below.
    let list = unsafe { libc::if_nameindex() };
    let mut at = list.cast_const();
    // SAFETY: `at` is null, or points into the list: to an entry, or to the one with index 0 that
    // ends it.
    while let Some(entry) = unsafe { at.as_ref() }.filter(|entry| entry.if_index != 0) {
        // SAFETY: the name is a string that lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.if_name) };
        all.extend(Interface::read(socket.as_fd(), name));
        // SAFETY: this entry is not the last one.
        at = unsafe { at.add(1) };
    }
    if !list.is_null() {
        // SAFETY: the list came from if_nameindex, and nothing refers to it any more.
        unsafe { libc::if_freenameindex(list) };
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn ask(socket: BorrowedFd<'_>, request: c_ulong, name: &CStr) -> io::Result<ifreq> {
    // SAFETY: ifreq is plain integers and addresses, for which all zero bits are valid.
    let mut query: ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays 0: names have at most 15 bytes.
    let room = query.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    for (to, from) in room.zip(name.to_bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: these requests take an ifreq, which outlives the call.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut query) };
    match done {
        0 => Ok(query),
        _ => Err(io::Error::last_os_error()),
    }
}
