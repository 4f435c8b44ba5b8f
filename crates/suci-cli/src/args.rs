//! The command line: one definition, from which help, errors, manual pages and completions come.

mod perf;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueHint};
use suci::FaultSpec;

pub(crate) use perf::{MAX_DATA, MAX_SIZE, PerfArgs, Prefer, Rival, Waiting, Workload};

/// Reliable messages between processes through one UDP socket each.
#[derive(Debug, Parser)]
#[command(name = "suci", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  suci run -n 4 ./my-program            four processes that know each other
  suci cat --listen 127.0.0.1:7000 > copy
  suci cat 127.0.0.1:7000 < original    a file from here to there
  suci ping 127.0.0.1:7000              round trips to `suci ping --listen 127.0.0.1:7000`
  suci perf --vs tcp                    how fast, beside TCP, on this machine
  suci top                              what the nodes of this machine do now

`suci COMMAND --help` explains each command. With RUST_LOG=suci=debug in the environment the command
prints to standard error why a connection does not come up.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start processes on this machine that can send to each other at once
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Measure round trips to another node
    #[command(after_help = PING_EXAMPLES)]
    Ping(PingArgs),
    /// Carry bytes from standard input to standard output elsewhere
    #[command(after_help = CAT_EXAMPLES)]
    Cat(CatArgs),
    /// Measure latency, throughput, message rate and broadcast, beside TCP and raw UDP
    #[command(after_help = perf::EXAMPLES)]
    Perf(PerfArgs),
    /// Check messages from all to all, then broadcast a file (a program for `suci run`)
    #[command(after_help = DEMO_EXAMPLES)]
    Demo(DemoArgs),
    /// Print the counters of running nodes
    #[command(after_help = STAT_EXAMPLES)]
    Stat(StatArgs),
    /// Watch running nodes: rates, round trips, and what messages wait for
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopArgs),
    /// Say what this machine offers nodes, and what keeps them from working well
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Say which launcher started this process, and which node it would open
    #[command(after_help = ENV_EXAMPLES)]
    Env(EnvArgs),
    /// Make the key of a cluster, in a new file
    #[command(after_help = KEYGEN_EXAMPLES)]
    Keygen(KeygenArgs),
    /// Compare and change the keys in a file
    #[command(after_help = KEY_EXAMPLES)]
    Key(KeyArgs),
    /// Print what makes a shell complete this command's arguments
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArgs),
    /// Print the manual page of `suci`, or write those of all its commands
    #[command(after_help = MAN_EXAMPLES)]
    Man(ManArgs),
}

impl Command {
    /// Returns the name that begins its error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "suci run",
            Self::Ping(_) => "suci ping",
            Self::Cat(_) => "suci cat",
            Self::Perf(_) => "suci perf",
            Self::Demo(_) => "suci demo",
            Self::Stat(_) => "suci stat",
            Self::Top(_) => "suci top",
            Self::Doctor(_) => "suci doctor",
            Self::Env(_) => "suci env",
            Self::Keygen(_) => "suci keygen",
            Self::Key(_) => "suci key",
            Self::Completions(_) => "suci completions",
            Self::Man(_) => "suci man",
        }
    }

    /// Returns true if it waits for callers that the command line does not name.
    pub(crate) fn listens(&self) -> bool {
        match self {
            Self::Ping(args) => args.listen.is_some(),
            Self::Cat(args) => args.listen.is_some(),
            Self::Perf(args) => args.listen.is_some(),
            _ => false,
        }
    }

    /// Returns true if it writes to standard output, itself or through processes that it starts.
    pub(crate) fn prints(&self) -> bool {
        match self {
            Self::Ping(args) => {
                args.listen.is_none() && (args.target.is_some() || args.book.is_none())
            }
            Self::Cat(args) => args.listen.is_some(),
            Self::Perf(args) => args.listen.is_none(),
            Self::Man(args) => args.dir.is_none(),
            Self::Run(_)
            | Self::Demo(_)
            | Self::Stat(_)
            | Self::Top(_)
            | Self::Doctor(_)
            | Self::Env(_)
            | Self::Keygen(_)
            | Self::Key(_)
            | Self::Completions(_) => true,
        }
    }
}

/// Processes that `suci run` starts at most.
pub(crate) const MAX_PROCESSES: u64 = 4096;

/// The most times that `suci run` starts a process again.
pub(crate) const MAX_RESTARTS: u64 = 1_000;

