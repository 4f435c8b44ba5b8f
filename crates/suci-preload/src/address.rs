//! Addresses as programs pass them.

use libc::{c_int, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The length of a type, which is below 128.
const fn length_of<T>() -> socklen_t {
    size_of::<T>() as socklen_t
}

/// An address of any family, as the kernel wrote it.
#[derive(Clone)]
pub(crate) struct Raw {
    storage: sockaddr_storage,
    length: socklen_t,
}

impl Raw {
    /// Returns room for any address.
    pub(crate) const fn new() -> Self {
        Self {
            // SAFETY: a `sockaddr_storage` is numbers, for which all bits may be 0.
            storage: unsafe { std::mem::zeroed() },
            length: length_of::<sockaddr_storage>(),
        }
    }

    /// Returns pointers to the room and to its length, for the kernel to write.
    pub(crate) const fn pointers(&mut self) -> (*mut sockaddr, *mut socklen_t) {
        ((&raw mut self.storage).cast(), &raw mut self.length)
    }

    fn of(address: SocketAddr) -> Self {
        let mut raw = Self::new();
        match address {
            SocketAddr::V4(v4) => raw.put(sockaddr_in {
                sin_family: family(libc::AF_INET),
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(v4.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(v6) => raw.put(sockaddr_in6 {
                sin6_family: family(libc::AF_INET6),
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: v6.ip().octets(),
                },
                sin6_scope_id: v6.scope_id(),
            }),
        }
        raw
    }

    const fn put<T: Copy>(&mut self, address: T) {
        const { assert!(size_of::<T>() <= size_of::<sockaddr_storage>()) };
        // SAFETY: the storage has room for a `T`, as asserted, and no alignment is asked of it.
        unsafe { (&raw mut self.storage).cast::<T>().write_unaligned(address) };
        self.length = length_of::<T>();
    }

    /// Returns the address, if it is one of IP.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: the pointer is that of the storage, which has at least `length` bytes.
        unsafe { read((&raw const self.storage).cast(), self.length) }
    }

    /// Copies the address to the program as the kernel does: cut to the room that `length` names,
    /// which becomes the length of the whole.
    ///
    /// # Errors
    /// As the kernel's: `EFAULT` for null, `EINVAL` for a negative length. Nothing is written then.
    ///
    /// # Safety
    /// Each pointer is null or valid: `length` points to a number, and `to` to as many bytes that
    /// may be written.
    pub(crate) unsafe fn copy_to(
        &self,
        to: *mut sockaddr,
        length: *mut socklen_t,
    ) -> Result<(), Errno> {
        if length.is_null() {
            return Err(Errno::FAULT);
        }
        // SAFETY: the caller's promise.
        let room = unsafe { length.read_unaligned() };
        if room.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        if to.is_null() && room > 0 {
            return Err(Errno::FAULT);
        }
        let room = room.min(self.length) as usize;
        // SAFETY: both pointers are valid, as the caller promises, if there is room; the storage
        // has at least `self.length` bytes and is not the program's memory.
        unsafe {
            if room > 0 {
                let from = (&raw const self.storage).cast::<u8>();
                from.copy_to_nonoverlapping(to.cast::<u8>(), room);
            }
            length.write_unaligned(self.length);
        }
        Ok(())
    }
}

impl From<SocketAddr> for Raw {
    fn from(address: SocketAddr) -> Self {
        Self::of(address)
    }
}

/// Families are small numbers.
const fn family(number: c_int) -> sa_family_t {
    number as sa_family_t
}

/// Returns the address at `from`, if it is one of IP.
///
/// # Safety
/// `from` is null, or points to `length` bytes.
pub(crate) unsafe fn read(from: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if from.is_null() || length < length_of::<sa_family_t>() {
        return None;
    }
    // SAFETY: the family is the first field of each address, and its bytes are there.
    let found = c_int::from(unsafe { from.cast::<sa_family_t>().read_unaligned() });
    if found == libc::AF_INET && length >= length_of::<sockaddr_in>() {
        // SAFETY: so many bytes are there, and all bits are valid.
        let v4 = unsafe { from.cast::<sockaddr_in>().read_unaligned() };
        let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
        return Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
    }
    if found == libc::AF_INET6 && length >= length_of::<sockaddr_in6>() {
        // SAFETY: so many bytes are there, and all bits are valid.
        let v6 = unsafe { from.cast::<sockaddr_in6>().read_unaligned() };
        let (ip, port) = (
            Ipv6Addr::from(v6.sin6_addr.s6_addr),
            u16::from_be(v6.sin6_port),
        );
        return Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into());
    }
    None
}

/// Returns the address of a socket, if it is one of IP.
pub(crate) fn of_ip(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok()
}

/// Returns the address with IPv4 as such, also if it was written as IPv6.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns the address as a socket of the family of `like` has it.
pub(crate) fn in_family_of(like: SocketAddr, address: SocketAddr) -> SocketAddr {
    match (like, address.ip()) {
        (SocketAddr::V6(_), IpAddr::V4(v4)) => {
            SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())
        }
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_were_written() {
        for text in ["192.0.2.7:80", "[2001:db8::7]:8080", "[::ffff:192.0.2.7]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(Raw::from(address).get(), Some(address));
        }
    }

    #[test]
    fn a_short_room_gets_the_first_bytes_and_the_whole_length() {
        let raw = Raw::from("192.0.2.7:80".parse::<SocketAddr>().unwrap());
        let (mut room, mut length) = ([0xff_u8; 16], 4);
        // SAFETY: the room has at least 4 bytes.
        unsafe { raw.copy_to(room.as_mut_ptr().cast(), &raw mut length) }.unwrap();
        assert_eq!(length, 16);
        assert_eq!(room[2..6], [0, 80, 0xff, 0xff]);
    }

    #[test]
    fn null_and_negative_lengths_get_the_errors_of_the_kernel() {
        let raw = Raw::from("192.0.2.7:80".parse::<SocketAddr>().unwrap());
        let (mut room, null) = ([0xff_u8; 16], std::ptr::null_mut());
        for (length, has_room, result) in [
            (-1, true, Err(Errno::INVAL)),
            (i32::MIN, true, Err(Errno::INVAL)),
            (-1, false, Err(Errno::INVAL)),
            (16, false, Err(Errno::FAULT)),
            (0, false, Ok(())),
            (0, true, Ok(())),
        ] {
            let mut given = length.cast_unsigned();
            let to = if has_room {
                room.as_mut_ptr().cast()
            } else {
                null
            };
            // SAFETY: each length is one that the room has, or is refused.
            assert_eq!(unsafe { raw.copy_to(to, &raw mut given) }, result);
            let whole = if result.is_ok() { 16 } else { length };
            assert_eq!(given.cast_signed(), whole);
        }
        // SAFETY: null is refused.
        let without = unsafe { raw.copy_to(room.as_mut_ptr().cast(), std::ptr::null_mut()) };
        assert_eq!((without, room), (Err(Errno::FAULT), [0xff; 16]));
    }

    #[test]
    fn addresses_that_are_cut_off_are_none() {
        let mut raw = Raw::from("192.0.2.7:80".parse::<SocketAddr>().unwrap());
        raw.length = 15;
        assert_eq!(raw.get(), None);
    }

    #[test]
    fn a_socket_of_ipv6_has_ipv4_addresses_mapped() {
        let v4: SocketAddr = "192.0.2.7:80".parse().unwrap();
        let v6: SocketAddr = "[::1]:9".parse().unwrap();
        let mapped = in_family_of(v6, v4);
        assert_eq!(mapped.to_string(), "[::ffff:192.0.2.7]:80");
        assert_eq!(canonical(mapped), v4);
        assert_eq!(in_family_of(v4, v4), v4);
    }
}
