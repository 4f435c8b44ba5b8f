//! Waiting for connections and other descriptors by `poll`, `select` and `epoll`.
//!
//! The kernel knows all that these calls ask for, except what is kept. A call serves the node until
//! one of its connections keeps something or the kernel has something for it, and then adds what is
//! kept to the kernel's answer.

use crate::direct::{self, Awaited, DirectCall, KernelWait};
use crate::kernel::{self, ProgramSocket};
use crate::link::Link;
use crate::process;
use libc::{c_int, epoll_event, fd_set, pollfd, sigset_t};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use suci::sockets::Waited;

thread_local! {
    /// The events of the last wait of this thread that it has not answered yet.
    static EVENTS: Cell<c_int> = const { Cell::new(0) };
}

/// A call sends, which probably answers an event of the last wait. Returns whether more answers
/// probably follow.
pub(crate) fn answer_event() -> bool {
    let left = EVENTS.get() - 1;
    EVENTS.set(left.max(0));
    left > 0
}

/// How a call that asked the kernel goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The kernel answers without waiting, and what is kept is added.
    Now,
    /// A signal's handler ran.
    Interrupted,
    /// The kernel waits.
    InKernel,
}

/// Serves the node for a call that waits for `link`, among others, until `ready` returns true, one
/// of the `polled` descriptors is ready, or `deadline`.
fn serve(
    link: &Link,
    polled: &mut [pollfd],
    mask: Option<&sigset_t>,
    deadline: Option<Instant>,
    mut ready: impl FnMut() -> bool,
) -> Answer {
    let Some(call) = DirectCall::begin(link) else {
        return Answer::InKernel;
    };
    let Some(attendance) = call.attendance() else {
        return Answer::InKernel;
    };
    attendance.takes_all();
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    match attendance.wait(polled, mask, left, || call.is_in_doubt() || ready()) {
        Ok(Waited::Ready) if call.is_in_doubt() => Answer::InKernel,
        Ok(Waited::Ready | Waited::Polled | Waited::TimedOut) => Answer::Now,
        Ok(Waited::Interrupted) => Answer::Interrupted,
        Ok(Waited::Elsewhere) | Err(_) => Answer::InKernel,
    }
}

/// Begins to wait in the kernel for `link`, among others.
fn wait_in_kernel(link: &Link) -> KernelWait {
    let wait = KernelWait::begin();
    direct::hand_back(link);
    wait
}

/// Runs a call: `kernel` is called with the time that is left, and returns how many descriptors are
/// ready; `add` adds what is kept, and returns how many descriptors became ready by that.
fn run(
    links: &[Awaited],
    polled: &mut [pollfd],
    mask: Option<&sigset_t>,
    deadline: Option<Instant>,
    is_ready: impl Fn() -> bool,
    mut kernel: impl FnMut(Option<Duration>) -> c_int,
    mut add: impl FnMut(c_int) -> c_int,
) -> c_int {
    let Some(first) = links.first() else {
        return -1;
    };
    loop {
        let answer = serve(first.link(), polled, mask, deadline, &is_ready);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match answer {
            Answer::Interrupted => {
                // SAFETY: the C library's place for this thread's error.
                unsafe { *libc::__errno_location() = libc::EINTR };
                return -1;
            }
            Answer::InKernel => {
                let _wait = wait_in_kernel(first.link());
                return kernel(left);
            }
            Answer::Now => {}
        }
        let ready = kernel(Some(Duration::ZERO));
        if ready < 0 {
            return ready;
        }
        let all = ready + add(ready);
        // Another thread may have taken what was there.
        if all > 0 || left.is_some_and(|left| left.is_zero()) {
            EVENTS.set(all);
            return all;
        }
    }
}

/// Returns the time when a call is over that waits for so long.
pub(crate) fn deadline(limit: Option<Duration>) -> Option<Instant> {
    limit.and_then(|limit| Instant::now().checked_add(limit))
}

// ---- poll

const READS: libc::c_short = libc::POLLIN | libc::POLLRDNORM;

/// Waits as `poll` does. Returns nothing if no descriptor is one of a connection.
pub(crate) fn poll(
    fds: &mut [pollfd],
    mask: Option<&sigset_t>,
    limit: Option<Duration>,
    kernel: impl Fn(*mut pollfd, Option<Duration>) -> c_int,
) -> Option<c_int> {
    let mut links = Vec::new();
    let mut places = Vec::new();
    for (at, polled) in fds.iter().enumerate() {
        if polled.events & READS != 0
            && let Some(link) = direct::link(polled.fd)
        {
            links.push(Awaited::new(&link));
            places.push(at);
        }
    }
    if links.is_empty() {
        return None;
    }
    let deadline = deadline(limit);
    let is_ready = || links.iter().any(|it| it.link().keeping.has_bytes());
    let mut polled = fds.to_vec();
    let fds = Mutex::new(fds);
    let with_fds = || fds.lock().unwrap_or_else(PoisonError::into_inner);
    Some(run(
        &links,
        &mut polled,
        mask,
        deadline,
        is_ready,
        |left| kernel(with_fds().as_mut_ptr(), left),
        |_| {
            let mut added = 0;
            let mut fds = with_fds();
            for (at, awaited) in places.iter().zip(&links) {
                if let Some(polled) = fds.get_mut(*at)
                    && awaited.link().keeping.has_bytes()
                {
                    added += c_int::from(polled.revents == 0);
                    polled.revents |= polled.events & READS;
                }
            }
            added
        },
    ))
}