const RUN_EXAMPLES: &str = "\
Each process finds in its environment SUCI_ID (0 to N-1), SUCI_SIZE (N), SUCI_BOOK (the address
book), SUCI_FD (its UDP socket, bound already) and SUCI_NOTICES (a pipe that tells which of the
others have ended), and SUCI_FAULTS with --faults; the library reads them by itself.

Without --faults, SUCI_SHARED_MEMORY=1 lets one-sided operations between the processes go through
memory that they share; SUCI_SHARED_MEMORY=0 in the environment of suci run keeps it off.

With --address of another network than loopback, messages are encrypted. The processes find their
key through SUCI_KEY_FILE, in memory that they inherit; no file keeps it.

When a process ends, those that talked with it hear it at once: Event::Lost (ProcessDied), unless
the process had closed its node. Event::Ended (ProcessDied) follows if it is not started again. When
one fails and is not started again, those hear it, too, that had not talked with it. So silence
shows nothing: a process that starts late, or is stopped in a debugger, is Event::Quiet, and the
others wait for it.

With --hosts the processes run on other machines: host a has the first, b the next. ssh must reach
each host without a question, and find this command there at the same path, or --copy brings it.
Every process starts in this directory, has the variables of this environment that begin with SUCI_,
and no standard input. Messages are encrypted by a key that is made for the run and goes through
ssh. Lines of output have the process's number in front. A host that ssh loses counts as the failure
of all its processes; processes whose launcher is lost are killed. Processes that start again do so
on their host.

The exit status is that of the process that failed first and was not started again, 128 + n if
signal n killed it. With --tolerate-failures it is the number of processes that failed and were
not started again, 101 if more than 100; a line names them. A failure is an exit status other
than 0, or a signal; each is reported as it happens.

INT, TERM and HUP are passed on, and nothing is started again after that; a second INT kills. No
process that it started outlives the launcher; those that they start themselves may.

Examples:
  suci run -n 4 ./my-program --its --options
  suci run -n 4 --tag-output --kill-on-failure -- ./my-program
  suci run -n 4 --restart=5 --tolerate-failures ./my-program
  suci run -n 4 --faults loss=0.05,reorder=0.1,seed=7 ./my-program
  suci run --hosts a:4,b:4 ./my-program
  suci run --host-file hosts --ssh \"ssh -p 2222\" --copy ./my-program
  suci run -n 2 suci ping --count 5";

/// The arguments of `suci run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// How many processes; with hosts, as many as these take by default
    #[arg(short = 'n', long = "processes", value_name = "N",
          required_unless_present_any = ["hosts", "host_file", "agent"],
          value_parser = whole::<u32>(1, MAX_PROCESSES), allow_negative_numbers = true)]
    pub(crate) processes: Option<u32>,
    #[command(flatten)]
    pub(crate) hosts: HostArgs,
    /// Put the number of the process in front of each line it prints
    #[arg(long)]
    pub(crate) tag_output: bool,
    /// Kill all when one fails and is not started again
    #[arg(long)]
    pub(crate) kill_on_failure: bool,
    /// Start each process that fails again, with the same ID and address, up to N times
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "3",
          value_parser = whole::<u32>(1, MAX_RESTARTS), allow_negative_numbers = true)]
    pub(crate) restart: Option<u32>,
    /// Exit with the number of processes that failed, 0 if none did: for programs that go on
    /// without them
    #[arg(long, conflicts_with = "kill_on_failure")]
    pub(crate) tolerate_failures: bool,
    /// Listen at this address of the machine; all but those of loopback get a key of their own for
    /// this run, unless SUCI_KEY_FILE names one
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = own_address)]
    pub(crate) address: IpAddr,
    /// Make no key, and hide those that the environment names: nothing is encrypted. At an address
    /// beyond loopback the programs must allow that themselves
    #[arg(long)]
    pub(crate) plain: bool,
    /// Lose, repeat, reorder, corrupt or delay packets that the processes send, for tests:
    /// loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,delay=5ms,seed=7 (each adds its number to the
    /// seed)
    #[arg(long, value_name = "SPEC", value_parser = |text: &str| faults(text).map(|_| text.to_owned()))]
    pub(crate) faults: Option<String>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "agent",
        trailing_var_arg = true,
        value_name = "PROGRAM",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub(crate) program: Vec<std::ffi::OsString>,
    /// Started for another command, whose processes say themselves why they fail
    #[arg(skip)]
    pub(crate) explained: bool,
    /// Started for another command, whose processes listen with TCP at their addresses, too
    #[arg(skip)]
    pub(crate) keeps_tcp_ports: bool,
}

