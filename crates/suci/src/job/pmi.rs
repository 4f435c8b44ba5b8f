//! PMI-1, the wire protocol of the process managers hydra (MPICH, Intel MPI) and Slurm
//! (`--mpi=pmi2`): lines of `name=value` over a socket that the process inherits (`PMI_FD`) or
//! connects to (`PMI_PORT`). Source: MPICH, `src/pmi/maint/pmi-1.txt`. Servers of PMI-2 speak it,
//! too, to clients that begin with it.
//!
//! The process ends the conversation at once: hydra kills a job whose process ends in the middle of
//! one, and nothing is asked later.

use crate::book::{number, shown};
use crate::sys;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Longest line of a process manager, in bytes. Slurm's values have at most 1,024, and names of
/// key-value spaces 256.
const LONGEST_LINE: usize = 16 << 10;

/// The least length of values that every process manager must take, for which a card is made.
const VALUE: usize = 1_024;

/// Where a process manager listens, and what it calls this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    pub(crate) address: String,
    pub(crate) id: String,
}

/// A conversation with the process manager.
pub(crate) struct Pmi {
    wire: File,
    /// Bytes that were read and not used yet.
    begun: Vec<u8>,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

/// The words of a line.
struct PmiAnswer(String);

impl PmiAnswer {
    fn get(&self, name: &str) -> Option<&str> {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        words
            .find(|(word, _)| *word == name)
            .map(|(_, value)| value)
    }
}

impl Pmi {
    /// Takes the descriptor that the process manager opened for this process.
    pub(crate) fn inherit(fd: RawFd, rank: u32, size: u32, until: Instant) -> Result<Self, String> {
        if fd < 3 || !sys::is_open(fd) {
            return Err(format!(
                "PMI_FD={fd}: nothing is open there: only the process that the launcher started \
                 has it"
            ));
        }
        sys::close_on_exec(fd).map_err(|error| format!("PMI_FD={fd}: {error}"))?;
        // SAFETY: `fd` is open. The process manager opened it for this process and named it by the
        // variable alone, which the caller acts upon once: nothing else in the process owns it.
        let wire = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut pmi = Self::over(wire.into(), rank, size);
        pmi.begin(until)?;
        Ok(pmi)
    }

    /// Connects to the process manager, which tells rank and size.
    pub(crate) fn connect(port: &Port, until: Instant) -> Result<Self, String> {
        let Port { address, id } = port;
        let fail = |error: io::Error| {
            format!(
                "PMI_PORT={}: {error}: start the program by the launcher",
                shown(address)
            )
        };
        let mut tried = Err(io::Error::from(ErrorKind::AddrNotAvailable));
        for at in address.to_socket_addrs().map_err(fail)? {
            tried = TcpStream::connect_timeout(&at, left(until).map_err(fail)?);
            if tried.is_ok() {
                break;
            }
        }
        let stream: OwnedFd = tried.map_err(fail)?.into();
        let mut pmi = Self::over(stream.into(), 0, 0);
        pmi.say(&format!("cmd=initack pmiid={id}"), until)?;
        pmi.hear("initack", until)?;
        // The manager then sets size, rank and debug, by one line for each.
        let (mut rank, mut size, mut debug) = (None, None, None);
        while rank.is_none() || size.is_none() || debug.is_none() {
            let answer = pmi.hear("set", until)?;
            for (name, slot) in [
                ("rank", &mut rank),
                ("size", &mut size),
                ("debug", &mut debug),
            ] {
                if let Some(text) = answer.get(name) {
                    *slot = Some(number(text).ok_or_else(|| garbled(&answer.0))?);
                }
            }
        }
        (pmi.rank, pmi.size) = (rank.unwrap_or(0), size.unwrap_or(0));
        if pmi.rank >= pmi.size {
            let Self { rank, size, .. } = pmi;
            return Err(format!(
                "the process manager gave rank {rank} of {size} processes"
            ));
        }
        pmi.begin(until)?;
        Ok(pmi)
    }

    fn over(wire: File, rank: u32, size: u32) -> Self {
        let begun = Vec::new();
        Self {
            wire,
            begun,
            rank,
            size,
        }
    }

