//! The packets of the handshake, and the messages of a sealed one in INIT and ACCEPT.

use crate::log::DropReason;
use crate::shared::Identity;
use suci_link::arrival::Arrival;
use suci_link::security::{ConnectionKeys, HandshakeError, Initiator, Responder, Security};
use suci_link::time::Instant;
use suci_link::types::NodeId;
use suci_link::wire::{
    Accept, CrcScope, HELLO_LEN, Header, Hello, Init, PacketType, Params, handshake_context,
    put_header, seal,
};

/// A packet that arrived: of the handshake, or the first one of a train.
#[derive(Clone, Copy)]
pub(crate) struct ArrivedPacket<'a> {
    pub(crate) now: Instant,
    pub(crate) arrival: &'a Arrival,
    pub(crate) header: &'a Header,
    pub(crate) body: &'a [u8],
    /// All bytes of a handshake packet.
    pub(crate) datagram: &'a [u8],
}

/// Builds a handshake packet under this node ID.
pub(crate) fn build(
    node: NodeId,
    kind: PacketType,
    number: u64,
    token: u64,
    body: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HELLO_LEN);
    put_header(
        &mut bytes,
        &Header {
            kind,
            scope: CrcScope::Datagram,
            index: node.0,
            number,
            tag: token,
        },
    );
    body(&mut bytes);
    seal(&mut bytes);
    bytes
}

/// Returns the HELLO of an attempt.
pub(crate) fn hello(from: Identity, target: NodeId, token: u64) -> Vec<u8> {
    let incarnation = from.incarnation;
    build(from.node, PacketType::Hello, 0, token, |b| {
        Hello {
            target,
            incarnation,
        }
        .put(b)
    })
}

/// The bytes of an INIT, and in sealed mode the state of its handshake.
type InitPacket = (Vec<u8>, Option<Box<dyn Initiator>>);

/// The node's ID and keys, with which packets of the handshake are made.
#[derive(Clone, Copy)]
pub(crate) struct Issuer<'a> {
    pub(crate) node: NodeId,
    pub(crate) security: &'a Security,
}

impl Issuer<'_> {
    /// Returns the INIT of an attempt, with frames that ride on it, and in sealed mode the state of
    /// its handshake: it has message 1 of one under the key that `keys_refused` selects.
    ///
    /// # Errors
    /// No message can be made now.
    pub(crate) fn init(
        self,
        number: u64,
        token: u64,
        keys_refused: u32,
        init: &mut Init<'_>,
    ) -> Result<InitPacket, HandshakeError> {
        let kind = PacketType::Init;
        let Security::Sealed(makes) = self.security else {
            let bytes = build(self.node, kind, number, token, |b| init.put(b));
            return Ok((bytes, None));
        };
        let len = makes.message_len();
        init.params.sealed = Some(vec![0; len]);
        let mut bytes = build(self.node, kind, number, token, |b| init.put(b));
        let peer = init.target;
        let initiator = write_message(&mut bytes, len, |context, message| {
            makes.initiate(peer, keys_refused, context, message)
        })?;
        seal(&mut bytes);
        Ok((bytes, Some(initiator)))
    }

    /// Returns the ACCEPT that answers an INIT with this token, and the keys of a sealed
    /// connection.
    ///
    /// # Errors
    /// No message can be made now.
    pub(crate) fn accept(
        self,
        number: u64,
        token: u64,
        accept: &mut Accept,
        opened: Opened,
    ) -> Result<(Vec<u8>, Option<ConnectionKeys>), HandshakeError> {
        let kind = PacketType::Accept;
        let (Security::Sealed(makes), Some(responder)) = (self.security, opened) else {
            let bytes = build(self.node, kind, number, token, |b| accept.put(b));
            return Ok((bytes, None));
        };
        let len = makes.message_len();
        accept.params.sealed = Some(vec![0; len]);
        let mut bytes = build(self.node, kind, number, token, |b| accept.put(b));
        let keys = write_message(&mut bytes, len, |context, message| {
            responder.answer(context, message)
        })?;
        seal(&mut bytes);
        Ok((bytes, Some(keys)))
    }
}

/// Builds an UNKNOWN: a hint that `cause` belongs to no connection here.
pub(crate) fn unknown(node: NodeId, cause: &Header) -> Vec<u8> {
    build(node, PacketType::Unknown, cause.number, cause.tag, |_| {})
}

/// The state of a handshake whose first message this node read; `None` in plain mode.
pub(crate) type Opened = Option<Box<dyn Responder>>;

/// Returns the handshake message at the end of `datagram`, an INIT or ACCEPT with these parameters,
/// and its context. `None` if there is none, or if frames follow it.
pub(crate) fn message<'a>(
    params: &'a Params,
    ride: &[u8],
    datagram: &[u8],
) -> Option<(&'a [u8], Vec<u8>)> {
    let message = params.sealed.as_deref().filter(|_| ride.is_empty())?;
    Some((message, handshake_context(datagram, message.len())))
}

/// Reads the handshake message of an ACCEPT with these parameters.
///
/// # Errors
/// It does not belong to `handshake`, or has the other mode.
pub(crate) fn finish_handshake(
    handshake: Option<&mut dyn Initiator>,
    params: &Params,
    datagram: &[u8],
) -> Result<Option<ConnectionKeys>, DropReason> {
    match (handshake, message(params, &[], datagram)) {
        (None, None) => Ok(None),
        (Some(handshake), Some((message, context))) => handshake
            .finish(&context, message)
            .map(Some)
            .map_err(|_| DropReason::NotAuthentic),
        _ => Err(DropReason::OtherMode),
    }
}

/// Fills `message`, the end of `packet`, an INIT or ACCEPT that has zeros there.
fn write_message<T>(
    packet: &mut [u8],
    message: usize,
    write: impl FnOnce(&[u8], &mut [u8]) -> Result<T, HandshakeError>,
) -> Result<T, HandshakeError> {
    let context = handshake_context(packet, message);
    let at = packet.len().saturating_sub(message);
    write(&context, packet.get_mut(at..).unwrap_or_default())
}
