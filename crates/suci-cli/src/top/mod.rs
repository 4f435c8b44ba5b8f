//! `suci top`: the activity of the peers of this machine's nodes, live.

mod columns;
mod view;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;
use suci::Mode;
use suci::statistics::StatFile;

use crate::args::TopArgs;
use crate::error::{Context, Failure, Result};
use crate::signals::Signals;
use crate::stats_reader::{self, PeerKey, PeerRow, SnapshotHistory};
use columns::Key;

/// How often the files are read.
const LOOK: Duration = Duration::from_millis(500);

/// How soon to look again after a node was asked for something: it stores its numbers every 100 ms.
const SOON: Duration = Duration::from_millis(150);

/// How long it may take to end by itself after a signal. It does not end if the terminal has gone:
/// a read of its keys never returns.
const PARTING: Duration = Duration::from_secs(1);

/// Shows until told to quit.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode> {
    stats_reader::require(args.pid)?;
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        let remedy = "run it in one, or use suci stat --watch 1";
        return Err(Failure::new(format!("this is no terminal: {remedy}")));
    }
    let ended = Arc::new(AtomicBool::new(false));
    end_by_signal(Signals::catch()?, Arc::clone(&ended))?;
    // This also restores the terminal if something panics.
    let mut terminal = ratatui::try_init().context("setting the terminal up")?;
    let done = App::new(args.pid).show(&mut terminal, &ended);
    ratatui::try_restore().context("restoring the terminal")?;
    done
}

/// Ends the display after a signal. It also ends if the terminal has gone and its signal is
/// ignored. Ctrl-C comes as a key.
fn end_by_signal(signals: Signals, ended: Arc<AtomicBool>) -> Result<()> {
    let watch = std::thread::Builder::new().name("signals".into());
    let watching = watch.spawn(move || {
        let signal = signals.wait_beside(std::io::stdin());
        ended.store(true, Ordering::Relaxed);
        std::thread::sleep(PARTING);
        // Not the screen: writing to a terminal that is stopped would last, too.
        let _ = disable_raw_mode();
        std::process::exit(128 + signal.as_raw());
    });
    watching.map(drop).context("a thread for signals")
}

/// The state of the display, with the changes that keys made.
pub(crate) struct App {
    pid: Option<u32>,
    history: SnapshotHistory,
    files: Vec<StatFile>,
    rows: Vec<PeerRow>,
    key: Key,
    selected: Option<PeerKey>,
    /// The first row that is on the screen.
    offset: usize,
    /// The mode asked for last, for each peer.
    asked: BTreeMap<PeerKey, Mode>,
    /// The error of the last key.
    trouble: Option<String>,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    /// A node was asked for something, which it does when it stores its numbers next.
    LookSoon,
    Quit,
}

impl App {
    pub(crate) fn new(pid: Option<u32>) -> Self {
        Self {
            pid,
            history: SnapshotHistory::default(),
            files: Vec::new(),
            rows: Vec::new(),
            key: Key::Out,
            selected: None,
            offset: 0,
            asked: BTreeMap::new(),
            trouble: None,
        }
    }

    fn show(&mut self, terminal: &mut DefaultTerminal, ended: &AtomicBool) -> Result<ExitCode> {
        let mut due = Instant::now();
        while !ended.load(Ordering::Relaxed) {
            if Instant::now() >= due {
                due = Instant::now() + LOOK;
                self.look();
            }
            let draw = |frame: &mut ratatui::Frame<'_>| view::draw(self, frame);
            terminal.draw(draw).context("drawing")?;
            let left = due.saturating_duration_since(Instant::now());
            // A signal ends the wait early; so does a change of size, after which all is drawn
            // anew.
            let happened = event::poll(left.min(LOOK / 2)).context("reading keys")?;
            if happened && let Event::Key(key) = event::read().context("reading keys")? {
                match self.press(key) {
                    Next::Go => {}
                    Next::LookSoon => due = due.min(Instant::now() + SOON),
                    Next::Quit => break,
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn look(&mut self) {
        let seen = stats_reader::read_nodes(self.pid).into_iter();
        let (files, now) = seen.unzip();
        self.files = files;
        self.take(now);
    }

    /// Takes the present snapshots.
    fn take(&mut self, now: Vec<suci::statistics::Snapshot>) {
        self.history.take(now);
        self.rows = self.history.rows();
        self.sort();
    }

    fn sort(&mut self) {
        let key = self.key;
        self.rows
            .sort_by(|a, b| key.order(a, b).then(a.name.cmp(&b.name)));
    }

    /// Returns the index of the selected peer's row, or the first if that peer is gone.
    fn selected_row(&self) -> Option<usize> {
        let found = self
            .rows
            .iter()
            .position(|row| Some(row.name) == self.selected);
        found.or((!self.rows.is_empty()).then_some(0))
    }

    fn move_by(&mut self, rows: isize) {
        let Some(index) = self.selected_row() else {
            return;
        };
        let last = self.rows.len().saturating_sub(1);
        let index = index.saturating_add_signed(rows).min(last);
        self.selected = self.rows.get(index).map(|row| row.name);
    }

    /// Does the action of a key.
    fn press(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Go;
        }
        self.trouble = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('c') if control => return Next::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::Home | KeyCode::Char('g') => self.move_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.move_by(isize::MAX),
            KeyCode::Char('s') => {
                self.key = self.key.next();
                self.sort();
            }
            KeyCode::Char('m') => {
                self.switch();
                return Next::LookSoon;
            }
            _ => {}
        }
        Next::Go
    }

    /// Asks the selected peer's node for the next mode.
    fn switch(&mut self) {
        let Some(row) = self.selected_row().and_then(|index| self.rows.get(index)) else {
            return;
        };
        let name = row.name;
        let mode = match self.asked.get(&name).copied().unwrap_or(row.stats.mode) {
            Mode::Adaptive => Mode::Throughput,
            Mode::Throughput => Mode::Response,
            Mode::Response => Mode::Adaptive,
        };
        let mut files = self.files.iter();
        let file = files.find(|file| (file.pid(), file.node()) == (name.pid, name.node));
        let Some(file) = file else { return };
        match file.prefer(name.peer, mode) {
            Ok(()) => {
                self.selected = Some(name);
                self.asked.insert(name, mode);
            }
            Err(error) => self.trouble = Some(format!("process {}: {error}", name.pid)),
        }
    }
}
