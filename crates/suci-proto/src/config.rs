//! Configuration: plain data with documented defaults, validated once.

use suci_channels::message::PlacedBy;
use suci_channels::port::Ports;
use suci_link::congestion::ControllerChoice;
use suci_link::limits;
use suci_link::security::{PhaseLimit, Security};
use suci_link::time::Duration;
use suci_link::wire::Mode;

/// The nodes that may open a session with this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptPolicy {
    /// Only nodes of the address book.
    #[default]
    Book,
    /// Any node that proves its address. Messages to a node outside the book go to the address
    /// where it was last heard. If another process with its ID was heard there, messages wait until
    /// the node connects.
    Anyone,
}

/// The settings of an engine. `Config::default()` is the one default configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes of received data that may be held for the program, over all peers. The buffers that
    /// hold the data may be longer: by a quarter, or by half as long as no packet gave a message's
    /// length. Range 1 MiB and up; default 256 MiB. Allow 128 KiB for each peer: a new peer is
    /// refused if its session can be promised no window.
    pub memory: u64,
    /// Longest message accepted without asking the program, in bytes. At most half of `memory`;
    /// default 64 MiB. Longer ones raise [`crate::Event::Incoming`].
    pub max_message: u64,
    /// Bytes that messages may count ([`Held::charge`](suci_channels::message::Held)) in the send
    /// queue to one peer, for each class of channels; beyond that `send` refuses. Default 64 MiB.
    /// One longer message is taken when the class has nothing else queued, and one on each channel
    /// of a group in any case. Messages that no program sends (packets of others that this node
    /// sends on, news about members) have this bound for themselves.
    pub send_queue: u64,
    /// Messages longer than this many bytes ask the receiver first; default 256 KiB. Over a path
    /// with a long round trip the limit rises to the bytes that 8 Gbit/s carries in one round trip,
    /// at most 4 MiB.
    pub rts_threshold: u64,
    /// Silence after which a peer with something outstanding counts as lost; default 10 s.
    pub silence_timeout: Duration,
    /// Silence after which the session ends; default 5 min.
    pub give_up_after: Duration,
    /// Longest time that an acknowledgement waits for a packet that carries it; default 2 ms, at
    /// most 1 s.
    pub max_ack_delay: Duration,
    /// Acknowledgements wait for the next [`crate::Engine::begin_cycle`] instead of a timer, as
    /// fits a program that polls by itself; default false.
    pub ack_on_poll: bool,
    /// Mode of the traffic to peers for which the program set none
    /// ([`crate::Engine::change_options`]); default [`Mode::Adaptive`].
    pub mode: Mode,
    /// The nodes that may open a session; default [`AcceptPolicy::Book`].
    pub accept: AcceptPolicy,
    /// Maximum number of peers: this many nodes in the book, and this many that are strangers or
    /// were connected at some time. Nodes of the book that were never connected take no slot from
    /// strangers. Default 16,384.
    pub max_peers: usize,
    /// Largest UDP payload sent or received, in bytes; default 8,180. Large packets save work on
    /// paths that carry them (loopback, jumbo frames), but the socket buffer is shared out in
    /// packets of the size that a peer may send. So each peer is allowed the size that its path
    /// carries, or a smaller one of 65,507, 32,740, 16,356, 8,972 and 4,068: the largest of which
    /// half of the buffer holds 128 packets, and 8 for each known peer. Otherwise it is 1,472
    /// (Ethernet). It is also 1,472 if the system does not know the packet size of a route.
    pub max_datagram: usize,
    /// Protection of packets; default [`Security::Plain`]. Both ends of a connection need the same.
    pub security: Security,
    /// Maximum number of packets sealed in one key phase; default and maximum
    /// [`limits::PHASE_PACKETS`], at least 1,024.
    pub phase_packets: u64,
    /// Time of a key phase; default and maximum [`limits::PHASE_TIME`], at least 5 s: it begins
    /// with a PING, whose answer must not begin one at the other end, too.
    pub phase_time: Duration,
    /// CRC32C over the payload too, not only over the header; default true. Sealed packets have no
    /// CRC.
    pub payload_checksum: bool,
    /// Announce that the engine does not run while the program computes: peers then report this
    /// node as quiet, not lost, and never give it up; default false.
    pub unattended: bool,
    /// Notice the silence of idle peers too, by probing them; default false.
    pub keep_alive: bool,
    /// Mark datagrams as ECN capable; default true.
    pub ecn: bool,
    /// Maximum rate in bytes per second of messages to each peer, in UDP payload; default `None`,
    /// no cap. [`PeerOptions`](crate::PeerOptions) change it for one peer.
    pub rate_cap: Option<u64>,
    /// The congestion controller that connections begin with; default [`ControllerChoice::Auto`].
    /// [`PeerOptions`](crate::PeerOptions) change it for one peer.
    pub controller: ControllerChoice,
    /// Names memory for messages that begin; default none.
    pub placement: PlacedBy,
    /// Where layers take their input ([`Engine::poll_port`](crate::Engine::poll_port)); default
    /// none. Messages for other ports go to the program.
    pub ports: Ports,
    /// Number of a connection's first packet; default 0. Tests begin near 2^64.
    pub first_packet_number: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            max_message: 64 << 20,
            send_queue: 64 << 20,
            rts_threshold: 256 << 10,
            silence_timeout: Duration::from_secs(10),
            give_up_after: Duration::from_secs(300),
            max_ack_delay: Duration::from_millis(2),
            ack_on_poll: false,
            mode: Mode::Adaptive,
            accept: AcceptPolicy::Book,
            max_peers: 16_384,
            max_datagram: limits::JUMBO_DATAGRAM,
            security: Security::default(),
            phase_packets: limits::PHASE_PACKETS,
            phase_time: limits::PHASE_TIME,
            payload_checksum: true,
            unattended: false,
            keep_alive: false,
            ecn: true,
            rate_cap: None,
            controller: ControllerChoice::Auto,
            placement: PlacedBy::default(),
            ports: Ports::default(),
            first_packet_number: 0,
        }
    }
}

