//! Groups of nodes and their collective operations, on memory with the buffer protocol.
//!
//! An operation is begun under the group's lock, and then a future, which a blocking call waits for
//! and an event loop polls. The threads of the node carry it on.

use crate::arguments::{self, node_id};
use crate::buffer::HeldBuffer;
use crate::error::Failure;
use crate::names;
use crate::node::{Core, timed_out};
use crate::wait::wait;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use suci::group::{
    Agreed, BitAnd, BitOr, BitXor, Combination, Element, GroupError, Max, Min, Pending, Product,
    Sum,
};
use suci::{NodeId, SharedNode};

/// The result of an operation.
pub(crate) enum Answer {
    /// It is in the program's memory.
    Placed,
    Bytes(Vec<u8>, Format),
    Agreed(Agreed),
    Group(suci::group::Group),
}

pub(crate) type Operation = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// Begins an operation of a group.
type Begin = Box<
    dyn FnOnce(&mut suci::group::Group, &mut SharedNode) -> Result<Operation, GroupError> + Send,
>;

/// How memory is divided into elements: the buffer protocol's format and size.
#[derive(Clone)]
pub(crate) struct Format {
    text: String,
    size: usize,
}

/// A group of nodes: Node.group() makes it.
///
/// Each member makes the group for itself, with the same number and members, and then calls the
/// same operations in the same order. A member is named by its rank, its place in the list. Data
/// are contiguous memory of numbers, such as numpy arrays or array.array. All calls wait; with a
/// timeout they raise TimedOut, and the operation goes on: make another group then. If a member
/// dies, GroupError names it at all others, and shrink() makes a group of those that are left.
#[pyclass(frozen, module = "suci")]
pub(crate) struct Group {
    core: Arc<Core>,
    inner: Arc<Mutex<suci::group::Group>>,
    number: u32,
    rank: usize,
    members: Vec<u32>,
}

impl Group {
    pub(crate) fn new(
        py: Python<'_>,
        core: &Arc<Core>,
        number: &Bound<'_, PyAny>,
        members: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let number = arguments::number32(number, "number")?;
        let members: PyResult<Vec<NodeId>> = members
            .try_iter()?
            .map(|member| node_id(&member?, "a member"))
            .collect();
        let members = members?;
        let made = py.detach(|| suci::group::Group::new(&core.shared, number, &members));
        let made = made.map_err(|error| Failure::from(error).raise(py))?;
        Ok(Self::of(Arc::clone(core), made, number))
    }

    fn of(core: Arc<Core>, group: suci::group::Group, number: u32) -> Self {
        Self {
            core,
            number,
            rank: group.rank(),
            members: group.members().iter().map(|member| member.0).collect(),
            inner: Arc::new(Mutex::new(group)),
        }
    }

    fn start(&self, py: Python<'_>, begin: Begin) -> PyResult<Operation> {
        let begun = py.detach(|| {
            let mut group = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            begin(&mut group, &mut self.core.shared.clone())
        });
        begun.map_err(|error| Failure::from(error).raise(py))
    }

