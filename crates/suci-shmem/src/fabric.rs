//! Memory of all processes: each lends its heap and its variables, and the others put, get, and
//! change it.

use crate::domain::domain;
use crate::fatal;
use crate::memory::{Span, map_heap};
use crate::pending::Pending;
use crate::team::Members;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use suci::group::{Group, GroupError};
use suci::remote::{
    AtomicOp, Layout, MappedRegion, PendingOperation, Region, RegionError, RegionId, Remote,
    RemoteContext, RemoteFailure, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};
use suci::{NodeId, SharedNode};

/// Segments of symmetric memory: the heap and the variables.
const SEGMENTS: usize = 2;

/// Longer puts go in pieces, so that the copy of the data stays small.
const LONGEST_PUT: usize = 4 << 20;

/// Maximum number of elements of one strided operation, a limit of [`Layout::strided`].
const MAX_ELEMENTS: usize = 65_536;

/// Maximum number of bytes that one strided get returns, a limit of the targets.
const LONGEST_REPLY: usize = 1 << 20;

/// Words that each process tells the others of each segment.
const WORDS: usize = 3;

/// The domain of a process that shares memory with no other one.
const NO_DOMAIN: u64 = 0;

/// A process whose heap is to be mapped may be stopped for a while: about 10 s are enough for one
/// that only waits for a busy processor.
const MAP_ATTEMPTS: usize = 40;
const MAP_PAUSE: Duration = Duration::from_millis(250);

/// The symmetric memory of all processes, as one context uses it.
pub(crate) struct Fabric {
    pub(crate) node: &'static SharedNode,
    pub(crate) me: usize,
    pub(crate) size: usize,
    spans: [Span; SEGMENTS],
    /// Dropping them withdraws the memory.
    regions: Arc<[Region; SEGMENTS]>,
    operations: Operations,
    pending: Pending,
    /// The handles of each process's segments, by process; none for a segment of another length,
    /// whose process runs another program.
    handles: Arc<[[Option<RemoteRegion>; SEGMENTS]]>,
    /// The processes that share memory with this one, and itself: `SHMEM_TEAM_SHARED`.
    sharing: Members,
    /// Their heaps, as far as the program asked for them.
    mapped: Arc<[OnceLock<MappedRegion>]>,
}

/// The operations that a fence or quiet covers.
enum Operations {
    /// Those of the default context.
    Node(Remote<'static, SharedNode>),
    Context(RemoteContext<'static, SharedNode>),
}

/// A place in symmetric memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    segment: usize,
    offset: u64,
}

/// The distance of elements in bytes at both ends of a strided copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strides {
    /// At the destination.
    pub(crate) dest: usize,
    /// At the source.
    pub(crate) source: usize,
}

impl Fabric {
    /// Opens this process's memory, and learns of that of the others. Blocks until all do so. The
    /// heap has `heap` bytes.
    pub(crate) fn join(
        node: SharedNode,
        world: &mut Group,
        heap: usize,
        variables: Span,
    ) -> Result<Self, JoinError> {
        let (heap, heap_span) = open_heap(&node, heap)?;
        let spans = [heap_span, variables];
        let regions = Arc::new([heap, lend(&node, variables)?]);
        let mut own = Vec::new();
        for (region, span) in regions.iter().zip(spans) {
            let handle = region.handle();
            own.extend([handle.region.0.into(), handle.key, span.length as u64]);
        }
        let [heap, _] = &*regions;
        own.push(domain().filter(|_| heap.is_shared()).unwrap_or(NO_DOMAIN));
        let all = world.allgather(&mut node.clone(), &own)?;
        let handles = all.chunks_exact(own.len()).zip(0..);
        let handles: Vec<_> = handles
            .map(|(words, id)| handles_of(words, NodeId(id), spans))
            .collect();
        let (me, size) = (world.rank(), world.size());
        let domain_of = |pe: usize| all.chunks_exact(own.len()).nth(pe)?.last();
        let has_heap = |pe: usize| matches!(handles.get(pe), Some([Some(_), _]));
        let shares = |pe: &usize| {
            domain_of(*pe) == own.last() && own.last() != Some(&NO_DOMAIN) && has_heap(*pe)
        };
        let sharing = (0..size).filter(|pe| *pe == me || shares(pe)).collect();
        // Contexts refer to the node, which exists until the process ends.
        let node = &*Box::leak(Box::new(node));
        // A process that does not answer ends the wait by the silence timeout.
        let remote = node.remote().limit(Duration::MAX);
        Ok(Self {
            me,
            size,
            node,
            spans,
            sharing,
            regions,
            operations: Operations::Node(remote),
            pending: Pending::default(),
            mapped: handles.iter().map(|_| OnceLock::new()).collect(),
            handles: handles.into(),
        })
    }

