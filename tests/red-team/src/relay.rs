//! Somebody on the path: carries packets between two nodes, keeps what goes to the victim, damages
//! copies of it, and sends packets from an address that the victim knows as its peer's.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use suci_proto::wire;

use crate::text;

/// Recorded packets, at most.
const RECORDED: usize = 4_096;

/// The two ends, once they are known: the victim, and its peer.
type Ends = Arc<Mutex<Option<[SocketAddr; 2]>>>;

/// A relay at an address of its own.
pub(crate) struct Relay {
    socket: UdpSocket,
    ends: Ends,
    recorded: Arc<Mutex<Vec<Vec<u8>>>>,
    damages: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn new() -> Result<Self, String> {
        let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
        let own = socket.try_clone().map_err(text)?;
        let wait = Duration::from_millis(10);
        own.set_read_timeout(Some(wait)).map_err(text)?;
        let mut relay = Self {
            socket,
            ends: Ends::default(),
            recorded: Arc::default(),
            damages: Arc::default(),
            stop: Arc::default(),
            thread: None,
        };
        let (ends, recorded) = (relay.ends.clone(), relay.recorded.clone());
        let (damages, stop) = (relay.damages.clone(), relay.stop.clone());
        let carry = move || {
            let mut buffer = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                let Ok((len, from)) = own.recv_from(&mut buffer) else {
                    continue;
                };
                let packet = buffer.get(..len).unwrap_or_default();
                let Some([victim, peer]) = *lock(&ends) else {
                    continue;
                };
                if from == victim {
                    // A packet that the socket does not take is lost, as on any network.
                    let _ = own.send_to(packet, peer);
                    continue;
                }
                let mut recorded = lock(&recorded);
                if recorded.len() < RECORDED {
                    recorded.push(packet.to_vec());
                }
                if damages.load(Ordering::Relaxed) && wire::is_data(packet) {
                    let _ = own.send_to(&damaged(packet), victim);
                }
                let _ = own.send_to(packet, victim);
            }
        };
        relay.thread = Some(std::thread::spawn(carry));
        Ok(relay)
    }

    /// Names the victim and its peer, between which packets are carried.
    pub(crate) fn join(&self, victim: SocketAddr, peer: SocketAddr) {
        *lock(&self.ends) = Some([victim, peer]);
    }

    pub(crate) fn address(&self) -> Result<SocketAddr, String> {
        self.socket.local_addr().map_err(text)
    }

    /// Returns the packets that went to the victim so far.
    pub(crate) fn recorded(&self) -> Vec<Vec<u8>> {
        lock(&self.recorded).clone()
    }

    /// From now on a damaged copy goes before each packet of a connection.
    pub(crate) fn damage(&self) {
        self.damages.store(true, Ordering::Relaxed);
    }

    /// Sends a packet from the peer's address.
    pub(crate) fn send(&self, packet: &[u8], to: SocketAddr) -> Result<(), String> {
        self.socket.send_to(packet, to).map(drop).map_err(text)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the packet with one bit flipped in its middle: in long packets that is payload.
fn damaged(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    let header = wire::PLAIN_OVERHEAD.min(bytes.len().saturating_sub(1));
    let middle = header + (bytes.len() - header) / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte ^= 0x10;
    }
    bytes
}
