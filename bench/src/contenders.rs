//! The contenders, their tuning, and their limits.

use crate::plan::{Net, SMALL, Task, Wait, Workload};

/// A contender: one way to carry messages.
#[derive(Debug, PartialEq)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The library behind the name, and its tuning.
    pub(crate) what: &'static str,
    pub(crate) program: Program,
    pub(crate) waits: &'static [Wait],
    /// The tasks in which it can take part.
    does: Does,
}

/// The program that is started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Program {
    /// The shipped command.
    Suci {
        batch: bool,
        checksum: bool,
        sealed: bool,
    },
    /// The binary of the crate beside this one.
    Rust,
    /// A C program of contenders/, compiled when it is needed.
    C(&'static Library),
    /// The same, started by mpiexec.
    Mpi(&'static Library),
}

/// The needs of a C program.
#[derive(Debug, PartialEq)]
pub(crate) struct Library {
    /// contenders/SOURCE.c.
    pub(crate) source: &'static str,
    pub(crate) compiler: &'static str,
    pub(crate) link: &'static [&'static str],
    /// A library that Debian does not have.
    pub(crate) bundle: Option<&'static Bundle>,
    /// Debian's packages with its headers and tools.
    pub(crate) packages: &'static str,
}

/// C sources that come with a crate of the lockfile, an optional dependency of the contenders that
/// is never built.
#[derive(Debug, PartialEq)]
pub(crate) struct Bundle {
    pub(crate) package: &'static str,
    /// Directories of the package in which the sources and their headers begin.
    pub(crate) roots: &'static [&'static str],
    /// A source with a `main` of its own.
    pub(crate) without: &'static str,
    pub(crate) flags: &'static [&'static str],
}

/// The tasks that make sense for a contender.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Everything,
    /// Everything between two, where offloads are on or packets are lost.
    Pair,
    /// As `Pair`, and messages from one to several.
    Fan,
    /// Only a bound: the capacity of a network without loss.
    Bound,
    /// As `Bound`, and only between two.
    DatagramBound,
    /// If small messages can be collected: tasks that the variant without batches does as well are
    /// not repeated.
    Small,
    /// Between two, and large messages from one to several: a variant of Suci beside it.
    Variant,
    /// Between two without loss: what encryption costs.
    Sealed,
}

impl Contender {
    /// Whether it is Suci with a key, which takes part in comparisons only where it is named.
    pub(crate) fn is_sealed(&self) -> bool {
        matches!(self.program, Program::Suci { sealed: true, .. })
    }

    /// Whether it takes part.
    pub(crate) fn takes(&self, task: &Task) -> bool {
        let one_way = matches!(task.workload, Workload::Stream | Workload::Rate);
        let lossless = matches!(task.net, Net::Veth | Net::Loopback);
        let in_groups = matches!(task.workload, Workload::Data | Workload::AllToAll);
        let between_two = !in_groups && task.workload != Workload::Broadcast;
        // Only Suci and TCP are compared with offloads and without.
        let is_plain = task.net == Net::VethPlain;
        match self.does {
            Does::Everything => true,
            Does::Pair => between_two && !is_plain,
            Does::Fan => task.workload != Workload::AllToAll && !is_plain,
            Does::Bound => lossless && !in_groups,
            Does::DatagramBound => {
                let is_simple = one_way || task.workload == Workload::PingPong;
                lossless && is_simple && task.size <= 65_536
            }
            Does::Small => {
                let collected = one_way || task.workload == Workload::Mix || task.data > 1;
                collected && task.size <= SMALL && lossless
            }
            Does::Sealed => between_two && lossless,
            Does::Variant => {
                let there_and_back = matches!(task.workload, Workload::PingPong | Workload::Mix);
                task.size > SMALL || there_and_back
            }
        }
    }
}

const ALL: &[Wait] = &[Wait::Adaptive, Wait::Block, Wait::Spin];
const BOTH: &[Wait] = &[Wait::Block, Wait::Spin];
const BLOCK: &[Wait] = &[Wait::Block];
const SPIN: &[Wait] = &[Wait::Spin];