    /// The heap of this process.
    pub(crate) fn heap_span(&self) -> Span {
        let [heap, _] = self.spans;
        heap
    }

    /// The processes that share memory with this one, and itself.
    pub(crate) const fn sharing(&self) -> &Members {
        &self.sharing
    }

    /// The place where this process has the heap of another one in its memory, if both share
    /// memory. It stays there until the program ends.
    pub(crate) fn pointer_to(&self, pe: usize, address: usize) -> Option<*mut u8> {
        let place = self.place(address, 1).filter(|place| place.segment == 0)?;
        self.sharing.rank(pe)?;
        let offset = usize::try_from(place.offset).ok()?;
        let heap = self.mapped.get(pe)?;
        let heap = heap.get_or_init(|| self.map_heap(pe, self.region(pe, place)));
        Some(heap.as_ptr().wrapping_add(offset))
    }

    /// Maps the heap of a process that shares memory with this one. Ends the program if the system
    /// does not let it: the team of processes that share memory would not be what it says.
    fn map_heap(&self, pe: usize, heap: &RemoteRegion) -> MappedRegion {
        for _ in 0..MAP_ATTEMPTS {
            // There may have been no message between the two: a get of nothing opens a session.
            check(self.remote().get(heap, 0, &mut []));
            if let Some(mapped) = check(self.remote().map(heap)) {
                return mapped;
            }
            std::thread::sleep(MAP_PAUSE);
        }
        fatal!(
            "the heap of PE {pe} could not be mapped, though both processes share memory: allow \
             more open files (ulimit -n) and mappings (vm.max_map_count), or set \
             SUCI_SHARED_MEMORY to 0"
        );
    }

    /// The same memory for another context, with operations of its own. There is none if the node
    /// has as many contexts as it may.
    pub(crate) fn for_context(&self) -> Option<Self> {
        let context = match self.remote().context() {
            Err(RemoteFailure::TooManyContexts(_)) => return None,
            context => check(context),
        };
        Some(Self {
            regions: Arc::clone(&self.regions),
            operations: Operations::Context(context),
            pending: Pending::default(),
            sharing: self.sharing.clone(),
            mapped: Arc::clone(&self.mapped),
            handles: Arc::clone(&self.handles),
            ..*self
        })
    }

