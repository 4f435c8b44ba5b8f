//! Operations that are begun and waited for later, and what they have in common with those that
//! block.

use super::error::GroupError;
use super::host::GroupNode;
use super::pending::Pending;
use super::{Combination, Element, Group};
use std::sync::Arc;
use suci_layers::group::{Finished, GroupWork};
use suci_layers::{Collective, Combine, Place, bytes_of, elements_of};

/// Begins operations. Each call does what the blocking form of its name does, sends what it can,
/// and returns at once; [`Pending`] has the rest. Whether the call can be made is checked at once;
/// everything else is told by [`Pending::wait`].
///
/// ```
/// # use std::time::Duration;
/// # use suci::{Node, NodeId};
/// use suci::group::{Group, Sum};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).open()?;
/// # let members = [NodeId(0)];
/// let mut group = Group::new(&node, 1, &members)?;
/// let sum = group.begin_allreduce(&mut node, vec![1.5, 2.5], Sum)?;
/// // The program computes something else.
/// assert_eq!(sum.wait(&mut node)?, [1.5, 2.5]);
/// # Ok(())
/// # }
/// ```
impl Group {
    /// Begins a [`barrier`](Self::barrier).
    ///
    /// # Errors
    /// [`GroupError`]; so for all other calls.
    pub fn begin_barrier(&mut self, node: &mut impl GroupNode) -> Result<Pending<()>, GroupError> {
        let work = Collective::barrier(self.place());
        Ok(self.start_collective(node, work)?.map(drop))
    }