const ZEROMQ: Library = Library {
    source: "zeromq",
    compiler: "gcc",
    link: &["-lzmq"],
    bundle: None,
    packages: "libzmq3-dev",
};

const FABRIC: Library = Library {
    source: "fabric",
    compiler: "gcc",
    link: &["-lfabric"],
    bundle: None,
    packages: "libfabric-dev",
};

const UCX: Library = Library {
    source: "ucx",
    compiler: "gcc",
    link: &["-lucp", "-lucs"],
    bundle: None,
    packages: "libucx-dev",
};

const MPICH: Library = Library {
    source: "mpich",
    compiler: "mpicc.mpich",
    link: &[],
    bundle: None,
    packages: "mpich libmpich-dev",
};

const ENET: Library = Library {
    source: "enet",
    compiler: "gcc",
    link: &["-lenet"],
    bundle: None,
    packages: "libenet-dev",
};

const AERON: Library = Library {
    source: "aeron",
    compiler: "gcc",
    link: &["-rdynamic", "-ldl", "-lm"],
    bundle: Some(&AERON_SOURCES),
    packages: "libc6-dev",
};

/// Compiled as its CMakeLists.txt would for a release on Linux.
const AERON_SOURCES: Bundle = Bundle {
    package: "libaeron-sys",
    roots: &[
        "aeron/aeron-client/src/main/c",
        "aeron/aeron-driver/src/main/c",
    ],
    without: "aeronmd.c",
    flags: &[
        "-std=c11",
        "-O3",
        "-DNDEBUG",
        "-fno-omit-frame-pointer",
        "-D_DEFAULT_SOURCE",
        "-D_FILE_OFFSET_BITS=64",
        "-DDISABLE_BOUNDS_CHECKS",
        "-DHAVE_DEV_URANDOM",
        "-DHAVE_EPOLL",
        "-DHAVE_FALLOCATE",
        "-DHAVE_POLL",
        "-DHAVE_POSIX_FALLOCATE",
        "-DHAVE_POSIX_MEMALIGN",
        "-DHAVE_RECVMMSG",
        "-DHAVE_SENDMMSG",
        "-DHAVE_STRUCT_MMSGHDR",
        "-DAERON_VERSION_TXT=\"\"",
        "-DAERON_VERSION_GITSHA=\"\"",
        "-DAERON_VERSION_MAJOR=0",
        "-DAERON_VERSION_MINOR=0",
        "-DAERON_VERSION_PATCH=0",
    ],
};

