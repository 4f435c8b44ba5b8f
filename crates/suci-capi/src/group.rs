//! Groups and their collective operations.

use crate::elements::{Room, elements, room_for, with_combination, with_element};
use crate::entry::Host;
use crate::error::{BUSY, DIFFERENT, EXCLUDED, Failure, INTERNAL, MEMBER, SUSPENDED, TIMED_OUT};
use crate::guard::guard;
use crate::handle::{Entered, GROUP, Handle, PENDING};
use crate::limit::{Limit, woken};
use crate::pointer;
use crate::table::{AtFork, Table};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use suci::NodeId;
use suci::group::{Agreed, Combination, Element, Group, GroupError, MemberFailure, Pending};

static GROUPS: Table<Arc<Mutex<Group>>> = Table::new(GROUP, AtFork::Leave);

/// Operations that were begun; none while a call uses one.
static BEGUN: Table<Option<Box<dyn Begun>>> = Table::new(PENDING, AtFork::Leave);

/// An operation that was begun, whatever its result is.
trait Begun: Send {
    /// Carries it on. Returns whether it is over.
    fn test(&mut self, host: Host<'_>) -> Result<bool, GroupError>;

    /// Waits for it, and puts the result where it belongs.
    fn wait(self: Box<Self>, host: Host<'_>) -> Result<(), GroupError>;
}

/// An operation, and a function that puts its result where it belongs.
struct BegunWith<R, P> {
    pending: Pending<R>,
    put: P,
}

impl<R: 'static, P: FnOnce(R) + Send> Begun for BegunWith<R, P> {
    fn test(&mut self, host: Host<'_>) -> Result<bool, GroupError> {
        match host {
            Host::Alone(node) => self.pending.test(node),
            Host::Shared(node) => self.pending.test(&mut node.clone()),
        }
    }

    fn wait(self: Box<Self>, host: Host<'_>) -> Result<(), GroupError> {
        let result = match host {
            Host::Alone(node) => self.pending.wait(node),
            Host::Shared(node) => self.pending.wait(&mut node.clone()),
        }?;
        (self.put)(result);
        Ok(())
    }
}

impl From<GroupError> for Failure {
    fn from(error: GroupError) -> Self {
        let text = error.to_string();
        match error {
            GroupError::Node(error) => error.into(),
            GroupError::TimedOut { .. } => Self::new(TIMED_OUT, text),
            GroupError::Woken { .. } => woken(),
            GroupError::Argument { .. } => Self::argument(text),
            GroupError::Excluded { .. } | GroupError::CutOff { .. } => Self::new(EXCLUDED, text),
            GroupError::Member { node, failure, .. } => Self::new(code_of(failure), text).at(node),
            _ => Self::new(INTERNAL, text),
        }
    }
}

const fn code_of(failure: MemberFailure) -> c_int {
    match failure {
        MemberFailure::Other { .. }
        | MemberFailure::Length { .. }
        | MemberFailure::Root { .. }
        | MemberFailure::Arguments => DIFFERENT,
        MemberFailure::Suspended => SUSPENDED,
        _ => MEMBER,
    }
}

/// Returns the group behind a handle.
fn group_of(handle: Handle) -> Result<Arc<Mutex<Group>>, Failure> {
    GROUPS.with(handle, |group| Ok(Arc::clone(group)))
}

/// Returns a group for one call.
fn lock(group: &Mutex<Group>) -> Result<MutexGuard<'_, Group>, Failure> {
    match group.try_lock() {
        Ok(group) => Ok(group),
        Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        Err(TryLockError::WouldBlock) => {
            let text = "another call uses the group: wait until it returns";
            Err(Failure::new(BUSY, text))
        }
    }
}

