//! Address vectors: from an index to the endpoint that it names.

use crate::abi::{
    ADDR_UNSPEC, AvAttr, FiAddr, FiOps, Fid, FidAv, FidDomain, OpsAv, SYNC_ERR, class,
};
use crate::code::{Code, Outcome, not_there, status};
use crate::domain::{Core, Domain};
use crate::handle::{self, header};
use crate::name::{self, Name};
use core::ffi::{c_char, c_int, c_void};
use std::collections::HashMap;
use std::sync::Arc;
use suci::NodeId;

/// Endpoints that a vector holds at most.
const MOST: usize = 1 << 20;

/// The addresses of a vector. An index is used again after its address was removed.
#[derive(Debug, Default)]
pub(crate) struct Vector {
    names: Vec<Option<Name>>,
    free: Vec<usize>,
    /// The first index of each node, and how many it has.
    by_node: HashMap<NodeId, (usize, usize)>,
}

header!(FidAv, class::AV, (Arc<Domain>, usize));

impl Vector {
    pub(crate) fn get(&self, at: FiAddr) -> Outcome<Name> {
        let index = usize::try_from(at).map_err(|_| Code::INVAL)?;
        self.names.get(index).copied().flatten().ok_or(Code::INVAL)
    }

    /// The address of a node; `FI_ADDR_NOTAVAIL` if the vector does not have it.
    pub(crate) fn of(&self, node: NodeId) -> FiAddr {
        let index = self.by_node.get(&node).map(|(index, _)| *index as FiAddr);
        index.unwrap_or(ADDR_UNSPEC)
    }

    fn insert(&mut self, name: Name) -> Outcome<FiAddr> {
        let known = self.by_node.get(&name.node).copied();
        if known.is_some_and(|(index, _)| self.get(index as FiAddr) != Ok(name)) {
            return Err(Code::ADDRINUSE);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.names.len() >= MOST => return Err(Code::NOMEM),
            None => {
                self.names.push(None);
                self.names.len().saturating_sub(1)
            }
        };
        if let Some(place) = self.names.get_mut(index) {
            *place = Some(name);
        }
        self.by_node.entry(name.node).or_insert((index, 0)).1 += 1;
        Ok(index as FiAddr)
    }

    fn remove(&mut self, at: FiAddr) -> Outcome<()> {
        let name = self.get(at)?;
        let index = usize::try_from(at).map_err(|_| Code::INVAL)?;
        if let Some(place) = self.names.get_mut(index) {
            *place = None;
        }
        self.free.push(index);
        let Some(entry) = self.by_node.get_mut(&name.node) else {
            return Ok(());
        };
        entry.1 = entry.1.saturating_sub(1);
        if entry.1 == 0 {
            self.by_node.remove(&name.node);
        } else if entry.0 == index {
            let other = self.names.iter().position(|other| *other == Some(name));
            entry.0 = other.unwrap_or(index);
        }
        Ok(())
    }
}

static OPS: FiOps = FiOps {
    size: size_of::<FiOps>(),
    close,
    bind: handle::no_bind,
    control: handle::no_control,
    ops_open: not_there,
    tostr: not_there,
    ops_set: not_there,
};

static AV_OPS: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc,
    insertsym: not_there,
    remove,
    lookup,
    straddr,
    av_set: not_there,
    insert_auth_key: not_there,
    lookup_auth_key: not_there,
    set_user_id: not_there,
    lookup2: not_there,
};

/// `fi_av_open`.
pub(crate) unsafe extern "C" fn open(
    domain: *const FidDomain,
    attr: *const AvAttr,
    av: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    let open = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let domain = unsafe { handle::place(domain) }?;
        // SAFETY: C passes attributes, or null.
        let attr = unsafe { attr.as_ref() }.ok_or(Code::INVAL)?;
        if av.is_null() || attr.kind > 2 {
            return Err(Code::INVAL);
        }
        // Vectors in memory that processes share, insertions that end later, receive contexts.
        if !attr.name.is_null() || attr.flags != 0 || attr.rx_ctx_bits != 0 {
            return Err(Code::NOSYS);
        }
        let index = domain.enter(|core| Ok(core.vectors.insert(Vector::default())))?;
        let header = FidAv {
            fid: handle::fid(class::AV, context, &OPS),
            ops: &AV_OPS,
        };
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { av.write(handle::open(header, (domain, index))) };
        Ok(())
    };
    status(open())
}

unsafe extern "C" fn close(fid: *const Fid) -> c_int {
    let end = |(domain, index): &(Arc<Domain>, usize)| {
        domain.enter(|core| {
            if core
                .endpoint
                .as_ref()
                .is_some_and(|it| it.vector == Some(*index))
            {
                return Err(Code::BUSY);
            }
            core.vectors.try_remove(*index);
            Ok(())
        })
    };
    // SAFETY: C passes an object of this provider, or null.
    status(unsafe { handle::close::<FidAv>(fid, end) })
}

/// Enters endpoints. Tells for each its address, or its error. Returns how many were entered.
///
/// # Safety
/// `addresses` is null or has room for as many numbers, and `errors` likewise.
unsafe fn enter(
    core: &mut Core,
    vector: usize,
    names: impl Iterator<Item = Outcome<Name>>,
    addresses: *mut FiAddr,
    errors: *mut c_int,
) -> c_int {
    let mut entered = 0;
    for (at, name) in names.enumerate() {
        let index = name.and_then(|name| {
            core.add_peer(name)?;
            let vector = core.vectors.get_mut(vector).ok_or(Code::BADF)?;
            vector.insert(name)
        });
        entered += c_int::from(index.is_ok());
        if !addresses.is_null() {
            // SAFETY: there is room, as the caller promises.
            unsafe { addresses.add(at).write(index.unwrap_or(ADDR_UNSPEC)) };
        }
        if !errors.is_null() {
            // SAFETY: likewise.
            unsafe {
                errors
                    .add(at)
                    .write(index.map_or_else(|code| code.0, |_| 0))
            };
        }
    }
    entered
}

