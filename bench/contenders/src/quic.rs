//! quinn: one bidirectional stream, a length before each message, windows of 8 MiB, full packets
//! from the first one on. It encrypts, by the cipher that rustls over TCP has.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig,
    TokioRuntime, TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::runtime::{Builder, Runtime};

use super::frames::Frames;
use super::tls::provider;
use super::wire::{Received, Result, Wire};
use super::{Args, End, Workload, sys};

/// Bytes in flight, and kept for sending.
const WINDOW: u32 = 8 << 20;

/// The longest QUIC packet at MTU 1500 over IPv4 that quinn looks for.
const PACKET: u16 = 1452;

/// Bytes that a user who batches collects before a write.
const BATCH: usize = 64 << 10;

/// After this many writes, or this many bytes, quinn's own tasks have their turn. A write that
/// finds room is ready at once, so without this they would not run until the window is full, which
/// costs small messages nine tenths of their rate; more turns than these cost more than they bring.
const TURN_WRITES: usize = 512;
const TURN_BYTES: usize = 64 << 10;

/// Longer messages are read to where they belong.
const SMALL: usize = 16 << 10;

const PATIENCE: Duration = Duration::from_secs(20);
const APPLICATION: &[u8] = b"bench";

/// The runtime of all connections, if all send to all: one thread must drive all connections,
/// whichever of them it waits for.
static SHARED: LazyLock<std::io::Result<Arc<Runtime>>> = LazyLock::new(|| runtime().map(Arc::new));

pub(crate) struct Quic {
    runtime: Arc<Runtime>,
    is_server: bool,
    // Must live as long as its connection.
    _endpoint: Endpoint,
    connection: Connection,
    to: Writer,
    from: RecvStream,
    batch: bool,
    out: Vec<u8>,
    frames: Frames,
    message: Vec<u8>,
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

impl Quic {
    pub(crate) fn open(args: &Args, end: End, batch: bool) -> Result<Self> {
        let runtime = match (args.workload, SHARED.as_ref()) {
            (Workload::AllToAll, Ok(shared)) => Arc::clone(shared),
            _ => Arc::new(runtime()?),
        };
        let (endpoint, connection, to, from) = runtime.block_on(async {
            tokio::time::timeout(PATIENCE, async {
                match end {
                    End::Server(at) => serve(at).await,
                    End::Client(at) => call(at).await,
                }
            })
            .await?
        })?;
        Ok(Self {
            runtime,
            is_server: matches!(end, End::Server(_)),
            _endpoint: endpoint,
            connection,
            to: Writer::new(to),
            from,
            batch,
            out: Vec::with_capacity(2 * BATCH),
            frames: Frames::new(),
            message: Vec::new(),
        })
    }
}

/// Writes, and lets others run now and then.
struct Writer {
    stream: SendStream,
    /// Since the last turn of the others.
    writes: usize,
    bytes: usize,
}

impl Writer {
    fn new(stream: SendStream) -> Self {
        Self {
            stream,
            writes: 0,
            bytes: 0,
        }
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.write_all(bytes).await?;
        self.writes += 1;
        self.bytes += bytes.len();
        if self.writes >= TURN_WRITES || self.bytes >= TURN_BYTES {
            (self.writes, self.bytes) = (0, 0);
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

type Ends = (Endpoint, Connection, SendStream, RecvStream);

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into())
        .initial_mtu(PACKET)
        .max_idle_timeout(Some(VarInt::from_u32(30_000).into()));
    Arc::new(transport)
}

fn endpoint(at: SocketAddr, server: Option<ServerConfig>) -> Result<Endpoint> {
    let socket = sys::udp(at, None)?;
    let config = EndpointConfig::default();
    Ok(Endpoint::new(
        config,
        server,
        socket,
        Arc::new(TokioRuntime),
    )?)
}

async fn serve(at: SocketAddr) -> Result<Ends> {
    let issued = rcgen::generate_simple_self_signed(vec!["bench".to_owned()])?;
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der())?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.into()], key)?;
    tls.alpn_protocols = vec![APPLICATION.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport());
    let endpoint = endpoint(at, Some(config))?;
    println!("ready");
    let incoming = endpoint.accept().await.ok_or("nobody called")?;
    let connection = incoming.await?;
    let (to, mut from) = connection.accept_bi().await?;
    from.read_exact(&mut [0]).await?;
    Ok((endpoint, connection, to, from))
}

async fn call(at: SocketAddr) -> Result<Ends> {
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    tls.alpn_protocols = vec![APPLICATION.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport());
    let endpoint = endpoint("0.0.0.0:0".parse()?, None)?;
    let connection = endpoint.connect_with(config, at, "bench")?.await?;
    let (mut to, from) = connection.open_bi().await?;
    // The server does not hear of a stream before something was sent on it.
    to.write_all(&[0]).await?;
    Ok((endpoint, connection, to, from))
}

impl Wire for Quic {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let prefix = u32::try_from(message.len())?.to_le_bytes();
        self.out.extend_from_slice(&prefix);
        if message.len() > SMALL {
            self.flush()?;
            return self.runtime.block_on(self.to.write_all(message));
        }
        self.out.extend_from_slice(message);
        if !self.batch || self.out.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            self.runtime.block_on(self.to.write_all(&self.out))?;
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
                let rest = self.from.read_exact(&mut self.message[have..]);
                self.runtime.block_on(rest)?;
                return Received::touch(&self.message);
            }
            let count = self.runtime.block_on(self.from.read(self.frames.room()))?;
            self.frames.filled(count.ok_or("the other end has gone")?);
        }
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        self.frames.take()
    }

    /// The client closes when the server has everything; the server waits for that.
    fn close(&mut self) -> Result<()> {
        let _ = self.to.stream.finish();
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(Duration::from_secs(1), self.to.stream.stopped()).await;
        });
        if !self.is_server {
            self.connection.close(VarInt::from_u32(0), b"");
        }
        self.runtime.block_on(async {
            let _ = tokio::time::timeout(Duration::from_secs(1), self.connection.closed()).await;
            // The packets that close the connection are still to be sent.
            tokio::time::sleep(Duration::from_millis(5)).await;
        });
        Ok(())
    }
}

/// Accepts any certificate: two processes of one measurement need not prove their identity.
#[derive(Debug)]
pub(crate) struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
