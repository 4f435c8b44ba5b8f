//! TUN devices: interfaces whose IP packets a program reads and writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use crate::error::{Context, Result};
use crate::netns::{INTERFACE, Netns};

/// Packets that a device holds until they are read: more than a host sends while the reader is kept
/// from its processor, so that only the emulated link drops any.
const QUEUE: &str = "10000";

/// Makes [`INTERFACE`] in `netns` a TUN device, which goes away with the returned file. Reading
/// gives one packet, writing takes one, and neither blocks.
///
/// # Errors
/// The kernel has no TUN, or the namespace has such an interface already.
pub(super) fn open(netns: &Netns) -> Result<File> {
    let file = netns
        .inside(attach)?
        .context("/dev/net/tun: emulated links need root and a kernel with TUN (modprobe tun)")?;
    netns.run(&["ip", "link", "set", INTERFACE, "txqueuelen", QUEUE])?;
    Ok(file)
}

fn attach() -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: all fields of an ifreq may be zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(INTERFACE.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the descriptor is open; the request is an ifreq that outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}
