//! The messages of membership (docs/protocol-layers.md, section 19).

use super::record::{Record, Status};
use super::table::BUCKETS;
use core::net::{IpAddr, SocketAddr};
use suci_proto::types::{Incarnation, NodeId};
use suci_proto::wire::{Malformed, Reader, varint};

/// Longest message. Longer ones are dropped unread.
pub const MAX_MESSAGE: usize = 16 << 10;

/// Longest name of a cluster in bytes.
pub const MAX_CLUSTER_NAME: usize = 64;

/// Bytes of the longest record: of an IPv6 address, with a version of 9 bytes.
pub(super) const LONGEST_RECORD: usize = 4 + 16 + varint::MAX + 1 + LONGEST_ADDRESS;

/// Family, IPv6 address and port.
const LONGEST_ADDRESS: usize = 1 + 16 + 2;

/// Bytes before the records of the longest message.
pub(super) const LONGEST_HEADER: usize = 1 + 8 + LONGEST_ADDRESS + 8;

const _: () = assert!(
    LONGEST_HEADER + LONGEST_RECORD + 4 * BUCKETS <= MAX_MESSAGE,
    "a digest is one message"
);

const DIGEST: u8 = 0;
const RECORDS: u8 = 1;
const RANGE: u8 = 2;
const OTHER_CLUSTER: u8 = 3;

const NO_ADDRESS: u8 = 0;
const IPV4: u8 = 4;
const IPV6: u8 = 6;

/// A message between members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipMessage {
    /// The number of the sender's cluster ([`cluster_number`]).
    pub cluster: u64,
    /// The address at which the sender reaches the receiver, if it knows.
    pub observed: Option<SocketAddr>,
    /// The content.
    pub body: MembershipBody,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipBody {
    /// The sender's own record and the digest of its table. The receiver answers with the ranges
    /// that differ.
    Digest {
        /// The sender's record.
        own: Record,
        /// One number for each bucket.
        buckets: Box<[u32; BUCKETS]>,
    },
    /// Records that are new.
    Records(Vec<Record>),
    /// All members present whose position is in a range. The receiver answers with what it knows
    /// better.
    Range {
        /// The first position.
        first: u32,
        /// The last position.
        last: u32,
        /// Their records.
        records: Vec<Record>,
    },
    /// The answer to a message of another cluster: the sender's own cluster.
    OtherCluster(String),
}

/// Returns the number of the cluster with this name: FNV-1a with 64 bits.
#[must_use]
pub fn cluster_number(name: &str) -> u64 {
    fnv(name.as_bytes())
}

/// FNV-1a with 64 bits (Fowler, Noll, Vo; RFC 9923).
pub(super) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl MembershipMessage {
    /// Returns the bytes of the message.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.push(match self.body {
            MembershipBody::Digest { .. } => DIGEST,
            MembershipBody::Records(_) => RECORDS,
            MembershipBody::Range { .. } => RANGE,
            MembershipBody::OtherCluster(_) => OTHER_CLUSTER,
        });
        bytes.extend(self.cluster.to_le_bytes());
        match self.observed {
            Some(address) => write_address(&mut bytes, address),
            None => bytes.push(NO_ADDRESS),
        }
        match &self.body {
            MembershipBody::Digest { own, buckets } => {
                write_record(&mut bytes, own);
                bytes.extend(buckets.iter().flat_map(|bucket| bucket.to_le_bytes()));
            }
            MembershipBody::Records(records) => {
                records.iter().for_each(|it| write_record(&mut bytes, it));
            }
            MembershipBody::Range {
                first,
                last,
                records,
            } => {
                bytes.extend(first.to_le_bytes());
                bytes.extend(last.to_le_bytes());
                records.iter().for_each(|it| write_record(&mut bytes, it));
            }
            MembershipBody::OtherCluster(name) => bytes.extend(name.as_bytes()),
        }
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are no message, or are longer than [`MAX_MESSAGE`].
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() > MAX_MESSAGE {
            return Err(Malformed("longer than a message of membership may be"));
        }
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        let cluster = reader.u64()?;
        let observed = read_address(&mut reader)?;
        let body = match kind {
            DIGEST => read_digest(&mut reader)?,
            RECORDS => MembershipBody::Records(read_records(&mut reader)?),
            RANGE => MembershipBody::Range {
                first: reader.u32()?,
                last: reader.u32()?,
                records: read_records(&mut reader)?,
            },
            OTHER_CLUSTER => MembershipBody::OtherCluster(read_name(&mut reader)?),
            _ => return Err(Malformed("unknown kind of membership message")),
        };
        if reader.peek().is_some() {
            return Err(Malformed("bytes after a membership message"));
        }
        Ok(Self {
            cluster,
            observed,
            body,
        })
    }
}

/// Appends the bytes of a record.
pub(super) fn write_record(bytes: &mut Vec<u8>, record: &Record) {
    bytes.extend(record.node.0.to_le_bytes());
    bytes.extend(record.incarnation.0.to_le_bytes());
    varint::put(bytes, record.version);
    bytes.push(record.status as u8);
    write_address(bytes, record.address);
}

fn write_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            bytes.push(IPV4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(IPV6);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(address.port().to_le_bytes());
}

fn read_address(reader: &mut Reader<'_>) -> Result<Option<SocketAddr>, Malformed> {
    let ip: IpAddr = match reader.u8()? {
        NO_ADDRESS => return Ok(None),
        IPV4 => reader.fixed::<4>()?.into(),
        IPV6 => reader.fixed::<16>()?.into(),
        _ => return Err(Malformed("unknown family of an address")),
    };
    Ok(Some(SocketAddr::new(ip, reader.u16()?)))
}

fn read_record(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    Ok(Record {
        node: NodeId(reader.u32()?),
        incarnation: Incarnation(reader.u128()?),
        version: reader.varint()?,
        status: match reader.u8()? {
            0 => Status::Alive,
            1 => Status::Suspect,
            2 => Status::Failed,
            3 => Status::Left,
            _ => return Err(Malformed("unknown status of a member")),
        },
        address: read_address(reader)?.ok_or(Malformed("a member without an address"))?,
    })
}

/// Reads records up to the end. Each has at least 27 bytes, so the message bounds their number.
fn read_records(reader: &mut Reader<'_>) -> Result<Vec<Record>, Malformed> {
    let mut records = Vec::new();
    while reader.peek().is_some() {
        records.push(read_record(reader)?);
    }
    Ok(records)
}

fn read_digest(reader: &mut Reader<'_>) -> Result<MembershipBody, Malformed> {
    let own = read_record(reader)?;
    let mut buckets = Box::new([0; BUCKETS]);
    for bucket in buckets.iter_mut() {
        *bucket = reader.u32()?;
    }
    Ok(MembershipBody::Digest { own, buckets })
}

fn read_name(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let mut name = Vec::new();
    while reader.peek().is_some() && name.len() < MAX_CLUSTER_NAME {
        name.push(reader.u8()?);
    }
    String::from_utf8(name).map_err(|_| Malformed("the name of a cluster is no text"))
}
