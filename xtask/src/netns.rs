//! Network namespaces: two or more hosts on one machine, with a cable between them whose rate,
//! loss and size we choose. Used by `cargo xtask show` and by tests across processes.
//!
//! Everything made here is removed by `Drop`, on SIGINT, SIGTERM and SIGHUP, and, should the
//! process have been killed outright, by the next process that makes a namespace. Nothing is
//! changed outside the namespaces. Needs root: a test that cannot run is a failure, not a skip.
//!
//! ```no_run
//! use xtask::netns::Pair;
//! let pair = Pair::new()?;
//! pair.offloads_off()?;
//! pair.drop_randomly(0.02)?;
//! let mut server = pair.b.command("suci");
//! server.args(["cat", "--listen", &format!("{}:7000", pair.b_addr())]);
//! # Ok::<(), xtask::Failure>(())
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Context, Failure, Result};
use crate::{exec, signals};

/// Directory in which `ip netns add` puts names.
const NAMES: &str = "/run/netns";

/// Every namespace of ours is called `suci-PID-NUMBER`, so that a later process can tell whose
/// maker is gone.
const PREFIX: &str = "suci-";

/// The interface inside each namespace.
pub const INTERFACE: &str = "eth0";

/// The MTU of the cable, in bytes, until [`Pair::mtu`] changes it.
pub const MTU: u32 = 1500;

/// One network namespace with a working loopback interface.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// A new namespace.
    ///
    /// # Errors
    /// Not root, `ip` is missing, or the kernel refuses.
    pub fn new() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            let why = "network namespaces need root: run as root, or under `unshare -Urn --mount`";
            return Err(Failure::new(why));
        }
        remove_abandoned();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let netns = Self {
            name: format!("{PREFIX}{}-{number}", std::process::id()),
        };
        signals::remember_namespace(&netns.name)?;
        ip(&["netns", "add", &netns.name])?;
        netns.ip(&["link", "set", "lo", "up"])?;
        // No link-local addresses, router solicitations or duplicate detection: unasked packets
        // disturb counting, and an address under detection cannot be used.
        let quiet = ["addr_gen_mode=1", "accept_dad=0", "router_solicitations=0"];
        for setting in quiet {
            let setting = format!("net.ipv6.conf.default.{setting}");
            netns.run(&["sysctl", "-q", "-w", &setting])?;
        }
        Ok(netns)
    }

    /// The name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `program`, to be run in here. Its pid is the program's own: `ip` replaces itself.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs a command line in here to its end and returns its standard output.
    ///
    /// # Errors
    /// The program cannot be started or ends unsuccessfully.
    pub fn run(&self, line: &[&str]) -> Result<String> {
        let (program, args) = line.split_first().context("an empty command line")?;
        let ran = exec::capture(self.command(program).args(args));
        ran.map_err(|error| {
            // The error text of `ip`.
            let missing = format!("exec of \"{program}\" failed: No such file");
            match error.to_string() {
                said if said.contains(&missing) => {
                    Failure::new(format!("{said}; `make setup-host` installs what is needed"))
                }
                _ => error,
            }
        })
    }

    /// Runs `work` on a thread in here. Sockets that it opens stay in here after it returned.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `work` panics.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let file = File::open(Path::new(NAMES).join(&self.name)).context(&self.name)?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                // SAFETY: the descriptor is open; only this thread, which ends with `work`, moves.
                if unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) } != 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(work())
            });
            let done = thread
                .join()
                .map_err(|_| Failure::new("panicked inside a namespace"))?;
            done.context(format!("entering {}", self.name))
        })
    }

    fn ip(&self, args: &[&str]) -> Result<String> {
        ip(&[&["-n", &self.name], args].concat())
    }

    /// Drops arriving packets at random with `probability` (0 to 1), each one on its own. Replaces
    /// the effect of an earlier call. Loopback is spared.
    ///
    /// # Errors
    /// `nft` is missing, or the kernel cannot do it.
    pub fn drop_arriving(&self, probability: f64) -> Result<()> {
        let share = (probability.clamp(0.0, 1.0) * 10_000.0).round();
        // nft refuses a comparison that always holds.
        let chance = if share < 10_000.0 {
            format!("numgen random mod 10000 < {share}")
        } else {
            String::new()
        };
        // The first statement makes sure that there is a table for the second to delete.
        let rules = format!(
            "table inet suci {{ }}; delete table inet suci; \
             table inet suci {{ chain arriving {{ type filter hook input priority 0; \
             iifname \"{INTERFACE}\" {chance} drop; }}; }}"
        );
        self.run(&["nft", &rules]).map(drop)
    }

    /// Limits packets that leave by [`INTERFACE`] to `mbit` Mbit/s behind a queue that holds
    /// `queue_ms` milliseconds of them, as a switch port with a tail-drop buffer does.
    ///
    /// # Errors
    /// `tc` is missing or refuses.
    pub fn limit_rate(&self, mbit: u32, queue_ms: u32) -> Result<()> {
        self.limit_rate_of(INTERFACE, mbit, queue_ms)
    }

    fn limit_rate_of(&self, device: &str, mbit: u32, queue_ms: u32) -> Result<()> {
        let rate = format!("{mbit}mbit");
        let latency = format!("{queue_ms}ms");
        let qdisc = ["tc", "qdisc", "replace", "dev", device, "root", "tbf"];
        // The burst: 2 ms of the rate, and never below two packets.
        let burst = (u64::from(mbit) * 1_000_000 / 8 / 500)
            .max(3_200)
            .to_string();
        let shape = ["rate", &rate, "burst", &burst, "latency", &latency];
        self.run(&[&qdisc[..], &shape[..]].concat()).map(drop)
    }

    /// Packets that the queue of [`INTERFACE`] has sent and dropped since it was set up.
    ///
    /// # Errors
    /// `tc` is missing or its output cannot be parsed.
    pub fn queue(&self) -> Result<Traffic> {
        self.queue_of(INTERFACE)
    }

    fn queue_of(&self, device: &str) -> Result<Traffic> {
        let text = self.run(&["tc", "-s", "-j", "qdisc", "show", "dev", device])?;
        let parsed: serde_json::Value = serde_json::from_str(&text)?;
        let count = |name: &str| parsed[0][name].as_u64().context(format!("tc: no {name}"));
        Ok(Traffic {
            packets: count("packets")?,
            bytes: count("bytes")?,
            dropped: count("drops")?,
        })
    }

    /// Packets that [`INTERFACE`] has sent so far, link headers included.
    ///
    /// # Errors
    /// The output of `ip` cannot be parsed.
    pub fn sent(&self) -> Result<Traffic> {
        let text = self.ip(&["-s", "-j", "link", "show", "dev", INTERFACE])?;
        let parsed: serde_json::Value = serde_json::from_str(&text)?;
        let sent = &parsed[0]["stats64"]["tx"];
        let count = |name: &str| sent[name].as_u64().context(format!("ip: no {name}"));
        Ok(Traffic {
            packets: count("packets")?,
            bytes: count("bytes")?,
            dropped: count("dropped")?,
        })
    }

    /// A counter of the kernel's IP stack in here, by its `nstat` name, such as
    /// `UdpRcvbufErrors`. 0 when the kernel has not counted any.
    ///
    /// # Errors
    /// `nstat` is missing or its output cannot be parsed.
    pub fn counter(&self, name: &str) -> Result<u64> {
        let text = self.run(&["nstat", "-a", "-z", "-s", "-j", name])?;
        let parsed: serde_json::Value = serde_json::from_str(&text)?;
        Ok(parsed["kernel"][name].as_u64().unwrap_or(0))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        remove(&self.name);
        signals::forget_namespace(&self.name);
    }
}