    fn remote(&self) -> &Remote<'static, SharedNode> {
        match &self.operations {
            Operations::Node(remote) => remote,
            Operations::Context(context) => context,
        }
    }

    fn place(&self, address: usize, length: usize) -> Option<Place> {
        let mut spans = self.spans.iter().enumerate();
        spans.find_map(|(segment, span)| {
            let offset = span.offset(address, length)? as u64;
            Some(Place { segment, offset })
        })
    }

    /// Whether an address is symmetric, and the memory of `pe` there is lent.
    pub(crate) fn is_accessible(&self, address: usize, pe: usize) -> bool {
        let handles = self.handles.get(pe);
        self.place(address, 1)
            .and_then(|place| handles?.get(place.segment)?.as_ref())
            .is_some()
    }

    /// The place of bytes at an address. Ends the program if they are not symmetric.
    pub(crate) fn place_of(&self, address: usize, length: usize) -> Place {
        let Some(place) = self.place(address, length) else {
            fatal!(
                "{length} bytes at {address:#x} are not symmetric: pass memory of shmem_malloc(), \
                 or a global or static variable of the program"
            );
        };
        place
    }

    /// The region and the offset of `length` bytes that are at `address` in this process.
    fn at(&self, pe: usize, address: usize, length: usize) -> (&RemoteRegion, u64) {
        let place = self.place_of(address, length);
        (self.region(pe, place), place.offset)
    }

    /// The region of a place at a process.
    fn region(&self, pe: usize, place: Place) -> &RemoteRegion {
        let handle = self.handles.get(pe);
        let handle = handle.and_then(|handles| handles.get(place.segment)?.as_ref());
        let Some(handle) = handle else {
            fatal!(
                "PE {pe} does not exist, or has other variables than this one, PE {}: start the \
                 same program everywhere, or use memory of shmem_malloc()",
                self.me
            );
        };
        handle
    }

    // ---- puts and gets

    /// Copies `length` bytes at `source` to `dest` at `pe`. They may change when this returns.
    ///
    /// # Safety
    /// `source` points to as many bytes that may be read and, at this process itself, `dest` to as
    /// many that may be written. The places may overlap.
    pub(crate) unsafe fn put(
        &self,
        pe: usize,
        dest: *mut u8,
        (source, length): (*const u8, usize),
    ) {
        // Nothing may be put anywhere.
        if length == 0 {
            return;
        }
        if pe == self.me {
            // SAFETY: the caller's promise.
            unsafe { source.copy_to(dest, length) };
            return;
        }
        // SAFETY: the caller's promise; nothing writes them here meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(source, length) };
        let (to, offset) = self.at(pe, dest.expose_provenance(), length);
        let offsets = (offset..).step_by(LONGEST_PUT);
        for (piece, offset) in bytes.chunks(LONGEST_PUT).zip(offsets) {
            check(self.remote().put_slice(to, offset, piece, None));
        }
    }

    /// As [`put`](Self::put), and then updates the signal word.
    ///
    /// # Safety
    /// As `put`, and for the word, too.
    pub(crate) unsafe fn put_signal(
        &self,
        pe: usize,
        dest: *mut u8,
        (source, length): (*const u8, usize),
        (signal, update): (*mut u64, SignalUpdate),
    ) {
        let at = self.place(dest.expose_provenance(), length);
        let word = self.place(signal.expose_provenance(), 8);
        if pe != self.me
            && (1..=LONGEST_PUT).contains(&length)
            && let (Some(at), Some(word)) = (at, word)
            && at.segment == word.segment
        {
            // SAFETY: the caller's promise; nothing writes them here meanwhile.
            let bytes = unsafe { std::slice::from_raw_parts(source, length) };
            let (to, offset) = self.at(pe, dest.expose_provenance(), length);
            let signal = Signal {
                offset: word.offset,
                update,
            };
            check(self.remote().put_slice(to, offset, bytes, Some(signal)));
            return;
        }
        let op = match update {
            SignalUpdate::Set(value) => AtomicOp::Set(value),
            SignalUpdate::Add(value) => AtomicOp::Add(value),
        };
        // SAFETY: the caller's promises. The target applies both in this order.
        unsafe {
            self.put(pe, dest, (source, length));
            self.atomic(pe, signal.cast(), Width::Bits64, op);
        }
    }

    /// Copies bytes at `source` of `pe` to `into`.
    ///
    /// # Safety
    /// At this process itself, `source` points to as many bytes that may be read.
    pub(crate) unsafe fn get(&self, pe: usize, source: *const u8, into: *mut u8, length: usize) {
        if length == 0 {
            return;
        }
        if pe == self.me {
            // SAFETY: the caller's promise; the places may overlap.
            unsafe { source.copy_to(into, length) };
            return;
        }
        let (from, offset) = self.at(pe, source.expose_provenance(), length);
        // SAFETY: the caller's promise, who lends these bytes for the time of the call.
        let into = unsafe { std::slice::from_raw_parts_mut(into, length) };
        check(self.remote().get(from, offset, into));
    }

    /// As [`get`](Self::get); the bytes are there after the next quiet.
    ///
    /// # Safety
    /// As `get`; `into` stays the caller's until the quiet.
    pub(crate) unsafe fn get_nbi(
        &self,
        pe: usize,
        source: *const u8,
        into: *mut u8,
        length: usize,
    ) {
        let place = self.place(into.expose_provenance(), length);
        let Some(place) = place.filter(|_| pe != self.me && length > 0) else {
            // Only lent memory takes bytes later.
            // SAFETY: the caller's promise.
            unsafe { self.get(pe, source, into, length) };
            return;
        };
        let (from, offset) = self.at(pe, source.expose_provenance(), length);
        let layout = |offset| check(Layout::contiguous(offset, length as u64));
        let (layout, at) = (layout(offset), layout(place.offset));
        let operation = self.remote().begin_get(from, layout, self.local(place), at);
        // SAFETY: it has no result.
        unsafe {
            self.pending
                .add(check(operation), None, |begun| self.result(begun))
        };
    }

    /// Waits for an operation, and returns its result or 0.
    fn result(&self, operation: PendingOperation) -> u64 {
        check(self.remote().wait(operation)).unwrap_or(0)
    }

    /// Copies `count` elements of `element` bytes to `dest` at `pe`.
    ///
    /// # Safety
    /// `source` points to elements at this distance, `dest` at this process itself, too.
    pub(crate) unsafe fn put_strided(
        &self,
        pe: usize,
        (dest, source): (*mut u8, *const u8),
        strides: Strides,
        (element, count): (usize, usize),
    ) {
        if pe == self.me {
            // SAFETY: the caller's promise.
            unsafe { copy_strided((dest, source), strides, (element, count)) };
            return;
        }
        let mut done = 0;
        while done < count {
            let now = (count - done).min(MAX_ELEMENTS);
            let mut bytes = vec![0; element * now];
            let packed = Strides {
                dest: element,
                source: strides.source,
            };
            // SAFETY: the elements are among those that the caller promises; the buffer has as
            // many.
            unsafe {
                let source = source.add(done * strides.source);
                copy_strided((bytes.as_mut_ptr(), source), packed, (element, now));
            }
            let dest = dest.wrapping_add(done * strides.dest);
            let (to, layout) = self.layout(pe, dest, strides.dest, (element, now));
            check(self.remote().put_layout(to, layout, bytes, None));
            done += now;
        }
    }

    /// Copies `count` elements of `element` bytes at `source` of `pe` to `dest`.
    ///
    /// # Safety
    /// `dest` points to elements at this distance, `source` at this process itself, too.
    pub(crate) unsafe fn get_strided(
        &self,
        pe: usize,
        (dest, source): (*mut u8, *const u8),
        strides: Strides,
        (element, count): (usize, usize),
    ) {
        if pe == self.me {
            // SAFETY: the caller's promise.
            unsafe { copy_strided((dest, source), strides, (element, count)) };
            return;
        }
        let most = MAX_ELEMENTS.min(LONGEST_REPLY / element);
        let mut done = 0;
        while done < count {
            let now = (count - done).min(most);
            let source = source.wrapping_add(done * strides.source);
            let (from, layout) = self.layout(pe, source, strides.source, (element, now));
            let mut bytes = vec![0; element * now];
            check(self.remote().get_layout(from, layout, &mut bytes));
            let packed = Strides {
                dest: strides.dest,
                source: element,
            };
            // SAFETY: the elements are among those that the caller promises; the buffer has as
            // many.
            unsafe {
                let dest = dest.add(done * strides.dest);
                copy_strided((dest, bytes.as_ptr()), packed, (element, now));
            }
            done += now;
        }
    }

    /// The region and the layout of elements at `address`.
    fn layout(
        &self,
        pe: usize,
        address: *const u8,
        stride: usize,
        (element, count): (usize, usize),
    ) -> (&RemoteRegion, Layout) {
        let length = stride.saturating_mul(count.saturating_sub(1)) + element;
        let (region, offset) = self.at(pe, address.expose_provenance(), length);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match Layout::strided(offset, element as u64, stride as u64, count) {
            Ok(layout) => (region, layout),
            Err(error) => fatal!("{error}: pass strides of 1 or more"),
        }
    }

    // ---- atomic operations

    /// Applies an atomic operation without a result.
    ///
    /// # Safety
    /// At this process itself, `at` points to an integer of this width.
    pub(crate) unsafe fn atomic(&self, pe: usize, at: *mut u8, width: Width, op: AtomicOp) {
        if pe == self.me {
            // SAFETY: the caller's promise.
            unsafe { local_atomic(at, width, op) };
            return;
        }
        let (to, offset) = self.integer(pe, at, width);
        check(self.remote().atomic(to, offset, width, op));
    }

    /// Applies an atomic operation, and returns the integer before.
    ///
    /// # Safety
    /// As [`atomic`](Self::atomic).
    pub(crate) unsafe fn fetch_atomic(
        &self,
        pe: usize,
        at: *mut u8,
        width: Width,
        op: AtomicOp,
    ) -> u64 {
        if pe == self.me {
            // SAFETY: the caller's promise.
            return unsafe { local_atomic(at, width, op) };
        }
        let (to, offset) = self.integer(pe, at, width);
        check(self.remote().fetch_atomic(to, offset, width, op))
    }

    /// As [`fetch_atomic`](Self::fetch_atomic); the integer before is at `into` after the next
    /// quiet.
    ///
    /// # Safety
    /// As `fetch_atomic`; `into` has room for an integer of this width until the quiet.
    pub(crate) unsafe fn fetch_atomic_nbi(
        &self,
        pe: usize,
        (at, into): (*mut u8, *mut u8),
        width: Width,
        op: AtomicOp,
    ) {
        if pe == self.me {
            // SAFETY: the caller's promise.
            unsafe {
                let before = local_atomic(at, width, op);
                match width {
                    Width::Bits32 => {
                        let before = u32::try_from(before).unwrap_or(0);
                        into.cast::<u32>().write_unaligned(before);
                    }
                    Width::Bits64 => into.cast::<u64>().write_unaligned(before),
                }
            }
            return;
        }
        let (to, offset) = self.integer(pe, at, width);
        let operation = self.remote().begin_fetch_atomic(to, offset, width, op);
        let result = Some((into, width));
        // SAFETY: the caller's promise.
        unsafe {
            self.pending
                .add(check(operation), result, |begun| self.result(begun))
        };
    }

    fn integer(&self, pe: usize, at: *const u8, width: Width) -> (&RemoteRegion, u64) {
        check_integer(at, width);
        let bytes = usize::try_from(width.bytes()).unwrap_or(8);
        self.at(pe, at.expose_provenance(), bytes)
    }

    // ---- by place, for programs in Rust

    /// The address of a place in this process.
    pub(crate) fn pointer(&self, place: Place) -> *mut u8 {
        let span = self.spans.get(place.segment);
        let offset = usize::try_from(place.offset).unwrap_or(usize::MAX);
        span.map_or(std::ptr::null_mut(), |span| span.pointer(offset).cast())
    }

    /// Writes to this process's memory, while others may use it.
    pub(crate) fn write(&self, place: Place, at: usize, bytes: &[u8]) {
        check(self.local(place).write(place.offset + at as u64, bytes));
    }

    /// Reads this process's memory, while others may use it.
    pub(crate) fn read(&self, place: Place, at: usize, into: &mut [u8]) {
        check(self.local(place).read(place.offset + at as u64, into));
    }

    fn local(&self, place: Place) -> &Region {
        let [heap, variables] = &*self.regions;
        match place.segment {
            0 => heap,
            _ => variables,
        }
    }

    pub(crate) fn put_at(&self, pe: usize, place: Place, at: usize, bytes: Vec<u8>) {
        let (to, offset) = (self.region(pe, place), place.offset + at as u64);
        check(self.remote().put(to, offset, bytes));
    }

    pub(crate) fn get_at(&self, pe: usize, place: Place, at: usize, into: &mut [u8]) {
        let (from, offset) = (self.region(pe, place), place.offset + at as u64);
        check(self.remote().get(from, offset, into));
    }

    pub(crate) fn fetch_atomic_at(
        &self,
        pe: usize,
        place: Place,
        at: usize,
        width: Width,
        op: AtomicOp,
    ) -> u64 {
        let offset = place.offset + at as u64;
        match pe == self.me {
            true => check(self.local(place).atomic(offset, width, op)),
            false => check(
                self.remote()
                    .fetch_atomic(self.region(pe, place), offset, width, op),
            ),
        }
    }

    // ---- order

    /// Orders the context's operations at each process.
    pub(crate) fn fence(&self) {
        for pe in (0..self.size).filter(|pe| *pe != self.me) {
            check(self.remote().fence(node(pe)));
        }
    }

    /// Blocks until the context's operations at all processes were applied.
    pub(crate) fn quiet(&self) {
        check(self.remote().quiet());
        self.pending.settle(|begun| self.result(begun));
    }
}

