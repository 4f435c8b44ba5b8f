//! Both halves of one-sided operations, as an engine drives them.

use super::{
    BeginError, Body, Cause, Context, Description, Initiator, MAX_OPERATIONS, OperationEnd,
    OperationError, OperationId, PlaceDecision, Placement, REPLIES, Regions, Target,
    TooManyContexts,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use suci_proto::message::{Held, IncomingInfo};
use suci_proto::time::Instant;
use suci_proto::types::{MessageNumber, NodeId, Source};
use suci_proto::{
    Engine, LentMemory, LostCause, Message, NOT_PERMITTED, Outgoing, Place, Port, PortInput,
    ReceiveBuffer, SendError,
};

/// Maximum number of messages of one call of [`SharedLayer::serve`], beside those of sessions that
/// ended.
const BUDGET: usize = 256;

/// The result of an operation.
pub type Outcome = Result<Option<u64>, OperationError>;

/// Bytes of answers to one node that the engine may hold, beside one answer more. A node that takes
/// none could fill its whole send queue otherwise. So many suffice for 1 Gbit/s over 60 ms.
const MAX_ANSWERS: u64 = 8 << 20;

/// Bytes that an answer counts beside its payload.
const ANSWER: u64 = 64;

/// Bytes of answers whose acknowledgements are noted together.
const ANSWERS_TOGETHER: u64 = 256 << 10;

/// The fate of a message that was offered to the engine.
enum Offered {
    /// The engine gave it this number.
    Taken(MessageNumber),
    Later,
    Never,
    /// The target does not permit it.
    Denied,
}

/// The answers to one node that the engine holds.
#[derive(Debug, Default)]
struct Unacknowledged {
    /// Sums of their bytes, each with the number of the last message of the sum.
    sums: VecDeque<(MessageNumber, u64)>,
    bytes: u64,
}

impl Unacknowledged {
    fn note(&mut self, number: MessageNumber, payload: usize) {
        let bytes = ANSWER.saturating_add(payload as u64);
        self.bytes = self.bytes.saturating_add(bytes);
        match self.sums.back_mut() {
            Some((last, sum)) if *sum < ANSWERS_TOGETHER => {
                *last = number;
                *sum = sum.saturating_add(bytes);
            }
            _ => self.sums.push_back((number, bytes)),
        }
    }

    /// Returns true if another answer may be sent. `delivered` returns the number of the first
    /// message that is not acknowledged.
    fn has_room(&mut self, delivered: impl FnOnce() -> MessageNumber) -> bool {
        if self.bytes < MAX_ANSWERS {
            return true;
        }
        let delivered = delivered();
        while let Some((_, bytes)) = self.sums.pop_front_if(|(last, _)| *last < delivered) {
            self.bytes = self.bytes.saturating_sub(bytes);
        }
        self.bytes < MAX_ANSWERS
    }
}

/// Offers a message to the engine.
fn offer(engine: &mut Engine, now: Instant, to: NodeId, message: &Outgoing) -> Offered {
    match engine.send(now, to, message.clone()) {
        Ok(number) => Offered::Taken(number),
        Err(SendError::UnknownPeer(_) | SendError::Closed) => Offered::Never,
        Err(SendError::NotPermitted { .. }) => Offered::Denied,
        // Room, channels or the session may come again.
        Err(_) => Offered::Later,
    }
}

/// A context of the program.
#[derive(Debug)]
struct ContextState {
    initiator: Initiator,
    /// The program closed it: it goes when this operation completes.
    closing: Option<OperationId>,
}

/// One-sided operations of one engine: those of others at this node's regions, and the program's at
/// regions of others.
#[derive(Debug)]
pub struct Layer {
    /// Serves the operations of others.
    pub target: Target,
    /// Begins and completes the program's operations that belong to no other context.
    pub initiator: Initiator,
    /// Those of other contexts.
    contexts: BTreeMap<Context, ContextState>,
    /// The greatest number of an operation of contexts that are not in use any more. Those opened
    /// later go on from there, so that none has an operation that another one had.
    last_of_closed: u64,
    /// The number of contexts whose requests are sent last, if the queues have no room for all.
    turn: usize,
    /// Results that the program did not take.
    done: BTreeMap<OperationId, Outcome>,
    /// Nodes whose operations wait until answers to them find room.
    held: BTreeSet<NodeId>,
    /// Answers in the engine's queues.
    answers: BTreeMap<NodeId, Unacknowledged>,
}

impl Layer {
    fn new(regions: Regions) -> Self {
        Self {
            target: Target::new(regions),
            initiator: Initiator::new(),
            contexts: BTreeMap::new(),
            last_of_closed: 0,
            turn: 0,
            done: BTreeMap::new(),
            held: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Decides where the bytes of a message of this layer go.
    fn place(&mut self, from: Source, message: &IncomingInfo) -> Place {
        let description = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: message.total,
        };
        let decision = match message.channel.carries_remote() {
            true => self.target.place(from, &description),
            false => {
                let context = Context::of_tag(message.tag);
                let initiator = self.find(context);
                initiator.map_or(PlaceDecision::Buffer, |i| i.place(from.node, &description))
            }
        };
        match decision {
            PlaceDecision::Direct(placement) => {
                Place::Named(ReceiveBuffer::lent(LentPlacement(placement)))
            }
            PlaceDecision::AfterEarlier => Place::Later,
            PlaceDecision::Buffer => Place::Own,
        }
    }

    /// Takes what the engine has for the layer. Returns the node whose operations ended.
    fn on_input(&mut self, input: PortInput, engine: &mut Engine) -> Option<NodeId> {
        match input {
            PortInput::Last(from, message) => self.on_message(from, &message, true),
            PortInput::Message(from, message) => {
                self.on_message(from, &message, false);
                if !self.target.takes(from.node) {
                    engine.hold_port(Port::Remote, from.node, true);
                    self.held.insert(from.node);
                }
            }
            PortInput::Refused {
                node,
                channel,
                token,
                reason,
            } => {
                let cause = match reason {
                    NOT_PERMITTED => Cause::NotPermitted,
                    _ => Cause::Refused,
                };
                if channel.carries_remote()
                    && let Some(initiator) = self.find(Context::of_tag(token))
                {
                    initiator.undelivered(node, token, cause);
                }
            }
            PortInput::Ended(node, session, _) => {
                self.target.ended(Source { node, session });
                self.answers.remove(&node);
                self.initiators()
                    .for_each(|initiator| initiator.ended(node));
                return Some(node);
            }
            PortInput::Lost(node, LostCause::ProcessDied) => {
                self.initiators()
                    .for_each(|initiator| initiator.ended(node));
                return Some(node);
            }
            // It may answer again.
            PortInput::Lost(..) | PortInput::NoProcess(_) | PortInput::NoWay(_) => {}
            PortInput::Up(_) => {}
        }
        None
    }

    /// Handles a message; `is_last` if its session is over.
    fn on_message(&mut self, from: Source, message: &Message, is_last: bool) {
        let payload = &message.payload;
        let (total, body) = match payload.placed() {
            Some(total) => (total, Body::Placed),
            None => (payload.len() as u64, Body::Bytes(payload)),
        };
        let description = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total,
        };
        match (message.channel.carries_remote(), is_last) {
            (true, false) => self.target.on_request(from, &description, body),
            (true, true) => self.target.on_last_request(from, &description, body),
            (false, _) => {
                if let Some(initiator) = self.find(Context::of_tag(message.tag)) {
                    initiator.on_reply(from.node, &description, body);
                }
            }
        }
    }

    /// Sends requests and answers, as far as the engine's queues have room. Adds the nodes that the
    /// engine does not know any more to `ended`.
    fn send(&mut self, engine: &mut Engine, now: Instant, ended: &mut Vec<NodeId>) {
        let answers = &mut self.answers;
        self.target.transmit(|to, message| {
            let unacknowledged = answers.entry(to).or_default();
            if !unacknowledged.has_room(|| engine.delivered(to, REPLIES)) {
                return false;
            }
            match offer(engine, now, to, message) {
                Offered::Taken(number) => unacknowledged.note(number, message.payload.len()),
                Offered::Never | Offered::Denied => {}
                Offered::Later => return false,
            }
            true
        });
        let (mut gone, mut denied) = (Vec::new(), Vec::new());
        let mut send = |to, message: &Outgoing| {
            let offered = offer(engine, now, to, message);
            match offered {
                Offered::Never => gone.push(to),
                Offered::Denied => denied.push(to),
                Offered::Taken(_) | Offered::Later => {}
            }
            !matches!(offered, Offered::Later)
        };
        // Each context comes first in its turn, so that one that always has requests leaves room.
        let turn = self.turn;
        self.turn = turn.wrapping_add(1) % self.contexts.len().saturating_add(1);
        for initiator in self.initiators().skip(turn) {
            initiator.transmit(&mut send);
        }
        for initiator in self.initiators().take(turn) {
            initiator.transmit(&mut send);
        }
        for node in gone {
            // No answer comes.
            self.initiators()
                .for_each(|initiator| initiator.ended(node));
            ended.push(node);
        }
        for node in denied {
            self.initiators()
                .for_each(|initiator| initiator.denied(node));
            ended.push(node);
        }
        let target = &self.target;
        self.held.retain(|node| {
            let held = !target.takes(*node);
            if !held {
                engine.hold_port(Port::Remote, *node, false);
            }
            held
        });
    }

    // ---- contexts

    /// Opens a context that is not in use.
    ///
    /// # Errors
    /// [`TooManyContexts`]
    pub fn open_context(&mut self) -> Result<Context, TooManyContexts> {
        self.collect();
        let free = Context::others().find(|context| !self.contexts.contains_key(context));
        let context = free.ok_or(TooManyContexts)?;
        let state = ContextState {
            initiator: Initiator::of_context(context, self.last_of_closed),
            closing: None,
        };
        self.contexts.insert(context, state);
        Ok(context)
    }

    /// Closes a context. Its open operations are given up, and their results are dropped; those
    /// without a result are still sent. The context is in use until the targets applied them.
    pub fn close_context(&mut self, context: Context) {
        self.collect();
        self.done
            .retain(|operation, _| operation.context() != context);
        let Some(state) = self.contexts.get_mut(&context) else {
            return;
        };
        state.initiator.cancel_all();
        while state.initiator.poll_completion().is_some() {}
        match state.initiator.quiet() {
            Ok(last) => state.closing = Some(last),
            // It has no other operation, so this does not happen.
            Err(_) => _ = self.contexts.remove(&context),
        }
        self.collect();
    }

    /// Returns the initiator of a context that the program opened, or else that of the node.
    pub fn initiator_of(&mut self, context: Context) -> &mut Initiator {
        match self.contexts.get_mut(&context) {
            Some(state) => &mut state.initiator,
            None => &mut self.initiator,
        }
    }

    /// Returns the initiator of a context that a peer named, if it is open.
    fn find(&mut self, context: Context) -> Option<&mut Initiator> {
        match context {
            Context::NODE => Some(&mut self.initiator),
            other => Some(&mut self.contexts.get_mut(&other)?.initiator),
        }
    }

    fn initiators(&mut self) -> impl Iterator<Item = &mut Initiator> {
        let others = self.contexts.values_mut().map(|state| &mut state.initiator);
        core::iter::once(&mut self.initiator).chain(others)
    }

    /// Returns the nodes that may not have all of the program's requests.
    pub fn unanswered(&mut self) -> BTreeSet<NodeId> {
        let all = self.initiators();
        all.flat_map(|initiator| initiator.unanswered()).collect()
    }

    /// Returns the program's requests to a node that wait until the engine's queue has room.
    pub fn waiting(&mut self, node: NodeId) -> Held {
        let all = self.initiators().map(|initiator| initiator.waiting(node));
        all.fold(Held::default(), Held::plus)
    }

    /// Returns true if messages wait to be sent.
    #[must_use]
    pub fn has_output(&self) -> bool {
        let mut others = self.contexts.values();
        self.target.has_output()
            || self.initiator.has_output()
            || others.any(|state| state.initiator.has_output())
    }

    // ---- results

    /// Returns an error if the program left as many results as there may be.
    ///
    /// # Errors
    /// [`BeginError::TooManyOperations`]
    pub fn check_results(&mut self) -> Result<(), BeginError> {
        self.collect();
        match self.done.len() < MAX_OPERATIONS {
            true => Ok(()),
            false => Err(BeginError::TooManyOperations),
        }
    }

    /// Returns the nodes whose replies an operation awaits; `None` if it is not open.
    pub fn awaited(&mut self, operation: OperationId) -> Option<Vec<NodeId>> {
        self.initiator_of(operation.context()).awaited(operation)
    }

    /// Takes the result of an operation, if it is complete.
    pub fn take(&mut self, operation: OperationId) -> Option<Outcome> {
        self.collect();
        self.done.remove(&operation)
    }

    /// Returns true if an operation is open. One that is not has a result, or gets none any more.
    pub fn is_open(&mut self, operation: OperationId) -> bool {
        self.initiator_of(operation.context()).is_open(operation)
    }

    /// Takes the results of all contexts, and forgets those that were closed and have none left to
    /// await.
    fn collect(&mut self) {
        let (done, contexts) = (&mut self.done, &mut self.contexts);
        let mut keep = |OperationEnd { operation, result }| _ = done.insert(operation, result);
        core::iter::from_fn(|| self.initiator.poll_completion()).for_each(&mut keep);
        contexts.retain(|_, state| {
            let complete = core::iter::from_fn(|| state.initiator.poll_completion());
            match state.closing {
                None => {
                    complete.for_each(&mut keep);
                    true
                }
                // Nobody asks for the others.
                Some(last) => {
                    let is_over = complete.map(|one| one.operation).any(|op| op == last);
                    if is_over {
                        let closed = &mut self.last_of_closed;
                        *closed = state.initiator.last().max(*closed);
                    }
                    !is_over
                }
            }
        });
    }
}

/// A [`Layer`] and its lock. The engine asks it too, when a message begins.
#[derive(Debug)]
pub struct SharedLayer(Mutex<Layer>);

/// The result of [`SharedLayer::serve`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Messages of the layer wait for room in the engine's queues.
    pub waits: bool,
    /// Nodes whose operations ended because a session did, or the process.
    pub ended: Vec<NodeId>,
}