/// Begins an operation of a group, which may take `timeout` from now on. Its result goes to `put`.
/// If C wants no `pending`, waits for it.
macro_rules! on_group {
    ($node:ident, $group:ident, $pending:ident, $timeout:ident, $put:expr,
        ($g:ident, $n:ident) => $begin:expr) => {{
        let mut entered = $node.enter()?;
        let group = group_of($group)?;
        let mut $g = lock(&group)?;
        $g.set_limit(Limit::new($timeout).duration());
        let begun = match entered.host() {
            Host::Alone($n) => $begin,
            Host::Shared(shared) => {
                let $n = &mut shared.clone();
                $begin
            }
        };
        let put = $put;
        let begun = BegunWith {
            pending: begun?,
            put,
        };
        // SAFETY: as suci.h asks.
        unsafe { finish(&mut entered, Box::new(begun), $pending) }
    }};
}

/// Waits for an operation or, if C wants it, keeps it.
///
/// # Safety
/// If `pending` is not null, a handle may be written there.
unsafe fn finish(
    entered: &mut Entered,
    begun: Box<dyn Begun>,
    pending: *mut Handle,
) -> Result<(), Failure> {
    if pending.is_null() {
        let result = begun.wait(entered.host());
        return noted(entered, result);
    }
    // SAFETY: the caller's promise.
    unsafe { pointer::put(pending, BEGUN.insert(Some(begun))?) };
    Ok(())
}

/// Returns the result of a wait. Takes note of a wake that ended it.
fn noted<T>(entered: &Entered, result: Result<T, GroupError>) -> Result<T, Failure> {
    if matches!(result, Err(GroupError::Woken { .. })) {
        entered.entry().take_woken();
    }
    result.map_err(Failure::from)
}

// ---- groups

/// Makes a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_new(
    node: Handle,
    number: u32,
    members: *const u32,
    count: usize,
    group: *mut Handle,
) -> c_int {
    guard(|| {
        pointer::output(group, "group")?;
        // SAFETY: as suci.h asks.
        let members = unsafe { pointer::items(members, count, "members") }?;
        let members: Vec<_> = members.iter().copied().map(NodeId).collect();
        let new = match node.enter()?.host() {
            Host::Alone(node) => Group::new(node, number, &members),
            Host::Shared(node) => Group::new(node, number, &members),
        }?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(group, GROUPS.insert(Arc::new(Mutex::new(new)))?) };
        Ok(())
    })
}

/// Forgets a group.
#[unsafe(no_mangle)]
pub extern "C" fn suci_group_free(group: Handle) -> c_int {
    guard(|| GROUPS.remove(group, |_| Ok(())).map(drop))
}

/// Lists the members of a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_members(
    group: Handle,
    members: *mut u32,
    capacity: usize,
    count: *mut usize,
    rank: *mut u32,
) -> c_int {
    guard(|| {
        let group = group_of(group)?;
        let group = lock(&group)?;
        let all: Vec<_> = group.members().iter().map(|node| node.0).collect();
        // SAFETY: as suci.h asks.
        unsafe {
            pointer::fill_list(members, capacity, count, all.into_iter())?;
            pointer::put(rank, group.rank() as u32);
        }
        Ok(())
    })
}

/// Sets whether parts of a divided network go on by themselves.
#[unsafe(no_mangle)]
pub extern "C" fn suci_group_let_parts_go_on(group: Handle, go_on: bool) -> c_int {
    guard(|| {
        lock(&*group_of(group)?)?.let_parts_go_on(go_on);
        Ok(())
    })
}

// ---- operations that were begun

/// Tells whether an operation is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_pending_test(
    node: Handle,
    pending: Handle,
    over: *mut bool,
) -> c_int {
    guard(|| {
        pointer::output(over, "over")?;
        let mut entered = node.enter()?;
        let mut begun = BEGUN.with(pending, take)?;
        let result = begun.test(entered.host());
        // It stays the program's, unless that freed it meanwhile.
        let _ = BEGUN.with(pending, |place| {
            *place = Some(begun);
            Ok(())
        });
        let is_over = noted(&entered, result)?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(over, is_over) };
        Ok(())
    })
}

