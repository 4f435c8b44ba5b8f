//! Offers of the provider, and requests of callers.

use crate::abi::{
    AV_TABLE, COMPLETION, DELIVERY_COMPLETE, DIRECTED_RECV, DomainAttr, EP_RDM, EpAttr, FabricAttr,
    INJECT, INJECT_COMPLETE, Info, LOCAL_COMM, MSG, MULTI_RECV, ORDER_SAS, PROGRESS_AUTO,
    PROGRESS_MANUAL, RECV, REMOTE_COMM, RM_ENABLED, RxAttr, SEND, SOURCE, TAGGED, THREAD_SAFE,
    TRANSMIT_COMPLETE, TxAttr,
};
use crate::code::{Code, Outcome, status};
use crate::fabric;
use crate::name::{self, LENGTH, Name};
use crate::runtime;
use core::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use suci::env;

/// Bytes of the longest message that may leave the program's memory with the call.
pub(crate) const INJECT_SIZE: usize = 16 << 10;

/// Parts of a buffer at most.
pub(crate) const IOV_LIMIT: usize = 8;

/// Bytes of the longest message.
pub(crate) const MAX_MESSAGE: usize = 1 << 32;

/// The protocol of an endpoint: a number of the provider's own, and its version.
const PROTOCOL: u32 = 0x8000_5c1f;
const PROTOCOL_VERSION: u32 = 1;

/// Operations that may be open at once. The provider has no bound; a full queue to a peer is
/// `FI_EAGAIN`.
const QUEUE: usize = 1 << 16;

/// Capabilities of sends, of receives, and of both.
const TX_CAPS: u64 = MSG | TAGGED | SEND | LOCAL_COMM | REMOTE_COMM;
const RX_CAPS: u64 = MSG | TAGGED | RECV | DIRECTED_RECV | MULTI_RECV | SOURCE | COMMON;
const COMMON: u64 = LOCAL_COMM | REMOTE_COMM;
const CAPS: u64 = TX_CAPS | RX_CAPS;

const TX_FLAGS: u64 = COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE;
const RX_FLAGS: u64 = COMPLETION | MULTI_RECV;

/// The variable that allows messages in the clear beyond this host.
const INSECURE: &str = "FI_SUCI_ALLOW_INSECURE_NETWORK";

/// Returns whether the user allowed messages in the clear beyond this host.
pub(crate) fn is_insecure_allowed() -> bool {
    std::env::var_os(INSECURE).is_some_and(|value| value == "1")
}

/// An interface of this host.
struct Interface {
    name: String,
    ip: IpAddr,
}

/// The interfaces that endpoints may use, the best first: beyond loopback only with a key, or if
/// the user allowed it.
fn interfaces() -> Vec<Interface> {
    let keyed = [env::KEY_FILE, env::NODE_KEY_FILE];
    let is_keyed = keyed.iter().any(|name| std::env::var_os(name).is_some());
    let mut found = match is_keyed || is_insecure_allowed() {
        true => beyond_loopback(),
        false => Vec::new(),
    };
    found.push(Interface {
        name: "lo".into(),
        ip: Ipv4Addr::LOCALHOST.into(),
    });
    found
}

/// The interfaces with IPv4 addresses that are up, without loopback.
fn beyond_loopback() -> Vec<Interface> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the pointer is written.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list is valid until it is freed; each element is a structure of it.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: as above.
        found.extend(unsafe { interface(entry) });
    }
    // SAFETY: the list is freed once.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// The entry is one of a list that is not freed yet.
unsafe fn interface(entry: &libc::ifaddrs) -> Option<Interface> {
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
    if entry.ifa_flags & up != up || entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0 {
        return None;
    }
    // SAFETY: it is null or an address.
    let address = unsafe { entry.ifa_addr.as_ref() }?;
    if c_int::from(address.sa_family) != libc::AF_INET {
        return None;
    }
    // SAFETY: an address of this family is this structure.
    let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
    // SAFETY: the name is a string.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some(Interface {
        name: name.to_string_lossy().into_owned(),
        ip: Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into(),
    })
}

/// The address of an endpoint for which nobody named one.
pub(crate) fn default_address() -> Outcome<SocketAddr> {
    let first = interfaces().into_iter().next().ok_or(Code::NODATA)?;
    Ok(SocketAddr::new(first.ip, 0))
}

