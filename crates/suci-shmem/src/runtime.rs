//! The one runtime of a process: from `shmem_init` to `shmem_finalize`.

use crate::end::{self, Watcher, fail_by_group};
use crate::fabric::{Fabric, JoinError, node};
use crate::fatal;
use crate::heap::Heap;
use crate::memory::{self, Span};
use crate::settings;
use crate::team::{ActiveSet, SHARED_NUMBER, TEAM_NUMBERS, Team, active_set_number};
use crate::wait::until;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;
use suci::group::{Group, GroupError};
use suci::{AddressBook, Node, NodeId, SharedNode, env};

/// Handles of the teams and contexts that always exist, as in `shmem.h`.
pub(crate) const TEAM_WORLD: usize = 1;
pub(crate) const TEAM_SHARED: usize = 2;
pub(crate) const CTX_DEFAULT: usize = 1;

/// `SHMEM_CTX_INVALID`
const CTX_INVALID: usize = 0;

/// Bits of the numbers that teams of this process have.
type Numbers = [u64; TEAM_NUMBERS / 64];

/// The state that the functions of OpenSHMEM share.
pub(crate) struct Runtime {
    /// That of the default context.
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) world: Arc<Team>,
    heap_span: Span,
    heap: Mutex<Heap>,
    /// Teams by handle.
    teams: RwLock<BTreeMap<usize, Arc<Team>>>,
    /// Contexts by handle.
    contexts: RwLock<BTreeMap<usize, Context>>,
    active_sets: Mutex<BTreeMap<ActiveSet, Arc<Team>>>,
    numbers: Mutex<Numbers>,
    /// `SHMEM_THREAD_…`
    pub(crate) threads: AtomicI32,
    watcher: Watcher,
    /// How long `shmem_finalize` waits until all others have everything.
    finalize_limit: Duration,
    /// `shmem_finalize` has returned.
    is_over: AtomicBool,
    /// Threads that tell the end of a process of DSE and wait for the answer.
    pub(crate) reports: AtomicUsize,
    /// The number of the process.
    process: u32,
}

/// A context of operations.
#[derive(Clone)]
pub(crate) struct Context {
    /// The handle of its team.
    pub(crate) team_handle: usize,
    team: Arc<Team>,
    fabric: Arc<Fabric>,
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
enum InitError {
    #[error(transparent)]
    Node(#[from] suci::Error),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(transparent)]
    Join(JoinError),
    #[error(transparent)]
    Setting(#[from] settings::WrongSetting),
    #[error("the program's variables were not found: link it by oshcc")]
    Variables,
}

/// The runtime, which `shmem_init` began. Ends the program if there is none, or it is over.
pub(crate) fn runtime() -> &'static Runtime {
    let runtime = ever_begun();
    if runtime.is_over.load(Ordering::Relaxed) {
        fatal!("shmem_finalize() was called: call no function of OpenSHMEM after it");
    }
    runtime
}

/// The runtime, also one that is over. Ends the program if there never was one.
pub(crate) fn ever_begun() -> &'static Runtime {
    match RUNTIME.get() {
        Some(runtime) => runtime,
        None => fatal!("call shmem_init() first"),
    }
}

/// The runtime, if there is one.
pub(crate) fn started() -> Option<&'static Runtime> {
    RUNTIME.get()
}

/// Begins; a second call does nothing. Blocks until all processes do so. Ends the program if that
/// fails.
pub(crate) fn init(threads: c_int) {
    if RUNTIME.get().is_some() {
        // A process begins once.
        let _ = runtime();
        return;
    }
    match Runtime::begin(threads) {
        Ok(runtime) => {
            if RUNTIME.set(runtime).is_ok() {
                end::at_exit();
            }
        }
        Err(error) => fatal!("{error}"),
    }
}

fn open() -> Result<(SharedNode, u32), InitError> {
    let builder = match env::id()? {
        Some(_) => Node::builder(),
        // Started by no launcher: alone.
        None => {
            let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
            let builder = Node::builder().id(NodeId(0)).listen(listen);
            builder.book(AddressBook::new())
        }
    };
    let builder = match settings::silence_timeout()? {
        Some(limit) => builder
            .silence_timeout(limit)
            .give_up_after(limit)
            .ignore_supervision(),
        None => builder,
    };
    let node = builder.open_threads(1)?;
    // Afterwards: a launcher that carries addresses told the size with them.
    let size = match env::id()? {
        Some(_) => env::size()?.unwrap_or(1),
        None => 1,
    };
    Ok((node, size))
}

