//! A peer of the attackers' own making: it connects as the protocol wants, and then sends what it
//! likes. In sealed mode it is a member of the cluster with the key.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use suci::security::{Cipher, ClusterKey, Keyring};
use suci_proto::security::{AEAD_TAG, ConnectionKeys, Handshakes, Initiator, KeyKind, Security};
use suci_proto::types::{Incarnation, NodeId};
use suci_proto::wire::{
    self, Accept, Cookie, CrcScope, Credit, Header, Hello, Init, PacketType, Params, SealedHeader,
};

use crate::scene::{KEY, LIMIT, Scene, VICTIM};
use crate::text;

/// Longest wait for one answer.
const ANSWER: Duration = Duration::from_millis(200);

/// Makes handshake messages as a member of the cluster does.
pub(crate) fn member() -> Result<Arc<dyn Handshakes>, String> {
    let keys = Keyring::from(ClusterKey::from_bytes(&KEY));
    match keys.security(Cipher::ALL[0]) {
        Security::Sealed(makes) => Ok(makes),
        Security::Plain => Err("a keyring seals".into()),
    }
}

/// A packet of the plain format with a right checksum.
pub(crate) fn packet(kind: PacketType, index: u32, number: u64, tag: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let scope = CrcScope::Datagram;
    let header = Header {
        kind,
        scope,
        index,
        number,
        tag,
    };
    wire::put_header(&mut bytes, &header);
    bytes.extend_from_slice(body);
    wire::seal(&mut bytes);
    bytes
}

/// A HELLO to the victim in the name of `node`.
pub(crate) fn hello(node: u32, token: u64) -> Vec<u8> {
    let mut body = Vec::new();
    let incarnation = Incarnation(u128::from(token) << 32 | u128::from(node));
    Hello {
        target: VICTIM,
        incarnation,
    }
    .put(&mut body);
    packet(PacketType::Hello, node, 0, token, &body)
}

/// An INIT, with the state of its handshake in sealed mode.
type InitPacket = (Vec<u8>, Option<Box<dyn Initiator>>);

/// An attacker's knowledge after COOKIE.
pub(crate) struct Invitation {
    pub(crate) cookie: Cookie,
    token: u64,
    node: u32,
}

impl Invitation {
    /// Makes the INIT; in sealed mode as a member that `makes` handshake messages.
    pub(crate) fn init(&self, makes: Option<&Arc<dyn Handshakes>>) -> Result<InitPacket, String> {
        let len = makes.map(|makes| makes.message_len());
        let grant = Credit {
            generation: 0,
            limit: 1_000,
            control: 64,
            memory: 1 << 20,
        };
        let init = Init {
            target: VICTIM,
            incarnation: Incarnation(u128::from(self.token) << 32 | u128::from(self.node)),
            peer_incarnation: self.cookie.incarnation,
            epoch: self.cookie.epoch,
            index: self.node & 0xff,
            tag: self.token,
            cookie: self.cookie.cookie,
            grant,
            params: Params {
                node_keys: makes.is_some_and(|makes| makes.kind() == KeyKind::Node),
                sealed: len.map(|len| vec![0; len]),
                ..Params::default()
            },
            ride: &[],
        };
        let mut body = Vec::new();
        init.put(&mut body);
        let mut bytes = packet(PacketType::Init, self.node, 0, self.token, &body);
        let mut initiator = None;
        if let (Some(makes), Some(len)) = (makes, len) {
            let context = wire::handshake_context(&bytes, len);
            let at = bytes.len().saturating_sub(len);
            let message = bytes.get_mut(at..).unwrap_or_default();
            initiator = Some(makes.initiate(VICTIM, 0, &context, message).map_err(text)?);
            wire::seal(&mut bytes);
        }
        Ok((bytes, initiator))
    }
}

/// Asks the victim for a cookie.
pub(crate) fn invited(socket: &UdpSocket, node: u32, token: u64) -> Result<Invitation, String> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        socket.send(&hello(node, token)).map_err(text)?;
        if let Some((header, body)) = answer(socket)
            && header.kind == PacketType::Cookie
            && header.tag == token
        {
            let cookie = Cookie::read(body.get(wire::PLAIN_OVERHEAD..).unwrap_or_default());
            let cookie = cookie.map_err(text)?;
            return Ok(Invitation {
                cookie,
                token,
                node,
            });
        }
    }
    Err("the victim answers no HELLO".into())
}

/// The next handshake packet that comes, whole.
pub(crate) fn answer(socket: &UdpSocket) -> Option<(Header, Vec<u8>)> {
    let mut buffer = [0; 2_048];
    let len = socket.recv(&mut buffer).ok()?;
    let bytes = buffer.get(..len)?;
    if wire::is_data(bytes) {
        return None;
    }
    let (header, _) = wire::open(bytes).ok()?;
    Some((header, bytes.to_vec()))
}