/// The capabilities of an endpoint with this information.
///
/// # Safety
/// It is an information of libfabric.
pub(crate) unsafe fn caps_of(info: &Info) -> Outcome<u64> {
    // SAFETY: the attributes are there, or null.
    let ep = unsafe { info.ep_attr.as_ref() };
    if ep.is_some_and(|ep| ep.kind != EP_RDM && ep.kind != 0) {
        return Err(Code::NOSYS);
    }
    granted(info.caps)
}

/// Returns the capabilities that a caller gets who asks for these.
fn granted(asked: u64) -> Outcome<u64> {
    if asked & !CAPS != 0 {
        return Err(Code::NODATA);
    }
    if asked == 0 {
        return Ok(CAPS);
    }
    let messages = asked & (MSG | TAGGED) != 0;
    let directions = match asked & (SEND | RECV) {
        0 if messages => SEND | RECV,
        some => some,
    };
    Ok(asked | directions | COMMON)
}

/// One answer: where an endpoint would be, and the peer that the caller named.
struct Offer {
    interface: String,
    source: SocketAddr,
    destination: Option<SocketAddr>,
}

/// `fi_getinfo`.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    out: *mut *mut Info,
) -> c_int {
    let get = || -> Outcome<()> {
        if out.is_null() {
            return Err(Code::INVAL);
        }
        // SAFETY: libfabric passes hints, or null.
        let hints = unsafe { hints.as_ref() };
        // SAFETY: libfabric passes strings, or null, and hints with their attributes.
        let offers = unsafe { offers(node, service, flags, hints) }?;
        let mut list = std::ptr::null_mut();
        for offer in offers.iter().rev() {
            // SAFETY: as above.
            if unsafe { fits(hints, offer) } {
                // SAFETY: as above.
                let info = unsafe { describe(version, hints, offer) };
                let Ok(info) = info else {
                    runtime::free_info(list);
                    return info.map(drop);
                };
                // SAFETY: it was made just now.
                unsafe { (*info).next = list };
                list = info;
            }
        }
        if list.is_null() {
            return Err(Code::NODATA);
        }
        // SAFETY: it is not null, and the caller has room for a pointer there.
        unsafe { out.write(list) };
        Ok(())
    };
    status(get())
}

/// The addresses that a caller may mean.
///
/// # Safety
/// `node` and `service` are null or strings. Hints are an information of libfabric.
unsafe fn offers(
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: Option<&Info>,
) -> Outcome<Vec<Offer>> {
    // SAFETY: addresses in hints have as many bytes as they say.
    let (named_source, named_destination) = unsafe {
        match hints {
            Some(hints) => (
                given(hints.src_addr, hints.src_addrlen)?,
                given(hints.dest_addr, hints.dest_addrlen)?,
            ),
            None => (None, None),
        }
    };
    let is_source = flags & SOURCE != 0;
    let mut found = Vec::new();
    for Interface { name, ip } in interfaces() {
        let mut source = SocketAddr::new(ip, 0);
        let mut destination = named_destination;
        if is_source && !(node.is_null() && service.is_null()) {
            // SAFETY: as the caller promises.
            let own = unsafe { name::resolve(node, service, ip) }?;
            let Some(own) = own.into_iter().find(|own| own.ip() == ip) else {
                continue;
            };
            source = own;
        } else if !is_source && !node.is_null() {
            // SAFETY: as the caller promises.
            let there = unsafe { name::resolve(node, service, ip) }?;
            let reached = there.into_iter().find(|there| route(*there) == Some(ip));
            let Some(there) = reached else {
                continue;
            };
            destination = Some(there);
        }
        if let Some(named) = named_source.filter(|_| !is_source) {
            if named.ip() != ip {
                continue;
            }
            source = named;
        }
        found.push(Offer {
            interface: name,
            source,
            destination,
        });
    }
    Ok(found)
}