impl Runtime {
    fn begin(threads: c_int) -> Result<Self, InitError> {
        let bytes = settings::heap_size()?;
        let finalize_limit = settings::finalize_limit()?;
        let (node, size) = open()?;
        if node.id() == NodeId(0) {
            settings::print(bytes);
        }
        let variables = memory::variables().ok_or(InitError::Variables)?;
        let watcher = Watcher::start(node.clone());
        let members: Vec<_> = (0..size).map(NodeId).collect();
        let mut group = Group::new(&node, 0, &members)?;
        let fabric = Fabric::join(node, &mut group, bytes, variables);
        let fabric = Arc::new(fabric.map_err(|error| match error {
            JoinError::Group(error) => fail_by_group(error),
            error => InitError::Join(error),
        })?);
        let world = Arc::new(Team::of_group(group));
        let sharing = fabric.sharing().clone();
        let rank = sharing.rank(fabric.me).unwrap_or(0);
        let shared = Arc::new(Team::new(sharing, rank, SHARED_NUMBER, 0));
        let teams = [(TEAM_WORLD, Arc::clone(&world)), (TEAM_SHARED, shared)];
        let context = Context {
            team_handle: TEAM_WORLD,
            team: Arc::clone(&world),
            fabric: Arc::clone(&fabric),
        };
        let mut numbers = Numbers::default();
        // Those of all processes and of the ones that share memory.
        numbers[0] = 1 | 1 << SHARED_NUMBER;
        Ok(Self {
            heap_span: fabric.heap_span(),
            fabric,
            world,
            heap: Mutex::new(Heap::new(bytes)),
            teams: RwLock::new(teams.into()),
            contexts: RwLock::new([(CTX_DEFAULT, context)].into()),
            active_sets: Mutex::default(),
            numbers: Mutex::new(numbers),
            threads: AtomicI32::new(threads),
            watcher,
            finalize_limit,
            is_over: AtomicBool::new(false),
            reports: AtomicUsize::new(0),
            process: std::process::id(),
        })
    }