/// All contenders, in the order of the tables' first round.
pub(crate) const CONTENDERS: &[Contender] = &[
    Contender {
        name: "suci",
        what: "suci perf, default configuration, each message sent by itself",
        program: Program::Suci {
            batch: false,
            checksum: true,
            sealed: false,
        },
        waits: ALL,
        does: Does::Everything,
    },
    Contender {
        name: "suci-batch",
        what: "the same, small messages collected by the user into batches of 64 KiB (Node::batch)",
        program: Program::Suci {
            batch: true,
            checksum: true,
            sealed: false,
        },
        waits: ALL,
        does: Does::Small,
    },
    Contender {
        name: "suci-no-crc",
        what: "suci without payload CRC",
        program: Program::Suci {
            batch: false,
            checksum: false,
            sealed: false,
        },
        waits: ALL,
        does: Does::Variant,
    },
    Contender {
        name: "suci-batch-no-crc",
        what: "suci-batch without payload CRC",
        program: Program::Suci {
            batch: true,
            checksum: false,
            sealed: false,
        },
        waits: ALL,
        does: Does::Small,
    },
    Contender {
        name: "suci-sealed",
        what: "suci with a cluster key: every packet encrypted",
        program: Program::Suci {
            batch: false,
            checksum: true,
            sealed: true,
        },
        waits: ALL,
        does: Does::Sealed,
    },
    Contender {
        name: "suci-batch-sealed",
        what: "suci-batch with a cluster key",
        program: Program::Suci {
            batch: true,
            checksum: true,
            sealed: true,
        },
        waits: ALL,
        does: Does::Small,
    },
    Contender {
        name: "gso",
        what: "bound: UDP GSO and GRO, 32 B header + 1,440 B, 44 to a train, gathered, 1 MiB of bare credit",
        program: Program::Rust,
        waits: BOTH,
        does: Does::Bound,
    },
    Contender {
        name: "udp",
        what: "raw UDP, one datagram per call, 1,024 datagrams of bare credit, buffers of 4 MiB",
        program: Program::Rust,
        waits: BOTH,
        does: Does::DatagramBound,
    },
    Contender {
        name: "tcp-cubic",
        what: "TCP, NODELAY, default buffers, 4 B of length, one write per message",
        program: Program::Rust,
        waits: BOTH,
        does: Does::Everything,
    },
    Contender {
        name: "tcp-bbr",
        what: "the same with bbr",
        program: Program::Rust,
        waits: BOTH,
        does: Does::Everything,
    },
    Contender {
        name: "tcp-cubic-batch",
        what: "tcp-cubic, small messages collected by the user into writes of 64 KiB",
        program: Program::Rust,
        waits: BOTH,
        does: Does::Small,
    },
    Contender {
        name: "tcp-bbr-batch",
        what: "tcp-bbr, likewise",
        program: Program::Rust,
        waits: BOTH,
        does: Does::Small,
    },
    Contender {
        name: "zeromq",
        what: "ZeroMQ: PUSH/PULL, PAIR where there are answers; HWM 10,000, one I/O thread, which batches",
        program: Program::C(&ZEROMQ),
        waits: BLOCK,
        does: Does::Everything,
    },
    Contender {
        name: "mpich",
        what: "MPICH over TCP (ch4:ucx, UCX_TLS=tcp): MPI_Isend and MPI_Irecv, 64 in flight (16 of 1 MiB)",
        program: Program::Mpi(&MPICH),
        waits: SPIN,
        does: Does::Fan,
    },
    Contender {
        name: "ucx",
        what: "UCX over TCP: tagged messages, 64 in flight (16 of 1 MiB)",
        program: Program::C(&UCX),
        waits: SPIN,
        does: Does::Fan,
    },
    Contender {
        name: "fabric-tcp",
        what: "libfabric tcp;ofi_rxm: RDM, tagged, 64 in flight (16 of 1 MiB)",
        program: Program::C(&FABRIC),
        waits: SPIN,
        does: Does::Fan,
    },
    Contender {
        name: "fabric-udp",
        what: "libfabric udp;ofi_rxd, likewise",
        program: Program::C(&FABRIC),
        waits: SPIN,
        does: Does::Fan,
    },
    Contender {
        name: "enet",
        what: "ENet: reliable packets, throttle off, buffers of 4 MiB",
        program: Program::C(&ENET),
        waits: BLOCK,
        does: Does::Pair,
    },
    Contender {
        name: "aeron",
        what: "Aeron: media driver run by the program's own thread (INVOKER), MTU 1472, 16 packets to a call, window of 1 MiB, buffers of 4 MiB; block backs off up to 1 ms",
        program: Program::C(&AERON),
        waits: BOTH,
        does: Does::Everything,
    },
    Contender {
        name: "quinn",
        what: "quinn (QUIC, encrypted): one stream, 8 MiB windows, one write per message",
        program: Program::Rust,
        waits: BLOCK,
        does: Does::Everything,
    },
    Contender {
        name: "quinn-batch",
        what: "the same, small messages collected by the user into writes of 64 KiB",
        program: Program::Rust,
        waits: BLOCK,
        does: Does::Small,
    },
    Contender {
        name: "tls",
        what: "rustls (TLS 1.3, AES-128-GCM) over TCP CUBIC, NODELAY, one write per message",
        program: Program::Rust,
        waits: BLOCK,
        does: Does::Sealed,
    },
    Contender {
        name: "kcp",
        what: "KCP: nodelay, resend 2, no congestion window, windows of 1,024 packets",
        program: Program::Rust,
        waits: BLOCK,
        does: Does::Pair,
    },
];
