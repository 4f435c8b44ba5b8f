//! Faults of processes and of the network as a whole, and the end of all faults.

use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{LinkState, PeerOptions, PeerStats, Priority, Renewal};

use crate::groups::GroupProgram;
use crate::node::Process;
use crate::options::{Consume, Drive, Step};
use crate::oracle::{Kind, Violation};
use crate::packet::HostId;
use crate::sockets::SocketProgram;
use crate::steering::Will;
use crate::world::{Due, Failure, World};

/// Bytes of messages that a full packet carries at least.
const PACKET: u64 = 1_000;

impl World {
    /// Tells the oracle which effects the fault excuses.
    fn excuse(&mut self, step: &Step) {
        if !step.is_calm() {
            self.oracle.shaken();
        }
        if !step.is_wish() {
            self.oracle.excuse_contacts();
        }
    }

    /// Makes a fault happen now.
    pub fn apply(&mut self, step: &Step) {
        if self.mended {
            return;
        }
        self.trace.note(self.now, 9, format_args!("--- {step:?}"));
        self.excuse(step);
        match *step {
            Step::Crash(host, after) => self.crash(host, after),
            Step::Pause(host, time) => {
                self.tally.pauses += 1;
                let until = self.now + time;
                self.each_process(host, |process| process.paused_until = until);
            }
            Step::StopConsuming(host, time) => {
                self.tally.pauses += 1;
                let until = self.now + time;
                self.each_process(host, |process| process.consumes_from = until);
            }
            Step::Close(host, deadline, after) => self.close(host, deadline, after),
            Step::ClosePeer(host, other, deadline) => {
                let (now, node) = (self.now, self.node_of(other));
                self.tally.closes += 1;
                // A node that the process does not know is none of its business.
                self.each_process(host, |process| {
                    let _ = process.engine.close_peer(now, node, deadline);
                });
            }
            Step::Reset(host, other) => {
                let (now, node) = (self.now, self.node_of(other));
                self.tally.closes += 1;
                self.each_process(host, |process| {
                    let _ = process.engine.reset(now, node);
                });
            }
            Step::Suspend(host, other, on) => self.suspend(host, other, on),
            Step::Cut(ref hosts, outwards, inwards, time) => {
                self.tally.partitions += 1;
                self.network
                    .cut(hosts.clone(), outwards, inwards, self.now + time);
            }
            Step::Rebind(host, keep) => {
                self.tally.rebinds += 1;
                self.network.rebind(host, keep);
            }
            Step::Marks(marks) => self.network.links.marks = marks,
            Step::Mtu(mtu, announced) => {
                self.tally.mtu_changes += 1;
                self.network.links.mtu = mtu;
                self.network.links.mtu_announced = announced;
            }
            Step::Attack(count) => self.attack(count),
            Step::Flood(host, count) => self.flood(host, count),
            Step::Insider(host) => self.each_process(host, |process| process.insider = true),
            Step::Prefer(host, other, mode) => {
                let (now, node) = (self.now, self.node_of(other));
                // A node that the process does not know, or closed, is none of its business.
                self.each_process(host, |process| {
                    let _ = process.engine.change_options(now, node, |o| o.mode = mode);
                });
            }
            Step::Decide(host, other, will) => self.decide(host, other, will),
            Step::Keys(host, ref keys) => self.change_keys(host, keys),
            Step::Restored(host) => self.on_restored(host),
            Step::Finish(host, other, channel) => self.finish_channel(host, other, channel),
            Step::Rank(host, other, channel, priority) => {
                self.rank(host, other, channel, priority);
            }
        }
    }

    fn change_keys(&mut self, host: HostId, keys: &[u64]) {
        let Some(of_host) = self.keys.get(host) else {
            return;
        };
        let kept = of_host.keys().iter().all(|key| keys.contains(key));
        of_host.set_keys(keys);
        let renewal = match kept {
            true => Renewal::Replace,
            false => Renewal::Revoke,
        };
        self.renew_keys(host, renewal);
    }