    /// Ends; a second call does nothing. Blocks until all processes do so, and everything is
    /// applied.
    pub(crate) fn finalize(&self) {
        if self.watcher.expect_ends() {
            self.quiet_contexts(|_| true);
            self.barrier_all();
            // Others awaited these processes before they came to the barrier.
            until(|| (self.reports.load(Ordering::SeqCst) == 0).then_some(()));
            // A process that does not confirm in time has all that it needs: it was in the barrier.
            let _ = self.fabric.node.close(self.finalize_limit);
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Ends without the others, which are told by the end of the sessions.
    pub(crate) fn abandon(&self) {
        if self.watcher.expect_ends() {
            let _ = self.fabric.node.close(Duration::from_secs(1));
        }
    }

    /// Returns true in a child of the process that began: the runtime is not the child's.
    pub(crate) fn is_forked(&self) -> bool {
        std::process::id() != self.process
    }

    pub(crate) fn node(&self) -> &SharedNode {
        self.fabric.node
    }

    /// Completes all operations and waits for all processes.
    pub(crate) fn barrier_all(&self) {
        self.fabric.quiet();
        self.sync(&self.world);
    }

    /// Waits for the members of a team.
    pub(crate) fn sync(&self, team: &Team) {
        if team.members.size() > 1 {
            team.run(self.node(), |group, node| group.barrier(node));
        }
    }

    // ---- memory

    /// Allocates a block; null if there is no room. All processes do so alike.
    pub(crate) fn allocate(&self, length: usize, alignment: usize) -> *mut u8 {
        let at = lock(&self.heap).allocate(length, alignment);
        let pointer = at.map(|at| self.heap_span.pointer(at).cast());
        self.barrier_all();
        pointer.unwrap_or(std::ptr::null_mut())
    }

    /// Frees a block.
    pub(crate) fn free(&self, pointer: *mut u8) {
        self.barrier_all();
        if !lock(&self.heap).free(self.heap_offset(pointer)) {
            fatal!("no block begins at {pointer:p}: pass what shmem_malloc() returned");
        }
    }

    /// The length of a block.
    pub(crate) fn length(&self, pointer: *mut u8) -> usize {
        let length = lock(&self.heap).length(self.heap_offset(pointer));
        length.unwrap_or_else(|| {
            fatal!("no block begins at {pointer:p}: pass what shmem_malloc() returned")
        })
    }

    fn heap_offset(&self, pointer: *mut u8) -> usize {
        let offset = self.heap_span.offset(pointer.addr(), 0);
        offset.unwrap_or(usize::MAX)
    }

    /// Bytes of the heap.
    pub(crate) fn heap_length(&self) -> usize {
        self.heap_span.length
    }

    // ---- teams

    /// A team by its handle; nothing if there is none.
    pub(crate) fn find_team(&self, handle: usize) -> Option<Arc<Team>> {
        let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        teams.get(&handle).map(Arc::clone)
    }

    /// An active set. Ends the program if its arguments make no sense.
    pub(crate) fn active_set(&self, start: c_int, log: c_int, size: c_int) -> Arc<Team> {
        let world = self.fabric.size;
        let found = ActiveSet::new(world, start, log, size)
            .and_then(|set| Some((set, set.members().rank(self.fabric.me)?)));
        let Some((set, rank)) = found else {
            fatal!(
                "PE_start {start}, logPE_stride {log}, PE_size {size} is no active set of {world} \
                 processes that has PE {}",
                self.fabric.me
            );
        };
        let mut sets = lock(&self.active_sets);
        let team = sets.entry(set).or_insert_with(|| {
            let Some(number) = active_set_number(world, set) else {
                fatal!("active sets work among up to 1,000 processes: use a team");
            };
            Arc::new(Team::new(set.members(), rank, number, 0))
        });
        Arc::clone(team)
    }

    /// Agrees with the members of a team on numbers for new teams of some of them, and reserves
    /// them. Returns the first number; nothing if the members have too many teams.
    ///
    /// Another thread may do so at the same time for teams of another parent, and other processes
    /// may come to the two in another order. So no thread waits for another one: each proposes a
    /// number that is free everywhere, and if it is reserved somewhere by then, proposes another.
    pub(crate) fn agree_on_numbers(&self, parent: &Team, count: usize) -> Option<usize> {
        for attempt in 0.. {
            let mut used = *lock(&self.numbers);
            parent.combine(self.node(), &mut used);
            // Parents differ, so the proposals of two threads differ soon.
            let start = attempt * (parent.number + 1) % TEAM_NUMBERS;
            let mut order = (start..TEAM_NUMBERS).chain(0..start);
            let first = order.find(|first| are_free(&used, *first, count))?;
            let is_reserved = self.reserve(first, count);
            let mut refused = [u64::from(!is_reserved)];
            parent.combine(self.node(), &mut refused);
            if refused == [0] {
                return Some(first);
            }
            if is_reserved {
                self.release(first, count);
            }
        }
        None
    }

    /// Reserves numbers of teams at this process. Returns false if one is not free.
    fn reserve(&self, first: usize, count: usize) -> bool {
        let mut numbers = lock(&self.numbers);
        let is_free = are_free(&numbers, first, count);
        if is_free {
            (first..first + count).for_each(|number| mark(&mut numbers, number, true));
        }
        is_free
    }

    /// Frees numbers of teams at this process.
    pub(crate) fn release(&self, first: usize, count: usize) {
        let mut numbers = lock(&self.numbers);
        (first..first + count).for_each(|number| mark(&mut numbers, number, false));
    }

    /// Makes a team that this process is a member of. Returns its handle.
    pub(crate) fn add_team(&self, team: Team) -> usize {
        let mut teams = self.teams.write().unwrap_or_else(PoisonError::into_inner);
        let handle = (TEAM_SHARED + 1..).find(|handle| !teams.contains_key(handle));
        let handle = handle.unwrap_or(usize::MAX);
        teams.insert(handle, Arc::new(team));
        handle
    }

    /// Ends a team and its contexts. Blocks until all members do so.
    pub(crate) fn destroy_team(&self, handle: usize) {
        if handle == TEAM_WORLD || handle == TEAM_SHARED {
            return;
        }
        let Some(team) = self.find_team(handle) else {
            return;
        };
        self.quiet_contexts(|context| context.team_handle == handle);
        // Its number can be used again once all members are past its last operation.
        self.sync(&team);
        let mut contexts = self
            .contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        contexts.retain(|_, context| context.team_handle != handle);
        drop(contexts);
        let mut teams = self.teams.write().unwrap_or_else(PoisonError::into_inner);
        teams.remove(&handle);
        drop(teams);
        // A new team may have the number as soon as nothing of this one is left.
        let number = team.number;
        drop(team);
        self.release(number, 1);
    }

    // ---- contexts

    /// Makes a context of a team. Returns its handle, if there can be one more.
    pub(crate) fn add_context(&self, team_handle: usize) -> Option<usize> {
        let team = self.find_team(team_handle)?;
        let context = Context {
            team_handle,
            team,
            fabric: Arc::new(self.fabric.for_context()?),
        };
        let mut contexts = self
            .contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let handle = (CTX_DEFAULT + 1..).find(|handle| !contexts.contains_key(handle))?;
        contexts.insert(handle, context);
        Some(handle)
    }

    /// Ends a context, whose operations complete first.
    pub(crate) fn destroy_context(&self, handle: usize) {
        if handle != CTX_DEFAULT
            && let Some(context) = self.context(handle)
        {
            context.fabric.quiet();
            let mut contexts = self
                .contexts
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            contexts.remove(&handle);
        }
    }

    /// A context by its handle.
    pub(crate) fn context(&self, handle: usize) -> Option<Context> {
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        contexts.get(&handle).cloned()
    }

    /// Completes the operations of some contexts.
    fn quiet_contexts(&self, which: impl Fn(&Context) -> bool) {
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        let some: Vec<_> = contexts.values().filter(|it| which(it)).cloned().collect();
        drop(contexts);
        some.iter().for_each(|context| context.fabric.quiet());
    }

    /// The memory as a context uses it; nothing for `SHMEM_CTX_INVALID`, which a process has that
    /// is not in the context's team. Ends the program if there is no other such context.
    pub(crate) fn fabric_of(&self, context: usize) -> Option<Arc<Fabric>> {
        match context {
            CTX_INVALID => None,
            CTX_DEFAULT => Some(Arc::clone(&self.fabric)),
            context => Some(self.existing(context).fabric),
        }
    }

    fn existing(&self, context: usize) -> Context {
        self.context(context).unwrap_or_else(|| {
            fatal!("the context {context:#x} does not exist: pass one of shmem_ctx_create()")
        })
    }

    /// The memory as a context uses it, and the process that a number names there. Ends the program
    /// if there is none.
    pub(crate) fn target(&self, context: usize, pe: c_int) -> (Arc<Fabric>, usize) {
        let rank = usize::try_from(pe).unwrap_or(usize::MAX);
        if context == CTX_DEFAULT {
            if rank < self.fabric.size {
                return (Arc::clone(&self.fabric), rank);
            }
            fatal!(
                "there is no PE {pe}: name one from 0 to {}",
                self.fabric.size - 1
            );
        }
        let Context { team, fabric, .. } = self.existing(context);
        let Some(pe) = team.members.pe(rank) else {
            let last = team.members.size() - 1;
            fatal!("there is no PE {pe} in the context's team: name one from 0 to {last}")
        };
        (fabric, pe)
    }

    // ---- the end

    /// Ends all processes with a status.
    pub(crate) fn exit_all(&self, status: c_int) -> ! {
        self.watcher.expect_ends();
        let others = (0..self.fabric.size).filter(|pe| *pe != self.fabric.me);
        end::exit_all(self.node(), others.map(node), status)
    }

    pub(crate) fn set_threads(&self, threads: c_int) {
        self.threads.store(threads, Ordering::Relaxed);
    }
}

/// Returns true if all of these numbers exist, and none is used.
fn are_free(used: &Numbers, first: usize, count: usize) -> bool {
    let is_free = |number: usize| {
        let word = used.get(number / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 0)
    };
    (first..first + count).all(is_free)
}

fn mark(numbers: &mut Numbers, number: usize, is_used: bool) {
    if let Some(word) = numbers.get_mut(number / 64) {
        *word &= !(1 << (number % 64));
        *word |= u64::from(is_used) << (number % 64);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