const RIGHTS: fn() -> Rights = || Rights::READ | Rights::WRITE | Rights::ATOMIC;

/// Opens memory of this process to others.
fn lend(node: &SharedNode, span: Span) -> Result<Region, RegionError> {
    // SAFETY: both segments stay mapped until the process ends, and a program that uses them beside
    // others' operations does so by the rules of OpenSHMEM: with atomic operations, or after
    // synchronising.
    unsafe { node.lend_region(span.first(), span.length, RIGHTS()) }
}

/// Opens a heap: memory that other processes of this machine may map, if the node shares memory.
fn open_heap(node: &SharedNode, bytes: usize) -> Result<(Region, Span), JoinError> {
    if let Ok(region) = node.allocate_region(bytes, RIGHTS())
        && region.is_shared()
    {
        let span = Span {
            start: region.as_ptr().expose_provenance(),
            length: bytes,
        };
        return Ok((region, span));
    }
    let span = map_heap(bytes).map_err(|source| JoinError::Heap { bytes, source })?;
    Ok((lend(node, span)?, span))
}

/// Why a process could not join the others.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Region(#[from] RegionError),
    #[error(transparent)]
    Group(#[from] GroupError),
    #[error(
        "no address space for a symmetric heap of {bytes} bytes ({source}): set SHMEM_SYMMETRIC_SIZE to less"
    )]
    Heap {
        bytes: usize,
        source: std::io::Error,
    },
}