    /// Begins an operation and waits for it.
    fn run<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
        begin: Begin,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = arguments::timeout(timeout)?;
        let operation = self.start(py, begin)?;
        let answer = wait(py, &self.core.shared, limit, operation)?;
        crate::buffer::release(py);
        let answer = answer.ok_or_else(|| timed_out(py, "the operation did not end", limit))?;
        self.answer(py, answer)
    }

    /// The result as Python sees it.
    pub(crate) fn answer<'py>(
        &self,
        py: Python<'py>,
        answer: Answer,
    ) -> PyResult<Bound<'py, PyAny>> {
        match answer {
            Answer::Placed => Ok(py.None().into_bound(py)),
            Answer::Bytes(bytes, format) => format.view(py, &bytes),
            Answer::Agreed(agreed) => {
                let failed: Vec<u32> = agreed.failed.iter().map(|node| node.0).collect();
                names::events(py)?
                    .getattr("Agreed")?
                    .call1((agreed.value, failed))
            }
            Answer::Group(group) => {
                let core = Arc::clone(&self.core);
                let group = Self::of(core, group, self.number);
                Ok(Bound::new(py, group)?.into_any())
            }
        }
    }

    /// Reads the arguments of the operation `name`, for event loops.
    pub(crate) fn begin_named(
        &self,
        py: Python<'_>,
        name: &str,
        arguments: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<Operation> {
        let get = |at: usize| arguments.get_item(at);
        let begin = match name {
            "barrier" => barrier(),
            "agree" => agree(&get(0)?)?,
            "shrink" => return Ok(self.shrinking()),
            "broadcast" => broadcast(&get(0)?, rank(&get(1)?)?)?,
            "gather" => gather(&get(0)?, Some(rank(&get(1)?)?), lengths(&get(2)?)?)?,
            "allgather" => gather(&get(0)?, None, lengths(&get(1)?)?)?,
            "scatter" => scatter(
                self.number,
                &get(0)?,
                &get(1)?,
                rank(&get(2)?)?,
                lengths(&get(3)?)?,
            )?,
            "all_to_all" => all_to_all(&get(0)?, lengths(&get(1)?)?, lengths(&get(2)?)?)?,
            "reduce" => combine(&get(0)?, &get(1)?, Reduction::At(rank(&get(2)?)?))?,
            "allreduce" => combine(&get(0)?, &get(1)?, Reduction::All)?,
            "scan" => combine(&get(0)?, &get(1)?, Reduction::Scan)?,
            _ => combine(&get(0)?, &get(1)?, Reduction::ExclusiveScan)?,
        };
        self.start(py, begin)
    }

    /// Makes the group of those that are left. The library blocks meanwhile, in a thread that does
    /// nothing else and never enters the interpreter.
    fn shrinking(&self) -> Operation {
        let (group, mut node) = (Arc::clone(&self.inner), self.core.shared.clone());
        let state = Arc::new(Mutex::new((None, None::<Waker>)));
        let result = Arc::clone(&state);
        std::thread::spawn(move || {
            let shrunk = {
                let mut group = group.lock().unwrap_or_else(PoisonError::into_inner);
                group.shrink(&mut node)
            };
            drop(node);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = Some(shrunk.map(Answer::Group).map_err(Failure::from));
            if let Some(waker) = state.1.take() {
                waker.wake();
            }
        });
        Box::pin(std::future::poll_fn(move |cx: &mut Context<'_>| {
            let mut state = result.lock().unwrap_or_else(PoisonError::into_inner);
            state.1 = Some(cx.waker().clone());
            state.0.take().map_or(Poll::Pending, Poll::Ready)
        }))
    }
}

#[pymethods]
impl Group {
    /// The number that tells groups of the same members apart.
    #[getter]
    fn number(&self) -> u32 {
        self.number
    }

    /// This member's rank, from 0.
    #[getter]
    fn rank(&self) -> usize {
        self.rank
    }

    /// The number of members.
    #[getter]
    fn size(&self) -> usize {
        self.members.len()
    }

    /// The members' node IDs, in the order of their ranks.
    #[getter]
    fn members(&self) -> Vec<u32> {
        self.members.clone()
    }

    /// Waits until all members have begun it.
    #[pyo3(signature = (timeout=None))]
    fn barrier(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        self.run(py, timeout, barrier()).map(drop)
    }

    /// Copies the data of the member `root` into those of all others.
    #[pyo3(signature = (data, root=0, timeout=None))]
    fn broadcast(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        root: usize,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.run(py, timeout, broadcast(data, root)?).map(drop)
    }

    /// Combines the elements at equal places of all members' data: op is 'sum', 'product', 'min',
    /// 'max', 'and', 'or' or 'xor'. The result replaces the data of the member `root`.
    #[pyo3(signature = (data, op=None, root=0, timeout=None))]
    fn reduce(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyAny>>,
        root: usize,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let begin = combine(data, &or_none(py, op), Reduction::At(root))?;
        self.run(py, timeout, begin).map(drop)
    }

    /// As reduce; the result replaces the data of all members.
    #[pyo3(signature = (data, op=None, timeout=None))]
    fn allreduce(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let begin = combine(data, &or_none(py, op), Reduction::All)?;
        self.run(py, timeout, begin).map(drop)
    }

    /// Gives each member the combination of the data of all members up to itself.
    #[pyo3(signature = (data, op=None, timeout=None))]
    fn scan(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let begin = combine(data, &or_none(py, op), Reduction::Scan)?;
        self.run(py, timeout, begin).map(drop)
    }