/// Where `suci run` starts processes, if not on this machine.
#[derive(Debug, Default, Args)]
pub(crate) struct HostArgs {
    /// Start the processes on these hosts by ssh, as many on each as stands behind the colon
    #[arg(long, value_name = "HOST[:N]", value_delimiter = ',',
          conflicts_with_all = ["host_file", "address"])]
    pub(crate) hosts: Vec<String>,
    /// The same from a file: a host in each line, and how many (HOST, HOST N, HOST slots=N)
    #[arg(long, value_name = "FILE", conflicts_with = "address", value_hint = ValueHint::FilePath)]
    pub(crate) host_file: Option<PathBuf>,
    /// The command that reaches hosts, with its options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub(crate) ssh: String,
    /// Copy this command, and the program if it is a file, to each host first (~/.cache/suci)
    #[arg(long)]
    pub(crate) copy: bool,
    /// The part of suci run on a host; another one writes to its standard input
    #[arg(long, hide = true)]
    pub(crate) agent: bool,
}

const PING_EXAMPLES: &str = "\
Exit status 0 means that every round trip was answered in time.

Examples:
  suci ping --listen 127.0.0.1:7000          answer, until interrupted
  suci ping --listen 127.0.0.1:7000 -c 1     answer once
  suci ping 127.0.0.1:7000 --count 100       from another terminal
  suci ping --book cluster.txt --id 3        answer as node 3 of the book
  suci ping --book cluster.txt --id 0 3      from node 0 to node 3
  suci ping --book cluster.txt --id 2 --forward        answer, and forward to nodes \"via 2\"
  suci run -n 2 suci ping --count 5          node 0 pings, the others answer
  suci ping --listen 127.0.0.1:7000 --metrics 9464     counters at http://127.0.0.1:9464/metrics";

/// The arguments of `suci ping`.
#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    /// Peer to ping: address:port, or with a book a node ID
    pub(crate) target: Option<String>,
    /// Answer at this address, until interrupted or until --count was answered
    #[arg(long, value_name = "ADDR", value_parser = own, conflicts_with_all = ["target", "book"])]
    pub(crate) listen: Option<SocketAddr>,
    /// The address book: lines of `id address:port`
    #[arg(long, value_name = "FILE", requires = "id")]
    pub(crate) book: Option<PathBuf>,
    /// ID of this process in the book
    #[arg(long, requires = "book", value_parser = whole::<u32>(0, u32::MAX.into()), allow_negative_numbers = true)]
    pub(crate) id: Option<u32>,
    /// While answering, send on the packets of nodes that reach each other through this one
    #[arg(long, conflicts_with = "target")]
    pub(crate) forward: bool,
    /// How many round trips; default: 10, while answering no end
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>(1, u64::MAX), allow_negative_numbers = true)]
    pub(crate) count: Option<u64>,
    /// Payload of each message
    #[arg(short, long, default_value_t = 64, value_name = "BYTES", value_parser = perf::size, conflicts_with = "listen", allow_negative_numbers = true)]
    pub(crate) size: usize,
    /// Pause between round trips; 0: none
    #[arg(short, long, default_value = "0.2", value_name = "SECONDS", value_parser = seconds, conflicts_with = "listen", allow_negative_numbers = true)]
    pub(crate) interval: Duration,
    /// One JSON object instead of text
    #[arg(long, conflicts_with = "listen")]
    pub(crate) json: bool,
    /// How long to wait for an answer
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = patience, conflicts_with = "listen", allow_negative_numbers = true)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

const CAT_EXAMPLES: &str = "\
Exit status 0 at both ends means that everything was written out by the receiver.

Examples:
  suci cat --listen 127.0.0.1:7000 > copy
  suci cat 127.0.0.1:7000 < original
  tar c dir | suci cat --key-file cluster.key 192.0.2.7:7000
  suci cat --faults loss=0.05,seed=7 127.0.0.1:7000 < original";

