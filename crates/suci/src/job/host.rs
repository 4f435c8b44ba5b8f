//! This host: its addresses, its name, and whether another process is on it.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address of an interface that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnAddress {
    pub(super) ip: IpAddr,
    /// Bits that all addresses of its network have in common.
    pub(super) prefix: u32,
}

impl OwnAddress {
    /// Whether another address is in the same network.
    pub(super) fn is_near(&self, other: IpAddr) -> bool {
        match (self.ip, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differing = u32::from(own) ^ u32::from(other);
                differing.leading_zeros() >= self.prefix
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = u128::from(own) ^ u128::from(other);
                differing.leading_zeros() >= self.prefix
            }
            _ => false,
        }
    }
}

/// The host, as far as processes must know of each other's.
#[derive(Clone, Debug)]
pub(super) struct OwnHost {
    /// Equal for processes that reach each other over loopback; unique otherwise.
    pub(super) identity: String,
    pub(super) addresses: Vec<OwnAddress>,
}

impl OwnHost {
    pub(super) fn this() -> io::Result<Self> {
        Ok(Self {
            identity: identity(),
            addresses: addresses()?,
        })
    }
}

/// The kernel's boot and the network namespace. Two containers of a machine have one boot, but not
/// one loopback.
fn identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    match (boot.is_empty(), crate::sys::network()) {
        (false, Some(network)) => format!("{boot}-{network:x}"),
        // Of such a process nobody knows that it is near.
        _ => {
            let random = crate::sys::random().unwrap_or_default();
            format!("{:032x}-0", u128::from_le_bytes(random))
        }
    }
}

/// Where a process listens that is reached at all addresses of its host. The unspecified address of
/// IPv6 stands for IPv4, too.
pub(super) fn anywhere(port: u16) -> SocketAddr {
    let has_v6 = addresses().is_ok_and(|all| {
        let offered = |it: &OwnAddress| it.ip.is_ipv6() && !it.ip.is_loopback();
        all.iter().any(offered)
    });
    match has_v6 {
        true => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    }
}

/// The addresses of interfaces that are up, in the system's order. Those of a single link
/// (`fe80::`) mean nothing on another host.
fn addresses() -> io::Result<Vec<OwnAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the system's answer is written to `first`, which outlives the call.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut all = Vec::new();
    let mut at = first.cast_const();
    // SAFETY: `at` is null or an entry of the list, which lives until it is freed below.
    while let Some(entry) = unsafe { at.as_ref() } {
        let is_up = entry.ifa_flags & (libc::IFF_UP.cast_unsigned()) != 0;
        // SAFETY: both are null or addresses of the list.
        let (ip, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        if let Some(ip) = ip.filter(|ip| is_up && !is_of_link(*ip)) {
            let prefix = match mask {
                Some(IpAddr::V4(mask)) => u32::from(mask).count_ones(),
                Some(IpAddr::V6(mask)) => u128::from(mask).count_ones(),
                None => 128,
            };
            all.push(OwnAddress { ip, prefix });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(all)
}

fn is_of_link(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// The IP address at `at`; nothing if there is none.
///
/// # Safety
/// `at` is null, or points to a socket address as long as its family says.
unsafe fn ip(at: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller promises.
    let family = unsafe { at.as_ref()? }.sa_family;
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in; it need not be aligned as one.
            let address = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for a sockaddr_in6.
            let address = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// The name of this host, or of the pod; empty if the system does not tell.
pub(super) fn name() -> String {
    let mut name = [0; 256];
    // SAFETY: the name is written to the array, whose length is given; its last byte stays 0.
    let done = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| done == 0);
    name.map(|it| it.to_string_lossy().into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_addresses_share_the_prefix() {
        let own = |ip: &str, prefix| OwnAddress {
            ip: ip.parse().unwrap(),
            prefix,
        };
        for (own, other, near) in [
            (own("10.1.2.3", 24), "10.1.2.200", true),
            (own("10.1.2.3", 24), "10.1.3.3", false),
            (own("10.1.2.3", 32), "10.1.2.3", true),
            (own("10.1.2.3", 0), "192.0.2.1", true),
            (own("fd00::1", 64), "fd00::2:1", true),
            (own("fd00::1", 64), "fd00:0:0:1::1", false),
            (own("fd00::1", 64), "10.1.2.3", false),
        ] {
            assert_eq!(own.is_near(other.parse().unwrap()), near, "{own:?} {other}");
        }
    }

    #[test]
    fn this_host_has_loopback_and_one_identity() {
        let host = OwnHost::this().unwrap();
        assert!(host.addresses.iter().any(|it| it.ip.is_loopback()));
        assert_eq!(host.identity, OwnHost::this().unwrap().identity);
        assert!(!name().is_empty());
    }
}