// ---- select

/// The sets of a call of `select`, as far as it has them.
pub(crate) struct Sets {
    pub(crate) count: c_int,
    pub(crate) sets: [Option<fd_set>; 3],
}

impl Sets {
    /// Returns whether the set at `index` has a descriptor.
    fn has(&self, index: usize, fd: c_int) -> bool {
        let set = self.sets.get(index).and_then(Option::as_ref);
        // SAFETY: the descriptor is below the count, which is at most that of a set.
        set.is_some_and(|set| unsafe { libc::FD_ISSET(fd, set) })
    }

    /// The same question, for `poll`.
    fn polled(&self) -> Vec<pollfd> {
        let mut polled = Vec::new();
        for fd in 0..self.count {
            let events = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
            let wanted = events.into_iter().enumerate();
            let wanted = wanted.filter(|(index, _)| self.has(*index, fd));
            let events = wanted.fold(0, |all, (_, event)| all | event);
            if events != 0 {
                polled.push(pollfd {
                    fd,
                    events,
                    revents: 0,
                });
            }
        }
        polled
    }
}

/// Waits as `select` does. Returns nothing if no descriptor is one of a connection. `kernel` is
/// called with a copy of the sets, which it changes.
pub(crate) fn select(
    sets: &mut Sets,
    mask: Option<&sigset_t>,
    limit: Option<Duration>,
    kernel: impl Fn(&mut Sets, Option<Duration>) -> c_int,
) -> Option<c_int> {
    if sets.count < 0 || sets.count as usize > libc::FD_SETSIZE {
        return None;
    }
    let read = sets.sets.first()?.as_ref()?;
    let mut links = Vec::new();
    let mut places = Vec::new();
    for fd in 0..sets.count {
        if direct::is_marked(fd)
            // SAFETY: `fd` is below the count, which is at most that of a set.
            && unsafe { libc::FD_ISSET(fd, read) }
            && let Some(link) = direct::link(fd)
        {
            links.push(Awaited::new(&link));
            places.push(fd);
        }
    }
    if links.is_empty() {
        return None;
    }
    let mut polled = sets.polled();
    let asked = sets.sets;
    let is_ready = || links.iter().any(|it| it.link().keeping.has_bytes());
    let deadline = deadline(limit);
    let sets = Mutex::new(sets);
    let with_sets = || sets.lock().unwrap_or_else(PoisonError::into_inner);
    Some(run(
        &links,
        &mut polled,
        mask,
        deadline,
        is_ready,
        |left| {
            let mut sets = with_sets();
            sets.sets = asked;
            kernel(&mut sets, left)
        },
        |_| {
            let mut added = 0;
            let mut sets = with_sets();
            let Some(Some(read)) = sets.sets.first_mut() else {
                return 0;
            };
            for (fd, awaited) in places.iter().zip(&links) {
                // SAFETY: below the count of a set.
                unsafe {
                    if awaited.link().keeping.has_bytes() && !libc::FD_ISSET(*fd, read) {
                        libc::FD_SET(*fd, read);
                        added += 1;
                    }
                }
            }
            added
        },
    ))
}

// ---- epoll

const EPOLL_READS: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;

/// A connection in an epoll.
#[derive(Debug)]
pub(crate) struct Registration {
    link: Arc<Link>,
    /// The socket that the program registered. Closing it ends the registration without a call of
    /// `epoll_ctl`.
    socket: ProgramSocket,
    events: u32,
    data: u64,
    /// The number of the last arrival that the program was told of, if it is told of each once.
    told: u64,
}

/// The connections of an epoll, by their numbers.
pub(crate) type Registrations = BTreeMap<u64, Registration>;

/// An epoll of connections is itself watched by another one.
static IS_NESTED: AtomicBool = AtomicBool::new(false);

/// An epoll was made. One with this number is gone.
pub(crate) fn made(epoll: c_int) {
    if epoll >= 0 && process::has_node() {
        let gone = direct::epolls().remove(&epoll);
        drop(gone);
    }
}