/// The arguments of `suci cat`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("end").args(["to", "listen"]).required(true)))]
pub(crate) struct CatArgs {
    /// Send standard input there
    #[arg(value_name = "ADDR", value_parser = target)]
    pub(crate) to: Option<Target>,
    /// Receive here, from the first that sends, to standard output
    #[arg(long, value_name = "ADDR", value_parser = own)]
    pub(crate) listen: Option<SocketAddr>,
    /// Time within which the peer at ADDR must answer; --listen waits for ever
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = patience, conflicts_with = "listen", allow_negative_numbers = true)]
    pub(crate) connect_timeout: Duration,
    /// How much silence makes the other side count as gone
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = patience, allow_negative_numbers = true)]
    pub(crate) give_up_after: Duration,
    /// Never show progress (it is shown on a terminal only)
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  suci run -n 4 suci demo
  suci run -n 4 suci demo --file big.iso --into /tmp/copies";

/// The arguments of `suci demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Messages from each to each
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300,
        value_parser = whole::<u64>(0, u64::MAX),
        allow_negative_numbers = true
    )]
    pub(crate) messages: u64,
    /// A file that node 0 broadcasts to the others
    #[arg(long, requires = "into")]
    pub(crate) file: Option<PathBuf>,
    /// Directory in which node N writes its copy, as `copy-N`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) node: NodeArgs,
}

const STAT_EXAMPLES: &str = "\
Nodes of this user's processes are found by themselves (root sees all), unless their programs
turned statistics off. Counts are since a node was opened. The state \"held\" is up, but suspended
by either side; \"mode\" is how traffic to a peer flows (adapt: adaptive, bulk: throughput, quick:
response), m and B are messages and bytes. \"waited\" is how long messages to a peer waited and for
what most of that: link (not up), suspended, congestion, pacing, socket_credit, session_memory,
channel_memory (the receiver's program is slow), answer (to the request to send a large message),
controller, cap, socket (this machine's). In --json, names that end in _ns are nanoseconds;
docs/statistics.md explains each.

Examples:
  suci stat                          all nodes of this user
  suci stat 4711                     those of one process
  suci stat --json | jq '.nodes[].peers[].rtt_ns'
  suci stat 4711 --watch 1           again every second";

/// The arguments of `suci stat`.
#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// The process; default: all that can be seen
    #[arg(value_parser = process, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,
    /// One JSON object per look instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Again every so many seconds, at least 0.05; of one process until it is gone
    #[arg(long, value_name = "SECONDS", value_parser = pause, allow_negative_numbers = true)]
    pub(crate) watch: Option<Duration>,
}

const DOCTOR_EXAMPLES: &str = "\
Each line begins with good, poor (it works, but not well: the line says what mends it), absent (nodes
do without) or broken (no node can work; the exit status is then 1).

Examples:
  suci doctor
  suci doctor --json | jq -r '.findings[] | select(.state == \"poor\") | .text'";

/// The arguments of `suci doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

const ENV_EXAMPLES: &str = "\
Start it in the place of a program, by the same launcher and with as many processes. Each prints the
launchers that a program looks for, in this order, with their variables: used, there (an earlier one
counts), broken (what is missing or wrong, and the remedy) or absent. Then it opens the node that a
program would, and prints its number, its address and all others; or why no node can be opened, and
the exit status is 1.

Examples:
  suci run -n 2 suci env
  srun -n 8 suci env
  mpiexec -n 4 suci env --json | jq -r '.node.id'";

/// The arguments of `suci env`.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

const TOP_EXAMPLES: &str = "\
Keys: j, k, arrows, page keys, g, G: select a peer; s: sort by the next column; m: switch the
mode of traffic to the selected peer (adapt: adaptive, bulk: throughput, quick: response); q: quit.
A mode that is asked for shows as >mode until the node has taken it, which it does with its next
traffic. STATE held: up, but suspended by either side.

Rates are payload of messages in Mbit/s. WAITS FOR is what messages waited for most, and in how
much of the time. More columns appear in a wider terminal.

Examples:
  suci top                           all nodes of this user
  suci top 4711                      those of one process";

/// The arguments of `suci top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The process; default: all that can be seen
    #[arg(value_parser = process, allow_negative_numbers = true)]
    pub(crate) pid: Option<u32>,
}

const KEYGEN_EXAMPLES: &str = "\
The file has one line with the key, for its owner alone to read (mode 600). Whoever has the key can
join the cluster and read its messages. The eight digits at the end of the line are the key's ID: it
shows a damaged key, and is no secret.