/// Waits for the end of an operation.
#[unsafe(no_mangle)]
pub extern "C" fn suci_pending_wait(node: Handle, pending: Handle) -> c_int {
    guard(|| {
        let mut entered = node.enter()?;
        let begun = BEGUN.with(pending, take)?;
        BEGUN.remove(pending, |_| Ok(()))?;
        let result = begun.wait(entered.host());
        noted(&entered, result)
    })
}

/// Drops the result of an operation.
#[unsafe(no_mangle)]
pub extern "C" fn suci_pending_free(pending: Handle) -> c_int {
    guard(|| BEGUN.remove(pending, |_| Ok(())).map(drop))
}

/// Takes an operation for one call.
fn take(place: &mut Option<Box<dyn Begun>>) -> Result<Box<dyn Begun>, Failure> {
    let text = "another call uses the operation: wait until it returns";
    place.take().ok_or_else(|| Failure::new(BUSY, text))
}

// ---- collective operations

/// Waits until all members call it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_barrier(
    node: Handle,
    group: Handle,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        on_group!(node, group, pending, timeout, |()| (), (group, node) => {
            group.begin_barrier(node)
        })
    })
}

/// Copies the root's elements to all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_broadcast(
    node: Handle,
    group: Handle,
    root: u32,
    data: *mut c_void,
    count: usize,
    element: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        with_element!(element, T => {
            // SAFETY: as suci.h asks, here and below.
            let list = unsafe { elements::<T>(data, count, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(data, count, "data") }?;
            on_group!(node, group, pending, timeout, move |all: Vec<T>| into.write(&all),
                (group, node) => group.begin_broadcast(node, root as usize, list))
        })
    })
}

/// The operations that combine elements.
#[derive(Clone, Copy)]
enum Reduction {
    To(u32),
    ToAll,
    Scan,
    ExclusiveScan,
}

impl Reduction {
    /// Begins it with elements of a type.
    fn begin<T: Element, N: suci::group::GroupNode>(
        self,
        group: &mut Group,
        node: &mut N,
        list: Vec<T>,
        operation: impl Combination<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        match self {
            Self::To(root) => group.begin_reduce(node, root as usize, list, operation),
            Self::ToAll => group.begin_allreduce(node, list, operation),
            Self::Scan => group.begin_scan(node, list, operation),
            Self::ExclusiveScan => group.begin_exclusive_scan(node, list, operation),
        }
    }

    /// Runs it, or begins it.
    ///
    /// # Safety
    /// As suci.h asks of each of them.
    unsafe fn run(
        self,
        (node, group): (Handle, Handle),
        (data, count): (*mut c_void, usize),
        (element, combination): (u32, u32),
        pending: *mut Handle,
        timeout: i64,
    ) -> Result<(), Failure> {
        with_combination!(element, combination, (T, operation) => {
            // SAFETY: the caller's promise, here and below.
            let list = unsafe { elements::<T>(data, count, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(data, count, "data") }?;
            on_group!(node, group, pending, timeout, move |all: Vec<T>| into.write(&all),
                (group, node) => self.begin(&mut group, node, list, operation))
        })
    }
}

/// Combines the elements of all members, for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_reduce(
    node: Handle,
    group: Handle,
    root: u32,
    data: *mut c_void,
    count: usize,
    element: u32,
    combination: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    let (of, types) = ((node, group), (element, combination));
    // SAFETY: as suci.h asks.
    guard(|| unsafe { Reduction::To(root).run(of, (data, count), types, pending, timeout) })
}

/// Combines the elements of all members, for all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_allreduce(
    node: Handle,
    group: Handle,
    data: *mut c_void,
    count: usize,
    element: u32,
    combination: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    let (of, types) = ((node, group), (element, combination));
    // SAFETY: as suci.h asks.
    guard(|| unsafe { Reduction::ToAll.run(of, (data, count), types, pending, timeout) })
}

