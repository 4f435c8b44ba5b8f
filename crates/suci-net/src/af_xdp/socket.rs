//! One AF_XDP socket: its memory, in frames of equal size, and its four rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void, socklen_t};

use super::ring::{Mapping, Ring};

/// Frames for sending: eight full trains.
pub(super) const SEND_FRAMES: u32 = 512;

/// Bytes that the kernel keeps free in front of each frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: usize = 256;

/// The memory of a socket, and who has its frames: the kernel has those in the rings that were
/// handed to it, this process all others.
#[derive(Debug)]
pub(super) struct Xsk {
    // The descriptor goes away before the memory.
    fd: OwnedFd,
    received: Ring<libc::xdp_desc>,
    sent: Ring<libc::xdp_desc>,
    /// Frames to receive into.
    fill: Ring<u64>,
    /// Frames that were sent.
    completed: Ring<u64>,
    /// Frames for sending that are free.
    free: Vec<u64>,
    frame_size: usize,
    memory: Mapping,
}

/// How a frame was handed over for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// All frames are under way.
    Full,
}

impl Xsk {
    /// Opens a socket for an interface whose frames have at most `longest` bytes, with
    /// `receive_frames` frames to receive into, a power of two.
    ///
    /// # Errors
    /// `InvalidInput` for frames that no memory page holds; else the system's error.
    pub(super) fn new(longest: usize, receive_frames: u32) -> io::Result<Self> {
        let frame_size = frame_size(longest)?;
        let frames = (receive_frames + SEND_FRAMES) as usize;
        let memory = Mapping::memory(frames * frame_size)?;
        // SAFETY: a plain system call; the kernel answers with a new descriptor or an error.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let start = memory.at::<u8>(0, frames * frame_size);
        let start = start.ok_or(io::ErrorKind::OutOfMemory)?;
        let region = libc::xdp_umem_reg {
            addr: start.as_ptr() as u64,
            len: (frames * frame_size) as u64,
            chunk_size: frame_size as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(fd.as_fd(), libc::XDP_UMEM_REG, &region)?;
        for (ring, size) in [
            (libc::XDP_UMEM_FILL_RING, receive_frames),
            (libc::XDP_RX_RING, receive_frames),
            (libc::XDP_UMEM_COMPLETION_RING, SEND_FRAMES),
            (libc::XDP_TX_RING, SEND_FRAMES),
        ] {
            set(fd.as_fd(), ring, &size)?;
        }
        let places = places(fd.as_fd())?;
        let at = |page: u64| libc::off_t::try_from(page).unwrap_or(libc::off_t::MAX);
        let socket = fd.as_fd();
        let (fill, completed) = (
            at(libc::XDP_UMEM_PGOFF_FILL_RING),
            at(libc::XDP_UMEM_PGOFF_COMPLETION_RING),
        );
        let mut this = Self {
            received: Ring::new(socket, libc::XDP_PGOFF_RX_RING, &places.rx, receive_frames)?,
            sent: Ring::new(socket, libc::XDP_PGOFF_TX_RING, &places.tx, SEND_FRAMES)?,
            fill: Ring::new(socket, fill, &places.fr, receive_frames)?,
            completed: Ring::new(socket, completed, &places.cr, SEND_FRAMES)?,
            fd,
            free: (0..SEND_FRAMES)
                .map(|number| u64::from(receive_frames + number) * frame_size as u64)
                .collect(),
            frame_size,
            memory,
        };
        for number in 0..receive_frames {
            this.fill.put(u64::from(number) * frame_size as u64);
        }
        this.fill.publish();
        Ok(this)
    }

    /// Binds it to the queue `queue` of the interface `index`.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn bind(&self, index: u32, queue: u32) -> io::Result<()> {
        bind(self.fd.as_fd(), index, queue)
    }