    /// Gives each member the combination of the data of all members before it. Those of member 0
    /// stay.
    #[pyo3(signature = (data, op=None, timeout=None))]
    fn exclusive_scan(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        op: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let begin = combine(data, &or_none(py, op), Reduction::ExclusiveScan)?;
        self.run(py, timeout, begin).map(drop)
    }

    /// Collects the data of all members at the member `root`, in the order of their ranks. Returns
    /// a memoryview of their elements, without any at the others. `lengths` has the number of
    /// elements of each member, if they differ.
    #[pyo3(signature = (data, root=0, lengths=None, timeout=None))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        root: usize,
        lengths: Option<Vec<usize>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, timeout, gather(data, Some(root), lengths)?)
    }

    /// As gather, at all members.
    #[pyo3(signature = (data, lengths=None, timeout=None))]
    fn allgather<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, timeout, gather(data, None, lengths)?)
    }

    /// Fills `into` with this member's part of the data of the member `root`: parts of the same
    /// length, or with `lengths` of so many elements each. Other members pass None as data.
    #[pyo3(signature = (data, into, root=0, lengths=None, timeout=None))]
    fn scatter(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        into: &Bound<'_, PyAny>,
        root: usize,
        lengths: Option<Vec<usize>>,
        timeout: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let begin = scatter(self.number, data, into, root, lengths)?;
        self.run(py, timeout, begin).map(drop)
    }

    /// Sends the i-th part of the data to member i, and returns what the others sent to this one,
    /// as a memoryview in the order of their ranks. `lengths` has the number of elements for each
    /// member, and `received` that from each, if the parts differ.
    #[pyo3(signature = (data, lengths=None, received=None, timeout=None))]
    fn all_to_all<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        lengths: Option<Vec<usize>>,
        received: Option<Vec<usize>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, timeout, all_to_all(data, lengths, received)?)
    }

    /// Agrees with all members that are left on the bits that their values have in common, and on
    /// the list of those that failed: an Agreed. All that are left call it.
    #[pyo3(signature = (value=None, timeout=None))]
    fn agree<'py>(
        &self,
        py: Python<'py>,
        value: Option<&Bound<'py, PyAny>>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(py, timeout, agree(&or_none(py, value))?)
    }

    /// Makes a group of the members that are left, in the order of their ranks. All of them call
    /// it. This group is over then.
    #[pyo3(signature = (timeout=None))]
    fn shrink<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = arguments::timeout(timeout)?;
        let shrunk = wait(py, &self.core.shared, limit, self.shrinking())?;
        let shrunk = shrunk.ok_or_else(|| timed_out(py, "the group did not shrink", limit))?;
        self.answer(py, shrunk)
    }

    fn __repr__(&self) -> String {
        let (number, rank, size) = (self.number, self.rank, self.members.len());
        format!("<suci.Group {number}: rank {rank} of {size}>")
    }
}

fn or_none<'py>(py: Python<'py>, value: Option<&Bound<'py, PyAny>>) -> Bound<'py, PyAny> {
    value.map_or_else(|| py.None().into_bound(py), Bound::clone)
}

fn rank(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    value.extract()
}

fn lengths(value: &Bound<'_, PyAny>) -> PyResult<Option<Vec<usize>>> {
    value.extract()
}

/// An operation that gives `R`, as a future. `then` makes the answer.
fn operation<R: Send + 'static>(
    pending: Pending<R>,
    node: &SharedNode,
    then: impl FnOnce(R) -> Answer + Send + 'static,
) -> Operation {
    let node = node.clone();
    Box::pin(async move {
        let result = pending.wait_async(&node).await?;
        Ok(then(result))
    })
}

fn barrier() -> Begin {
    Box::new(|group, node| {
        let pending = group.begin_barrier(node)?;
        Ok(operation(pending, node, |()| Answer::Placed))
    })
}

fn agree(value: &Bound<'_, PyAny>) -> PyResult<Begin> {
    let value = match value.is_none() {
        true => u64::MAX,
        false => arguments::word(value, "value")?,
    };
    Ok(Box::new(move |group, node| {
        let pending = group.begin_agree(node, value)?;
        Ok(operation(pending, node, Answer::Agreed))
    }))
}

