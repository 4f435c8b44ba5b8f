//! The part that handshakes under a cluster key and under keys of nodes share: the payloads, and
//! the keys of the connection (PROTOCOL.md, section 18).

use super::noise::{
    Initiated, KeyPair, LENGTH, NoiseError, OVERHEAD, Responding, Secret, Start, sha256,
};
use super::packet::{Cipher, Opener, Sealer};
use std::sync::Arc;
use suci_proto::security::{ConnectionKeys, HandshakeError, Initiator, Responder};

/// Bytes of a payload: the sender's cipher, and the hash of the context.
const PAYLOAD: usize = 1 + LENGTH;

/// Bytes of a handshake message.
pub(super) const MESSAGE: usize = PAYLOAD + OVERHEAD;

type Payload = [u8; PAYLOAD];

pub(super) fn payload(cipher: Cipher, context: &[u8]) -> Payload {
    let mut payload = [0; PAYLOAD];
    let [first, rest @ ..] = &mut payload;
    *first = cipher.to_wire();
    *rest = sha256(&[context]);
    payload
}

/// Returns the other side's cipher, if its message belongs to this context.
pub(super) fn check(payload: &Payload, context: &[u8]) -> Result<Cipher, HandshakeError> {
    let [cipher, hash @ ..] = payload;
    if *hash != sha256(&[context]) {
        return Err(HandshakeError::WrongKey);
    }
    Cipher::from_wire(*cipher).ok_or(HandshakeError::WrongKey)
}

/// Writes message 1 of a node that seals with `cipher`.
pub(super) fn initiate(
    start: &Start,
    cipher: Cipher,
    context: &[u8],
    message: &mut [u8],
) -> Result<Box<dyn Initiator>, HandshakeError> {
    let payload = payload(cipher, context);
    let initiated =
        KeyPair::generate().and_then(|ephemeral| start.initiate(ephemeral, &payload, message));
    Ok(Box::new(Initiating {
        cipher,
        initiated: initiated.map_err(|NoiseError| HandshakeError::Unavailable)?,
    }))
}

/// Reads message 1 with the first of `starts` that fits.
pub(super) fn respond(
    starts: impl IntoIterator<Item = Arc<Start>>,
    cipher: Cipher,
    context: &[u8],
    message: &[u8],
) -> Result<Box<dyn Responder>, HandshakeError> {
    let mut payload: Payload = [0; PAYLOAD];
    let read = |start: Arc<Start>| start.respond(message, &mut payload).ok();
    let responding = starts.into_iter().find_map(read);
    let responding = responding.ok_or(HandshakeError::WrongKey)?;
    Ok(Box::new(Answering {
        cipher,
        theirs: check(&payload, context)?,
        responding,
    }))
}

/// An initiator that waits for message 2.
struct Initiating {
    cipher: Cipher,
    initiated: Initiated,
}

impl Initiator for Initiating {
    fn finish(&mut self, context: &[u8], message: &[u8]) -> Result<ConnectionKeys, HandshakeError> {
        let mut payload: Payload = [0; PAYLOAD];
        let finished = self.initiated.finish(message, &mut payload);
        let [ours, theirs] = finished.map_err(|NoiseError| HandshakeError::WrongKey)?;
        let cipher = check(&payload, context)?;
        Ok(keys((self.cipher, ours), (cipher, theirs)))
    }
}

/// A responder that read message 1.
struct Answering {
    cipher: Cipher,
    /// The cipher of the initiator.
    theirs: Cipher,
    responding: Responding,
}

impl Responder for Answering {
    fn answer(
        self: Box<Self>,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<ConnectionKeys, HandshakeError> {
        let Self {
            cipher,
            theirs,
            responding,
        } = *self;
        let payload = payload(cipher, context);
        let answered = KeyPair::generate()
            .and_then(|ephemeral| responding.answer(&ephemeral, &payload, message));
        let [opens, seals] = answered.map_err(|NoiseError| HandshakeError::Unavailable)?;
        Ok(keys((cipher, seals), (theirs, opens)))
    }
}

fn keys(ours: (Cipher, Secret), theirs: (Cipher, Secret)) -> ConnectionKeys {
    ConnectionKeys {
        seal: Box::new(Sealer::new(ours.0, ours.1)),
        open: Box::new(Opener::new(theirs.0, theirs.1)),
    }
}