/// The node of a process.
pub(crate) fn node(pe: usize) -> NodeId {
    NodeId(u32::try_from(pe).unwrap_or(u32::MAX))
}

fn handles_of(
    words: &[u64],
    node: NodeId,
    spans: [Span; SEGMENTS],
) -> [Option<RemoteRegion>; SEGMENTS] {
    let mut handles = [None; SEGMENTS];
    let segments = words.chunks_exact(WORDS).zip(spans);
    for (handle, (words, span)) in handles.iter_mut().zip(segments) {
        let [region, key, length] = words else {
            continue;
        };
        let region = u32::try_from(*region).ok();
        let region = region.filter(|_| *length == span.length as u64);
        *handle = region.map(|region| RemoteRegion {
            node,
            region: RegionId(region),
            key: *key,
        });
    }
    handles
}

/// Ends the program if an operation failed: OpenSHMEM has no errors of operations.
fn check<T, E: std::fmt::Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fatal!("{error}"),
    }
}

/// Copies elements that lie apart.
///
/// # Safety
/// Both pointers point to `count` elements of `element` bytes at these distances.
unsafe fn copy_strided(
    (mut dest, mut source): (*mut u8, *const u8),
    strides: Strides,
    (element, count): (usize, usize),
) {
    for _ in 0..count {
        // SAFETY: the caller's promise.
        unsafe { source.copy_to(dest, element) };
        dest = dest.wrapping_add(strides.dest);
        source = source.wrapping_add(strides.source);
    }
}

