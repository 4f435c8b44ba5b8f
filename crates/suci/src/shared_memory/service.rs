//! The thread that answers other processes, and notices the end of those whose memory this one
//! uses.

use super::MappedRegions;
use super::end_mark::OwnEndMark;
use super::link::entries;
use super::owner::{Offers, Service};
use crate::fork::OriginalProcess;
use crate::sys::{EventFd, local};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long to wait after an error that is not another process's: no descriptors left, no memory.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until it is dropped.
#[derive(Debug)]
pub(super) struct Thread {
    handle: Option<JoinHandle<()>>,
    call: Arc<Call>,
    listener: RawFd,
    process: OriginalProcess,
}

/// How others reach the thread.
#[derive(Debug)]
struct Call {
    event_fd: EventFd,
    stop: AtomicBool,
    end_mark: OwnEndMark,
}

impl Thread {
    pub(super) fn start(
        address: &SocketAddr,
        offers: &Arc<Offers>,
        regions: &Arc<MappedRegions>,
        process: OriginalProcess,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(address)?;
        // A connection that is gone again must not make accepting block.
        listener.set_nonblocking(true)?;
        let call = Arc::new(Call {
            event_fd: EventFd::new()?,
            stop: AtomicBool::new(false),
            end_mark: OwnEndMark::new()?,
        });
        let descriptor = listener.as_raw_fd();
        let service = Service::new(listener, Arc::clone(offers));
        let (regions, own) = (Arc::clone(regions), Arc::clone(&call));
        let thread = std::thread::Builder::new().name("suci-memory".into());
        let (tell, told) = mpsc::channel();
        let handle = thread.spawn(move || {
            // SAFETY: the `Call` exists as long as a `Thread`, which waits for this thread.
            let begun = unsafe { own.end_mark.begin() };
            let has_begun = begun.is_ok();
            // The one that started this thread waits.
            let _ = tell.send(begun);
            if has_begun {
                own.serve(service, &regions);
            }
        })?;
        let new = Self {
            handle: Some(handle),
            call,
            listener: descriptor,
            process,
        };
        told.recv().map_err(io::Error::other)??;
        Ok(new)
    }

    /// Has the thread wait for the processes that this one is connected to now.
    pub(super) fn look(&self) {
        self.call.event_fd.signal();
    }

    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.listener, self.call.event_fd.as_raw_fd()]
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.process.is_forked() {
            // The thread does not exist here, and the node closed this copy of the descriptor.
            std::mem::forget(self.handle.take());
            std::mem::forget(Arc::clone(&self.call));
            return;
        }
        self.call.stop.store(true, Ordering::SeqCst);
        self.call.event_fd.signal();
        if let Some(handle) = self.handle.take() {
            // If it panicked, it has said so.
            let _ = handle.join();
        }
    }
}

impl Call {
    fn serve(&self, mut service: Service, regions: &MappedRegions) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.turn(&mut service, regions).is_err() {
                let mut entries = [readable(self.event_fd.as_raw_fd())];
                // It is a pause, whatever ends it.
                let _ = local::poll(&mut entries, Some(RETRY));
                self.event_fd.clear();
            }
        }
    }

    /// Waits for others, and does what they ask for.
    fn turn(&self, service: &mut Service, regions: &MappedRegions) -> io::Result<()> {
        let links = regions.links();
        let mut all = vec![readable(self.event_fd.as_raw_fd())];
        all.extend(service.descriptors().map(readable));
        let own = all.len();
        all.extend(links.iter().flat_map(|link| entries(link.descriptors())));
        local::poll(&mut all, None)?;
        self.event_fd.clear();
        let is_ready = |entry: &libc::pollfd| entry.revents != 0;
        let (mine, theirs) = all.split_at(own);
        for (link, entries) in links.iter().zip(theirs.chunks(2)) {
            if entries.iter().any(is_ready) {
                link.end();
                regions.forget_ended(link);
            }
        }
        // The event descriptor and the listener come before the processes that ask.
        service.answer(|index| mine.get(index + 2).is_some_and(is_ready));
        match mine.get(1) {
            Some(listener) if is_ready(listener) => service.accept(&self.end_mark.file),
            _ => Ok(()),
        }
    }
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}