    /// Begins a [`broadcast`](Self::broadcast). Returns the root's data.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_broadcast<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: Vec<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let work = self.broadcast_of(root, &data)?;
        self.start_with(node, work, data, true)
    }

    /// Begins a [`reduce`](Self::reduce). The result is the combination at the root; at others it
    /// is their own data.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_reduce<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: Vec<T>,
        operation: impl Combination<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let work = self.reduction_of(root, &data, operation)?;
        self.start_with(node, work, data, self.rank() == root)
    }

    /// Begins an [`allreduce`](Self::allreduce).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_allreduce<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: Vec<T>,
        operation: impl Combination<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let work = self.combination_of(&data, operation, Collective::allreduce);
        self.start_with(node, work, data, true)
    }

    /// Begins a [`scan`](Self::scan).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_scan<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: Vec<T>,
        operation: impl Combination<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let work = self.combination_of(&data, operation, Collective::scan);
        self.start_with(node, work, data, true)
    }

    /// Begins an [`exclusive_scan`](Self::exclusive_scan).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_exclusive_scan<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: Vec<T>,
        operation: impl Combination<T>,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let work = self.combination_of(&data, operation, Collective::exclusive_scan);
        self.start_with(node, work, data, true)
    }

    /// Begins a [`gather`](Self::gather).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_gather<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        self.begin_gatherv(node, root, data, &vec![data.len(); self.size()])
    }

    /// Begins a [`gatherv`](Self::gatherv).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_gatherv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        self.check_root(root)?;
        let lengths = self.bytes_each::<T>(lengths)?;
        self.check_length::<T>(data, lengths.get(self.rank()))?;
        let work = Collective::gather(self.place(), root, &lengths, bytes_of(data));
        let is_root = self.rank() == root;
        let list = move |result: Vec<u8>| match is_root {
            true => list_of(&result),
            false => Vec::new(),
        };
        Ok(self.start_of::<T>(node, work)?.map(list))
    }

    /// Begins a [`scatter`](Self::scatter).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_scatter<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        length: usize,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        self.begin_scatterv(node, root, data, &vec![length; self.size()])
    }

    /// Begins a [`scatterv`](Self::scatterv).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_scatterv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        root: usize,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        self.check_root(root)?;
        let lengths = self.bytes_each::<T>(lengths)?;
        let all = match self.rank() == root {
            true => data,
            false => &[],
        };
        if self.rank() == root {
            self.check_length::<T>(all, Some(&lengths.iter().sum()))?;
        }
        let work = Collective::scatter(self.place(), root, &lengths, bytes_of(all));
        let (before, own): (usize, _) = match self.rank() == root {
            true => (lengths.iter().take(root).sum(), lengths.get(root).copied()),
            false => (0, None),
        };
        let part = move |result: Vec<u8>| match own {
            Some(own) => list_of(result.get(before..before + own).unwrap_or_default()),
            None => list_of(&result),
        };
        Ok(self.start_of::<T>(node, work)?.map(part))
    }

    /// Begins an [`allgather`](Self::allgather).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_allgather<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        self.begin_allgatherv(node, data, &vec![data.len(); self.size()])
    }

    /// Begins an [`allgatherv`](Self::allgatherv).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_allgatherv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
        lengths: &[usize],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let lengths = self.bytes_each::<T>(lengths)?;
        self.check_length::<T>(data, lengths.get(self.rank()))?;
        let work = Collective::allgather(self.place(), &lengths, &bytes_of(data));
        let list = |result: Vec<u8>| list_of(&result);
        Ok(self.start_of::<T>(node, work)?.map(list))
    }

    /// Begins an [`all_to_all`](Self::all_to_all).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_all_to_all<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let size = self.size();
        if !data.len().is_multiple_of(size) {
            let length = data.len();
            return self.refuse(format!(
                "{length} elements do not part evenly among {size} members: name the lengths (all_to_allv)"
            ));
        }
        let lengths = vec![data.len() / size; size];
        self.begin_all_to_allv(node, data, &lengths, &lengths)
    }

    /// Begins an [`all_to_allv`](Self::all_to_allv).
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn begin_all_to_allv<T: Element>(
        &mut self,
        node: &mut impl GroupNode,
        data: &[T],
        sent: &[usize],
        received: &[usize],
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let sent = self.bytes_each::<T>(sent)?;
        let received = self.bytes_each::<T>(received)?;
        self.check_length::<T>(data, Some(&sent.iter().sum()))?;
        let own = self.rank();
        if sent.get(own) != received.get(own) {
            return self.refuse(
                "this member sends itself another length than it receives: name one".to_owned(),
            );
        }
        let work = Collective::all_to_all(self.place(), &sent, &received, &bytes_of(data));
        let list = |result: Vec<u8>| list_of(&result);
        Ok(self.start_of::<T>(node, work)?.map(list))
    }

    // ---- what both forms of a call have in common

    fn place(&self) -> Place {
        self.state.place()
    }

    pub(super) fn broadcast_of<T: Element>(
        &self,
        root: usize,
        data: &[T],
    ) -> Result<Collective, GroupError> {
        self.check_root(root)?;
        let bytes = match self.rank() == root {
            true => bytes_of(data),
            // Those of the root take their place.
            false => vec![0; data.len() * T::SIZE],
        };
        let work = Collective::broadcast(self.place(), root, bytes);
        Ok(work.of_elements(T::NAME))
    }

    pub(super) fn reduction_of<T: Element>(
        &self,
        root: usize,
        data: &[T],
        operation: impl Combination<T>,
    ) -> Result<Collective, GroupError> {
        self.check_root(root)?;
        let combine = Combine::new::<T, _>(operation);
        let work = Collective::reduce(self.place(), root, bytes_of(data), combine);
        Ok(work.of_elements(T::NAME))
    }

    pub(super) fn combination_of<T: Element>(
        &self,
        data: &[T],
        operation: impl Combination<T>,
        make: fn(Place, Vec<u8>, Combine) -> Collective,
    ) -> Collective {
        let combine = Combine::new::<T, _>(operation);
        make(self.place(), bytes_of(data), combine).of_elements(T::NAME)
    }

    /// Starts an operation whose result replaces the data, if this member `gets` it.
    fn start_with<T: Element>(
        &self,
        node: &mut impl GroupNode,
        work: Collective,
        mut data: Vec<T>,
        gets: bool,
    ) -> Result<Pending<Vec<T>>, GroupError> {
        let put = move |result: Vec<u8>| {
            if gets {
                elements_of(&result, &mut data);
            }
            data
        };
        Ok(self.start_collective(node, work)?.map(put))
    }

    fn start_of<T: Element>(
        &self,
        node: &mut impl GroupNode,
        work: Collective,
    ) -> Result<Pending<Vec<u8>>, GroupError> {
        self.start_collective(node, work.of_elements(T::NAME))
    }

    pub(super) fn start_collective(
        &self,
        node: &mut impl GroupNode,
        work: Collective,
    ) -> Result<Pending<Vec<u8>>, GroupError> {
        let pending = self.start(node, GroupWork::Collective(work))?;
        Ok(pending.map(|finished| match finished {
            Finished::Data(data) => data,
            Finished::Agreed(_) => Vec::new(),
        }))
    }

    pub(super) fn start(
        &self,
        node: &mut impl GroupNode,
        work: GroupWork,
    ) -> Result<Pending<Finished>, GroupError> {
        let begun = self.state.begin(node.node_id(), work);
        begun.map_err(|failure| self.error(failure))?;
        let pending = Pending::new(Arc::clone(&self.state), self.limit);
        if let Err(error) = node.serve_group(&self.state) {
            self.state.give_up(error.into());
        }
        Ok(pending)
    }

    // ---- arguments

    fn check_root(&self, root: usize) -> Result<(), GroupError> {
        let size = self.size();
        match root < size {
            true => Ok(()),
            false => self.refuse(format!(
                "root {root} is no rank of {size} members: name one from 0 to {}",
                size - 1
            )),
        }
    }

    /// Returns the lengths in bytes; there must be one for each member.
    fn bytes_each<T: Element>(&self, lengths: &[usize]) -> Result<Vec<usize>, GroupError> {
        let (given, size) = (lengths.len(), self.size());
        if given != size {
            return self.refuse(format!("{given} lengths for {size} members: name one each"));
        }
        let bytes = lengths.iter().map(|length| length.checked_mul(T::SIZE));
        let bytes: Option<Vec<_>> = bytes.collect();
        let total = |bytes: &Vec<usize>| {
            let mut sum = bytes.iter();
            sum.try_fold(0_usize, |sum, bytes| sum.checked_add(*bytes))
                .is_some()
        };
        match bytes.filter(total) {
            Some(bytes) => Ok(bytes),
            None => self.refuse("the lengths are more than memory can hold: name less".to_owned()),
        }
    }

    fn check_length<T: Element>(
        &self,
        data: &[T],
        bytes: Option<&usize>,
    ) -> Result<(), GroupError> {
        let (length, wanted) = (data.len(), bytes.map_or(0, |bytes| bytes / T::SIZE));
        match length == wanted {
            true => Ok(()),
            false => self.refuse(format!(
                "the data have {length} elements and the lengths say {wanted}: make them equal"
            )),
        }
    }
}

fn list_of<T: Element>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::read).collect()
}