fn broadcast(data: &Bound<'_, PyAny>, root: usize) -> PyResult<Begin> {
    let mut target = HeldBuffer::writable(data, "data")?;
    Ok(Box::new(move |group, node| {
        let bytes = target.as_ref().to_vec();
        let pending = group.begin_broadcast(node, root, bytes)?;
        Ok(operation(pending, node, move |bytes| {
            // As many as the data have: members of other lengths made the operation fail.
            target.as_mut().copy_from_slice(&bytes);
            Answer::Placed
        }))
    }))
}

/// Lengths in bytes.
fn in_bytes(lengths: Vec<usize>, format: &Format) -> Vec<usize> {
    // More than memory can hold fails as too long.
    let bytes = |length: usize| length.saturating_mul(format.size);
    lengths.into_iter().map(bytes).collect()
}

/// Collects at one member, or at all.
fn gather(
    data: &Bound<'_, PyAny>,
    root: Option<usize>,
    lengths: Option<Vec<usize>>,
) -> PyResult<Begin> {
    let source = HeldBuffer::readable(data, "data")?;
    let format = Format::of(&source);
    let lengths = lengths.map(|lengths| in_bytes(lengths, &format));
    Ok(Box::new(move |group, node| {
        let data = source.as_ref();
        let pending = match (root, lengths) {
            (Some(root), None) => group.begin_gather(node, root, data)?,
            (Some(root), Some(lengths)) => group.begin_gatherv(node, root, data, &lengths)?,
            (None, None) => group.begin_allgather(node, data)?,
            (None, Some(lengths)) => group.begin_allgatherv(node, data, &lengths)?,
        };
        Ok(operation(pending, node, |bytes| {
            Answer::Bytes(bytes, format)
        }))
    }))
}

fn scatter(
    number: u32,
    data: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
    root: usize,
    lengths: Option<Vec<usize>>,
) -> PyResult<Begin> {
    let mut target = HeldBuffer::writable(into, "into")?;
    let lengths = lengths.map(|lengths| in_bytes(lengths, &Format::of(&target)));
    let source = match data.is_none() {
        true => None,
        false => Some(HeldBuffer::readable(data, "data")?),
    };
    Ok(Box::new(move |group, node| {
        let data = source.as_ref().map_or(&[][..], AsRef::as_ref);
        let room = target.as_ref().len();
        let pending = match lengths {
            Some(lengths) => {
                let part = lengths.get(group.rank()).copied().unwrap_or(0);
                if part != room {
                    return Err(GroupError::Argument {
                        group: number,
                        problem: format!(
                            "lengths give this member {part} bytes, and into has {room}: make them equal"
                        ),
                    });
                }
                group.begin_scatterv(node, root, data, &lengths)?
            }
            None => group.begin_scatter(node, root, data, room)?,
        };
        Ok(operation(pending, node, move |bytes: Vec<u8>| {
            // The part has the length that was named.
            if let Some(part) = bytes.get(..room) {
                target.as_mut().copy_from_slice(part);
            }
            Answer::Placed
        }))
    }))
}

fn all_to_all(
    data: &Bound<'_, PyAny>,
    lengths: Option<Vec<usize>>,
    received: Option<Vec<usize>>,
) -> PyResult<Begin> {
    let source = HeldBuffer::readable(data, "data")?;
    let format = Format::of(&source);
    if lengths.is_some() != received.is_some() {
        return Err(PyValueError::new_err(
            "name both lengths and received, or none of them for parts of the same length",
        ));
    }
    let each = lengths.zip(received);
    let each = each.map(|(to, from)| (in_bytes(to, &format), in_bytes(from, &format)));
    Ok(Box::new(move |group, node| {
        let data = source.as_ref();
        let pending = match each {
            Some((to, from)) => group.begin_all_to_allv(node, data, &to, &from)?,
            None => group.begin_all_to_all(node, data)?,
        };
        Ok(operation(pending, node, |bytes| {
            Answer::Bytes(bytes, format)
        }))
    }))
}

impl Format {
    fn of(buffer: &HeldBuffer) -> Self {
        let (text, size) = buffer.format();
        Self { text, size }
    }