/// A setting out of its range. Names the setting, its value and the allowed range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} = {value}: must be {allowed}")]
pub struct ConfigError {
    /// The field's name.
    pub setting: &'static str,
    /// The rejected value.
    pub value: String,
    /// The allowed values.
    pub allowed: &'static str,
}

fn check(
    ok: bool,
    setting: &'static str,
    value: &dyn core::fmt::Debug,
    allowed: &'static str,
) -> Result<(), ConfigError> {
    if ok {
        Ok(())
    } else {
        Err(ConfigError {
            setting,
            value: format!("{value:?}"),
            allowed,
        })
    }
}

/// Checks the limits of silence, for all peers or for one.
pub(crate) fn check_patience(
    silence_timeout: Duration,
    give_up_after: Duration,
) -> Result<(), ConfigError> {
    check(
        silence_timeout >= Duration::from_millis(100),
        "silence_timeout",
        &silence_timeout,
        "at least 100 ms",
    )?;
    check(
        give_up_after >= silence_timeout,
        "give_up_after",
        &give_up_after,
        "at least silence_timeout",
    )
}

impl Config {
    /// Returns how long a key phase lasts.
    pub(crate) const fn phase_limit(&self) -> PhaseLimit {
        PhaseLimit {
            packets: self.phase_packets,
            time: self.phase_time,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let second = Duration::from_secs(1);
        check(
            self.memory >= 1 << 20,
            "memory",
            &self.memory,
            "at least 1 MiB",
        )?;
        check(
            self.max_message <= self.memory / 2,
            "max_message",
            &self.max_message,
            "at most half of memory",
        )?;
        check(
            self.send_queue >= 1 << 16,
            "send_queue",
            &self.send_queue,
            "at least 64 KiB",
        )?;
        check(
            (1 << 10..=1 << 20).contains(&self.rts_threshold),
            "rts_threshold",
            &self.rts_threshold,
            "1 KiB to 1 MiB",
        )?;
        check_patience(self.silence_timeout, self.give_up_after)?;
        check(
            self.max_ack_delay <= second,
            "max_ack_delay",
            &self.max_ack_delay,
            "at most 1 s",
        )?;
        check(
            (1_024..=limits::PHASE_PACKETS).contains(&self.phase_packets),
            "phase_packets",
            &self.phase_packets,
            "1,024 to 2^27",
        )?;
        check(
            (5 * second..=limits::PHASE_TIME).contains(&self.phase_time),
            "phase_time",
            &self.phase_time,
            "5 s to 10 min",
        )?;
        check(
            (1..=1 << 20).contains(&self.max_peers),
            "max_peers",
            &self.max_peers,
            "1 to 1,048,576",
        )?;
        check(
            (limits::MIN_MTU..=limits::MAX_DATAGRAM).contains(&self.max_datagram),
            "max_datagram",
            &self.max_datagram,
            "1,200 to 65,507 bytes",
        )
    }
}
