//! Pods of Kubernetes: those of an Indexed Job, and those of a StatefulSet. A pod's name ends in
//! its number, and a headless service makes the name known to the others. Their addresses are
//! looked up by name, again when a pod is lost: it may come back with another address.

use super::recognise::{FoundLauncher, Kind, Look, Surroundings, port};
use crate::book::number;
use crate::env;
use std::fmt::Write as _;
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

/// The variables that are read, except [`env::PORT`].
pub(super) const VARIABLES: [&str; 3] =
    ["KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX", env::SIZE];

/// The port of each pod unless [`env::PORT`] names another one. Pods have addresses of their own.
const DEFAULT_PORT: u16 = 7_000;

/// How often names are looked up again that are not known yet.
const AGAIN: Duration = Duration::from_millis(500);

/// The pods of one Job or StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pods {
    /// The part of a pod's name before the number.
    before: String,
    /// The part behind it.
    behind: String,
    pub(super) port: u16,
}

pub(super) fn recognise(seen: &Surroundings<'_>) -> Result<Look, String> {
    let size = seen.number(env::SIZE)?;
    let index = match seen.number("JOB_COMPLETION_INDEX")? {
        Some(index) => index,
        // Pods of other kinds may have a name that ends in a number, so the size is asked for.
        None => match (
            seen.get("KUBERNETES_SERVICE_HOST"),
            size,
            ordinal(&seen.host),
        ) {
            (Some(_), Some(_), Some((_, index))) => index,
            _ => return Ok(Look::Absent),
        },
    };
    let Some(size) = size else {
        return Ok(Look::Incomplete(format!(
            "JOB_COMPLETION_INDEX={index} is set, and {} is not: set it to the number of pods \
             (completions) in the pod's env",
            env::SIZE
        )));
    };
    if index >= size {
        return Err(format!(
            "this is pod {index}, not below {}={size}: set it to the number of pods",
            env::SIZE
        ));
    }
    let port = port(seen)?.unwrap_or(DEFAULT_PORT);
    Ok(match Pods::of(seen, index, port) {
        Err(problem) => Look::Incomplete(problem),
        Ok(pods) => Look::Complete(FoundLauncher {
            kind: Kind::Pods(pods),
            rank: index,
            size: Some(size),
        }),
    })
}

/// Splits a name into the part before the number at its end, and the number.
fn ordinal(name: &str) -> Option<(&str, u32)> {
    let (before, digits) = name.rsplit_once('-')?;
    let index = number(digits).filter(|index| index.to_string() == digits)?;
    (!before.is_empty()).then_some((before, index))
}

impl Pods {
    fn of(seen: &Surroundings<'_>, index: u32, port: u16) -> Result<Self, String> {
        let host = &seen.host;
        let Some((before, _)) = ordinal(host).filter(|(_, at)| *at == index) else {
            return Err(format!(
                "the pod's name, {host}, does not end in its number, {index}: leave hostname out \
                 of the pod's spec"
            ));
        };
        // Kubernetes writes the pod's whole name there, if it has one.
        let lines = seen
            .hosts
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default());
        let mut names = lines.flat_map(|line| line.split_whitespace().skip(1));
        let domain = names.find_map(|name| name.strip_prefix(host.as_str())?.strip_prefix('.'));
        let Some(domain) = domain else {
            return Err(format!(
                "the pod {host} has no name that other pods know: make a headless service, and \
                 name it in the pod's spec (Job: subdomain; StatefulSet: serviceName)"
            ));
        };
        Ok(Self {
            before: before.to_owned(),
            behind: format!(".{domain}"),
            port,
        })
    }

    fn name(&self, index: u32) -> String {
        format!("{}-{index}{}:{}", self.before, self.behind, self.port)
    }

    /// Waits until all names are known: pods start one after the other.
    pub(super) fn await_names(&self, size: u32, until: Instant) -> Result<(), String> {
        await_all((0..size).map(|index| self.name(index)), until, |name| {
            name.to_socket_addrs().map(drop)
        })
    }

    /// The text of the book of all pods.
    pub(super) fn book(&self, size: u32) -> String {
        let mut text = String::new();
        for index in 0..size {
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{index} {}", self.name(index));
        }
        text
    }
}