    /// Returns the length of the longest frame that it sends, in bytes.
    pub(super) const fn frame_size(&self) -> usize {
        self.frame_size
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Hands the next received frame to `sink`. Returns false if there is none.
    pub(super) fn receive(&mut self, sink: &mut dyn FnMut(&mut [u8])) -> bool {
        let Some(entry) = self.received.take() else {
            return false;
        };
        // SAFETY: the kernel gave the frame in the receive ring, and does not touch it before it
        // is put into the fill ring below. The slice ends with this call.
        if let Some(frame) = unsafe { self.bytes(entry.addr, entry.len as usize) } {
            sink(frame);
        }
        // There are as many places as frames.
        self.fill
            .put(entry.addr - entry.addr % self.frame_size as u64);
        true
    }

    /// Gives the frames that were received back to the kernel.
    pub(super) fn refill(&mut self) {
        self.fill.publish();
        if self.fill.wants_call() {
            self.call_receive();
        }
    }

    /// Whether a receive call is wanted before anything can arrive.
    fn call_receive(&self) {
        // SAFETY: no buffer is handed over. A failure tells nothing that receiving will not show.
        let _ = unsafe {
            let nobody = std::ptr::null_mut();
            libc::recvfrom(
                self.fd.as_raw_fd(),
                nobody,
                0,
                libc::MSG_DONTWAIT,
                nobody.cast(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Puts one frame of `length` bytes, written by `write`, into the ring for sending.
    pub(super) fn put(&mut self, length: usize, write: impl FnOnce(&mut [u8])) -> Put {
        if self.free.is_empty() {
            self.reclaim();
        }
        let Some(address) = self.free.pop() else {
            return Put::Full;
        };
        // SAFETY: the frame was free, so the kernel does not touch it before it is handed over
        // below. The slice ends with this call.
        let Some(frame) = (unsafe { self.bytes(address, length) }) else {
            self.free.push(address);
            return Put::Full;
        };
        write(frame);
        let entry = libc::xdp_desc {
            addr: address,
            len: length as u32,
            options: 0,
        };
        if !self.sent.put(entry) {
            self.free.push(address);
            return Put::Full;
        }
        Put::Done
    }

    /// Takes back the frames that were sent.
    fn reclaim(&mut self) {
        while let Some(address) = self.completed.take() {
            self.free.push(address);
        }
    }

    /// Whether frames wait for a call.
    pub(super) fn is_pending(&self) -> bool {
        self.sent.is_pending() && self.sent.wants_call()
    }

    /// Has the kernel send what was put. Returns how many calls it took.
    ///
    /// # Errors
    /// The system's error; the frames stay in the ring, for the next call.
    pub(super) fn flush(&mut self) -> io::Result<u64> {
        /// A call sends 32 frames in copy mode (`max_tx_budget`).
        const MOST_CALLS: u64 = 16;
        self.sent.publish();
        let mut calls = 0;
        while self.is_pending() && calls < MOST_CALLS {
            calls += 1;
            let error = match self.call_send() {
                Ok(()) => continue,
                Err(error) => error,
            };
            match error.raw_os_error().unwrap_or(0) {
                // There is more to send, or the device dropped some: lost, as by any other hop.
                libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR => {}
                _ => return Err(error),
            }
        }
        Ok(calls)
    }

    fn call_send(&self) -> io::Result<()> {
        let fd = self.fd.as_raw_fd();
        // SAFETY: no buffer and no address are handed over.
        let result = unsafe {
            let nothing = std::ptr::null();
            libc::sendto(fd, nothing, 0, libc::MSG_DONTWAIT, nothing.cast(), 0)
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Datagrams that the kernel dropped for want of frames or of room in the ring.
    pub(super) fn drops(&self) -> u64 {
        // SAFETY: plain integers, for which all zero bits are valid.
        let mut told: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        match get(self.fd.as_fd(), libc::XDP_STATISTICS, &mut told) {
            Ok(()) => told.rx_dropped + told.rx_ring_full,
            Err(_) => 0,
        }
    }

    /// The bytes of a frame. `None` if they do not lie in one.
    ///
    /// # Safety
    /// The kernel does not touch the frame, and nothing else refers to it.
    unsafe fn bytes(&mut self, address: u64, length: usize) -> Option<&mut [u8]> {
        let address = usize::try_from(address).ok()?;
        if address % self.frame_size + length > self.frame_size {
            return None;
        }
        let start = self.memory.at::<u8>(address, length)?;
        // SAFETY: the place lies in the mapping, which lives as long as the borrow of `self`; that
        // nobody else uses it the caller promises.
        Some(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), length) })
    }
}

/// Bytes of a frame of this memory that holds `longest` bytes.
fn frame_size(longest: usize) -> io::Result<usize> {
    let sizes = [2_048, 4_096];
    let fits = sizes.into_iter().find(|size| longest + HEADROOM <= *size);
    fits.ok_or_else(|| {
        let most = sizes[1] - HEADROOM;
        let text = format!(
            "AF_XDP carries frames of at most {most} B, and the interface has frames of {longest} \
             B: lower its MTU, or use the UDP backend"
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Where the parts of the rings lie.
fn places(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: plain integers, for which all zero bits are valid.
    let mut places: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    get(fd, libc::XDP_MMAP_OFFSETS, &mut places)?;
    Ok(places)
}

/// Binds the socket to a queue: without copies where the driver can, else with one each way.
fn bind(fd: BorrowedFd<'_>, index: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: index,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let length = size_of::<libc::sockaddr_xdp>() as socklen_t;
    let pointer = std::ptr::from_ref(&address).cast();
    // SAFETY: the address outlives the call and is as long as said; the kernel only reads it.
    let result = unsafe { libc::bind(fd.as_raw_fd(), pointer, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn set<T>(fd: BorrowedFd<'_>, name: c_int, value: &T) -> io::Result<()> {
    let pointer = std::ptr::from_ref(value).cast::<c_void>();
    let length = size_of::<T>() as socklen_t;
    // SAFETY: the value outlives the call and is as long as said; the kernel only reads it. The
    // memory that an `xdp_umem_reg` names lives as long as its socket.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, pointer, length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option made of plain integers.
fn get<T>(fd: BorrowedFd<'_>, name: c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as socklen_t;
    let pointer = std::ptr::from_mut(value).cast::<c_void>();
    let fd = fd.as_raw_fd();
    // SAFETY: the kernel writes at most `length` bytes, which is the size of the value; any bit
    // pattern of integers is valid.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, pointer, &raw mut length) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
