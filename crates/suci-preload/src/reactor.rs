//! The thread that waits for the program's bytes, and for questions of other processes.

use crate::door::Door;
use crate::link::Link;
use crate::settings::Settings;
use crate::{direct, question};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use suci::SharedNode;

/// Events that one call takes.
const EVENTS: usize = 256;

/// The number of events that tell of questions. No connection has it.
const QUESTIONS: u64 = u64::MAX;

/// The number of events that end the thread's sleep. No connection has it.
const WAKES: u64 = u64::MAX - 1;

/// How often the thread looks at what is kept for calls of the program, and how often it finds
/// nothing until it stops.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 50;

/// All connections and listeners of the process.
#[derive(Debug)]
pub(crate) struct Reactor {
    pub(crate) node: SharedNode,
    epoll: OwnedFd,
    /// Ends the thread's sleep.
    event: OwnedFd,
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
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let data = EventData::new_u64(WAKES);
        // Edge-triggered: it is never read.
        epoll::add(&epoll, &event, data, EventFlags::IN | EventFlags::ET)?;
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
            event,
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
        // The looks that are left until the thread sleeps without a limit.
        let mut looks = 0_u32;
        let mut next_look = Instant::now();
        loop {
            let limit = (looks > 0).then(|| next_look.saturating_duration_since(Instant::now()));
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), limit.as_ref()) {
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
                if event.data.u64() == WAKES {
                    (looks, next_look) = (LOOKS, Instant::now() + LOOK);
                    continue;
                }
                let link = lock(&self.links).get(&event.data.u64()).cloned();
                if let Some(link) = link {
                    link.on_news();
                }
            }
            if looks > 0 && Instant::now() >= next_look {
                next_look = Instant::now() + LOOK;
                looks = if direct::look_at_kept() {
                    LOOKS
                } else {
                    looks - 1
                };
                if looks == 0 && !direct::stop_looking() {
                    looks = LOOKS;
                }
            }
        }
    }

    /// Ends the thread's sleep.
    pub(crate) fn wake(&self) {
        // It fails if the counter is full, which wakes as well.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Returns the descriptors that the thread waits with.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        let questions = self.questions.iter();
        let own = [&self.epoll, &self.event];
        questions.chain(own).map(AsRawFd::as_raw_fd)
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