/// The program registered or changed a descriptor, or removed it (without an event).
pub(crate) fn registered(epoll: c_int, fd: c_int, event: Option<epoll_event>) {
    let Some(link) = direct::link(fd) else {
        nest(fd);
        return;
    };
    let Some(event) = event else {
        let mut epolls = direct::epolls();
        let gone = (epolls.get_mut(&epoll)).and_then(|of_epoll| of_epoll.remove(&link.number));
        drop(epolls);
        drop(gone);
        return;
    };
    let Some(Ok(socket)) = kernel::with(fd, ProgramSocket::new) else {
        return;
    };
    let unusual = (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32;
    if event.events & unusual != 0 || IS_NESTED.load(Ordering::Relaxed) {
        // Only the kernel knows when such a registration ends, or who waits for it.
        direct::leave_to_kernel(Arc::clone(&link));
    }
    link.keeping.set_registered();
    let number = link.number;
    let registration = Registration {
        told: link.keeping.arrivals().wrapping_sub(1),
        link,
        socket,
        events: event.events,
        data: event.u64,
    };
    let mut epolls = direct::epolls();
    let before = epolls
        .entry(epoll)
        .or_default()
        .insert(number, registration);
    drop(epolls);
    drop(before);
}

/// The program registered a descriptor that is none of a connection. If it is an epoll of
/// connections, waits for these are not seen from now on.
fn nest(inner: c_int) {
    if !process::has_node() {
        return;
    }
    let epolls = direct::epolls();
    let Some(of_inner) = epolls.get(&inner) else {
        return;
    };
    IS_NESTED.store(true, Ordering::Relaxed);
    let links: Vec<_> = of_inner.values().map(|it| Arc::clone(&it.link)).collect();
    drop(epolls);
    links.into_iter().for_each(direct::leave_to_kernel);
}

/// Forgets a connection that is over.
pub(crate) fn forget(link: &Arc<Link>) {
    let mut gone = Vec::new();
    for of_epoll in direct::epolls().values_mut() {
        gone.extend(of_epoll.remove(&link.number));
    }
    drop(gone);
}

/// Writes events of connections that keep something for an epoll to `events`, behind those that the
/// kernel wrote. Returns how many more there are.
fn add_events(epoll: c_int, events: &mut [epoll_event], written: usize) -> usize {
    let mut epolls = direct::epolls();
    let Some(of_epoll) = epolls.get_mut(&epoll) else {
        return 0;
    };
    let mut all = written;
    let mut ended = Vec::new();
    direct::among_kept(|link| {
        let registration = of_epoll.get_mut(&link.number);
        let Some(registration) = registration.filter(|it| is_told(it)) else {
            return Some(());
        };
        if !registration.socket.is_open() {
            ended.extend(of_epoll.remove(&link.number));
            return Some(());
        }
        let (reads, data) = (registration.events & EPOLL_READS, registration.data);
        let (known, free) = events.split_at_mut(all);
        if let Some(event) = known.iter_mut().take(written).find(|it| it.u64 == data) {
            event.events |= reads;
        } else {
            *free.first_mut()? = epoll_event {
                events: reads,
                u64: data,
            };
            all += 1;
        }
        registration.told = link.keeping.arrivals();
        Some(())
    });
    drop(epolls);
    for registration in ended {
        // The program may have a copy of the descriptor, of which the kernel still tells.
        direct::leave_to_kernel(registration.link);
    }
    all - written
}

/// Returns true if an epoll tells the program now of what some connection keeps.
fn has_events(epoll: c_int) -> bool {
    let epolls = direct::epolls();
    let Some(of_epoll) = epolls.get(&epoll) else {
        return false;
    };
    let mut found = false;
    direct::among_kept(|link| {
        found = of_epoll.get(&link.number).is_some_and(is_told);
        (!found).then_some(())
    });
    found
}

/// Returns true if an epoll tells the program now of what a connection keeps.
fn is_told(registration: &Registration) -> bool {
    let keeping = &registration.link.keeping;
    registration.events & EPOLL_READS != 0
        && keeping.has_bytes()
        && !keeping.is_kernels()
        && (registration.events & libc::EPOLLET as u32 == 0
            || registration.told != keeping.arrivals())
}

/// Waits as `epoll_wait` does. Returns nothing if the epoll has no connections.
pub(crate) fn epoll_wait(
    epoll: c_int,
    events: &mut [epoll_event],
    mask: Option<&sigset_t>,
    limit: Option<Duration>,
    kernel: impl Fn(&mut [epoll_event], Option<Duration>) -> c_int,
) -> Option<c_int> {
    if process::is_inside() || !process::has_node() || events.is_empty() {
        return None;
    }
    let first = direct::epolls().get(&epoll)?.values().next()?.link.clone();
    let links = [Awaited::new(&first)];
    let is_ready = || has_events(epoll);
    let mut polled = [pollfd {
        fd: epoll,
        events: libc::POLLIN,
        revents: 0,
    }];
    let events = Mutex::new(events);
    let with_events = || events.lock().unwrap_or_else(PoisonError::into_inner);
    Some(run(
        &links,
        &mut polled,
        mask,
        deadline(limit),
        is_ready,
        |left| kernel(&mut with_events(), left),
        |written| {
            let written = usize::try_from(written).unwrap_or(0);
            let added = add_events(epoll, &mut with_events(), written);
            c_int::try_from(added).unwrap_or(0)
        },
    ))
}
