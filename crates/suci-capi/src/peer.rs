//! The peers of a node: which there are, and the program's decisions about one.

use crate::entry::on_host;
use crate::error::{ARGUMENT, Failure};
use crate::guard::guard;
use crate::handle::Handle;
use crate::node;
use crate::options::{self, NO_LIMIT};
use crate::pointer::{self, Growable};
use crate::text::{self, AddressText};
use std::ffi::{c_char, c_int};
use std::time::Duration;
use suci::{
    ChannelId, Config, Decision, Error, LinkState, NodeId, Observation, Peer, PeerInfo,
    PeerOptions, Priority,
};

/// Runs `work` on a peer of the node.
pub(crate) fn with_peer<T>(
    node: Handle,
    peer: u32,
    work: impl FnOnce(Peer<'_>) -> Result<T, Error>,
) -> Result<T, Failure> {
    let mut node = node.enter()?;
    let peer = NodeId(peer);
    Ok(on_host!(node.host(), node => work(node.peer(peer)))?)
}

/// Returns the number of the link's state.
pub(crate) fn link_code(link: LinkState) -> u32 {
    match link {
        LinkState::Idle => 0,
        LinkState::Connecting => 1,
        LinkState::Up => 2,
        LinkState::Lost => 3,
        LinkState::Quiet => 4,
    }
}

// ---- which there are

/// Enters a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_add_peer(node: Handle, peer: u32, address: *const c_char) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        // SAFETY: as suci.h asks.
        let address = unsafe { text::required(address, "address") }?;
        let address = text::numeric_address(address)?;
        Ok(on_host!(node.host(), node => node.add_peer(NodeId(peer), address))?)
    })
}

/// Removes a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_remove_peer(
    node: Handle,
    peer: u32,
    had_session: *mut bool,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let had = on_host!(node.host(), node => node.remove_peer(NodeId(peer)))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(had_session, had) };
        Ok(())
    })
}

/// `suci_peer_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawPeerInfo {
    pub(crate) node: u32,
    pub(crate) link: u32,
    pub(crate) known: u8,
    pub(crate) reserved: [u8; 7],
    pub(crate) address: AddressText,
}

impl From<PeerInfo> for RawPeerInfo {
    fn from(info: PeerInfo) -> Self {
        Self {
            node: info.node.0,
            link: link_code(info.link),
            known: info.known.into(),
            reserved: [0; 7],
            address: text::address_text(info.address),
        }
    }
}

/// Lists the peers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peers(
    node: Handle,
    peers: *mut RawPeerInfo,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let all = on_host!(node.host(), node => node.peers())?;
        // SAFETY: as suci.h asks.
        unsafe {
            pointer::fill_list(
                peers,
                capacity,
                count,
                all.into_iter().map(RawPeerInfo::from),
            )
        }
    })
}

// ---- settings

/// `suci_peer_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawPeerOptions {
    pub(crate) size: u32,
    pub(crate) mode: u32,
    pub(crate) controller: u32,
    pub(crate) priority_class: u8,
    pub(crate) priority_weight: u8,
    pub(crate) keep_alive: u8,
    pub(crate) manual_retransmission: u8,
    pub(crate) controller_window: u64,
    pub(crate) rate_cap: u64,
    pub(crate) silence_timeout: i64,
    pub(crate) give_up_after: i64,
}

// SAFETY: `repr(C)`, the size comes first, and integers take any bytes.
unsafe impl Growable for RawPeerOptions {
    const NAME: &'static str = "suci_peer_options";
    const SMALLEST: usize = 48;
}

impl Default for RawPeerOptions {
    fn default() -> Self {
        PeerOptions::new(&Config::default()).into()
    }
}

impl From<PeerOptions> for RawPeerOptions {
    fn from(options: PeerOptions) -> Self {
        let (controller, controller_window) = options::controller_code(options.controller);
        Self {
            size: size_of::<Self>() as u32,
            mode: options::mode_code(options.mode),
            controller,
            priority_class: options.priority.class(),
            priority_weight: options.priority.weight(),
            keep_alive: options.keep_alive.into(),
            manual_retransmission: options.manual_retransmission.into(),
            controller_window,
            rate_cap: options.rate_cap.unwrap_or(NO_LIMIT),
            silence_timeout: options::nanoseconds(options.silence_timeout),
            give_up_after: options::nanoseconds(options.give_up_after),
        }
    }
}

fn priority(class: u8, weight: u8) -> Result<Priority, Failure> {
    Priority::new(class, weight).map_err(|error| Failure::new(ARGUMENT, error.to_string()))
}

impl RawPeerOptions {
    fn options(&self) -> Result<PeerOptions, Failure> {
        Ok(PeerOptions {
            mode: options::mode(self.mode)?,
            priority: priority(self.priority_class, self.priority_weight)?,
            controller: options::controller(self.controller, self.controller_window)?,
            rate_cap: (self.rate_cap != NO_LIMIT).then_some(self.rate_cap),
            silence_timeout: options::time(self.silence_timeout, "silence_timeout")?,
            give_up_after: options::time(self.give_up_after, "give_up_after")?,
            keep_alive: self.keep_alive != 0,
            manual_retransmission: self.manual_retransmission != 0,
        })
    }
}

/// Sets the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_options_init_sized(
    options: *mut RawPeerOptions,
    size: usize,
) -> c_int {
    // SAFETY: as suci.h asks.
    guard(|| unsafe { pointer::begin(options, size, RawPeerOptions::default()) })
}

/// Gives the options of a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_get_options(
    node: Handle,
    peer: u32,
    options: *mut RawPeerOptions,
) -> c_int {
    guard(|| {
        let known = with_peer(node, peer, |peer| peer.options())?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(options, known.into()) }
    })
}

