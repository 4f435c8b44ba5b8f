//! TLS 1.3 by rustls over TCP CUBIC: NODELAY, default buffers, a length before each message, and
//! AES-128-GCM, the cipher that Suci chooses on most machines. rustls seals 16 KiB at a time.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use rustls::{StreamOwned, version};

use super::frames::Frames;
use super::quic::Anybody;
use super::wire::{Received, Result, Wire};
use super::{End, tcp};

/// Messages up to this long are copied behind their length, so that one write seals both.
const SMALL: usize = 16 << 10;

/// The longest wait of either end for the other.
const PATIENCE: Duration = Duration::from_secs(20);

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub(crate) struct Tls {
    stream: Box<dyn Stream>,
    out: Vec<u8>,
    frames: Frames,
    message: Vec<u8>,
}

/// The cipher suites that are offered: one. QUIC protects its first packets by it in any case.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    let wanted = CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider
        .cipher_suites
        .retain(|suite| suite.suite() == wanted);
    Arc::new(provider)
}

fn server() -> Result<ServerConnection> {
    let issued = rcgen::generate_simple_self_signed(vec!["bench".to_owned()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.into()], key)?;
    Ok(ServerConnection::new(Arc::new(config))?)
}

fn client() -> Result<ClientConnection> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from("bench")?;
    Ok(ClientConnection::new(Arc::new(config), name)?)
}

impl Tls {
    pub(crate) fn open(end: End) -> Result<Self> {
        let tcp = tcp::connect(end, c"cubic")?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let stream: Box<dyn Stream> = match end {
            End::Server(_) => Box::new(StreamOwned::new(server()?, tcp)),
            End::Client(_) => Box::new(StreamOwned::new(client()?, tcp)),
        };
        Ok(Self {
            stream,
            out: Vec::with_capacity(2 * SMALL),
            frames: Frames::new(),
            message: Vec::new(),
        })
    }
}

impl Wire for Tls {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let prefix = u32::try_from(message.len())?.to_le_bytes();
        self.out.extend_from_slice(&prefix);
        if message.len() > SMALL {
            self.flush()?;
            self.stream.write_all(message)?;
            return Ok(self.stream.flush()?);
        }
        self.out.extend_from_slice(message);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            self.stream.write_all(&self.out)?;
            self.stream.flush()?;
            self.out.clear();
        }
        Ok(())
    }

    fn recv(&mut self) -> Result<Received> {
        loop {
            if let Some(received) = self.frames.take()? {
                return Ok(received);
            }
            if let Some(length) = self.frames.length()
                && length > SMALL
            {
                self.message.resize(length, 0);
                let have = self.frames.begin(&mut self.message);
                let rest = self.message.get_mut(have..).unwrap_or_default();
                self.stream.read_exact(rest)?;
                return Received::touch(&self.message);
            }
            match self.stream.read(self.frames.room())? {
                0 => return Err("the other end has gone".into()),
                count => self.frames.filled(count),
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        self.frames.take()
    }
}
