//! The process whose regions others map.

use super::segment::Segment;
use super::wire::{GREETING, QUESTION, RegionAnswer, RegionQuestion};
use crate::sys::{self, local};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_layers::remote::{RegionId, Rights};

/// Regions that others may map; each takes a descriptor. Others are reached by the network.
pub(super) const MAX_OFFERS: usize = 128;

/// Processes of this machine that have mapped regions, or may ask to.
const MAX_PROCESSES: usize = 1_024;

/// A region that others may map.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) key: u64,
    pub(crate) rights: Rights,
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: OwnedFd,
}

/// The regions of a node that others may map.
#[derive(Debug, Default)]
pub(crate) struct Offers(Mutex<BTreeMap<RegionId, Offer>>);

impl Offers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RegionId, Offer>> {
        // No code between lock and unlock leaves it half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another region may be offered.
    pub(crate) fn has_room(&self) -> bool {
        self.lock().len() < MAX_OFFERS
    }

    pub(crate) fn add(&self, region: RegionId, offer: Offer) {
        self.lock().insert(region, offer);
    }

    /// Takes a region back: nobody maps it any more, and no operation of others begins on it.
    pub(crate) fn withdraw(&self, region: RegionId) {
        if let Some(offer) = self.lock().remove(&region) {
            offer.segment.withdraw();
        }
    }

    /// Answers a question of a process of this user.
    fn answer(&self, asker: &UnixStream, question: RegionQuestion) -> io::Result<()> {
        let offers = self.lock();
        let offer = offers.get(&question.region);
        match offer.filter(|offer| offer.key == question.key) {
            None => local::send(asker, RegionAnswer::REFUSAL.bytes(), None),
            Some(offer) => {
                let answer = RegionAnswer {
                    rights: Some(offer.rights),
                    length: suci_layers::remote::Memory::len(&*offer.segment),
                };
                local::send(asker, answer.bytes(), Some(offer.file.as_fd()))
            }
        }
    }
}

/// The socket at which a process answers, and the processes that ask.
#[derive(Debug)]
pub(super) struct Service {
    listener: UnixListener,
    offers: Arc<Offers>,
    askers: Vec<UnixStream>,
}

impl Service {
    pub(super) fn new(listener: UnixListener, offers: Arc<Offers>) -> Self {
        let askers = Vec::new();
        Self {
            listener,
            offers,
            askers,
        }
    }

    /// The descriptors to wait on: the listener, then the processes that ask.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let askers = self.askers.iter().map(AsRawFd::as_raw_fd);
        std::iter::once(self.listener.as_raw_fd()).chain(askers)
    }

    /// Accepts a process, if one waits, and sends it the file with the mark of this process. It
    /// stays connected as long as it and this process run, so that each of them notices the end of
    /// the other.
    pub(super) fn accept(&mut self, end_mark: &OwnedFd) -> io::Result<()> {
        let (asker, _) = match self.listener.accept() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            accepted => accepted?,
        };
        // A process of another user gets no answer, nor does one too many.
        let ours = local::credentials(&asker)?.user == sys::user();
        if ours && self.askers.len() < MAX_PROCESSES {
            asker.set_nonblocking(true)?;
            // It may be gone again.
            if local::send(&asker, GREETING, Some(end_mark.as_fd())).is_ok() {
                self.askers.push(asker);
            }
        }
        Ok(())
    }

    /// Answers the processes for which `is_ready`, by index.
    pub(super) fn answer(&mut self, mut is_ready: impl FnMut(usize) -> bool) {
        let (offers, mut index) = (&self.offers, 0);
        self.askers.retain(|asker| {
            let ready = is_ready(index);
            index += 1;
            !ready || take_question(offers, asker).is_ok()
        });
    }
}

/// Takes a question and answers it. Fails if the process is gone, or asks what it must not.
fn take_question(offers: &Offers, asker: &UnixStream) -> io::Result<()> {
    let mut bytes = [0; QUESTION + 1];
    let (count, _) = match local::receive(asker, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        received => received?,
    };
    let question = bytes.get(..count).and_then(RegionQuestion::read);
    offers.answer(asker, question.ok_or(io::ErrorKind::InvalidData)?)
}
