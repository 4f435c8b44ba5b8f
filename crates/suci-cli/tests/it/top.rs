//! `suci top` in a terminal of its own: a pseudo-terminal, and the screen that a terminal would
//! show.
use crate::support::{PATIENCE, Running, await_node, free_address, path, suci, terminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The part of a terminal that ratatui uses.
struct Screen {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// An escape sequence that has begun.
    pending: Option<String>,
    /// Sequences that change modes, as they came.
    modes: Vec<String>,
}

impl Screen {
    fn new() -> Self {
        Self {
            cells: vec![vec![' '; 300]; 100],
            at: (0, 0),
            pending: None,
            modes: Vec::new(),
        }
    }

    fn put(&mut self, letter: char) {
        let Some(mut sequence) = self.pending.take() else {
            if letter == '\x1b' {
                self.pending = Some(String::new());
            } else if letter >= ' ' {
                self.cells[self.at.0][self.at.1] = letter;
                self.at.1 += 1;
            }
            return;
        };
        sequence.push(letter);
        let body = sequence.strip_prefix('[');
        match (body, letter) {
            (_, '[') if sequence.len() == 1 => self.pending = Some(sequence),
            (Some(body), 'H') => {
                let (row, column) = body
                    .trim_end_matches('H')
                    .split_once(';')
                    .unwrap_or(("1", "1"));
                let number = |text: &str| text.parse::<usize>().map_or(0, |number| number - 1);
                self.at = (number(row), number(column));
            }
            (Some(_), 'J') => self.cells = Self::new().cells,
            (Some(_), 'h' | 'l') => self.modes.push(sequence),
            (Some(_), '0'..='9' | ';' | '?') => self.pending = Some(sequence),
            _ => {}
        }
    }

    fn line(&self, row: usize) -> String {
        self.cells[row]
            .iter()
            .collect::<String>()
            .trim_end()
            .to_owned()
    }
}

/// `suci top` and its terminal.
struct Top {
    child: Running,
    terminal: File,
    /// The other end, kept open so that its settings can be checked in the end.
    inside: File,
    output: Receiver<Vec<u8>>,
    screen: Screen,
}

impl Top {
    fn start(pid: &str, rows: u16, columns: u16) -> Self {
        let (terminal, inside) = terminal();
        let child = spawn(pid, &inside, "");
        let mut reader = terminal.try_clone().unwrap();
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 65_536];
            while let Ok(count) = reader.read(&mut piece) {
                if count == 0 || sender.send(piece[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut top = Self {
            child,
            terminal,
            inside,
            output,
            screen: Screen::new(),
        };
        top.resize(rows, columns);
        top
    }

    fn resize(&mut self, rows: u16, columns: u16) {
        resize(&self.terminal, rows, columns);
    }

    fn press(&mut self, key: u8) {
        self.terminal.write_all(&[key]).unwrap();
    }

    /// Reads until the screen is as `wanted`. Returns how long that took.
    fn until(&mut self, wanted: impl Fn(&Screen) -> bool) -> Option<Duration> {
        self.within(PATIENCE, wanted)
    }

    fn within(&mut self, limit: Duration, wanted: impl Fn(&Screen) -> bool) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < limit {
            if wanted(&self.screen) {
                return Some(begun.elapsed());
            }
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(20)) {
                String::from_utf8_lossy(&bytes)
                    .chars()
                    .for_each(|letter| self.screen.put(letter));
            }
        }
        None
    }

    /// Ended as it should: the other screen is shown again, with a cursor, and keys are echoed.
    fn assert_restored(mut self) {
        assert!(self.child.wait().success());
        // The reader may be late, where many tests run at once; and nothing may follow.
        let last = |screen: &Screen, mode: &str| {
            let mut all = screen.modes.iter().rev();
            all.find(|sequence| sequence.contains(mode)).cloned()
        };
        let restored = [("?1049", "[?1049l"), ("?25", "[?25h")];
        self.until(|screen| {
            let is_last = |(mode, wanted)| last(screen, mode).as_deref() == Some(wanted);
            restored.into_iter().all(is_last)
        });
        self.within(Duration::from_millis(500), |_| false);
        for (mode, wanted) in restored {
            assert_eq!(last(&self.screen, mode).as_deref(), Some(wanted));
        }
        let modes = tcgetattr(&self.inside).unwrap().local_modes;
        assert!(
            modes.contains(LocalModes::ICANON | LocalModes::ECHO),
            "still raw"
        );
    }
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

/// `suci top` in a session whose terminal is `inside`, after `before`.
fn spawn(pid: &str, inside: &File, before: &str) -> Running {
    let mut command = Command::new("setsid");
    let launch = format!("{before} exec \"$0\" top {pid}");
    command
        .args(["--ctty", "sh", "-c", &launch, path()])
        .env("TERM", "xterm-256color");
    for stdio in [Command::stdin, Command::stdout, Command::stderr] {
        stdio(&mut command, Stdio::from(inside.try_clone().unwrap()));
    }
    Running(command.spawn().unwrap())
}

/// The first peer's words in the table.
fn words(screen: &Screen) -> Vec<String> {
    screen
        .line(2)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// A process that answers, one that asks a thousand times a second, and the latter's process ID.
/// Without a pause the two might leave `suci top`, in a session of its own, little of two cores;
/// nobody reads what it would print of each answer.
fn traffic() -> ([Running; 2], String) {
    let at = free_address().to_string();
    let mut server = Running::start(&mut suci(&["ping", "--listen", &at]));
    server.first_error_line();
    let often = ["--interval", "0.001", "--count", "1000000000", "--json"];
    let client = Running::start(suci(&["ping", &at]).args(often));
    await_node(&client, |_| true);
    let pid = client.0.id().to_string();
    ([server, client], pid)
}

#[test]
fn top_is_legible_and_switches_a_mode() {
    let (_running, pid) = traffic();
    let mut top = Top::start(&pid, 24, 80);
    let up = |screen: &Screen| words(screen).get(2).is_some_and(|state| state == "up");
    assert!(top.until(up).is_some(), "{:?}", top.screen.line(0));
    assert!(top.screen.line(0).starts_with("suci top: 1 nodes, 1 peers"));
    assert!(top.screen.line(1).trim_end().ends_with("QUEUE WAITS FOR"));
    assert!(top.screen.line(20).starts_with("peer 2 of node "));
    assert!(top.screen.line(23).ends_with("q: quit"));

    // From any mode, it becomes bulk after one press, two or three.
    let bulk = |screen: &Screen| words(screen).get(3).is_some_and(|mode| mode == "bulk");
    let limit = Duration::from_secs(5);
    let switched = (0..3).find_map(|_| {
        top.press(b'm');
        top.within(limit, bulk)
    });
    let switched = switched.unwrap_or_else(|| panic!("{}", top.screen.line(2)));
    if std::env::var_os("SUCI_TEST_STRICT").is_some() {
        assert!(switched < Duration::from_secs(1), "{switched:?}");
    }
    println!(
        "figure: a switched mode shows after {} ms",
        switched.as_millis()
    );

    top.resize(60, 200);
    let wide = |screen: &Screen| {
        screen.line(1).contains("PROGRAM") && screen.line(59).ends_with("q: quit")
    };
    assert!(top.until(wide).is_some(), "{:?}", top.screen.line(1));
    top.press(b'q');
    top.assert_restored();
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let (_running, pid) = traffic();
    let mut top = Top::start(&pid, 24, 80);
    assert!(
        top.until(|screen| screen.line(0).starts_with("suci top"))
            .is_some()
    );
    let child = rustix::process::Pid::from_child(&top.child.0);
    rustix::process::kill_process(child, rustix::process::Signal::TERM).unwrap();
    top.assert_restored();
}

#[test]
fn it_ends_with_its_terminal() {
    let (_running, pid) = traffic();
    ends_with_its_terminal(&pid, "");
    ends_with_its_terminal(&pid, "trap '' HUP;");
}

fn ends_with_its_terminal(pid: &str, before: &str) {
    let (mut terminal, inside) = terminal();
    resize(&terminal, 24, 80);
    let mut child = spawn(pid, &inside, before);
    drop(inside);
    let mut screen = Screen::new();
    while !screen.line(0).starts_with("suci top") {
        let mut ready = [PollFd::new(&terminal, PollFlags::IN)];
        let count = poll(&mut ready, Some(&PATIENCE.try_into().unwrap())).unwrap();
        assert!(count == 1, "it shows nothing");
        let mut piece = [0; 4096];
        let count = terminal.read(&mut piece).unwrap();
        let text = String::from_utf8_lossy(&piece[..count]).into_owned();
        text.chars().for_each(|letter| screen.put(letter));
    }
    drop(terminal);
    let begun = Instant::now();
    while child.0.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it runs on without a terminal");
        std::thread::sleep(Duration::from_millis(50));
    }
}
