//! The evaluations: programs, methods and axes.

use suci_plot::{Better, Unit};

use super::{Measured, Pace, findings};

/// One way of doing it.
#[derive(Debug)]
pub(crate) struct Method {
    /// Its name for people.
    pub(crate) name: &'static str,
    /// Its name for the program.
    pub(crate) argument: &'static str,
}

const fn method(name: &'static str, argument: &'static str) -> Method {
    Method { name, argument }
}

/// The axes of a plot.
pub(crate) struct Drawn {
    pub(crate) across: (&'static str, Unit),
    pub(crate) up: (&'static str, Unit),
    /// The figures of the tables by those of the plot.
    pub(crate) scale: f64,
    pub(crate) better: Better,
    /// The method whose multiples are shown where all are nearly equal.
    pub(crate) base: &'static str,
}

const fn throughput(across: (&'static str, Unit)) -> Drawn {
    Drawn {
        across,
        up: ("throughput", Unit::BytesPerSecond),
        scale: 1e3,
        better: Better::Higher,
        base: TCP,
    }
}

const fn time(across: &'static str, scale: f64, base: &'static str) -> Drawn {
    Drawn {
        across: (across, Unit::Count),
        up: ("time", Unit::Seconds),
        scale,
        better: Better::Lower,
        base,
    }
}

/// One evaluation of the papers.
pub(crate) struct Evaluation {
    pub(crate) title: &'static str,
    /// The program in `examples/classic`.
    pub(crate) program: &'static str,
    /// A paragraph that describes it.
    pub(crate) about: &'static str,
    pub(crate) nodes: u16,
    pub(crate) methods: &'static [Method],
    /// The columns of its tables.
    pub(crate) across: &'static str,
    pub(crate) up: &'static str,
    /// Whether the horizontal axis of its plots is.
    pub(crate) logarithmic: bool,
    pub(crate) drawn: Drawn,
    /// The program's last argument.
    pub(crate) effort: fn(Pace) -> &'static str,
    /// Writes the paragraph that says what was found.
    pub(crate) finding: fn(&Measured) -> String,
}

/// Names of methods, which findings use, too.
pub(super) const WRITE: &str = "suci write/read";
pub(super) const PACKET: &str = "suci packets";
pub(super) const TCP: &str = "tcp";
pub(super) const EACH: &str = "suci acknowledge each";
pub(super) const END: &str = "suci acknowledge at end";
pub(super) const SUCI: &str = "suci";
pub(super) const TCP_EACH: &str = "tcp, a connection each";
pub(super) const TCP_KEPT: &str = "tcp, kept open";
pub(super) const WINDOW: &str = "suci, window of 50";
pub(super) const ADAPTIVE: &str = "suci, own window";

const THREE: &[Method] = &[
    method(WRITE, "write"),
    method(PACKET, "packet"),
    method(TCP, "tcp"),
];

pub(crate) const EVALUATIONS: &[Evaluation] = &[
    Evaluation {
        title: "Ping-pong",
        program: "pingpong",
        about: "A message goes to another host and comes back. Throughput is its length divided by half the\n\
                round-trip time.",
        nodes: 2,
        methods: THREE,
        across: "message, bytes",
        up: "KB/s",
        logarithmic: true,
        drawn: throughput(("message size", Unit::Bytes)),
        effort: |_| "0.1",
        finding: findings::ping_pong,
    },
    Evaluation {
        title: "Broadcast to 2 receivers",
        program: "broadcast",
        about: "A message goes to two hosts, which answer with an empty one. Throughput counts what arrived\n\
                at both.",
        nodes: 3,
        methods: THREE,
        across: "message, bytes",
        up: "KB/s",
        logarithmic: true,
        drawn: throughput(("message size", Unit::Bytes)),
        effort: |_| "0.1",
        finding: findings::broadcast,
    },
    Evaluation {
        title: "N-data broadcast to 9 receivers",
        program: "ndata",
        about: "N messages of 1,024 bytes go to nine hosts. The time ends when all have acknowledged all (by\n\
                TCP: when the programs have answered).",
        nodes: 10,
        methods: &[
            method(EACH, "each"),
            method(END, "end"),
            method(PACKET, "packet"),
            method(TCP, "tcp"),
        ],
        across: "messages",
        up: "time, ms",
        logarithmic: true,
        drawn: time("messages", 1e-3, TCP),
        effort: |_| "0.25",
        finding: findings::n_data,
    },
    Evaluation {
        title: "N transactions with 8 servers",
        program: "transactions",
        about: "A request of 128 bytes goes to one of eight servers in turn, which replies with 100 KiB; N\n\
                times, one after the other.",
        nodes: 9,
        methods: &[
            method(SUCI, "suci"),
            method(TCP_EACH, "tcp-each"),
            method(TCP_KEPT, "tcp-kept"),
        ],
        across: "transactions",
        up: "time, s",
        logarithmic: true,
        drawn: time("transactions", 1.0, TCP_KEPT),
        effort: |pace| match pace {
            Pace::Mbit10 => "100",
            Pace::Mbit100 | Pace::Unlimited => "1000",
        },
        finding: findings::transactions,
    },
    Evaluation {
        title: "Throughput by write-block size",
        program: "blocks",
        about: "Blocks are written to one host without a pause. The library of the paper fell from 1,206 KB/s\n\
                to 76 KB/s where a block was a little longer than a packet (2,000 bytes).",
        nodes: 2,
        methods: THREE,
        across: "block, bytes",
        up: "KB/s",
        logarithmic: true,
        drawn: throughput(("block size", Unit::Bytes)),
        effort: |_| "0.3",
        finding: findings::blocks,
    },
    Evaluation {
        title: "Bursts into a window of 50 packets",
        program: "burst",
        about: "N packets of 1,400 bytes are written at once, then all acknowledgements are awaited. The\n\
                library of the paper fell to 7 KB/s where N was 100 and its window 50.",
        nodes: 2,
        methods: &[
            method(WINDOW, "window"),
            method(ADAPTIVE, "adaptive"),
            method(TCP, "tcp"),
        ],
        across: "packets written at once",
        up: "KB/s",
        logarithmic: false,
        drawn: throughput(("packets written at once", Unit::Count)),
        effort: |_| "0.3",
        finding: findings::burst,
    },
];