/// Waits until each name is known to `look_up`.
fn await_all(
    names: impl Iterator<Item = String>,
    until: Instant,
    mut look_up: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), String> {
    for name in names {
        while let Err(error) = look_up(&name) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!(
                    "{name} is not known: {error}: see whether that pod runs, and whether the \
                     headless service has publishNotReadyAddresses: true, or allow more seconds \
                     ({})",
                    env::LAUNCH_TIMEOUT
                ));
            }
            std::thread::sleep(AGAIN.min(left));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    fn pods(host: &str, hosts: &str, variables: &[(&str, &str)]) -> Result<(Pods, u32), String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let seen = Surroundings {
            variable: &value,
            host: host.to_owned(),
            hosts: hosts.to_owned(),
        };
        match recognise(&seen)? {
            Look::Complete(FoundLauncher {
                kind: Kind::Pods(pods),
                rank,
                ..
            }) => Ok((pods, rank)),
            Look::Incomplete(problem) => Err(problem),
            _ => Err("absent".to_owned()),
        }
    }

    const HOSTS: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
        10.1.2.3\tweb-7.web.space.svc.cluster.local\tweb-7\n";

    #[test]
    fn pods_know_each_other_by_name() {
        let (set, rank) = pods(
            "web-7",
            HOSTS,
            &[("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("SUCI_SIZE", "8")],
        )
        .unwrap();
        assert_eq!(rank, 7);
        let book = set.book(8);
        assert!(
            book.ends_with("7 web-7.web.space.svc.cluster.local:7000\n"),
            "{book}"
        );
        assert_eq!(book.lines().count(), 8);
        let job = [
            ("JOB_COMPLETION_INDEX", "7"),
            ("SUCI_SIZE", "8"),
            ("SUCI_PORT", "9"),
        ];
        let (job, rank) = pods("web-7", HOSTS, &job).unwrap();
        assert_eq!(
            (rank, job.name(0)),
            (7, "web-0.web.space.svc.cluster.local:9".to_owned())
        );
    }

    #[test]
    fn what_a_pod_lacks_is_named() {
        let job = [("JOB_COMPLETION_INDEX", "7"), ("SUCI_SIZE", "8")];
        let set = [("KUBERNETES_SERVICE_HOST", "10.0.0.1"), ("SUCI_SIZE", "8")];
        for (host, hosts, variables, part) in [
            (
                "web-7",
                "10.1.2.3 web-7\n",
                &job[..],
                "make a headless service",
            ),
            (
                "web-7",
                "# 10.1.2.3 web-7.web\n",
                &job,
                "make a headless service",
            ),
            (
                "web-7",
                "10.1.2.3 web-77.web web-7x.web\n",
                &job,
                "make a headless service",
            ),
            ("web-6", HOSTS, &job, "web-6, does not end in its number, 7"),
            ("web", HOSTS, &job, "web, does not end in its number, 7"),
            ("web-7", HOSTS, &job[..1], "SUCI_SIZE is not"),
            ("web-8", HOSTS, &set, "this is pod 8, not below SUCI_SIZE=8"),
            // No StatefulSet's.
            ("web-7", HOSTS, &set[..1], "absent"),
            ("web-7", HOSTS, &set[1..], "absent"),
            ("web-07", HOSTS, &set, "absent"),
            ("web", HOSTS, &set, "absent"),
        ] {
            let said = pods(host, hosts, variables).unwrap_err();
            assert!(said.contains(part), "{host}: {said}");
        }
    }

    #[test]
    fn names_are_waited_for_and_the_missing_one_is_named() {
        let names = || ["a-0:1", "a-1:1"].map(str::to_owned).into_iter();
        let mut calls = 0;
        let late = |_: &str| {
            calls += 1;
            (calls > 2)
                .then_some(())
                .ok_or(Error::from(ErrorKind::NotFound))
        };
        await_all(names(), Instant::now() + Duration::from_secs(60), late).unwrap();
        let one = |name: &str| match name {
            "a-0:1" => Ok(()),
            _ => Err(Error::from(ErrorKind::NotFound)),
        };
        let said = await_all(names(), Instant::now(), one).unwrap_err();
        assert!(said.starts_with("a-1:1 is not known: "), "{said}");
    }
}
