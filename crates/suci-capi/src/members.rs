//! Members of a cluster.

use crate::entry::{Host, on_host};
use crate::error::Failure;
use crate::guard::guard;
use crate::handle::Handle;
use crate::limit::{Limit, woken};
use crate::pointer;
use crate::text::{self, AddressText};
use std::ffi::c_int;
use suci::{Error, Member};

/// `suci_member`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawMember {
    pub(crate) node: u32,
    pub(crate) suspect: u8,
    pub(crate) reserved: [u8; 3],
    pub(crate) incarnation: [u64; 2],
    pub(crate) address: AddressText,
}

impl From<Member> for RawMember {
    fn from(member: Member) -> Self {
        let incarnation = member.incarnation.0;
        Self {
            node: member.node.0,
            suspect: member.is_suspect.into(),
            reserved: [0; 3],
            incarnation: [(incarnation >> 64) as u64, incarnation as u64],
            address: text::address_text(Some(member.address)),
        }
    }
}

/// Lists the members.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_members(
    node: Handle,
    members: *mut RawMember,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let all = on_host!(node.host(), node => node.members())?;
        let all = all.into_iter().map(RawMember::from);
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill_list(members, capacity, count, all) }
    })
}

/// Waits until the node joined.
#[unsafe(no_mangle)]
pub extern "C" fn suci_wait_joined(node: Handle, timeout: i64) -> c_int {
    guard(|| {
        let mut entered = node.enter()?;
        let limit = Limit::new(timeout).duration();
        let joined = match entered.host() {
            Host::Alone(node) => node.wait_joined(limit),
            Host::Shared(node) => node.wait_joined(limit),
        };
        match joined {
            Err(Error::Woken) => {
                entered.entry().take_woken();
                Err(woken())
            }
            joined => joined.map_err(Failure::from),
        }
    })
}