/// Packets and bytes that passed a point.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Packets that passed.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that did not pass.
    pub dropped: u64,
}

impl Traffic {
    /// The share of packets that was dropped, 0 to 1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people to read")]
    pub fn loss(self) -> f64 {
        let offered = self.packets.saturating_add(self.dropped);
        if offered == 0 {
            0.0
        } else {
            self.dropped as f64 / offered as f64
        }
    }
}

/// Two namespaces with a veth cable between them.
#[derive(Debug)]
pub struct Pair {
    /// The first host.
    pub a: Netns,
    /// The other.
    pub b: Netns,
    /// The switch between them, if not a cable alone.
    switch: Option<Netns>,
}

impl Pair {
    /// Two hosts, [`MTU`] 1500, offloads as the kernel sets them, no limits.
    ///
    /// # Errors
    /// As [`Netns::new`].
    pub fn new() -> Result<Self> {
        let pair = Self {
            a: Netns::new()?,
            b: Netns::new()?,
            switch: None,
        };
        let (a, b) = (pair.a.name(), pair.b.name());
        let link = ["link", "add", INTERFACE, "netns", a, "type", "veth"];
        ip(&[&link[..], &["peer", "name", INTERFACE, "netns", b][..]].concat())?;
        pair.a.address(1)?;
        pair.b.address(2)?;
        pair.a.knows(2)?;
        pair.b.knows(1)?;
        Ok(pair)
    }