/// Combines the elements of the members up to each one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_scan(
    node: Handle,
    group: Handle,
    data: *mut c_void,
    count: usize,
    element: u32,
    combination: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    let (of, types) = ((node, group), (element, combination));
    // SAFETY: as suci.h asks.
    guard(|| unsafe { Reduction::Scan.run(of, (data, count), types, pending, timeout) })
}

/// Combines the elements of the members before each one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_exclusive_scan(
    node: Handle,
    group: Handle,
    data: *mut c_void,
    count: usize,
    element: u32,
    combination: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    let (of, types) = ((node, group), (element, combination));
    // SAFETY: as suci.h asks.
    guard(|| unsafe { Reduction::ExclusiveScan.run(of, (data, count), types, pending, timeout) })
}

/// Collects elements of all members at one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_gather(
    node: Handle,
    group: Handle,
    root: u32,
    data: *const c_void,
    count: usize,
    counts: *const usize,
    into: *mut c_void,
    room: usize,
    element: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks, here and below.
        let lengths = unsafe { lengths(group, counts, count, "counts") }?;
        let wanted = match rank_of(group)? == root as usize {
            true => total(&lengths)?,
            false => 0,
        };
        room_for(wanted, room)?;
        with_element!(element, T => {
            // SAFETY: as above.
            let list = unsafe { elements::<T>(data, count, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(into, wanted, "into") }?;
            on_group!(node, group, pending, timeout, move |all: Vec<T>| into.write(&all),
                (group, node) => group.begin_gatherv(node, root as usize, &list, &lengths))
        })
    })
}

/// Gives each member its part of the root's elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_scatter(
    node: Handle,
    group: Handle,
    root: u32,
    data: *const c_void,
    count: usize,
    counts: *const usize,
    into: *mut c_void,
    room: usize,
    element: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks, here and below.
        let lengths = unsafe { lengths(group, counts, room, "counts") }?;
        let given = match rank_of(group)? == root as usize {
            true => count,
            false => 0,
        };
        with_element!(element, T => {
            // SAFETY: as above.
            let list = unsafe { elements::<T>(data, given, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(into, room, "into") }?;
            on_group!(node, group, pending, timeout, move |part: Vec<T>| into.write(&part),
                (group, node) => group.begin_scatterv(node, root as usize, &list, &lengths))
        })
    })
}

/// Collects elements of all members at each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_allgather(
    node: Handle,
    group: Handle,
    data: *const c_void,
    count: usize,
    counts: *const usize,
    into: *mut c_void,
    room: usize,
    element: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks, here and below.
        let lengths = unsafe { lengths(group, counts, count, "counts") }?;
        let wanted = total(&lengths)?;
        room_for(wanted, room)?;
        with_element!(element, T => {
            // SAFETY: as above.
            let list = unsafe { elements::<T>(data, count, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(into, wanted, "into") }?;
            on_group!(node, group, pending, timeout, move |all: Vec<T>| into.write(&all),
                (group, node) => group.begin_allgatherv(node, &list, &lengths))
        })
    })
}

/// Sends each member its part of the elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_all_to_all(
    node: Handle,
    group: Handle,
    data: *const c_void,
    count: usize,
    sent: *const usize,
    into: *mut c_void,
    room: usize,
    received: *const usize,
    element: u32,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks, here and below.
        let sent = unsafe { parts(group, sent, count, "sent") }?;
        // SAFETY: as above.
        let received = unsafe { parts(group, received, room, "received") }?;
        let wanted = total(&received)?;
        room_for(wanted, room)?;
        with_element!(element, T => {
            // SAFETY: as above.
            let list = unsafe { elements::<T>(data, count, "data") }?;
            // SAFETY: as above.
            let into = unsafe { Room::new::<T>(into, wanted, "into") }?;
            on_group!(node, group, pending, timeout, move |all: Vec<T>| into.write(&all),
                (group, node) => group.begin_all_to_allv(node, &list, &sent, &received))
        })
    })
}