/// # Safety
/// The address is null or has as many bytes.
unsafe fn given(address: *const core::ffi::c_void, length: usize) -> Outcome<Option<SocketAddr>> {
    if address.is_null() {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let name = unsafe { Name::read(address, length) };
    name.map(|name| Some(name.address))
        .map_err(|_| Code::NODATA)
}

/// The own address from which packets go to another one.
fn route(to: SocketAddr) -> Option<IpAddr> {
    let anywhere: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => return None,
    };
    let socket = UdpSocket::bind((anywhere, 0)).ok()?;
    // Nothing is sent; the port does not matter.
    socket.connect((to.ip(), to.port().max(1))).ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// Whether an answer has everything that the hints ask for.
///
/// # Safety
/// Hints are an information of libfabric.
unsafe fn fits(hints: Option<&Info>, offer: &Offer) -> bool {
    let Some(hints) = hints else {
        return true;
    };
    // SAFETY: the attributes are there, or null.
    let (tx, rx, ep) = unsafe {
        let Info {
            tx_attr,
            rx_attr,
            ep_attr,
            ..
        } = *hints;
        (tx_attr.as_ref(), rx_attr.as_ref(), ep_attr.as_ref())
    };
    // SAFETY: likewise.
    let (domain, fabric) = unsafe { (hints.domain_attr.as_ref(), hints.fabric_attr.as_ref()) };
    granted(hints.caps).is_ok()
        && matches!(hints.addr_format, 0 | name::FORMAT)
        && tx.is_none_or(fits_tx)
        && rx.is_none_or(fits_rx)
        && ep.is_none_or(fits_ep)
        // SAFETY: names in attributes are strings, or null.
        && domain.is_none_or(|domain| unsafe { fits_domain(domain, &offer.interface) })
        // SAFETY: likewise.
        && fabric.is_none_or(|fabric| unsafe { is_named(fabric.name, fabric::NAME) })
}

fn fits_tx(tx: &TxAttr) -> bool {
    tx.caps & !TX_CAPS == 0
        && tx.op_flags & !TX_FLAGS == 0
        && tx.msg_order & !ORDER_SAS == 0
        && tx.comp_order == 0
        && tx.inject_size <= INJECT_SIZE
        && tx.size <= QUEUE
        && tx.iov_limit <= IOV_LIMIT
        && tx.rma_iov_limit == 0
}

fn fits_rx(rx: &RxAttr) -> bool {
    rx.caps & !RX_CAPS == 0
        && rx.op_flags & !RX_FLAGS == 0
        && rx.msg_order & !ORDER_SAS == 0
        && rx.comp_order == 0
        && rx.size <= QUEUE
        && rx.iov_limit <= IOV_LIMIT
}

const fn fits_ep(ep: &EpAttr) -> bool {
    (ep.kind == 0 || ep.kind == EP_RDM)
        && (ep.protocol == 0 || ep.protocol == PROTOCOL)
        && ep.protocol_version <= PROTOCOL_VERSION
        && ep.max_msg_size <= MAX_MESSAGE
        && ep.msg_prefix_size == 0
        && ep.max_order_raw_size == 0
        && ep.max_order_war_size == 0
        && ep.max_order_waw_size == 0
        && ep.tx_ctx_cnt <= 1
        && ep.rx_ctx_cnt <= 1
        && ep.auth_key_size == 0
}

/// # Safety
/// Its name is a string, or null.
unsafe fn fits_domain(domain: &DomainAttr, interface: &str) -> bool {
    // SAFETY: as the caller promises.
    let is_named = unsafe { is_named(domain.name, interface) };
    is_named
        && domain.data_progress != PROGRESS_AUTO
        && domain.cq_data_size <= size_of::<u64>()
        && domain.mr_key_size <= size_of::<u64>()
        && domain.cq_cnt <= QUEUE
        && domain.ep_cnt <= 1
        && domain.cntr_cnt <= QUEUE
        && domain.caps & !COMMON == 0
        && domain.auth_key_size == 0
}

/// # Safety
/// `asked` is a string, or null.
unsafe fn is_named(asked: *const c_char, name: &str) -> bool {
    // SAFETY: as the caller promises.
    match unsafe { name::text(asked) } {
        Ok(asked) => asked.is_none_or(|asked| asked == name),
        Err(_) => false,
    }
}

/// Makes an answer.
///
/// # Safety
/// Hints are an information of libfabric.
unsafe fn describe(version: u32, hints: Option<&Info>, offer: &Offer) -> Outcome<*mut Info> {
    let new = runtime::new_info().ok_or(Code::NOMEM)?;
    // SAFETY: it was made just now, and nobody else has it.
    let info = unsafe { &mut *new };
    info.caps = granted(hints.map_or(0, |hints| hints.caps))?;
    info.mode = 0;
    info.addr_format = name::FORMAT;
    info.src_addr = runtime::bytes(&Name::new(offer.source).to_bytes());
    info.src_addrlen = LENGTH;
    if let Some(destination) = offer.destination {
        info.dest_addr = runtime::bytes(&Name::new(destination).to_bytes());
        info.dest_addrlen = LENGTH;
    }
    // SAFETY: `new_info` made all attributes; those of hints are there, or null.
    unsafe {
        if let Some(tx) = info.tx_attr.as_mut() {
            describe_tx(
                tx,
                info.caps,
                hints.and_then(|hints| hints.tx_attr.as_ref()),
            );
        }
        if let Some(rx) = info.rx_attr.as_mut() {
            describe_rx(
                rx,
                info.caps,
                hints.and_then(|hints| hints.rx_attr.as_ref()),
            );
        }
        if let Some(ep) = info.ep_attr.as_mut() {
            describe_ep(ep, hints.and_then(|hints| hints.ep_attr.as_ref()));
        }
        if let Some(domain) = info.domain_attr.as_mut() {
            let hints = hints.and_then(|hints| hints.domain_attr.as_ref());
            describe_domain(domain, hints, &offer.interface);
        }
        if let Some(fabric) = info.fabric_attr.as_mut() {
            describe_fabric(fabric, version);
        }
    }
    Ok(new)
}

fn describe_tx(tx: &mut TxAttr, caps: u64, hints: Option<&TxAttr>) {
    tx.caps = caps & TX_CAPS;
    tx.op_flags = hints.map_or(0, |hints| hints.op_flags);
    tx.msg_order = ORDER_SAS;
    tx.inject_size = INJECT_SIZE;
    tx.size = QUEUE;
    tx.iov_limit = IOV_LIMIT;
}

fn describe_rx(rx: &mut RxAttr, caps: u64, hints: Option<&RxAttr>) {
    rx.caps = caps & RX_CAPS;
    rx.op_flags = hints.map_or(0, |hints| hints.op_flags);
    rx.msg_order = ORDER_SAS;
    rx.size = QUEUE;
    rx.iov_limit = IOV_LIMIT;
}

fn describe_ep(ep: &mut EpAttr, hints: Option<&EpAttr>) {
    ep.kind = EP_RDM;
    ep.protocol = PROTOCOL;
    ep.protocol_version = PROTOCOL_VERSION;
    ep.max_msg_size = MAX_MESSAGE;
    // All bits count, however the caller divides them.
    let format = hints.map_or(0, |hints| hints.mem_tag_format);
    ep.mem_tag_format = if format == 0 { ANY_TAG } else { format };
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

/// `FI_TAG_GENERIC`.
const ANY_TAG: u64 = 0xaaaa_aaaa_aaaa_aaaa;

fn describe_domain(domain: &mut DomainAttr, hints: Option<&DomainAttr>, interface: &str) {
    let asked = |field: fn(&DomainAttr) -> u32, usual| match hints.map_or(0, field) {
        0 => usual,
        asked => asked,
    };
    domain.name = runtime::string(interface);
    domain.threading = asked(|hints| hints.threading, THREAD_SAFE);
    domain.control_progress = asked(|hints| hints.control_progress, PROGRESS_MANUAL);
    domain.data_progress = PROGRESS_MANUAL;
    domain.resource_mgmt = asked(|hints| hints.resource_mgmt, RM_ENABLED);
    domain.av_type = asked(|hints| hints.av_type, AV_TABLE);
    domain.mr_mode = 0;
    domain.mr_key_size = size_of::<u64>();
    domain.cq_data_size = size_of::<u64>();
    domain.cq_cnt = QUEUE;
    domain.ep_cnt = 1;
    domain.tx_ctx_cnt = 1;
    domain.rx_ctx_cnt = 1;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.cntr_cnt = QUEUE;
    domain.caps = COMMON;
}

fn describe_fabric(attributes: &mut FabricAttr, version: u32) {
    // libfabric itself enters the name of the provider.
    attributes.name = runtime::string(fabric::NAME);
    attributes.prov_version = crate::VERSION;
    attributes.api_version = version;
}