    fn on_restored(&mut self, host: HostId) {
        if let Some(keys) = self.keys.get(host) {
            keys.restored();
        }
        self.renew_keys(host, Renewal::StopSealing);
    }

    fn renew_keys(&mut self, host: HostId, renewal: Renewal) {
        let now = self.now;
        self.each_process(host, |process| process.engine.renew_keys(now, renewal));
    }

    fn finish_channel(&mut self, host: HostId, other: HostId, channel: u32) {
        let (now, node) = (self.now, self.node_of(other));
        let mut finished = Vec::new();
        // A node that the process does not know is none of its business.
        self.each_process(host, |process| {
            let done = process.engine.finish_channel(now, node, ChannelId(channel));
            finished.extend(done.is_ok_and(|new| new).then_some(process.id));
        });
        for process in finished {
            self.oracle.finishes(process, node.0, channel);
        }
    }

    fn rank(&mut self, host: HostId, other: HostId, channel: Option<u32>, priority: Priority) {
        let (now, node) = (self.now, self.node_of(other));
        self.each_process(host, |process| {
            let engine = &mut process.engine;
            // A node that the process does not know is none of its business.
            if let Some(channel) = channel {
                let _ = engine.set_channel_priority(node, ChannelId(channel), priority);
            } else {
                let _ = engine.change_options(now, node, |o| o.priority = priority);
            }
        });
    }

    fn decide(&mut self, host: HostId, other: HostId, will: Will) {
        let (now, node) = (self.now, self.node_of(other));
        self.each_process(host, |process| {
            process.withheld.insert(node);
            let engine = &mut process.engine;
            // A node that the process does not know is none of its business.
            let mut set = |change: &dyn Fn(&mut PeerOptions)| {
                engine.change_options(now, node, change).is_ok()
            };
            let _ = match will {
                Will::Controller(choice) => set(&|o| o.controller = choice),
                Will::Manual(manual) => set(&|o| o.manual_retransmission = manual),
                Will::Cap(rate) => set(&|o| o.rate_cap = rate),
                Will::Steer(rein) => engine.steer(now, node, Some(rein.make())),
                Will::Retransmit => engine.retransmit(node),
            };
        });
    }

    fn suspend(&mut self, host: HostId, other: HostId, on: bool) {
        self.tally.suspensions += u64::from(on);
        let node = self.node_of(other);
        let process = self.hosts.get(host).and_then(|it| it.process.as_ref());
        if let Some(id) = process.map(|process| process.id).filter(|_| on) {
            self.oracle.suspends(id, node.0);
        }
        // An engine that does not know the node returns an error, and has nothing to suspend.
        self.each_process(host, |process| {
            process.withheld.insert(node);
            let _ = match on {
                true => process.engine.suspend(node),
                false => process.engine.resume(node),
            };
        });
    }

    fn crash(&mut self, host: HostId, after: Option<Duration>) {
        if self.bury(host).is_some() {
            self.tally.crashes += 1;
            if let Some(after) = after {
                self.restart(host, after);
            }
        }
    }

    fn close(&mut self, host: HostId, deadline: Duration, after: Duration) {
        self.tally.closes += 1;
        let now = self.now;
        if let Some(it) = self.hosts.get_mut(host) {
            it.restart_after = Some(after);
        }
        let groups = self.groups.clone();
        let mut closing = Vec::new();
        self.each_process(host, |process| {
            closing.push(process.id);
            groups.lock().closes(process.id);
            // A program that closes still takes the messages that come until then.
            process.consume = Consume::Eager;
            if let Some(member) = &mut process.member {
                member.leave(&mut process.engine, now);
            }
            if let Some(sockets) = &mut process.sockets {
                sockets.close(&mut process.engine, now);
            }
            match &mut process.router {
                Some(router) => router.close(&mut process.engine, now, deadline),
                None => process.engine.close(now, deadline),
            }
        });
        for process in closing {
            self.oracle.closes(process);
        }
    }