fn rank_of(group: Handle) -> Result<usize, Failure> {
    Ok(lock(&*group_of(group)?)?.rank())
}

/// Returns the lengths of all members' parts: those that C names, or `own` for each.
///
/// # Safety
/// If `counts` is not null, it points to as many values as the group has members.
unsafe fn lengths(
    group: Handle,
    counts: *const usize,
    own: usize,
    name: &str,
) -> Result<Vec<usize>, Failure> {
    let group = group_of(group)?;
    let group = lock(&group)?;
    if counts.is_null() {
        return Ok(vec![own; group.size()]);
    }
    // SAFETY: the caller's promise.
    let counts = unsafe { pointer::items(counts, group.size(), name) }?;
    match counts.get(group.rank()) {
        Some(named) if *named != own => Err(Failure::argument(format!(
            "{name} says {named} elements for this member, which has {own}: make them equal"
        ))),
        _ => Ok(counts.to_vec()),
    }
}

/// Returns the lengths of this member's parts for all: those that C names, or equal ones.
///
/// # Safety
/// As [`lengths`].
unsafe fn parts(
    group: Handle,
    counts: *const usize,
    all: usize,
    name: &str,
) -> Result<Vec<usize>, Failure> {
    let group = group_of(group)?;
    let group = lock(&group)?;
    if !counts.is_null() {
        // SAFETY: the caller's promise.
        return Ok(unsafe { pointer::items(counts, group.size(), name) }?.to_vec());
    }
    let size = group.size();
    match all.is_multiple_of(size) {
        true => Ok(vec![all / size; size]),
        false => Err(Failure::argument(format!(
            "{all} elements do not part evenly among {size} members: name the lengths ({name})"
        ))),
    }
}

fn total(lengths: &[usize]) -> Result<usize, Failure> {
    let mut all = lengths.iter();
    let total = all.try_fold(0_usize, |sum, length| sum.checked_add(*length));
    total.ok_or_else(|| Failure::argument("the lengths are more than memory can hold: name less"))
}

// ---- after a failure

/// Agrees with the members that are left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_agree(
    node: Handle,
    group: Handle,
    value: *mut u64,
    failed: *mut u32,
    capacity: usize,
    count: *mut usize,
    pending: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        // SAFETY: as suci.h asks, here and below.
        let own = *unsafe { pointer::input(value, "value") }?;
        pointer::check_length::<u32>(capacity, "failed")?;
        if capacity > 0 {
            pointer::output(failed, "failed")?;
        }
        // SAFETY: as above.
        let (value, list, count) = unsafe {
            let value = Room::new::<u64>(value.cast(), 1, "value")?;
            let list = Room::new::<u32>(failed.cast(), capacity, "failed")?;
            let bytes = if count.is_null() {
                0
            } else {
                size_of::<usize>()
            };
            (value, list, Room::new::<u8>(count.cast(), bytes, "count")?)
        };
        let put = move |agreed: Agreed| {
            let failed: Vec<_> = agreed.failed.iter().map(|node| node.0).collect();
            value.write(&[agreed.value]);
            list.write(&failed);
            count.write(&failed.len().to_ne_bytes());
        };
        on_group!(node, group, pending, timeout, put, (group, node) => {
            group.begin_agree(node, own)
        })
    })
}

/// Makes the group of the members that are left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_group_shrink(
    node: Handle,
    group: Handle,
    left: *mut Handle,
    timeout: i64,
) -> c_int {
    guard(|| {
        pointer::output(left, "left")?;
        let mut entered = node.enter()?;
        let group = group_of(group)?;
        let mut group = lock(&group)?;
        group.set_limit(Limit::new(timeout).duration());
        let shrunk = match entered.host() {
            Host::Alone(node) => group.shrink(node),
            Host::Shared(node) => group.shrink(&mut node.clone()),
        };
        let shrunk = noted(&entered, shrunk)?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(left, GROUPS.insert(Arc::new(Mutex::new(shrunk)))?) };
        Ok(())
    })
}
