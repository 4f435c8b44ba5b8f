//! System calls about interfaces and neighbours, made safe: every pointer handed to the kernel is
//! derived here from a reference that outlives the call.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{IFNAMSIZ, c_char, c_int, c_ulong, ifreq};

use crate::udp::addr::{CAPACITY, RawAddr};

/// The name of an interface, ended by a zero.
pub(crate) type Name = [c_char; IFNAMSIZ];

/// An IPv4 address of an interface of this host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnAddress {
    pub(crate) interface: Name,
    pub(crate) address: Ipv4Addr,
    pub(crate) mask: Ipv4Addr,
}

/// The IPv4 addresses of this host.
pub(crate) fn own_addresses() -> io::Result<Vec<OwnAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the kernel's answer is written to `first`, which outlives the call.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut all = Vec::new();
    let mut at = first.cast_const();
    // SAFETY: `at` is null or an entry of the list, which lives until it is freed below.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: both are null or addresses of the list; the name is a string of the list.
        let (address, mask, name) = unsafe {
            let name = std::ffi::CStr::from_ptr(entry.ifa_name);
            (ipv4(entry.ifa_addr), ipv4(entry.ifa_netmask), name)
        };
        if let (Some(address), Some(mask)) = (address, mask) {
            let mut interface = [0; IFNAMSIZ];
            for (to, from) in interface.iter_mut().zip(name.to_bytes()) {
                *to = from.cast_signed();
            }
            all.push(OwnAddress {
                interface,
                address,
                mask,
            });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(all)
}

/// The IPv4 address at `at`; `None` if there is none.
///
/// # Safety
/// `at` is null, or points to a socket address as long as its family says.
unsafe fn ipv4(at: *const libc::sockaddr) -> Option<Ipv4Addr> {
    // SAFETY: as the caller promises.
    let family = unsafe { at.as_ref()? }.sa_family;
    if c_int::from(family) != libc::AF_INET {
        return None;
    }
    // SAFETY: an address of this family is a sockaddr_in; it need not be aligned as one.
    let address = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
    Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)))
}

/// The number of an interface; 0 if there is none of this name.
pub(crate) fn index(name: &Name) -> u32 {
    // SAFETY: the name outlives the call, and a zero ends it: names have at most 15 bytes.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The type of an interface (`ARPHRD_ETHER`, ...), and its Ethernet address.
pub(crate) fn hardware(fd: BorrowedFd<'_>, name: &Name) -> io::Result<(u16, [u8; 6])> {
    let answer = ask_interface(fd, libc::SIOCGIFHWADDR, name)?;
    // SAFETY: the kernel wrote this field; any bit pattern is valid.
    let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
    Ok((address.sa_family, six(&address.sa_data)))
}

/// Bytes of the longest packet that the interface carries.
pub(crate) fn mtu(fd: BorrowedFd<'_>, name: &Name) -> io::Result<usize> {
    let answer = ask_interface(fd, libc::SIOCGIFMTU, name)?;
    // SAFETY: the kernel wrote this field; any bit pattern is valid.
    let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

fn ask_interface(fd: BorrowedFd<'_>, request: c_ulong, name: &Name) -> io::Result<ifreq> {
    // SAFETY: ifreq is plain integers and addresses, for which all zero bits are valid.
    let mut query: ifreq = unsafe { std::mem::zeroed() };
    query.ifr_name = *name;
    ioctl(fd, request, &mut query)?;
    Ok(query)
}

/// The Ethernet address of a neighbour, if the kernel knows it now.
pub(crate) fn neighbour(fd: BorrowedFd<'_>, interface: &Name, ip: Ipv4Addr) -> Option<[u8; 6]> {
    // SAFETY: arpreq is plain integers, for which all zero bits are valid.
    let mut query: libc::arpreq = unsafe { std::mem::zeroed() };
    query.arp_pa.sa_family = libc::AF_INET as libc::sa_family_t;
    for (to, from) in query.arp_pa.sa_data.iter_mut().skip(2).zip(ip.octets()) {
        *to = from.cast_signed();
    }
    query.arp_dev = *interface;
    ioctl(fd, libc::SIOCGARP, &mut query).ok()?;
    (query.arp_flags & libc::ATF_COM != 0).then(|| six(&query.arp_ha.sa_data))
}

fn ioctl<T>(fd: BorrowedFd<'_>, request: c_ulong, query: &mut T) -> io::Result<()> {
    // SAFETY: the callers name requests whose argument is a `T`, which outlives the call.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(query)) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn six(bytes: &[c_char]) -> [u8; 6] {
    let mut out = [0; 6];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = from.cast_unsigned();
    }
    out
}

/// Frames of an EtherType to `ethernet` by the interface `index`, or all frames of that type if it
/// is 0 (`ETH_P_ALL`: of any type): `sockaddr_ll`.
pub(crate) fn link_address(ether_type: u16, index: u32, ethernet: [u8; 6]) -> RawAddr {
    let [a, b, c, d, e, f] = ethernet;
    let address = [
        (libc::AF_PACKET as u16).to_ne_bytes(),
        ether_type.to_be_bytes(),
    ];
    let mut bytes = address.concat();
    bytes.extend(index.to_ne_bytes());
    // Hardware and packet type, which the kernel ignores, and the length of the address.
    bytes.extend([0, 0, 0, 6, a, b, c, d, e, f, 0, 0]);
    RawAddr::copied(&bytes)
}

/// The number of the interface in an address as [`link_address`] makes them.
pub(crate) fn index_of(link: &RawAddr) -> Option<u32> {
    let field = link.bytes.get(4..link.len)?.first_chunk()?;
    Some(u32::from_ne_bytes(*field))
}

/// Binds a packet socket.
pub(crate) fn bind(fd: BorrowedFd<'_>, address: &RawAddr) -> io::Result<()> {
    let length = address.len.min(CAPACITY) as libc::socklen_t;
    // SAFETY: the address outlives the call and is as long as said; the kernel only reads it.
    let result = unsafe { libc::bind(fd.as_raw_fd(), address.bytes.as_ptr().cast(), length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
