//! The hub at work: numbers are given by this thread, models are looked for by another.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Instant;

use serde_json::{Value, json};
use suci::Bytes;
use tableau::parallel::{Effect, Hub, Kind, Malformed, Packet, Search};
use tableau::{Decision, Extent, Formulas, Id, Path};

use super::link::{Link, Received, malformed, misfit};
use super::{TICK, TURN, counts};
use crate::Failure;
use crate::args::Args;
use crate::interrupt::Interrupts;

/// Opens this process's node, does `work`, and ends the run, for all processes.
pub(crate) fn coordinate(
    args: &Args,
    workers: u32,
    interrupts: Interrupts,
    work: impl FnOnce(&mut Coordinator) -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    let mut hub = Coordinator::new(Link::open(args, workers)?, workers, interrupts);
    let begun = Instant::now();
    // A user without the right to write them should hear it before hours of work.
    let done = stats_file(args).and_then(|stats| {
        let status = work(&mut hub)?;
        if let Some((file, name)) = stats {
            let written = writeln!(&file, "{:#}", hub.stats(args, begun)?);
            written.map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(status)
    });
    match &done {
        Ok(_) => {
            hub.broadcast(Kind::Bye)?;
            hub.link.close();
        }
        Err(failure) => hub.link.stop(failure),
    }
    done
}

/// The file for `--stats`, and its name.
fn stats_file(args: &Args) -> Result<Option<(File, String)>, Failure> {
    let Some(path) = &args.stats else {
        return Ok(None);
    };
    let name = path.display().to_string();
    match File::create(path) {
        Ok(file) => Ok(Some((file, name))),
        Err(error) => Err(format!("{name}: {error}").into()),
    }
}

/// The orders to the searching thread.
enum Order {
    Begin(usize),
    Steps {
        from: u32,
        body: Bytes,
        found: u32,
    },
    /// The tableau is complete.
    Finish,
}

/// The thread's answers: one for each question, unless something is wrong.
enum Found {
    Path(Path, u64),
    Nothing(u64),
    Wrong(u32, Malformed),
}

/// The hub's process.
pub(crate) struct Coordinator {
    link: Link,
    hub: Hub,
    workers: u32,
    interrupts: Interrupts,
    orders: Sender<Order>,
    results: Receiver<Found>,
    /// The counters of each worker, when it is asked with [`Kind::Count`].
    counted: Vec<Option<Bytes>>,
}

impl Coordinator {
    fn new(link: Link, workers: u32, interrupts: Interrupts) -> Self {
        let (orders, from_hub) = channel();
        let (to_hub, results) = channel();
        // Ends when the hub's end of either channel is gone.
        std::thread::spawn(move || search(workers, &from_hub, &to_hub));
        Self {
            link,
            hub: Hub::new(workers),
            workers,
            interrupts,
            orders,
            results,
            counted: Vec::new(),
        }
    }

    /// Whether `root` has a model.
    pub(crate) fn decide(
        &mut self,
        formulas: &Formulas,
        root: Id,
        mut watch: impl FnMut(Extent),
    ) -> Result<Decision, Failure> {
        self.hub.begin(formulas, root);
        self.order(Order::Begin(formulas.len()))?;
        let mut complete = false;
        let (path, steps) = loop {
            self.attend()?;
            watch(self.hub.extent());
            if !complete && self.hub.is_complete() {
                complete = true;
                self.order(Order::Finish)?;
            }
            match self.result(complete)? {
                Some(Found::Path(path, steps)) => break (path, steps),
                Some(Found::Nothing(steps)) => {
                    self.hub.refute();
                    return Ok(self.decision(None, steps));
                }
                Some(Found::Wrong(from, why)) => return Err(malformed(from, Kind::Steps, &why)),
                None => self.rest(complete)?,
            }
        };
        self.hub.show(&path);
        loop {
            self.attend()?;
            let model = self.hub.model(formulas, &path);
            let model = model.map_err(|why| Failure::Run(format!("workers showed {why}")))?;
            if model.is_some() {
                return Ok(self.decision(model, steps));
            }
            self.link.wait(TICK)?;
        }
    }

    fn decision(&self, model: Option<tableau::Lasso>, steps: u64) -> Decision {
        Decision {
            model,
            states: self.hub.extent().found,
            steps,
        }
    }

    /// Waits for messages; when there will be none (the search's last look is all that is missing),
    /// not at all.
    fn rest(&mut self, complete: bool) -> Result<(), Failure> {
        match complete {
            true => Ok(()),
            false => self.link.wait(TICK),
        }
    }

    /// Returns the result of the search, if it is there; waits a little for it if only that is
    /// missing.
    fn result(&mut self, wait: bool) -> Result<Option<Found>, Failure> {
        let gone = || Failure::Run("the search for a model ended".to_owned());
        if wait {
            return match self.results.recv_timeout(TICK) {
                Ok(found) => Ok(Some(found)),
                Err(RecvTimeoutError::Timeout) => Ok(None),
                Err(RecvTimeoutError::Disconnected) => Err(gone()),
            };
        }
        match self.results.try_recv() {
            Ok(found) => Ok(Some(found)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }

    fn order(&mut self, order: Order) -> Result<(), Failure> {
        let gone = |_| Failure::Run("the search for a model ended".to_owned());
        self.orders.send(order).map_err(gone)
    }

    /// Does all that can be done now.
    pub(crate) fn attend(&mut self) -> Result<(), Failure> {
        self.interrupts.check()?;
        self.send()?;
        for _ in 0..TURN {
            let Some(message) = self.link.receive()? else {
                break;
            };
            self.on(message)?;
            self.send()?;
        }
        self.link.check()
    }

    fn on(&mut self, message: Received) -> Result<(), Failure> {
        let Received {
            from,
            kind,
            question,
            body,
        } = message;
        if kind == Kind::Counted {
            let unasked = || misfit(from, "counts", &"nobody asked for them");
            *self.unheard(from).ok_or_else(unasked)? = Some(body);
            return Ok(());
        }
        let effect = self.hub.on(from, kind, question, &body);
        match effect.map_err(|why| malformed(from, kind, &why))? {
            Effect::None => Ok(()),
            Effect::Steps { found } => self.order(Order::Steps { from, body, found }),
        }
    }

    /// Returns the place for the counts of a worker, if they were asked for and have not come.
    fn unheard(&mut self, from: u32) -> Option<&mut Option<Bytes>> {
        let place = usize::try_from(from).ok()?.checked_sub(1)?;
        self.counted.get_mut(place).filter(|body| body.is_none())
    }

    fn send(&mut self) -> Result<(), Failure> {
        while let Some(packet) = self.hub.poll() {
            self.link.send(packet)?;
        }
        Ok(())
    }

    fn broadcast(&mut self, kind: Kind) -> Result<(), Failure> {
        for to in 1..=self.workers {
            self.link.send(Packet {
                to,
                kind,
                question: self.hub.question(),
                body: Vec::new(),
            })?;
        }
        Ok(())
    }

    /// Asks all workers for their counters.
    fn stats(&mut self, args: &Args, begun: Instant) -> Result<Value, Failure> {
        let seconds = begun.elapsed().as_secs_f64();
        self.counted = vec![None; self.workers as usize];
        self.broadcast(Kind::Count)?;
        while self.counted.iter().any(Option::is_none) {
            self.attend()?;
            self.link.wait(TICK)?;
        }
        let (mut workers, mut round_trips) = (Vec::new(), Vec::new());
        for (from, body) in (1..).zip(&self.counted) {
            let read = body.as_ref().and_then(|body| counts::read(body));
            let (told, counts) = read.ok_or_else(|| misfit(from, "counts", &"no counts"))?;
            workers.push(told);
            round_trips.push(counts);
        }
        Ok(json!({
            "workers": self.workers,
            "modes": args.modes.are_on(),
            "questions": self.hub.question(),
            "seconds": seconds,
            "round_trips": counts::quantiles(&round_trips),
            "hub": counts::traffic(&self.link.node)?,
            "each_worker": workers,
        }))
    }
}

/// The searching thread. Says one thing about each question.
fn search(workers: u32, orders: &Receiver<Order>, results: &Sender<Found>) {
    let mut search = Search::new(0, workers);
    let mut open = false;
    for order in orders {
        let found = match order {
            Order::Begin(formulas) => {
                search = Search::new(formulas, workers);
                open = true;
                None
            }
            _ if !open => None,
            Order::Steps { from, body, found } => match search.on_steps(from, &body, found) {
                Ok(path) => path.map(|path| Found::Path(path, search.steps())),
                Err(why) => Some(Found::Wrong(from, why)),
            },
            Order::Finish => Some(match search.look() {
                Some(path) => Found::Path(path, search.steps()),
                None => Found::Nothing(search.steps()),
            }),
        };
        if let Some(found) = found {
            open = false;
            if results.send(found).is_err() {
                return;
            }
        }
    }
}