    /// Two hosts with a switch between them whose ports send `mbit` Mbit/s from a queue of
    /// `queue_ms`. The narrow place is no host's own device: there the kernel holds TCP back (small
    /// queues), but not UDP, and no two flows would be judged alike.
    ///
    /// # Errors
    /// As [`Netns::new`].
    pub fn across_switch(mbit: u32, queue_ms: u32) -> Result<Self> {
        let Cluster { mut hosts, switch } = Cluster::new(2)?;
        for port in ["port1", "port2"] {
            switch.limit_rate_of(port, mbit, queue_ms)?;
        }
        match (hosts.pop(), hosts.pop()) {
            (Some(b), Some(a)) => Ok(Self {
                a,
                b,
                switch: Some(switch),
            }),
            _ => Err(Failure::new("a cluster of two has two hosts")),
        }
    }

    /// Two hosts with an addressed [`INTERFACE`] that `device` makes in each. Its results come in
    /// the order `a`, `b`.
    ///
    /// # Errors
    /// As [`Netns::new`], and those of `device`.
    pub(crate) fn joined_by<T>(device: impl Fn(&Netns) -> Result<T>) -> Result<(Self, [T; 2])> {
        let (a, b) = (Netns::new()?, Netns::new()?);
        let devices = [device(&a)?, device(&b)?];
        a.bring_up(1)?;
        b.bring_up(2)?;
        let pair = Self { a, b, switch: None };
        Ok((pair, devices))
    }

    /// Packets that the queue towards `b` has sent and dropped: the switch's, else `a`'s own.
    ///
    /// # Errors
    /// The output of `tc` cannot be parsed.
    pub fn queue_to_b(&self) -> Result<Traffic> {
        match &self.switch {
            Some(switch) => switch.queue_of("port2"),
            None => self.a.queue(),
        }
    }

    /// The IPv4 address of `a`.
    #[must_use]
    pub fn a_addr(&self) -> Ipv4Addr {
        host_addr(1)
    }

    /// The IPv4 address of `b`.
    #[must_use]
    pub fn b_addr(&self) -> Ipv4Addr {
        host_addr(2)
    }

    /// The IPv6 address of `a`.
    #[must_use]
    pub fn a_addr6(&self) -> Ipv6Addr {
        host_addr6(1)
    }

    /// The IPv6 address of `b`.
    #[must_use]
    pub fn b_addr6(&self) -> Ipv6Addr {
        host_addr6(2)
    }

    /// Segmentation and aggregation off at both ends: packets cross one by one, so that a drop
    /// takes one packet and a counter counts packets. (With offloads on, veth carries a 64 KiB
    /// train as one.) Checksum offload stays, because without it the kernel refuses GSO.
    ///
    /// # Errors
    /// `ethtool` is missing or refuses.
    pub fn offloads_off(&self) -> Result<()> {
        let off = ["tso", "gso", "gro", "tx-udp-segmentation"];
        let off: Vec<&str> = off.iter().flat_map(|feature| [*feature, "off"]).collect();
        for end in [&self.a, &self.b] {
            end.run(&[&["ethtool", "-K", INTERFACE], off.as_slice()].concat())?;
        }
        Ok(())
    }

    /// Random drop in both directions: [`Netns::drop_arriving`] at both ends.
    ///
    /// # Errors
    /// As that.
    pub fn drop_randomly(&self, probability: f64) -> Result<()> {
        self.a.drop_arriving(probability)?;
        self.b.drop_arriving(probability)
    }

    /// A slow cable in both directions: [`Netns::limit_rate`] at both ends.
    ///
    /// # Errors
    /// As that.
    pub fn limit_rate(&self, mbit: u32, queue_ms: u32) -> Result<()> {
        self.a.limit_rate(mbit, queue_ms)?;
        self.b.limit_rate(mbit, queue_ms)
    }

    /// Changes the MTU of both ends, in bytes.
    ///
    /// # Errors
    /// The kernel refuses the size.
    pub fn mtu(&self, bytes: u32) -> Result<()> {
        for end in [&self.a, &self.b] {
            end.ip(&["link", "set", INTERFACE, "mtu", &bytes.to_string()])?;
        }
        Ok(())
    }
}

impl Netns {
    /// Gives [`INTERFACE`], an Ethernet device, the addresses of host number `host` and switches it
    /// on.
    fn address(&self, host: u16) -> Result<()> {
        self.ip(&["link", "set", INTERFACE, "address", &host_mac(host)])?;
        self.bring_up(host)
    }

