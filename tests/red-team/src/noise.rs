//! Noise at a rate, and a plain socket that drains it, for measurements beside each other.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::text;

/// Time between two bursts.
const TICK: Duration = Duration::from_millis(1);

/// Bytes of a datagram of noise: enough for every header of the protocol.
const LENGTH: usize = 100;

/// A number that grows, told once a second.
struct Meter {
    begun: Instant,
    told: u64,
    tell: fn(u64),
}

impl Meter {
    fn new(tell: fn(u64)) -> Self {
        Self {
            begun: Instant::now(),
            told: 0,
            tell,
        }
    }

    fn is(&mut self, number: u64) {
        if self.begun.elapsed().as_secs() > self.told {
            self.told += 1;
            (self.tell)(number);
        }
    }
}

/// Sends `rate` datagrams a second for `span` to `to`: random bytes behind the first byte of a
/// packet. Once a second it tells how many were sent so far: fewer than asked for if this machine
/// is too slow.
///
/// # Errors
/// No socket can be made.
pub fn make_noise(to: SocketAddr, rate: u32, span: Duration, tell: fn(u64)) -> Result<(), String> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(text)?;
    let (begun, mut meter) = (Instant::now(), Meter::new(tell));
    let (mut sent, mut state) = (0_u64, 1_u64);
    let mut bytes = [0x10; LENGTH];
    while begun.elapsed() < span {
        meter.is(sent);
        let due = begun.elapsed().as_micros() as u64 * u64::from(rate) / 1_000_000;
        while sent < due {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            // Handshake packets and those of connections in turn.
            bytes[0] = 0x10 | (state >> 61) as u8;
            for chunk in bytes.chunks_exact_mut(8).skip(1) {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                chunk.copy_from_slice(&state.to_le_bytes());
            }
            // A datagram that the network does not take is lost, as noise may be.
            let _ = socket.send_to(&bytes, to);
            sent += 1;
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}

/// Receives datagrams at `at` for `span`, and tells once a second how many came so far.
///
/// # Errors
/// The address cannot be bound.
pub fn drain(at: SocketAddr, span: Duration, tell: fn(u64)) -> Result<(), String> {
    let socket = UdpSocket::bind(at).map_err(text)?;
    socket.set_read_timeout(Some(TICK)).map_err(text)?;
    let (begun, mut meter, mut count) = (Instant::now(), Meter::new(tell), 0);
    let mut buffer = [0; 2_048];
    while begun.elapsed() < span {
        meter.is(count);
        count += u64::from(socket.recv(&mut buffer).is_ok());
    }
    Ok(())
}