With --node the file has the key of one node instead. Every node then needs one, and all of them a
file with the public keys of all, a line for each (suci key public): so no node can pose as another.

Examples:
  suci keygen cluster.key
  suci keygen --node node7.key
  SUCI_KEY_FILE=$PWD/cluster.key suci run -n 4 ./my-program
  suci key show cluster.key              its ID, to compare machines";

/// The arguments of `suci keygen`.
#[derive(Debug, Args)]
pub(crate) struct KeygenArgs {
    /// Make the key of one node, not that of a cluster
    #[arg(long)]
    pub(crate) node: bool,
    /// The file to make; it must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

const KEY_EXAMPLES: &str = "\
A file holds one key, or two while a cluster changes from one to the other. Nodes use the first key
and accept the second one, too. Running nodes notice a changed file within seconds.

To change the key of a running cluster: rotate the file, copy it to each machine, retire the older
key once all have it, and copy the file again. No message is lost.

A file with the key of one node works alike. Its public line, which `suci key public` prints, goes to
the file of public keys of every node: SUCI_NODE_KEY_FILE and SUCI_PUBLIC_KEYS_FILE name both. Words
behind a line name the layers that the node may use, if not all: messages, groups, active,
one-sided, membership, sockets, routes, matching; or \"nothing\".

Commands take these variables, too, where a node has an ID: under suci run, and suci ping --book.

Examples:
  suci key show cluster.key
  suci key rotate cluster.key
  suci key retire cluster.key
  suci key public --id 7 node7.key >> public.keys
  export SUCI_PUBLIC_KEYS_FILE=public.keys
  suci run -n 2 sh -c 'SUCI_NODE_KEY_FILE=node$SUCI_ID.key suci perf'";

/// The arguments of `suci key`.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    pub(crate) action: KeyAction,
}

/// The operation of `suci key` on a file.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Print the IDs of the file's keys, which are no secrets
    Show {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the lines of a node's key for the files of public keys; they are no secret
    Public {
        /// The ID of the node
        #[arg(long, value_name = "NODE")]
        id: u32,
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Put a new key in front of the file's key, which stays accepted
    Rotate {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Drop the second, older key of the file
    Retire {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
A shell that is started afterwards completes commands and options; bash, fish and zsh also values.

Examples:
  suci completions bash > ~/.local/share/bash-completion/completions/suci
  suci completions zsh > ~/.zfunc/_suci      where $fpath names ~/.zfunc
  suci completions fish > ~/.config/fish/completions/suci.fish
  suci completions elvish >> ~/.config/elvish/rc.elv
  suci completions powershell >> $PROFILE";

/// The arguments of `suci completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

const MAN_EXAMPLES: &str = "\
A page says what --help says. Those in DIR are suci.1 and, for each command, suci-COMMAND.1; older
ones are replaced. `manpath` prints where man looks: share/man beside each bin of PATH, for one.

Examples:
  suci man | man -l -                           read it without installing it
  suci man /usr/local/share/man/man1            as root; then: man suci, man suci-perf
  suci man ~/.cargo/share/man/man1              beside ~/.cargo/bin";

/// The arguments of `suci man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this directory, which must exist
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// The arguments of every command that opens a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// Allow a node without a key beyond loopback: it finds accidents, not attackers
    #[arg(long)]
    pub(crate) plain: bool,
    /// Seal everything under the cluster's key in this file, which `suci keygen` makes; default:
    /// SUCI_KEY_FILE, else no key
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "plain")]
    pub(crate) key_file: Option<PathBuf>,
    /// Lose, repeat, reorder, corrupt or delay packets that are sent, for tests:
    /// loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,delay=5ms,seed=7
    #[arg(long, value_name = "SPEC", value_parser = faults)]
    pub(crate) faults: Option<FaultSpec>,
    /// Serve the node's counters to Prometheus at http://ADDR/metrics; a port alone is one of
    /// 127.0.0.1
    #[arg(long, value_name = "ADDR", value_parser = metrics)]
    pub(crate) metrics: Option<SocketAddr>,
}

/// Faults, at least one: an empty variable in a script would make a test of nothing.
fn faults(text: &str) -> Result<FaultSpec, String> {
    if text.trim_matches([' ', ',']).is_empty() {
        return Err("name at least one fault, as in loss=0.05".to_owned());
    }
    let spec = text.parse::<FaultSpec>();
    spec.map_err(|error| error.to_string())
}

/// Returns an address at which one host can listen.
fn own_address(text: &str) -> Result<IpAddr, String> {
    let address = match text.parse() {
        Ok(address) => address,
        Err(_) => {
            let found = (text, 0).to_socket_addrs();
            let found = found.map(|found| found.map(unmapped).collect()).ok();
            let found = found.and_then(|found: Vec<_>| of_this_machine(&found));
            let found = found.map(|address| address.ip());
            found.ok_or_else(|| {
                "write an IP address of this machine, as in 192.0.2.7, or its name".to_owned()
            })?
        }
    };
    if address.is_unspecified() || address.is_multicast() {
        return Err("name one address, at which the processes reach each other".to_owned());
    }
    Ok(address.to_canonical())
}

/// Returns an address, or a port of loopback.
fn metrics(text: &str) -> Result<SocketAddr, String> {
    let address = match text.trim_start_matches(':').parse() {
        Ok(port) => SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, port)),
        Err(_) => own(text)?,
    };
    if address.port() == 0 {
        return Err("name a port other than 0: nobody would know which one was taken".to_owned());
    }
    Ok(address)
}