    /// Gives [`INTERFACE`] the IP addresses of host number `host` and switches it on.
    fn bring_up(&self, host: u16) -> Result<()> {
        let v4 = format!("{}/16", host_addr(host));
        let v6 = format!("{}/64", host_addr6(host));
        self.ip(&["addr", "add", &v4, "dev", INTERFACE])?;
        self.ip(&["addr", "add", &v6, "dev", INTERFACE, "nodad"])?;
        let link = ["link", "set", INTERFACE, "mtu", &MTU.to_string(), "up"];
        self.ip(&link).map(drop)
    }

    /// Tells this namespace the hardware address of `host`, so that the first packet need not
    /// wait for an answer and no question is counted.
    fn knows(&self, host: u16) -> Result<()> {
        for address in [
            IpAddr::from(host_addr(host)),
            IpAddr::from(host_addr6(host)),
        ] {
            let neighbour = [
                "neigh",
                "replace",
                &address.to_string(),
                "lladdr",
                &host_mac(host),
            ];
            self.ip(&[&neighbour[..], &["dev", INTERFACE, "nud", "permanent"][..]].concat())?;
        }
        Ok(())
    }
}

/// Joins two namespaces by a cable of their own, the `number`th of a test (up to 16,383), beside
/// the cables that they have. Returns the address of each end.
///
/// # Errors
/// The kernel refuses, or there are too many.
pub fn join(a: &Netns, b: &Netns, number: u16) -> Result<[Ipv4Addr; 2]> {
    if number >= 1 << 14 {
        return Err(Failure::new(
            "10.78.0.0/16 has 16,384 networks of two hosts",
        ));
    }
    let interface = format!("cable{number}");
    ip(&[
        "link",
        "add",
        &interface,
        "netns",
        a.name(),
        "type",
        "veth",
        "peer",
        "name",
        &interface,
        "netns",
        b.name(),
    ])?;
    let ends = [1, 2].map(|end| {
        let [high, low] = (number * 4 + end).to_be_bytes();
        Ipv4Addr::new(10, 78, high, low)
    });
    for (netns, address) in [a, b].iter().zip(ends) {
        netns.ip(&["addr", "add", &format!("{address}/30"), "dev", &interface])?;
        netns.ip(&["link", "set", &interface, "up"])?;
    }
    Ok(ends)
}

/// Hosts on one switch: a namespace with a bridge, and one namespace per host.
#[derive(Debug)]
pub struct Cluster {
    /// The hosts; host `i` has the address [`Cluster::addr`]`(i)`.
    pub hosts: Vec<Netns>,
    switch: Netns,
}

impl Cluster {
    /// `count` hosts (at most 1,000, the kernel's limit of ports on a bridge being 1,023).
    ///
    /// # Errors
    /// As [`Netns::new`], or too many hosts.
    pub fn new(count: u16) -> Result<Self> {
        if count > 1_000 {
            return Err(Failure::new("a bridge has at most 1,023 ports"));
        }
        let switch = Netns::new()?;
        switch.ip(&["link", "add", "br0", "type", "bridge"])?;
        switch.ip(&["link", "set", "br0", "up"])?;
        let mut hosts = Vec::new();
        for number in 1..=count {
            let host = Netns::new()?;
            let port = format!("port{number}");
            let link = [
                "link",
                "add",
                INTERFACE,
                "netns",
                host.name(),
                "type",
                "veth",
            ];
            ip(&[
                &link[..],
                &["peer", "name", &port, "netns", switch.name()][..],
            ]
            .concat())?;
            switch.ip(&["link", "set", &port, "master", "br0", "up"])?;
            host.address(number)?;
            hosts.push(host);
        }
        Ok(Self { hosts, switch })
    }

    /// The IPv4 address of the host at `index` of [`Cluster::hosts`].
    #[must_use]
    pub fn addr(&self, index: u16) -> Ipv4Addr {
        host_addr(index.saturating_add(1))
    }
}

/// 10.77.x.y for host number x * 256 + y. The same in every [`Pair`]: namespaces keep them apart.
fn host_addr(host: u16) -> Ipv4Addr {
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

fn host_addr6(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, host)
}

/// A locally administered address, so that no real device has it.
fn host_mac(host: u16) -> String {
    let [high, low] = host.to_be_bytes();
    format!("02:77:00:00:{high:02x}:{low:02x}")
}

fn ip(args: &[&str]) -> Result<String> {
    exec::capture(Command::new("ip").args(args))
}

/// Removes a namespace; its interfaces go with it when the last process in it ends.
pub(crate) fn remove(name: &str) {
    // Errors have no reader: this runs in Drop and while the process is being terminated.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Removes the namespaces of processes that were killed before they could do so.
fn remove_abandoned() {
    let Ok(entries) = std::fs::read_dir(NAMES) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let Some(pid) = maker.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            remove(&name);
        }
    }
}