/// Sets the options of a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_set_options(
    node: Handle,
    peer: u32,
    options: *const RawPeerOptions,
) -> c_int {
    guard(|| {
        pointer::output(options.cast_mut(), "options")?;
        // SAFETY: as suci.h asks.
        let options = unsafe { pointer::read(options, RawPeerOptions::default()) }?;
        let options = options.options()?;
        with_peer(node, peer, |peer| peer.set_options(options))
    })
}

/// Sets the priority of a channel.
#[unsafe(no_mangle)]
pub extern "C" fn suci_peer_set_channel_priority(
    node: Handle,
    peer: u32,
    channel: u32,
    priority_class: u8,
    priority_weight: u8,
) -> c_int {
    guard(|| {
        let priority = priority(priority_class, priority_weight)?;
        let channel = ChannelId(channel);
        with_peer(node, peer, |peer| {
            peer.set_channel_priority(channel, priority)
        })
    })
}

/// `suci_limits`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(crate) window: u64,
    pub(crate) pace: u64,
    pub(crate) ack_interval: i64,
}

impl From<Limits> for Decision {
    fn from(limits: Limits) -> Self {
        let limit = |value: u64| (value != NO_LIMIT).then_some(value);
        Self {
            window: limit(limits.window),
            pace: limit(limits.pace),
            ack_interval: u64::try_from(limits.ack_interval)
                .ok()
                .map(Duration::from_nanos),
            again: None,
        }
    }
}

/// Sets the program's limits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_steer(node: Handle, peer: u32, limits: *const Limits) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks.
        let decision = unsafe { limits.as_ref() }.copied().map(Decision::from);
        with_peer(node, peer, |peer| match decision {
            Some(decision) => peer.steer(move |_: &Observation| decision),
            None => peer.unsteer(),
        })
    })
}

// ---- connection and flow

/// Opens a connection.
#[unsafe(no_mangle)]
pub extern "C" fn suci_peer_connect(node: Handle, peer: u32) -> c_int {
    guard(|| with_peer(node, peer, |peer| peer.connect()))
}

/// Suspends the session.
#[unsafe(no_mangle)]
pub extern "C" fn suci_peer_suspend(node: Handle, peer: u32) -> c_int {
    guard(|| with_peer(node, peer, |peer| peer.suspend()))
}

/// Resumes the session.
#[unsafe(no_mangle)]
pub extern "C" fn suci_peer_resume(node: Handle, peer: u32) -> c_int {
    guard(|| with_peer(node, peer, |peer| peer.resume()))
}

/// Finishes a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_finish_channel(
    node: Handle,
    peer: u32,
    channel: u32,
    finished: *mut bool,
) -> c_int {
    guard(|| {
        let done = with_peer(node, peer, |peer| peer.finish_channel(ChannelId(channel)))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(finished, done) };
        Ok(())
    })
}

/// Takes messages back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_cancel(
    node: Handle,
    peer: u32,
    channel: u32,
    cookie: u64,
    count: *mut u64,
) -> c_int {
    guard(|| {
        let cancelled = with_peer(node, peer, |peer| peer.cancel(ChannelId(channel), cookie))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(count, cancelled) };
        Ok(())
    })
}

/// Sends again what is not acknowledged.
#[unsafe(no_mangle)]
pub extern "C" fn suci_peer_retransmit(node: Handle, peer: u32) -> c_int {
    guard(|| with_peer(node, peer, |peer| peer.retransmit()))
}

/// Closes the session.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_close(
    node: Handle,
    peer: u32,
    patience: i64,
    had_session: *mut bool,
) -> c_int {
    guard(|| {
        let patience = node::patience(patience);
        let had = with_peer(node, peer, |peer| peer.close(patience))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(had_session, had) };
        Ok(())
    })
}

/// Gives the session up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_reset(node: Handle, peer: u32, had_session: *mut bool) -> c_int {
    guard(|| {
        let had = with_peer(node, peer, |peer| peer.reset())?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(had_session, had) };
        Ok(())
    })
}

// ---- what is known

/// Gives the length of the queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_queue(
    node: Handle,
    peer: u32,
    messages: *mut u64,
    bytes: *mut u64,
) -> c_int {
    guard(|| {
        let (queued, length) = with_peer(node, peer, |peer| peer.queue_len())?;
        // SAFETY: as suci.h asks.
        unsafe {
            pointer::put(messages, queued);
            pointer::put(bytes, length);
        }
        Ok(())
    })
}

/// Gives the number of delivered messages.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_delivered(
    node: Handle,
    peer: u32,
    channel: u32,
    messages: *mut u64,
) -> c_int {
    guard(|| {
        let delivered = with_peer(node, peer, |peer| peer.delivered(ChannelId(channel)))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(messages, delivered, "messages") }
    })
}

/// Gives the remote window.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_remote_window(
    node: Handle,
    peer: u32,
    channel: u32,
    bytes: *mut u64,
) -> c_int {
    guard(|| {
        let window = with_peer(node, peer, |peer| peer.remote_window(ChannelId(channel)))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::give(bytes, window, "bytes") }
    })
}

/// Gives the name of the congestion controller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_controller(
    node: Handle,
    peer: u32,
    text: *mut c_char,
    size: usize,
    length: *mut usize,
) -> c_int {
    guard(|| {
        let name = with_peer(node, peer, |peer| peer.controller())?;
        // SAFETY: as suci.h asks.
        unsafe { text::give(name.unwrap_or_default(), text, size, length) }
    })
}