    fn begin(&mut self, until: Instant) -> Result<(), String> {
        self.ask(
            "init pmi_version=1 pmi_subversion=1",
            "response_to_init",
            until,
        )?;
        Ok(())
    }

    /// Puts this process's `value`, waits for all processes, and gets the values of all, by rank.
    /// Then ends the conversation.
    pub(crate) fn exchange(mut self, value: &str, until: Instant) -> Result<Vec<String>, String> {
        if value.len() >= VALUE {
            return Err(format!(
                "{} bytes are more than PMI carries ({VALUE}): listen at one address (listen)",
                value.len()
            ));
        }
        let space = self.ask("get_my_kvsname", "my_kvsname", until)?;
        let space = space
            .get("kvsname")
            .ok_or_else(|| garbled(&space.0))?
            .to_owned();
        let own = self.rank;
        let put = format!("put kvsname={space} key=suci-{own} value={value}");
        self.ask(&put, "put_result", until)?;
        self.ask("barrier_in", "barrier_out", until)
            .map_err(|problem| format!("waiting for the other processes: {problem}"))?;
        let mut values = Vec::new();
        for rank in 0..self.size {
            let get = format!("get kvsname={space} key=suci-{rank}");
            let answer = self.ask(&get, "get_result", until).map_err(|problem| {
                format!("process {rank} of {} has no node: {problem}", self.size)
            })?;
            values.push(
                answer
                    .get("value")
                    .ok_or_else(|| garbled(&answer.0))?
                    .to_owned(),
            );
        }
        self.ask("finalize", "finalize_ack", until)?;
        Ok(values)
    }

    /// Says a command and returns the answer, which must be `expected` and no failure.
    fn ask(&mut self, command: &str, expected: &str, until: Instant) -> Result<PmiAnswer, String> {
        self.say(&format!("cmd={command}"), until)?;
        self.hear(expected, until)
    }

    fn say(&mut self, line: &str, until: Instant) -> Result<(), String> {
        let mut line = line.to_owned();
        line.push('\n');
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            self.await_ready(libc::POLLOUT, until)?;
            match self.wire.write(rest) {
                Ok(0) => return Err(GONE.to_owned()),
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(format!("{GONE} ({error})")),
            }
        }
        Ok(())
    }

    /// Reads the next line, which must be the answer `expected`.
    fn hear(&mut self, expected: &str, until: Instant) -> Result<PmiAnswer, String> {
        let answer = PmiAnswer(self.line(until)?);
        if answer.get("cmd") != Some(expected) {
            return Err(format!("{} (expected cmd={expected})", garbled(&answer.0)));
        }
        match answer.get("rc") {
            None | Some("0") => Ok(answer),
            Some(code) => {
                let mut text = format!("the process manager refused, rc={}", shown(code));
                if let Some(reason) = answer.get("msg") {
                    // Writing into a string cannot fail.
                    let _ = write!(text, " ({})", shown(reason));
                }
                Err(text)
            }
        }
    }

    fn line(&mut self, until: Instant) -> Result<String, String> {
        loop {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let rest = self.begun.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.begun, rest);
                line.pop();
                return String::from_utf8(line)
                    .map_err(|error| garbled(&String::from_utf8_lossy(error.as_bytes())));
            }
            if self.begun.len() > LONGEST_LINE {
                return Err(garbled(&String::from_utf8_lossy(&self.begun)));
            }
            self.await_ready(libc::POLLIN, until)?;
            let mut buffer = [0; 4_096];
            match self.wire.read(&mut buffer) {
                Ok(0) => return Err(GONE.to_owned()),
                Ok(count) => self
                    .begun
                    .extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(format!("{GONE} ({error})")),
            }
        }
    }

    /// Sleeps until the wire is ready for `events`, or broken.
    fn await_ready(&self, events: i16, until: Instant) -> Result<(), String> {
        loop {
            let left = left(until).map_err(|_| SILENT.to_owned())?;
            let ready = sys::await_events(self.wire.as_raw_fd(), events, left);
            match ready {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(format!("waiting for the process manager: {error}")),
            }
        }
    }
}