    fn attack(&mut self, count: u32) {
        for _ in 0..count {
            if let Some(packet) = self.hostile.strike(&self.network) {
                self.inject(packet);
            }
        }
    }

    fn flood(&mut self, host: HostId, count: u32) {
        let target = self.options.node(host);
        for _ in 0..count {
            let mut packet = self.hostile.hello(target, self.options.nodes);
            packet.to = self.network.book_address(host);
            self.inject(packet);
        }
    }

    pub(crate) fn node_of(&self, host: HostId) -> NodeId {
        NodeId(self.options.node(host))
    }

    fn each_process(&mut self, host: HostId, act: impl FnOnce(&mut Process)) {
        if let Some(process) = self.hosts.get_mut(host).and_then(|it| it.process.as_mut()) {
            act(process);
        }
        self.request(host, self.now);
    }

    /// Ends all faults: packets get through, stopped processes go on, dead ones start again,
    /// duplicates of live nodes die, programs take all they get and say one last thing.
    pub fn mend(&mut self) {
        self.trace.note(self.now, 10, format_args!("--- mended"));
        self.mended = true;
        self.network.mend();
        for host in 0..self.options.nodes {
            self.start(host);
        }
        for host in self.options.nodes..self.options.hosts() {
            self.bury(host);
        }
        for host in 0..self.options.nodes {
            let (now, nodes) = (self.now, self.nodes.clone());
            if let Some(it) = self.hosts.get_mut(host) {
                it.workload.wind_up(now);
            }
            self.each_process(host, |process| {
                process.consume = Consume::Eager;
                process.consumes_from = now;
                process.paused_until = now;
                if let Some(remote) = &mut process.remote {
                    remote.wind_up(now);
                }
                if let Some(groups) = &mut process.groups {
                    groups.wind_up(now);
                }
                if let Some(sockets) = &mut process.sockets {
                    sockets.wind_up(now, &nodes);
                }
                if let Some(matching) = &mut process.matching {
                    matching.wind_up(now);
                }
                // Messages that a program withheld are sent in the end.
                for peer in core::mem::take(&mut process.withheld) {
                    let automatic = |o: &mut PeerOptions| o.manual_retransmission = false;
                    let _ = process.engine.change_options(now, peer, automatic);
                    let _ = process.engine.resume(peer);
                }
            });
        }
    }

    /// Runs the mended world until everything is settled, then checks that it is.
    ///
    /// # Errors
    /// Something was not settled in time, or packets go on although everything is settled.
    pub fn settle(&mut self) -> Result<(), Failure> {
        // Small buffers, long ways and programs that steer allow no more than a packet in each
        // round trip.
        let owed = self.oracle.owed() + self.remote.lock().owed();
        let packets = owed.div_ceil(PACKET);
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let limit = self.now + self.options.mended_for + self.options.round_trip() * packets;
        while self.now < limit && !(self.is_said() && self.is_settled()) {
            self.run_for(Duration::from_millis(250))?;
        }
        self.audit()?;
        let at = self.now;
        self.oracle
            .finish()
            .and_then(|()| self.remote.lock().finish())
            .and_then(|()| self.groups.lock().finish())
            .and_then(|()| self.finish_sockets())
            .and_then(|()| self.matching.lock().finish())
            .and_then(|()| self.check_members())
            .and_then(|()| self.check_failures())
            .map_err(|violation| Failure { at, violation })?;
        self.check_round_trips()?;
        self.check_quiet()?;
        let at = self.now;
        self.oracle
            .finish_wants()
            .map_err(|violation| Failure { at, violation })?;
        self.check_close()
    }

