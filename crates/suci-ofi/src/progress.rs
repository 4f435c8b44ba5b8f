//! Progress: messages, ends of sends and ends of peers, found by calls of the program.

use crate::abi::{ADDR_UNSPEC, DELIVERY_COMPLETE, MULTI_RECV, RECV, REMOTE_CQ_DATA, SEND};
use crate::code::{Code, Outcome};
use crate::domain::Core;
use crate::queue::Done;
use crate::transfer::{Send, cq_data};
use core::ffi::c_int;
use std::time::{Duration, Instant};
use suci::matching::Completion;
use suci::{Event, LostCause, NodeId, Outcome as Fate};

/// Completions and events that one call takes at most, so that it ends soon.
const BATCH: usize = 256;

/// The longest sleep under the domain's lock.
const SLEEP: Duration = Duration::from_millis(1);

/// Polls without a find after which messages that are not for the endpoint are looked for.
const IDLE_POLLS: u32 = 1024;

/// The end of a wait, in milliseconds as C says it; negative for none.
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn new(timeout: c_int) -> Self {
        let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
        Self(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now().checked_add(limit))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

impl Core {
    /// Takes what arrived and what ended.
    pub(crate) fn progress(&mut self) {
        let found = self.take_completions() | self.take_events() | self.take_releases();
        self.idle_polls = match found {
            true => 0,
            false => self.idle_polls.wrapping_add(1),
        };
        if !found && self.idle_polls.is_multiple_of(IDLE_POLLS) {
            self.drop_strange_messages();
        }
    }

    /// Sleeps until a receive completes, for at most a millisecond.
    pub(crate) fn sleep(&mut self, deadline: &Deadline) -> Outcome<()> {
        if deadline.is_over() {
            return Ok(());
        }
        if let Some(completion) = self.node()?.matching().next_completion(SLEEP)? {
            self.end_receive(&completion);
        }
        Ok(())
    }

    fn take_completions(&mut self) -> bool {
        for at in 0..BATCH {
            let next = self
                .node()
                .and_then(|node| Ok(node.matching().next_completion(Duration::ZERO)?));
            match next {
                Ok(Some(completion)) => self.end_receive(&completion),
                // The next operation meets the same error and returns it.
                Ok(None) | Err(_) => return at > 0,
            }
        }
        true
    }

    fn take_events(&mut self) -> bool {
        for at in 0..BATCH {
            let event = self.node().ok().and_then(|node| node.next_event().ok());
            match event.flatten() {
                Some(event) => self.on_event(event),
                None => return at > 0,
            }
        }
        true
    }

    fn take_releases(&mut self) -> bool {
        let mut found = false;
        while let Ok(token) = self.released.try_recv() {
            found = true;
            if let Some(send) = self.sends.get_mut(&token) {
                send.is_released = true;
            }
            self.end_send_if_over(token);
        }
        found
    }

    /// Messages that do not come to receives are for other programs. They must not fill the memory.
    fn drop_strange_messages(&mut self) {
        while let Ok(Some(_)) = self.node().and_then(|node| Ok(node.try_recv()?)) {}
    }

    // ---- receives

    fn end_receive(&mut self, completion: &Completion) {
        let receive = match completion.released {
            true => self.receives.remove(&completion.receive),
            false => self.receives.get(&completion.receive).copied(),
        };
        // One that was cancelled when its endpoint was closed.
        let Some(receive) = receive else {
            return;
        };
        let mut done = Done {
            context: receive.context,
            flags: receive.flags,
            length: 0,
            buffer: receive.buffer,
            data: 0,
            tag: 0,
            source: ADDR_UNSPEC,
            failure: None,
        };
        if receive.takes_several && completion.released {
            done.flags |= MULTI_RECV;
        }
        match &completion.result {
            Ok(matched) => {
                done.length = usize::try_from(matched.length).unwrap_or(usize::MAX);
                done.tag = matched.tag;
                done.source = self.address_of(matched.from.node);
                if let Some(data) = cq_data(&matched.user_header) {
                    done.data = data;
                    done.flags |= REMOTE_CQ_DATA;
                }
                let offset = usize::try_from(matched.offset).unwrap_or(0);
                done.buffer = receive.buffer.wrapping_add(offset);
                let missing = matched.total.saturating_sub(matched.length);
                if missing > 0 {
                    let missing = usize::try_from(missing).unwrap_or(usize::MAX);
                    done.failure = Some((Code::TRUNC, missing));
                }
            }
            Err(unmatched) => {
                done.source = self.address_of(unmatched.node);
                done.failure = Some((Code::HOSTUNREACH, 0));
            }
        }
        self.complete(RECV, receive.is_reported, done);
    }

    /// The address of a node in the endpoint's vector.
    pub(crate) fn address_of(&self, node: NodeId) -> u64 {
        let vector = self.endpoint.as_ref().and_then(|it| it.vector);
        let vector = vector.and_then(|index| self.vectors.get(index));
        vector.map_or(ADDR_UNSPEC, |vector| vector.of(node))
    }

    // ---- events

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Up { node, .. } => {
                self.gone.remove(&node);
            }
            Event::Delivered { token, .. } => self.settle(token, None),
            Event::NotDelivered { token, .. } => self.settle(token, Some(Code::HOSTUNREACH)),
            Event::Ended { node, outcomes, .. } => {
                self.gone.insert(node);
                for outcome in outcomes {
                    let failure = match outcome.outcome {
                        Fate::Delivered => None,
                        _ => Some(Code::HOSTUNREACH),
                    };
                    self.settle(outcome.token, failure);
                }
            }
            Event::Lost { node, cause } => self.on_lost(node, cause),
            _ => {}
        }
    }

    /// A peer that is silent for the silence timeout, or whose process died, is given up: MPI has
    /// no use for one that comes back. Its session's end fails what is open.
    fn on_lost(&mut self, node: NodeId, _: LostCause) {
        self.gone.insert(node);
        if let Ok(own) = self.node() {
            // There may be no session: then nothing is open but receives, which are ended here.
            _ = own.peer(node).reset();
        }
        let open = self.receives.iter();
        let open = open.filter(|(_, receive)| receive.from == Some(node));
        let open: Vec<_> = open.map(|(id, _)| *id).collect();
        for id in open {
            let cancelled = self.node().and_then(|own| Ok(own.matching().cancel(id)?));
            if cancelled == Ok(true) {
                self.fail_receive(id, Code::HOSTUNREACH);
            }
        }
    }

    /// Ends a receive that was withdrawn.
    pub(crate) fn fail_receive(&mut self, id: suci::matching::ReceiveId, code: Code) {
        let Some(receive) = self.receives.remove(&id) else {
            return;
        };
        let several = match receive.takes_several {
            true => MULTI_RECV,
            false => 0,
        };
        let done = Done {
            context: receive.context,
            flags: receive.flags | several,
            length: 0,
            buffer: receive.buffer,
            data: 0,
            tag: receive.tag,
            source: receive
                .from
                .map_or(ADDR_UNSPEC, |node| self.address_of(node)),
            failure: Some((code, 0)),
        };
        self.complete(RECV, receive.is_reported, done);
    }

    // ---- sends

    fn settle(&mut self, token: u64, failure: Option<Code>) {
        if let Some(send) = self.sends.get_mut(&token) {
            send.is_settled = true;
            send.failure = failure;
            self.end_send_if_over(token);
        }
    }

    fn end_send_if_over(&mut self, token: u64) {
        let send = self.sends.get(&token);
        if send.is_some_and(|send| send.is_settled && send.is_released)
            && let Some(send) = self.sends.remove(&token)
        {
            self.end_send(&send);
        }
    }

    /// Reports the end of a send.
    pub(crate) fn end_send(&mut self, send: &Send) {
        let done = Done {
            context: send.context,
            flags: send.flags & !DELIVERY_COMPLETE,
            length: 0,
            buffer: 0,
            data: 0,
            tag: 0,
            source: ADDR_UNSPEC,
            failure: send.failure.map(|code| (code, 0)),
        };
        self.complete(SEND, send.is_reported, done);
    }

    /// Counts the end of an operation, and reports it if that is wanted, or if it failed.
    pub(crate) fn complete(&mut self, side: u64, is_reported: bool, done: Done) {
        let Some(endpoint) = &self.endpoint else {
            return;
        };
        let counters = endpoint.counters.iter();
        for (_, index) in counters.filter(|(sides, _)| sides & side != 0) {
            if let Some(counter) = self.counters.get_mut(*index) {
                let number = match done.failure {
                    None => &mut counter.done,
                    Some(_) => &mut counter.failed,
                };
                *number = number.wrapping_add(1);
            }
        }
        let binding = match side {
            RECV => &endpoint.receiving,
            _ => &endpoint.sending,
        };
        if !is_reported && done.failure.is_none() {
            return;
        }
        let queue = binding.and_then(|it| self.queues.get_mut(it.queue));
        if let Some(queue) = queue {
            queue.push(done);
        }
    }
}