const GONE: &str = "the process manager closed the connection: look for its own message";

const SILENT: &str = "no answer in time: see whether all processes run and come to open their node, \
    or allow more seconds (SUCI_LAUNCH_TIMEOUT)";

/// The time that is left; an error if none is.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

fn garbled(line: &str) -> String {
    format!(
        "the process manager answered \"{}\", which PMI-1 does not have there",
        shown(line)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::os::fd::IntoRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::{Arc, Barrier, Mutex};

    fn soon(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    /// The values that processes put.
    type Store = Arc<(Mutex<Vec<(String, String)>>, Barrier)>;

    fn store(size: usize) -> Store {
        Arc::new((Mutex::default(), Barrier::new(size)))
    }

    /// Serves one process as hydra does.
    fn serve(stream: impl Read + Write, store: &Store) -> Vec<String> {
        let mut stream = BufReader::new(stream);
        let mut heard = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return heard;
            }
            let asked = PmiAnswer(line.trim().to_owned());
            let word = |name| asked.get(name).unwrap_or_default().to_owned();
            let answer = match asked.get("cmd").unwrap() {
                "init" => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2".to_owned(),
                "get_my_kvsname" => "cmd=my_kvsname rc=0 kvsname=kvs_1".to_owned(),
                "put" => {
                    assert_eq!(word("kvsname"), "kvs_1");
                    store.0.lock().unwrap().push((word("key"), word("value")));
                    "cmd=put_result rc=0".to_owned()
                }
                "barrier_in" => {
                    store.1.wait();
                    "cmd=barrier_out tag=0".to_owned()
                }
                "get" => {
                    let all = store.0.lock().unwrap();
                    match all.iter().find(|(key, _)| *key == word("key")) {
                        Some((_, value)) => format!("cmd=get_result rc=0 value={value}"),
                        None => "cmd=get_result rc=1 msg=key_not_found".to_owned(),
                    }
                }
                "finalize" => "cmd=finalize_ack rc=0".to_owned(),
                other => panic!("{other}"),
            };
            heard.push(asked.0);
            stream
                .get_mut()
                .write_all(format!("{answer}\n").as_bytes())
                .unwrap();
        }
    }

    #[test]
    fn processes_learn_the_values_of_all_over_inherited_descriptors() {
        let store = store(3);
        let processes: Vec<_> = (0..3)
            .map(|rank| {
                let (own, manager) = UnixStream::pair().unwrap();
                let store = Arc::clone(&store);
                let manager = std::thread::spawn(move || serve(manager, &store));
                let process = std::thread::spawn(move || {
                    let fd = own.into_raw_fd();
                    let pmi = Pmi::inherit(fd, rank, 3, soon(30)).unwrap();
                    pmi.exchange(&format!("at-{rank}"), soon(30)).unwrap()
                });
                (process, manager)
            })
            .collect();
        for (process, manager) in processes {
            assert_eq!(process.join().unwrap(), ["at-0", "at-1", "at-2"]);
            assert_eq!(manager.join().unwrap().last().unwrap(), "cmd=finalize");
        }
    }

    #[test]
    fn a_process_learns_its_rank_at_the_managers_port() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let manager = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, "cmd=initack pmiid=17\n");
            let told = "cmd=initack rc=0\ncmd=set size=1\ncmd=set rank=0\ncmd=set debug=0\n";
            reader.get_mut().write_all(told.as_bytes()).unwrap();
            serve(reader.into_inner(), &store(1));
        });
        let id = "17".to_owned();
        let pmi = Pmi::connect(&Port { address, id }, soon(30)).unwrap();
        assert_eq!((pmi.rank, pmi.size), (0, 1));
        assert_eq!(pmi.exchange("here", soon(30)), Ok(vec!["here".to_owned()]));
        manager.join().unwrap();
    }

    /// Lets a manager answer with `answers`, and returns what the process says to that.
    fn told(answers: Vec<Vec<u8>>, seconds: u64) -> String {
        let (own, manager) = UnixStream::pair().unwrap();
        let manager = std::thread::spawn(move || {
            let mut lines = BufReader::new(manager.try_clone().unwrap());
            let mut to = &manager;
            for answer in answers {
                let mut line = String::new();
                if lines.read_line(&mut line).unwrap_or(0) == 0 || to.write_all(&answer).is_err() {
                    return None;
                }
            }
            // Silent, and open until the process gives up.
            let _ = lines.read_to_end(&mut Vec::new());
            Some(())
        });
        let pmi = Pmi::inherit(own.into_raw_fd(), 0, 2, soon(seconds));
        let said = pmi
            .and_then(|pmi| pmi.exchange("value", soon(seconds)))
            .unwrap_err();
        manager.join().unwrap();
        said
    }

    #[test]
    fn garbled_answers_are_errors_with_their_text_and_never_a_hang() {
        let init = b"cmd=response_to_init rc=0 pmi_version=1\n";
        let space = b"cmd=my_kvsname rc=0 kvsname=k\n";
        let put = b"cmd=put_result rc=0\n";
        let out = b"cmd=barrier_out\n";
        let long = vec![b'x'; 100_000];
        let cases: [(&[&[u8]], &str); 11] = [
            (&[b"\n"], "answered \"\""),
            (
                &[b"cmd=response_to_init rc=-1 pmi_version=2\n"],
                "refused, rc=-1",
            ),
            (&[b"cmd=barrier_out\n"], "expected cmd=response_to_init"),
            (&[b"\xff\xfe\n"], "which PMI-1 does not have there"),
            (&[b"cmd=\x1b[2J\n"], "answered \"cmd=\\u{1b}[2J\""),
            (&[&long], "xxx.. of "),
            (
                &[init, b"cmd=my_kvsname rc=0\n"],
                "answered \"cmd=my_kvsname rc=0\"",
            ),
            (
                &[init, space, b"cmd=put_result rc=1 msg=full\n"],
                "refused, rc=1 (full)",
            ),
            (
                &[init, space, put, b"cmd=get_result\n"],
                "waiting for the other processes: ",
            ),
            (
                &[init, space, put, out, b"cmd=get_result rc=1\n"],
                "process 0 of 2 has no node",
            ),
            (
                &[init, space, put, out, b"cmd=get_result rc=0\n"],
                "answered \"cmd=get_result",
            ),
        ];
        for (answers, part) in cases {
            let answers = answers.iter().map(|it| it.to_vec()).collect();
            let said = told(answers, 30);
            assert!(said.contains(part), "{said}");
            assert!(said.len() < 400 && !said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn silence_is_an_error_after_the_limit() {
        let begun = Instant::now();
        let said = told(vec![b"cmd=response_to_init rc=0\n".to_vec()], 1);
        assert!(said.starts_with("no answer in time"), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_manager_that_is_gone_is_an_error() {
        let (own, manager) = UnixStream::pair().unwrap();
        drop(manager);
        let said = Pmi::inherit(own.into_raw_fd(), 0, 1, soon(30))
            .err()
            .unwrap();
        assert!(said.starts_with("the process manager closed"), "{said}");
        let said = Pmi::inherit(1_000_000, 0, 1, soon(30)).err().unwrap();
        assert!(
            said.starts_with("PMI_FD=1000000: nothing is open there"),
            "{said}"
        );
        let nobody = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        for address in [nobody.to_string(), "no port".to_owned()] {
            let id = "0".to_owned();
            let said = Pmi::connect(&Port { address, id }, soon(30)).err().unwrap();
            assert!(said.starts_with("PMI_PORT="), "{said}");
        }
    }

    #[test]
    fn a_value_that_is_too_long_is_refused_before_it_is_put() {
        let (own, manager) = UnixStream::pair().unwrap();
        let manager = std::thread::spawn(move || serve(manager, &store(1)));
        let pmi = Pmi::inherit(own.into_raw_fd(), 0, 1, soon(30)).unwrap();
        let said = pmi.exchange(&"x".repeat(VALUE), soon(30)).unwrap_err();
        assert!(said.starts_with("1024 bytes are more"), "{said}");
        manager.join().unwrap();
    }
}