/// The addresses of one host, at least one: the one that was written, or those of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target(Vec<SocketAddr>);

impl Target {
    /// Returns the addresses, in the order in which the system prefers them.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Self {
        Self(vec![address])
    }
}

/// Returns the address at which this machine can listen.
pub(crate) fn own(text: &str) -> Result<SocketAddr, String> {
    let Target(all) = target(text)?;
    of_this_machine(&all).ok_or_else(|| "the name has no address".to_owned())
}

/// Returns the first of the addresses of a name that this machine has. If it has none, the first
/// one, for the error of listening there.
fn of_this_machine(all: &[SocketAddr]) -> Option<SocketAddr> {
    let is_here = |address: &&SocketAddr| {
        let mut any_port = **address;
        any_port.set_port(0);
        UdpSocket::bind(any_port).is_ok()
    };
    let here = all.iter().filter(|_| all.len() > 1).find(is_here);
    here.or_else(|| all.first()).copied()
}

pub(crate) fn target(text: &str) -> Result<Target, String> {
    let remedy = "write address:port, as in 127.0.0.1:7000, [::1]:7000 or name:7000";
    let has_port = match text.rsplit_once(']') {
        Some((_, port)) => port.starts_with(':'),
        None => text.contains(':'),
    };
    if !has_port {
        return Err(format!("the port is missing; {remedy}"));
    }
    if let Ok(address) = text.parse() {
        return Ok(unmapped(address).into());
    }
    // The system knows zones that are names, but no brackets.
    let found = match text.contains('%') {
        true => text.replace(['[', ']'], "").to_socket_addrs(),
        false => text.to_socket_addrs(),
    };
    match found {
        Ok(found) => {
            let mut all: Vec<_> = found.map(unmapped).collect();
            let mut seen = BTreeSet::new();
            all.retain(|address| seen.insert(*address));
            match all.is_empty() {
                true => Err(format!("the name has no address; {remedy}")),
                false => Ok(Target(all)),
            }
        }
        Err(_) if text.contains('%') => Err(format!(
            "no such interface here, which `ip link` lists, or no such address; {remedy}"
        )),
        Err(error) => Err(format!("{error}; check the name, or {remedy}")),
    }
}

/// Returns a whole number within bounds.
fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bad = || match most {
            u64::MAX => format!("write a whole number from {least}"),
            most => format!("write a whole number from {least} to {most}"),
        };
        // `parse` takes a sign as well.
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits).ok_or_else(bad)?;
        if !(least..=most).contains(&number) {
            return Err(bad());
        }
        T::try_from(number).map_err(|_| bad())
    }
}

/// Returns the number of a process, rather than its name.
fn process(text: &str) -> Result<u32, String> {
    let remedy = "write the number of a process, as in 4711; without one all are shown";
    whole(1, u32::MAX.into())(text).map_err(|_| remedy.to_owned())
}