/// Ends the program if no integer can be at an address: the operation may be another PE's, whose
/// answer would name regions instead.
fn check_integer(at: *const u8, width: Width) {
    if at.is_null() {
        fatal!("the address of the integer is null: pass memory of shmem_malloc(), or a variable");
    }
    if !(at.addr() as u64).is_multiple_of(width.bytes()) {
        fatal!("the integer at {at:p} is not aligned: atomic operations need that");
    }
}

/// Applies an atomic operation of the processor.
///
/// # Safety
/// `at` points to an integer of this width, which is used atomically alone meanwhile.
unsafe fn local_atomic(at: *mut u8, width: Width, op: AtomicOp) -> u64 {
    check_integer(at, width);
    match width {
        Width::Bits32 => {
            // SAFETY: the caller's promise; it is aligned.
            let integer = unsafe { AtomicU32::from_ptr(at.cast()) };
            let change = |before: u32| u32::try_from(op.apply(before.into(), width)).ok();
            let done = integer.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
            done.unwrap_or_else(|before| before).into()
        }
        Width::Bits64 => {
            // SAFETY: the caller's promise; it is aligned.
            let integer = unsafe { AtomicU64::from_ptr(at.cast()) };
            let change = |before| Some(op.apply(before, width));
            let done = integer.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
            done.unwrap_or_else(|before| before)
        }
    }
}