    /// Closes all processes at once. No packet is in transit, and each process hears the others, so
    /// no close may take more than a few probe timeouts.
    fn check_close(&mut self) -> Result<(), Failure> {
        const PATIENCE: Duration = Duration::from_secs(60);
        const PROBES: u32 = 5;
        // As for first contacts: in other runs some wait for room or for a process that is gone.
        // The last packets go to the address that is known to be good, and are lost if that is not
        // the latest.
        let probe = self.options.contact_probe();
        let Some(probe) = probe.filter(|_| self.tally.rebinds == 0) else {
            return Ok(());
        };
        let judged: Vec<HostId> = (0..self.options.nodes)
            .filter(|host| self.has_mutual_sessions(*host))
            .collect();
        for host in 0..self.options.nodes {
            self.close(host, PATIENCE, PATIENCE * 2);
        }
        let within = probe * PROBES;
        self.run_for(within)?;
        let open = |process: &&Process| !process.engine.is_closed();
        let hosts = judged.iter().filter_map(|host| self.hosts.get(*host));
        let mut processes = hosts.filter_map(|it| it.process.as_ref());
        let Some(process) = processes.find(open) else {
            return Ok(());
        };
        let violation = Violation {
            kind: Kind::Late,
            text: format!("process {} does not close within {within:?}", process.id),
        };
        Err(Failure {
            at: self.now,
            violation,
        })
    }

    /// Returns true if each peer of a host's process knows of their session: its process is not
    /// one that took the place of another.
    fn has_mutual_sessions(&self, host: HostId) -> bool {
        let process = |host: HostId| self.hosts.get(host)?.process.as_ref();
        let is_open = |at: HostId, with: HostId| {
            let stats = process(at).and_then(|it| it.engine.peer_stats(self.node_of(with)));
            stats.is_some_and(|stats| stats.link != LinkState::Idle)
        };
        (0..self.options.nodes).all(|other| !is_open(host, other) || is_open(other, host))
    }

    /// Checks that no process measured a round trip shorter than the way there and back.
    fn check_round_trips(&self) -> Result<(), Failure> {
        for (host, it) in self.hosts.iter().enumerate() {
            let Some(process) = &it.process else { continue };
            let least = self.network.least_round_trip(host, self.hosts.len());
            let engine = &process.engine;
            let mut stats = engine.peers().filter_map(|peer| engine.peer_stats(peer));
            let wrong = |stats: &PeerStats| !stats.min_rtt.is_zero() && stats.min_rtt < least;
            if let Some(stats) = stats.find(wrong) {
                let text = format!(
                    "process {} measured {:?} to {:?}, the way there and back takes {least:?}",
                    process.id, stats.min_rtt, stats.node
                );
                let violation = Violation {
                    kind: Kind::Invariant,
                    text,
                };
                return Err(Failure {
                    at: self.now,
                    violation,
                });
            }
        }
        Ok(())
    }

    /// Checks the sockets of the run at its end.
    fn finish_sockets(&self) -> Result<(), Violation> {
        self.sockets.lock().finish()?;
        let processes = self.hosts.iter().filter_map(|it| it.process.as_ref());
        let mut programs = processes.filter_map(|process| process.sockets.as_ref());
        programs.try_for_each(SocketProgram::check_left)
    }

    /// Returns true if every program said its last word.
    fn is_said(&self) -> bool {
        self.hosts
            .iter()
            .all(|it| it.process.is_none() || it.workload.next_at().is_none())
    }

    fn is_settled(&self) -> bool {
        let ends = |it: &crate::world::Host| {
            it.process.as_ref().is_none_or(|process| {
                let (remote, groups) = (process.remote.as_ref(), process.groups.as_ref());
                remote.is_none_or(|remote| remote.next_at().is_none())
                    && groups.is_none_or(GroupProgram::is_done)
                    && process.sockets.as_ref().is_none_or(SocketProgram::is_done)
            })
        };
        let settled = self.remote.lock().is_settled()
            && self.groups.lock().is_settled()
            && self.sockets.lock().is_settled()
            && self.matching.lock().finish().is_ok();
        let operations = self.hosts.iter().all(ends) && settled;
        operations && self.check_members().is_ok() && self.oracle.is_settled()
    }