impl SharedLayer {
    /// Returns the layer of a node, or of one of its shards, with these regions.
    #[must_use]
    pub fn new(regions: Regions) -> Self {
        Self(Mutex::new(Layer::new(regions)))
    }

    /// Locks the layer. The engine must not be called meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, Layer> {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves other nodes' operations at this node, takes the answers to this node's, and sends.
    /// Takes no more messages of open sessions once `has_time` returns false. Call it again at once
    /// if [`Engine::has_port_input`].
    ///
    /// It sends only when the layer knows of each session that ended. Otherwise an answer to a
    /// request of an ended session would go into the next one. A new process numbers its operations
    /// as the one before it did, and would take it for the answer to one of its own.
    pub fn serve(
        &self,
        engine: &mut Engine,
        now: Instant,
        mut has_time: impl FnMut() -> bool,
    ) -> Served {
        let (mut ended, mut taken) = (Vec::new(), 0);
        while engine.has_port_news(Port::Remote) || (taken < BUDGET && has_time()) {
            taken += 1;
            // Taking a message may ask the layer where the next one goes, so the layer is locked
            // only afterwards.
            let Some(input) = engine.poll_port(Port::Remote) else {
                break;
            };
            ended.extend(self.lock().on_input(input, engine));
        }
        let mut layer = self.lock();
        layer.send(engine, now, &mut ended);
        layer.collect();
        let waits = layer.has_output();
        Served { waits, ended }
    }
}

impl suci_proto::Placement for SharedLayer {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        let channel = message.channel;
        match channel.carries_remote() || channel.carries_remote_replies() {
            true => self.lock().place(from, message),
            false => Place::Own,
        }
    }
}

/// The place of a message's bytes in memory that this layer named.
struct LentPlacement(Placement);

impl LentMemory for LentPlacement {
    fn length(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        // Memory that was withdrawn gets no byte more; the request then fails.
        self.0.write(at as u64, bytes);
    }

    fn read(&self, _: usize, _: &mut [u8]) {
        debug_assert!(false, "messages of this layer are not taken back");
    }
}