/// The numbers that `context` names with `FI_SYNC_ERR`.
fn errors(flags: u64, context: *mut c_void) -> Outcome<*mut c_int> {
    match flags & SYNC_ERR != 0 {
        true if context.is_null() => Err(Code::INVAL),
        true => Ok(context.cast()),
        // FI_MORE only says that others follow.
        false if flags & !crate::abi::MORE == 0 => Ok(std::ptr::null_mut()),
        false => Err(Code::BADFLAGS),
    }
}

unsafe extern "C" fn insert(
    av: *const FidAv,
    addr: *const c_void,
    count: usize,
    addresses: *mut FiAddr,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let insert = || -> Outcome<c_int> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, vector) = unsafe { handle::place(av) }?;
        let errors = errors(flags, context)?;
        if (addr.is_null() && count > 0) || count > MOST {
            return Err(Code::INVAL);
        }
        let name = |at: usize| {
            // SAFETY: C passes as many names, each of the length that the provider told.
            unsafe {
                let bytes = addr.cast::<u8>().add(at.saturating_mul(name::LENGTH));
                Name::read(bytes.cast(), name::LENGTH)
            }
        };
        let names = (0..count).map(name);
        // SAFETY: libfabric asks the program for room for as many.
        domain.enter(|core| Ok(unsafe { enter(core, vector, names, addresses, errors) }))
    };
    insert().unwrap_or_else(|code| -code.0)
}

unsafe extern "C" fn insertsvc(
    av: *const FidAv,
    node: *const c_char,
    service: *const c_char,
    address: *mut FiAddr,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let insert = || -> Outcome<c_int> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, vector) = unsafe { handle::place(av) }?;
        let errors = errors(flags, context)?;
        if node.is_null() || service.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: C passes strings.
        let found = unsafe { name::resolve(node, service, domain.name.address.ip()) }?;
        let first = found.first().copied().ok_or(Code::NODATA)?;
        let names = std::iter::once(Ok(Name::new(first)));
        // SAFETY: libfabric asks the program for room for one.
        domain.enter(|core| Ok(unsafe { enter(core, vector, names, address, errors) }))
    };
    insert().unwrap_or_else(|code| -code.0)
}

unsafe extern "C" fn remove(
    av: *const FidAv,
    addresses: *const FiAddr,
    count: usize,
    flags: u64,
) -> c_int {
    let remove = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, vector) = unsafe { handle::place(av) }?;
        if (addresses.is_null() && count > 0) || count > MOST || flags != 0 {
            return Err(Code::INVAL);
        }
        domain.enter(|core| {
            let vector = core.vectors.get_mut(vector).ok_or(Code::BADF)?;
            let remove = |at| {
                // SAFETY: C passes as many addresses.
                vector.remove(unsafe { addresses.add(at).read() })
            };
            // All are removed whichever fails.
            let results: Vec<_> = (0..count).map(remove).collect();
            results.into_iter().collect()
        })
    };
    status(remove())
}

unsafe extern "C" fn lookup(
    av: *const FidAv,
    address: FiAddr,
    into: *mut c_void,
    length: *mut usize,
) -> c_int {
    let lookup = || -> Outcome<()> {
        // SAFETY: C passes an object of this provider, or null.
        let (domain, vector) = unsafe { handle::place(av) }?;
        let name = domain.enter(|core| {
            let vector = core.vectors.get(vector).ok_or(Code::BADF)?;
            vector.get(address)
        })?;
        // SAFETY: C passes a buffer and its length. What fits is no error here.
        match unsafe { name.write(into, length) } {
            Err(Code::TOOSMALL) if !into.is_null() => Ok(()),
            other => other,
        }
    };
    status(lookup())
}

unsafe extern "C" fn straddr(
    _: *const FidAv,
    address: *const c_void,
    into: *mut c_char,
    length: *mut usize,
) -> *const c_char {
    // SAFETY: C passes a name of the provider's length, or null.
    let name = unsafe { Name::read(address, name::LENGTH) };
    let text = name.map_or_else(|_| "no name of suci".into(), |name| name.to_string());
    // SAFETY: C passes a number, or null.
    let Some(length) = (unsafe { length.as_mut() }) else {
        return into;
    };
    let needed = text.len().saturating_add(1);
    let room = std::mem::replace(length, needed);
    if !into.is_null() && room > 0 {
        let fitting = text.len().min(room.saturating_sub(1));
        // SAFETY: the buffer has `room` bytes, and these are at most as many.
        unsafe {
            into.cast::<u8>().copy_from(text.as_ptr(), fitting);
            into.add(fitting).write(0);
        }
    }
    into
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_addresses_of_one_node_are_refused() {
        let mut vector = Vector::default();
        let name = |text: &str| Name::new(text.parse().unwrap());
        let first = vector.insert(name("10.0.1.1:7")).unwrap();
        let again = vector.insert(name("10.0.1.1:7")).unwrap();
        assert_eq!(vector.insert(name("10.1.1.1:7")), Err(Code::ADDRINUSE));
        assert_eq!(vector.of(name("10.0.1.1:7").node), first);
        vector.remove(first).unwrap();
        assert_eq!(vector.of(name("10.0.1.1:7").node), again);
        assert_eq!(vector.remove(first), Err(Code::INVAL));
        vector.remove(again).unwrap();
        assert_eq!(vector.insert(name("10.1.1.1:7")), Ok(again));
    }
}