/// Returns an IPv4 address that was written as IPv6, as IPv4: a socket of that family reaches it.
fn unmapped(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let bad = || format!("write seconds from 0 to {MAX_SECONDS}, as in 0.5");
    let seconds: f64 = text.parse().map_err(|_| bad())?;
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(bad());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

fn seconds_from(least: f64, text: &str) -> Result<Duration, String> {
    let bad = |_| format!("write seconds from {least} to {MAX_SECONDS}, as in 0.5");
    let time = seconds(text).map_err(bad)?;
    (time.as_secs_f64() >= least)
        .then_some(time)
        .ok_or_else(|| bad(String::new()))
}

/// Seconds between two looks. Nodes publish ten times a second: looking much more often shows
/// nothing new, and without a pause costs a processor.
fn pause(text: &str) -> Result<Duration, String> {
    seconds_from(SHORTEST_PAUSE, text)
}

/// Seconds in which something must be able to happen: in none at all nothing can be measured or
/// answered.
fn patience(text: &str) -> Result<Duration, String> {
    seconds_from(SHORTEST_PATIENCE, text)
}

const SHORTEST_PAUSE: f64 = 0.05;

const SHORTEST_PATIENCE: f64 = 0.001;

/// A day: longer than any user waits, and far from any overflow.
const MAX_SECONDS: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn options_before_the_program_belong_to_suci_run_and_later_ones_to_the_program() {
        use clap::Parser;
        let run = |line: &str| match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Run(run)) => Ok((run.processes, run.program)),
            Ok(_) => unreachable!("{line}"),
            Err(error) => Err(error.to_string()),
        };
        let program = |words: &[&str]| words.iter().map(std::ffi::OsString::from).collect();
        for line in [
            "suci run -n2 true -v",
            "suci run -n=2 true -v",
            "suci run -n 2 -- true -v",
        ] {
            assert_eq!(run(line), Ok((Some(2), program(&["true", "-v"]))), "{line}");
        }
        for (line, part) in [
            ("suci run -n 2 --tag true", "--tag-output"),
            ("suci run -n x true", "write a whole number from 1 to 4096"),
            ("suci run -n -1 true", "write a whole number from 1 to 4096"),
            ("suci pign", "ping"),
        ] {
            let said = run(line).unwrap_err();
            assert!(said.contains(part), "{line}: {said}");
        }
    }

    #[test]
    fn addresses_that_are_none_are_told_why() {
        for (text, part) in [
            ("127.0.0.1", "the port is missing"),
            ("[::1]", "the port is missing"),
            ("[fe80::1%lo]", "the port is missing"),
            ("[fe80::1%nowhere]:7000", "no such interface here"),
        ] {
            let said = own(text).unwrap_err();
            assert!(said.starts_with(part), "{text}: {said}");
        }
        assert!(own("[fe80::1%lo]:7000").is_ok());
    }

    #[test]
    fn every_command_has_help_with_examples() {
        use clap::CommandFactory;
        let mut cli = Cli::command();
        for command in cli.get_subcommands_mut() {
            let name = command.get_name().to_owned();
            let help = command.render_help().to_string();
            assert!(
                help.contains("Examples:"),
                "suci {name} --help has no examples"
            );
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for bad in ["-1", "nan", "inf", "86401", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        for bad in ["0", "0.049", "-1", "nan", "86401"] {
            assert!(pause(bad).is_err(), "{bad}");
        }
        assert_eq!(pause("0.05"), Ok(Duration::from_millis(50)));
        for bad in ["0", "0.0009", "-1", "nan", "86401"] {
            assert!(patience(bad).is_err(), "{bad}");
        }
        assert_eq!(patience("0.001"), Ok(Duration::from_millis(1)));
        for bad in ["", " ", ",", " , ,"] {
            assert!(faults(bad).is_err(), "{bad:?}");
        }
        assert!(faults("loss=0.1").is_ok());
        for bad in ["0", ":0", "127.0.0.1:0"] {
            assert!(metrics(bad).is_err(), "{bad}");
        }
        let local = metrics("9464").ok();
        assert_eq!(
            (local, metrics(":9464").ok()),
            (own("127.0.0.1:9464").ok(), local)
        );
        assert_eq!(metrics("192.0.2.1:9464"), own("192.0.2.1:9464"));
        assert!(metrics("99999").is_err());
        assert!(own("nowhere").is_err() && own("127.0.0.1").is_err());
        assert_eq!(own("[::ffff:127.0.0.1]:7"), own("127.0.0.1:7"));
        assert_eq!(own("[fe80::1%lo]:7"), own("[fe80::1%1]:7"));
        assert!(own("[fe80::1%none]:7").is_err());
    }
}
