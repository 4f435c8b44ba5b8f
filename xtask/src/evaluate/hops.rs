//! Throughput through hosts between the ends: forwarded by nodes, and by the kernel's IP.

use std::fmt::Write as _;
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;

use super::cdp::{Bench, Ends, Method, await_line, next_port};
use crate::error::{Context, Result};
use crate::exec::Process;
use crate::netns::{Netns, join};

/// Bytes of a message.
const MESSAGE: u32 = 65_536;

/// The port of forwarders.
const PORT: u16 = 7_000;

/// Hosts in a row. The first is the client's, the last the server's.
pub(crate) struct Chain {
    hosts: Vec<Netns>,
    /// The addresses of both ends of each cable, the client's side first.
    cables: Vec<[Ipv4Addr; 2]>,
}

/// The software that sends packets on between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    /// The kernels.
    Kernel,
    /// Nodes.
    Nodes,
}

impl Chain {
    /// A chain with `hops` hosts between the ends, whose kernels forward.
    ///
    /// # Errors
    /// The namespaces cannot be made.
    pub(crate) fn new(hops: u16) -> Result<Self> {
        let hosts: Result<Vec<_>> = (0..hops + 2).map(|_| Netns::new()).collect();
        let hosts = hosts?;
        let pairs = (0..).zip(hosts.windows(2));
        let joined = pairs.filter_map(|(number, pair)| match pair {
            [near, far] => Some(join(near, far, number)),
            _ => None,
        });
        let cables: Result<Vec<_>> = joined.collect();
        let chain = Self {
            hosts,
            cables: cables?,
        };
        chain.route()?;
        Ok(chain)
    }

    /// Routes of the kernels between both ends.
    fn route(&self) -> Result<()> {
        let [client, server] = self.ends()?;
        for (place, host) in self.hosts.iter().enumerate() {
            host.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
            let towards = [
                (server, self.cables.get(place).map(|cable| cable[1])),
                (client, place.checked_sub(1).map(|it| self.cables[it][0])),
            ];
            for (end, via) in towards {
                if let Some(via) = via.filter(|via| *via != end) {
                    let (end, via) = (end.to_string(), via.to_string());
                    host.run(&["ip", "route", "replace", &end, "via", &via])?;
                }
            }
        }
        Ok(())
    }

    /// The addresses of the client and the server.
    fn ends(&self) -> Result<[Ipv4Addr; 2]> {
        let (first, last) = self
            .cables
            .first()
            .zip(self.cables.last())
            .context("no cable")?;
        Ok([first[0], last[1]])
    }

    /// The node at a place: the server is 0 and the client 1 for the program.
    fn node(&self, place: usize) -> usize {
        match place {
            0 => 1,
            place if place + 1 == self.hosts.len() => 0,
            place => place + 1,
        }
    }

    /// Writes the book of the node at a place: neighbours by their addresses, the others through
    /// them. The ends have `port`.
    fn book(&self, bench: &Bench, place: usize, port: u16) -> Result<PathBuf> {
        let last = self.hosts.len() - 1;
        let port_at = |place: usize| {
            if place == 0 || place == last {
                port
            } else {
                PORT
            }
        };
        let mut text = String::new();
        for other in 0..=last {
            let node = self.node(other);
            let address = match other {
                _ if other == place => self.cables.get(place).map(|cable| cable[0]),
                _ if other == place + 1 => self.cables.get(place).map(|cable| cable[1]),
                _ if other + 1 == place => self.cables.get(other).map(|cable| cable[0]),
                _ => None,
            };
            // The server's own cable is the one before it.
            let own = || {
                self.cables
                    .last()
                    .filter(|_| other == place)
                    .map(|cable| cable[1])
            };
            let line = match address.or_else(own) {
                Some(address) => format!("{node} {address}:{}", port_at(other)),
                None if other > place => format!("{node} via {}", self.node(place + 1)),
                None => format!("{node} via {}", self.node(place - 1)),
            };
            let _ = writeln!(text, "{line}");
        }
        let path = bench.scratch.join(format!("book{place}"));
        std::fs::write(&path, text).context(path.display())?;
        Ok(path)
    }

    /// Starts the nodes between the ends.
    fn forwarders(&self, bench: &Bench, port: u16) -> Result<Vec<Process>> {
        let between = self.hosts.iter().enumerate().skip(1);
        let between = between.take(self.hosts.len() - 2);
        let start = |(place, host): (usize, &Netns)| {
            let output = bench.scratch.join(format!("forwarder{place}"));
            let (id, at) = (self.node(place).to_string(), format!("0.0.0.0:{PORT}"));
            let mut command = host.command(&bench.program);
            command.args(["forward", &id, &at]);
            command.env("SUCI_BOOK", self.book(bench, place, port)?);
            command.stdout(Stdio::from(File::create(&output)?));
            let process = Process::spawn(&mut command)?;
            await_line(&output, "ready")?;
            Ok(process)
        };
        between.map(start).collect()
    }

    /// Streams messages from end to end for so long. Returns Mbit/s.
    ///
    /// # Errors
    /// A program fails.
    pub(crate) fn mbit(
        &self,
        bench: &Bench,
        method: Method,
        forwarding: Forwarding,
        seconds: f64,
    ) -> Result<f64> {
        let ([client, server], port) = (self.ends()?, next_port());
        let (forwarders, books) = match forwarding {
            Forwarding::Kernel => (Vec::new(), None),
            Forwarding::Nodes => {
                let last = self.hosts.len() - 1;
                let books = [self.book(bench, 0, port)?, self.book(bench, last, port)?];
                (self.forwarders(bench, port)?, Some(books))
            }
        };
        let (first, last) = self
            .hosts
            .first()
            .zip(self.hosts.last())
            .context("no hosts")?;
        let ends = Ends {
            client: first,
            server: last,
            at: (server, port).into(),
            own: (client, port).into(),
            books,
        };
        let [_, received] = bench.run(&ends, method, true, MESSAGE, seconds)?;
        drop(forwarders);
        Ok(received.bytes * 8.0 / received.seconds / 1e6)
    }
}