    /// The bytes as a memoryview of these elements.
    fn view<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let view = PyMemoryView::from(&PyBytes::new(py, bytes))?;
        // A memoryview knows only the elements of one letter.
        match view.call_method1("cast", (self.text.as_str(),)) {
            Ok(cast) => Ok(cast),
            Err(_) => Ok(view.into_any()),
        }
    }
}

/// The members that get the combination.
#[derive(Clone, Copy)]
enum Reduction {
    At(usize),
    All,
    Scan,
    ExclusiveScan,
}

/// A number in the memory of this machine.
trait Native: Element {
    fn read_native(bytes: &[u8]) -> Self;
    fn write_native(self, bytes: &mut [u8]);
}

macro_rules! native {
    ($($type:ty)*) => { $(
        impl Native for $type {
            fn read_native(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write_native(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )* };
}

native!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

fn combined<T: Native>(
    mut target: HeldBuffer,
    operator: impl Combination<T>,
    reduction: Reduction,
) -> Begin {
    Box::new(move |group, node| {
        let elements = target.as_ref().chunks_exact(T::SIZE);
        let data: Vec<T> = elements.map(T::read_native).collect();
        let pending = match reduction {
            Reduction::At(root) => group.begin_reduce(node, root, data, operator)?,
            Reduction::All => group.begin_allreduce(node, data, operator)?,
            Reduction::Scan => group.begin_scan(node, data, operator)?,
            Reduction::ExclusiveScan => group.begin_exclusive_scan(node, data, operator)?,
        };
        Ok(operation(pending, node, move |result: Vec<T>| {
            let places = target.as_mut().chunks_exact_mut(T::SIZE);
            for (place, element) in places.zip(result) {
                element.write_native(place);
            }
            Answer::Placed
        }))
    })
}

fn combine(
    data: &Bound<'_, PyAny>,
    op: &Bound<'_, PyAny>,
    reduction: Reduction,
) -> PyResult<Begin> {
    const NAMES: [(&str, u8); 7] = [
        ("sum", 0),
        ("product", 1),
        ("min", 2),
        ("max", 3),
        ("and", 4),
        ("or", 5),
        ("xor", 6),
    ];
    let chosen = match op.is_none() {
        true => 0,
        false => arguments::choice(op, "op", &NAMES)?,
    };
    let target = HeldBuffer::writable(data, "data")?;
    let (text, size) = target.format();
    macro_rules! of_integers {
        ($type:ty) => {
            match chosen {
                0 => combined::<$type>(target, Sum, reduction),
                1 => combined::<$type>(target, Product, reduction),
                2 => combined::<$type>(target, Min, reduction),
                3 => combined::<$type>(target, Max, reduction),
                4 => combined::<$type>(target, BitAnd, reduction),
                5 => combined::<$type>(target, BitOr, reduction),
                _ => combined::<$type>(target, BitXor, reduction),
            }
        };
    }
    macro_rules! of_floats {
        ($type:ty) => {
            match chosen {
                0 => combined::<$type>(target, Sum, reduction),
                1 => combined::<$type>(target, Product, reduction),
                2 => combined::<$type>(target, Min, reduction),
                3 => combined::<$type>(target, Max, reduction),
                _ => {
                    return Err(PyTypeError::new_err(
                        "op: 'and', 'or' and 'xor' are for whole numbers, and data are not",
                    ));
                }
            }
        };
    }
    Ok(match (text.trim_start_matches(['@', '=']), size) {
        ("b", 1) => of_integers!(i8),
        ("B" | "?", 1) => of_integers!(u8),
        ("h", 2) => of_integers!(i16),
        ("H", 2) => of_integers!(u16),
        ("i" | "l", 4) => of_integers!(i32),
        ("I" | "L", 4) => of_integers!(u32),
        ("l" | "q", 8) => of_integers!(i64),
        ("L" | "Q", 8) => of_integers!(u64),
        ("f", 4) => of_floats!(f32),
        ("d", 8) => of_floats!(f64),
        _ => {
            return Err(PyTypeError::new_err(format!(
                "data of format {text:?} cannot be combined: take whole numbers of 1 to 8 bytes, \
                 float32 or float64 of this machine's byte order"
            )));
        }
    })
}