    /// Returns the packets about `peer` that an idle process is allowed in `time`, and its peer's
    /// answers: a watched peer is asked for a sign of life thrice per silence timeout; credit
    /// lapses and is returned. A peer that polls more rarely than its longest delay of an
    /// acknowledgement says, or runs so rarely, may be asked twice (RFC 9002, 6.2.1).
    fn quiet_packets(&self, host: HostId, peer: NodeId, time: Duration) -> u64 {
        const OTHERS: u64 = 6;
        let config = self.config(host);
        let probes = time.as_nanos() / config.silence_timeout.as_nanos().max(1) * 3;
        let mut hosts = (0..self.options.hosts()).filter(|at| self.node_of(*at) == peer);
        let each = match hosts.any(|at| self.answers_late(at)) {
            true => 4,
            false => 2,
        };
        let watching = if config.keep_alive { each * probes } else { 0 };
        OTHERS + u64::try_from(watching).unwrap_or(u64::MAX)
    }

    /// Returns true if the process on `host` polls more rarely than it says, or waits for longer
    /// until it runs (seed 31005941185 of the busy ones).
    fn answers_late(&self, host: HostId) -> bool {
        let promised = self.config(host).max_ack_delay;
        let process = self.hosts.get(host).and_then(|it| it.process.as_ref());
        let scheduler = process.and_then(|process| process.scheduler);
        let polls_late = match self.drive(host) {
            Drive::Polls(period) => period > promised,
            Drive::Woken(_) => false,
        };
        polls_late || scheduler.is_some_and(|it| it.longest_wait() > promised)
    }

    /// Counts work that an idle cluster may still do: sessions come up, are lost or end; probes are
    /// too large for the path, whose size is searched with keep-alives (seed 373); messages come
    /// that no program waits for, since a process that claimed their receiver's ID died (seed
    /// 2159); packets that were held come one by one, and are acknowledged (seed 26009).
    fn changes(&self) -> [u64; 4] {
        let under_way = self
            .queue
            .iter()
            .filter(|due| matches!(due, Due::Arrive(..)));
        [
            self.oracle.link_changes(),
            self.tally.oversized,
            self.oracle.delivered(),
            under_way.count() as u64,
        ]
    }

    /// Checks that idle peers are silent, after a while for the last acknowledgements. The end of a
    /// node may still be noticed then, and the process that replaced it be admitted: while such
    /// changes happen, another period is watched.
    fn check_quiet(&mut self) -> Result<(), Failure> {
        const WATCHED: Duration = Duration::from_secs(20);
        const PERIODS: usize = 5;
        let mut text = String::new();
        for _ in 0..PERIODS {
            self.run_for(Duration::from_secs(5))?;
            let (packets, changes) = (self.tally.packets, self.changes());
            self.run_for(WATCHED)?;
            let sent = self.tally.packets - packets;
            let processes = self.hosts.iter().enumerate().filter_map(|(host, it)| {
                let peers = it.process.as_ref()?.engine.peers();
                let packets = peers.map(|peer| self.quiet_packets(host, peer, WATCHED));
                Some(packets.sum::<u64>())
            });
            let hops = self
                .options
                .topology
                .map_or(1, |it| it.packets(self.options.nodes));
            let allowed = 30 + processes.sum::<u64>() * hops + self.member_packets(WATCHED);
            if sent <= allowed {
                return Ok(());
            }
            text = format!(
                "{sent} packets in {WATCHED:?} after all was said, at most {allowed} expected"
            );
            if self.changes() == changes {
                break;
            }
        }
        let violation = Violation {
            kind: Kind::Chatter,
            text,
        };
        Err(Failure {
            at: self.now,
            violation,
        })
    }
}
