//! Which way a node's datagrams take to the network.

use crate::error::{Error, bind_error};
use std::io;
use std::str::FromStr;
use suci_net::Backend;
use suci_net::af_packet::AfPacket;
pub use suci_net::af_packet::EtherType;
use suci_net::af_xdp::AfXdp;
use suci_net::fault::{Fault, FaultSpec};
use suci_net::udp::{Udp, UdpOptions};

/// How a node's datagrams reach the network. Nodes of different kinds understand each other, but
/// for [`BackendKind::Ethernet`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendKind {
    /// The kernel's UDP: the default.
    #[default]
    Udp,
    /// UDP datagrams in Ethernet frames that the library itself makes and reads (`packet(7)`), past
    /// the kernel's IP, its firewall and its connection tracking. Needs the capability
    /// `CAP_NET_RAW`, and a node that listens at one IPv4 address. Peers behind a router, and those
    /// on this machine, are reached by the kernel's UDP, from the same port.
    AfPacket,
    /// The same frames in memory that is shared with the kernel (AF_XDP): no system call receives,
    /// one sends a train. Needs the capabilities `CAP_BPF`, `CAP_NET_ADMIN` and
    /// `CAP_NET_RAW`, an interface for this node alone whose packets have at most 3,826 bytes, and
    /// one I/O thread. Without the driver's help ("copy mode") frames are copied once each way.
    AfXdp,
    /// As [`BackendKind::AfPacket`], but frames for neighbours have an EtherType of their own and
    /// no UDP in them, so that the receiver's kernel leaves them alone. All nodes of the network
    /// that talk to each other must have this kind and the same type. Each packet is a system call.
    Ethernet(EtherType),
}

/// Why a text is no [`BackendKind`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "none of udp, af_packet, af_xdp, ethernet and ethernet:TYPE (an EtherType in hexadecimal, from \
     0600, of no other protocol)"
)]
pub struct UnknownBackend;

impl FromStr for BackendKind {
    type Err = UnknownBackend;

    fn from_str(text: &str) -> Result<Self, UnknownBackend> {
        match text {
            "udp" => Ok(Self::Udp),
            "af_packet" => Ok(Self::AfPacket),
            "af_xdp" => Ok(Self::AfXdp),
            "ethernet" => Ok(Self::Ethernet(EtherType::LOCAL_EXPERIMENTAL)),
            _ => {
                let digits = text.strip_prefix("ethernet:").ok_or(UnknownBackend)?;
                let number = u16::from_str_radix(digits, 16).map_err(|_| UnknownBackend)?;
                let ether_type = EtherType::new(number).ok_or(UnknownBackend)?;
                Ok(Self::Ethernet(ether_type))
            }
        }
    }
}

impl BackendKind {
    /// Whether datagrams have a checksum beside that of the packet.
    pub(crate) const fn has_checksum(self) -> bool {
        matches!(self, Self::Udp | Self::AfPacket)
    }

    /// Opens `count` backends at the port of `first`, each with the faults if there are any.
    pub(crate) fn open(
        self,
        first: Udp,
        count: usize,
        options: &UdpOptions,
        faults: Option<FaultSpec>,
    ) -> Result<Vec<Box<dyn Backend>>, Error> {
        let address = first.local_addr();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => bind_error(address, source),
            _ => Error::io("opening a socket for each thread, and steering datagrams to them")(
                source,
            ),
        };
        Ok(match self {
            Self::Udp => boxed(first.into_group(count, options).map_err(failed)?, faults),
            Self::AfPacket | Self::Ethernet(_) => {
                let ether_type = match self {
                    Self::Ethernet(ether_type) => Some(ether_type),
                    _ => None,
                };
                let first = AfPacket::over(first, ether_type, options);
                let first = first.map_err(|source| bind_error(address, source))?;
                boxed(first.into_group(count, options).map_err(failed)?, faults)
            }
            Self::AfXdp => {
                if count > 1 {
                    let text = "AF_XDP serves one I/O thread: ask for one, or for another backend";
                    return Err(bind_error(address, io::Error::other(text)));
                }
                let only = AfXdp::over(first, options);
                boxed(
                    vec![only.map_err(|source| bind_error(address, source))?],
                    faults,
                )
            }
        })
    }
}

fn boxed<B: Backend + 'static>(all: Vec<B>, faults: Option<FaultSpec>) -> Vec<Box<dyn Backend>> {
    let boxed = |backend| -> Box<dyn Backend> {
        match faults {
            Some(spec) => Box::new(Fault::new(backend, spec)),
            None => Box::new(backend),
        }
    };
    all.into_iter().map(boxed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::NodeBuilder;

    #[test]
    fn a_name_chooses_and_another_is_refused() {
        let own = |number| Ok(BackendKind::Ethernet(EtherType::new(number).unwrap()));
        for (text, expected) in [
            ("udp", Ok(BackendKind::Udp)),
            ("af_packet", Ok(BackendKind::AfPacket)),
            ("af_xdp", Ok(BackendKind::AfXdp)),
            ("ethernet", own(0x88b5)),
            ("ethernet:88b6", own(0x88b6)),
            // IPv4, a length, no number.
            ("ethernet:0800", Err(UnknownBackend)),
            ("ethernet:05ff", Err(UnknownBackend)),
            ("ethernet:", Err(UnknownBackend)),
            ("raw", Err(UnknownBackend)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    /// Packets without a UDP checksum keep their own, whatever the program asks for.
    #[test]
    fn f30_payloads_keep_a_checksum() {
        let own_type = BackendKind::Ethernet(EtherType::LOCAL_EXPERIMENTAL);
        for (kind, covered) in [
            (BackendKind::Udp, false),
            (BackendKind::AfPacket, false),
            (BackendKind::AfXdp, true),
            (own_type, true),
        ] {
            let builder = NodeBuilder::default().backend(kind);
            let config = builder.payload_checksum(false).part_of_config(1).unwrap();
            assert_eq!(config.payload_checksum, covered, "{kind:?}");
        }
    }
}