/// A socket that sends to the victim alone.
pub(crate) fn socket_to(victim: SocketAddr) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
    socket.connect(victim).map_err(text)?;
    socket.set_read_timeout(Some(ANSWER)).map_err(text)?;
    Ok(socket)
}

/// A session with the victim.
pub(crate) struct Rogue {
    socket: UdpSocket,
    node: NodeId,
    next: u64,
    accept: Accept,
    keys: Option<ConnectionKeys>,
    /// Bytes of INITs, and of the longest ACCEPT.
    pub(crate) init_len: usize,
    pub(crate) accept_len: usize,
}

impl Rogue {
    /// Connects as `node`.
    pub(crate) fn connect(scene: &Scene, node: u32) -> Result<Self, String> {
        let makes = scene.sealed().then(member).transpose()?;
        Self::connect_with(scene.address(), node, makes.as_ref(), LIMIT)
    }

    /// Connects to the victim at that address as `node`, in sealed mode with these handshakes.
    pub(crate) fn connect_with(
        victim: SocketAddr,
        node: u32,
        makes: Option<&Arc<dyn Handshakes>>,
        limit: Duration,
    ) -> Result<Self, String> {
        let socket = socket_to(victim)?;
        let invitation = invited(&socket, node, 0x5eed_0000 + u64::from(node))?;
        let (init, mut initiator) = invitation.init(makes)?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            socket.send(&init).map_err(text)?;
            let Some((header, bytes)) = answer(&socket) else {
                continue;
            };
            let body = bytes.get(wire::PLAIN_OVERHEAD..).unwrap_or_default();
            if header.kind != PacketType::Accept {
                continue;
            }
            let accept = Accept::read(body).map_err(text)?;
            let keys = match (&mut initiator, &accept.params.sealed) {
                (Some(initiator), Some(message)) => {
                    let context = wire::handshake_context(&bytes, message.len());
                    Some(initiator.finish(&context, message).map_err(text)?)
                }
                _ => None,
            };
            return Ok(Self {
                socket,
                node: NodeId(node),
                next: 1,
                accept,
                keys,
                init_len: init.len(),
                accept_len: bytes.len(),
            });
        }
        Err("the victim answers no INIT".into())
    }

    /// Goes on with a packet number that no connection has reached.
    pub(crate) fn skip_ahead(&mut self) {
        self.next += 100_000;
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// The memory credit of the session and of each channel.
    pub(crate) fn memory(&self) -> (u64, u64) {
        (self.accept.grant.memory, self.accept.params.channel_memory)
    }

    /// Sends an authentic packet with these frames.
    pub(crate) fn send(&mut self, frames: &[u8]) -> Result<(), String> {
        self.send_to(self.accept.index, frames)
    }

    /// Returns the frames of the next packet of the session, if one has come.
    pub(crate) fn heard(&mut self) -> Result<Option<Vec<u8>>, String> {
        self.socket.set_nonblocking(true).map_err(text)?;
        let mut buffer = [0; 2_048];
        while let Ok(len) = self.socket.recv(&mut buffer) {
            let bytes = buffer.get_mut(..len).unwrap_or_default();
            if !wire::is_data(bytes) {
                continue;
            }
            let Some(keys) = &self.keys else {
                return Ok(bytes.get(wire::PLAIN_OVERHEAD..).map(<[u8]>::to_vec));
            };
            let number = SealedHeader::read(bytes).map_err(text)?.number;
            let (header, body) = bytes.split_first_chunk_mut().ok_or("a short packet")?;
            keys.open.open(number, header, body).map_err(text)?;
            let frames = body.len().saturating_sub(AEAD_TAG);
            return Ok(body.get(..frames).map(<[u8]>::to_vec));
        }
        Ok(None)
    }

    /// Sends a packet for the connection `index`, under the keys or the tag of the own session.
    pub(crate) fn send_to(&mut self, index: u32, frames: &[u8]) -> Result<(), String> {
        let number = self.next;
        self.next += 1;
        let Some(keys) = &mut self.keys else {
            let bytes = packet(PacketType::Data, index, number, self.accept.tag, frames);
            return self.socket.send(&bytes).map(drop).map_err(text);
        };
        let phase = 0;
        let header = SealedHeader {
            index,
            number,
            phase,
        };
        let header = header.bytes();
        let mut sealed = vec![0; frames.len() + AEAD_TAG];
        keys.seal.seal(number, &header, &[frames], &mut sealed);
        let bytes = [&header[..], &sealed].concat();
        self.socket.send(&bytes).map(drop).map_err(text)
    }
}
