//! The thread that waits for the program's bytes, and for questions of other processes.

use crate::door::Door;
use crate::link::Link;
use crate::settings::Settings;
use crate::{question, task};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use suci::SharedNode;

/// Events that one call takes.
const EVENTS: usize = 256;

/// The number of events that tell of questions. No connection has it.
const QUESTIONS: u64 = u64::MAX;

/// All connections and listeners of the process.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub(crate) node: SharedNode,
    epoll: OwnedFd,
    /// Where other processes ask; nothing if they cannot.
    questions: Option<OwnedFd>,
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
    doors: Mutex<BTreeMap<u16, Arc<Door>>>,
    next_number: AtomicU64,
}

fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code between lock and unlock leaves it half changed.
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reactor {
    /// Starts the thread. It lives as long as the process.
    pub(crate) fn start(node: SharedNode, settings: &Settings) -> io::Result<Arc<Self>> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listening = question::listener(settings).and_then(|questions| {
            let data = EventData::new_u64(QUESTIONS);
            epoll::add(&epoll, &questions, data, EventFlags::IN)?;
            Ok(questions)
        });
        let questions = listening.inspect_err(|error| {
            crate::tell(format_args!(
                "no other process can ask who the clients are ({error}): a worker, or a program \
                 after exec, is told an address of this node"
            ));
        });
        let reactor = Arc::new(Self {
            node,
            epoll,
            questions: questions.ok(),
            links: Mutex::default(),
            doors: Mutex::default(),
            next_number: AtomicU64::new(0),
        });
        let served = Arc::clone(&reactor);
        let thread = thread::Builder::new().name("suci-preload".to_owned());
        thread.spawn(move || served.serve())?;
        Ok(reactor)
    }

    fn serve(&self) {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    crate::tell(format_args!(
                        "the program closed a descriptor of this library ({error}), so its \
                         connections to nodes stand still; it must close only its own"
                    ));
                    return;
                }
            }
            for event in events.drain(..) {
                if let (QUESTIONS, Some(listener)) = (event.data.u64(), &self.questions) {
                    question::answer(listener);
                    continue;
                }
                let link = lock(&self.links).get(&event.data.u64()).cloned();
                if let Some(link) = link {
                    task::run(link);
                }
            }
        }
    }

    /// Returns the descriptors that the thread waits with.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let questions = self.questions.iter();
        questions.chain([&self.epoll]).map(AsRawFd::as_raw_fd)
    }

    /// Returns a number for a connection.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a connection until it is over.
    pub(crate) fn keep(&self, number: u64, link: Arc<Link>) {
        lock(&self.links).insert(number, link);
    }

    /// Forgets a connection that is over.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.links).remove(&number);
    }

    /// Runs the connection whenever the socket becomes readable or writable.
    pub(crate) fn watch(&self, number: u64, socket: impl AsFd) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            socket,
            EventData::new_u64(number),
            flags,
        )?)
    }

    /// Locks the listeners by their ports.
    pub(crate) fn doors(&self) -> MutexGuard<'_, BTreeMap<u16, Arc<Door>>> {
        lock(&self.doors)
    }

    /// Returns true if nothing that the program wrote waits for its way to the node.
    pub(crate) fn is_drained(&self) -> bool {
        lock(&self.links).values().all(|link| link.is_drained())
    }

    /// Closes all connections and listeners.
    pub(crate) fn close_all(&self) {
        let links: Vec<_> = lock(&self.links).values().cloned().collect();
        links.into_iter().for_each(Link::close);
        let doors: Vec<_> = self.doors().values().cloned().collect();
        doors.into_iter().for_each(Door::close);
    }
}
