//! Which launcher started this process, as its variables show. Nothing is asked of anybody.

use super::{Trouble, host, kubernetes, pmi, slurm};
use crate::book::{number, shown};
use crate::env;
use std::os::fd::RawFd;

/// A launcher other than `suci run`, whose variables come before all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LauncherKind {
    Pmix,
    Pmi,
    Slurm,
    Kubernetes,
    Ranks,
}

impl LauncherKind {
    /// Its name in errors and in `suci env`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pmix => "PMIx",
            Self::Pmi => "PMI",
            Self::Slurm => "Slurm",
            Self::Kubernetes => "Kubernetes",
            Self::Ranks => "MPI's rank variables",
        }
    }

    /// Why a node without a key does not start, where the launcher carries none.
    pub(crate) fn no_key(self) -> String {
        let other = match self {
            Self::Slurm => {
                ", or start by srun --mpi=pmi2 or --mpi=pmix, which carry keys made for the run"
            }
            _ => ", which a Secret brings to all pods",
        };
        format!(
            "the processes cannot exchange keys, and this one has none: make one (`suci keygen \
             FILE`) and name the file for all of them ({}){other}; or set allow_insecure_network \
             if the network is trusted",
            env::KEY_FILE
        )
    }

    /// Where process r listens, seen from [`env::PORT`].
    pub(crate) fn port_rule(self) -> &'static str {
        match self {
            Self::Slurm => "that number plus r",
            _ => "that number, on a host of its own",
        }
    }
}

/// How a process takes its place under a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Pmix,
    PmiFd(RawFd),
    PmiPort(pmi::Port),
    Slurm(slurm::JobStep),
    Pods(kubernetes::Pods),
    /// Nothing tells the addresses; the remedy.
    Ranks(&'static str),
}

/// A launcher whose variables are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundLauncher {
    pub(crate) kind: Kind,
    /// 0 if the kind is one that must be asked.
    pub(crate) rank: u32,
    /// None if the launcher must be asked.
    pub(crate) size: Option<u32>,
}

impl FoundLauncher {
    pub(crate) fn launcher(&self) -> LauncherKind {
        match self.kind {
            Kind::Pmix => LauncherKind::Pmix,
            Kind::PmiFd(_) | Kind::PmiPort(_) => LauncherKind::Pmi,
            Kind::Slurm(_) => LauncherKind::Slurm,
            Kind::Pods(_) => LauncherKind::Kubernetes,
            Kind::Ranks(_) => LauncherKind::Ranks,
        }
    }

    /// Whether addresses go through the launcher, once.
    pub(super) fn exchanges(&self) -> bool {
        matches!(self.kind, Kind::Pmix | Kind::PmiFd(_) | Kind::PmiPort(_))
    }
}

/// The traces of a launcher that a process can see.
pub(super) struct Surroundings<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    /// The host's or pod's name.
    pub(super) host: String,
    /// The text of `/etc/hosts`.
    pub(super) hosts: String,
}

impl Surroundings<'_> {
    pub(super) fn real() -> Self {
        Self {
            variable: &|name| std::env::var_os(name).map(|it| it.to_string_lossy().into_owned()),
            host: host::name(),
            hosts: std::fs::read_to_string("/etc/hosts").unwrap_or_default(),
        }
    }

    /// A variable's value, if it is set and not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// A variable's number, if it is set.
    pub(super) fn number(&self, name: &str) -> Result<Option<u32>, String> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let wrong = || {
            format!(
                "{name}={}: not a number from 0 to {}: let the launcher set it, or unset it",
                shown(&text),
                u32::MAX
            )
        };
        number(&text).map(Some).ok_or_else(wrong)
    }

    /// Rank and size by two variables; nothing if one is missing.
    fn pair(&self, rank: &str, size: &str) -> Result<Option<(u32, u32)>, String> {
        let (Some(own), Some(all)) = (self.number(rank)?, self.number(size)?) else {
            return Ok(None);
        };
        match own < all {
            true => Ok(Some((own, all))),
            false => Err(format!(
                "{rank}={own}: not below {size}={all}: let the launcher set both"
            )),
        }
    }
}

/// The state of one launcher's variables.
pub(super) enum Look {
    Absent,
    /// Some variables are there; which are missing, and the remedy.
    Incomplete(String),
    Complete(FoundLauncher),
}

type Recogniser = fn(&Surroundings<'_>) -> Result<Look, String>;

/// The order in which launchers are looked for: those that carry addresses come first. So Slurm
/// with PMIx or PMI is asked by these, and processes that mpiexec starts within a job of Slurm are
/// mpiexec's.
const ORDER: [(LauncherKind, &[&str], Recogniser); 5] = [
    (
        LauncherKind::Pmix,
        &[
            "PMIX_RANK",
            "PMIX_NAMESPACE",
            "PMIX_SERVER_URI4",
            "PMIX_SERVER_URI3",
            "PMIX_SERVER_URI2",
        ],
        pmix,
    ),
    (
        LauncherKind::Pmi,
        &["PMI_FD", "PMI_RANK", "PMI_SIZE", "PMI_PORT", "PMI_ID"],
        pmi,
    ),
    (LauncherKind::Slurm, &slurm::VARIABLES, slurm::recognise),
    (
        LauncherKind::Kubernetes,
        &kubernetes::VARIABLES,
        kubernetes::recognise,
    ),
    (
        LauncherKind::Ranks,
        &[
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "PMI_RANK",
            "PMI_SIZE",
        ],
        ranks,
    ),
];

/// The first launcher whose variables are complete.
pub(super) fn recognise(seen: &Surroundings<'_>) -> Result<Option<FoundLauncher>, Trouble> {
    for (launcher, _, look) in ORDER {
        let looked = look(seen).map_err(|problem| Trouble { launcher, problem })?;
        if let Look::Complete(found) = looked {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The variables of a launcher that are there.
pub(crate) struct Trace {
    pub(crate) launcher: LauncherKind,
    /// The variables that are set, and their values.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// The fault, and the remedy; nothing if it is complete or absent.
    pub(crate) problem: Option<String>,
    pub(crate) is_complete: bool,
}

/// Returns what this process's environment shows of each launcher, in the order in which they are
/// asked.
pub(crate) fn traces() -> Vec<Trace> {
    traces_in(&Surroundings::real())
}

fn traces_in(seen: &Surroundings<'_>) -> Vec<Trace> {
    let trace = |(launcher, names, look): (LauncherKind, &[&'static str], Recogniser)| {
        let value = |name: &&'static str| Some((*name, shown(&seen.get(name)?)));
        let (problem, is_complete) = match look(seen) {
            Ok(Look::Complete(_)) => (None, true),
            Ok(Look::Absent) => (None, false),
            Ok(Look::Incomplete(problem)) | Err(problem) => (Some(problem), false),
        };
        Trace {
            launcher,
            variables: names.iter().filter_map(value).collect(),
            problem,
            is_complete,
        }
    };
    ORDER.map(trace).into()
}

fn pmix(seen: &Surroundings<'_>) -> Result<Look, String> {
    let names = ["2", "21", "3", "4", "41"].map(|end| format!("PMIX_SERVER_URI{end}"));
    let has_server = names.iter().any(|name| seen.get(name).is_some());
    let (rank, namespace) = (seen.number("PMIX_RANK")?, seen.get("PMIX_NAMESPACE"));
    Ok(match (rank, namespace, has_server) {
        (None, ..) => Look::Absent,
        (Some(rank), Some(_), true) => Look::Complete(FoundLauncher {
            kind: Kind::Pmix,
            rank,
            size: seen
                .pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")?
                .map(|it| it.1),
        }),
        (Some(_), None, _) => Look::Incomplete(missing("PMIX_RANK", "PMIX_NAMESPACE")),
        (Some(_), _, false) => Look::Incomplete(missing("PMIX_RANK", "PMIX_SERVER_URI4 (or 2, 3)")),
    })
}

fn missing(there: &str, not_there: &str) -> String {
    format!(
        "{there} is set, and {not_there} is not: start the program by the launcher, and let its \
         variables through"
    )
}

fn pmi(seen: &Surroundings<'_>) -> Result<Look, String> {
    let ranks = seen.pair("PMI_RANK", "PMI_SIZE")?;
    if let Some(fd) = seen.number("PMI_FD")? {
        let fd = RawFd::try_from(fd).map_err(|_| format!("PMI_FD={fd}: no descriptor"))?;
        return Ok(match ranks {
            Some((rank, size)) => Look::Complete(FoundLauncher {
                kind: Kind::PmiFd(fd),
                rank,
                size: Some(size),
            }),
            None => Look::Incomplete(missing("PMI_FD", "PMI_RANK or PMI_SIZE")),
        });
    }
    Ok(match (seen.get("PMI_PORT"), seen.number("PMI_ID")?) {
        (None, _) => Look::Absent,
        (Some(_), None) => Look::Incomplete(missing("PMI_PORT", "PMI_ID")),
        (Some(address), Some(id)) => {
            let id = id.to_string();
            Look::Complete(FoundLauncher {
                kind: Kind::PmiPort(pmi::Port { address, id }),
                rank: 0,
                size: None,
            })
        }
    })
}

fn ranks(seen: &Surroundings<'_>) -> Result<Look, String> {
    const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK is set, and PMIX_SERVER_URI4 (or 2, 3) is not, \
        through which processes learn each other's addresses: let the launcher's PMIX variables \
        through, or set SUCI_BOOK to an address book of all processes";
    const HYDRA: &str = "PMI_RANK is set, and neither PMI_FD nor PMI_PORT is, through which \
        processes learn each other's addresses: let these variables through, or set SUCI_BOOK to \
        an address book of all processes";
    let open_mpi = seen.pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")?;
    let hydra = seen.pair("PMI_RANK", "PMI_SIZE")?;
    let found = match (open_mpi, hydra) {
        (Some(pair), _) => Some((pair, OPEN_MPI)),
        (None, Some(pair)) => Some((pair, HYDRA)),
        (None, None) => None,
    };
    Ok(found.map_or(Look::Absent, |((rank, size), remedy)| {
        Look::Complete(FoundLauncher {
            kind: Kind::Ranks(remedy),
            rank,
            size: Some(size),
        })
    }))
}

/// The port that [`env::PORT`] names, if it does.
pub(super) fn port(seen: &Surroundings<'_>) -> Result<Option<u16>, String> {
    let Some(text) = seen.get(env::PORT) else {
        return Ok(None);
    };
    let port = number(&text)
        .and_then(|it| u16::try_from(it).ok())
        .filter(|it| *it > 0);
    let wrong = || {
        format!(
            "{}={}: not a port from 1 to 65535: correct it",
            env::PORT,
            shown(&text)
        )
    };
    port.map(Some).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look<T>(variables: &str, ask: impl FnOnce(&Surroundings<'_>) -> T) -> T {
        let variables: Vec<_> = variables
            .split(' ')
            .filter_map(|it| it.split_once('='))
            .collect();
        let value = |name: &str| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        ask(&Surroundings {
            variable: &value,
            host: "web-2".to_owned(),
            hosts: "127.0.0.1 localhost\n10.0.0.7\tweb-2.web.space.svc.cluster.local\tweb-2\n"
                .to_owned(),
        })
    }

    const SLURM: &str = "SLURM_JOB_ID=17 SLURM_STEP_ID=0 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=4 \
        SLURM_STEP_NODELIST=n[0-1] SLURM_STEP_TASKS_PER_NODE=2(x2) SLURM_NODEID=1 SLURM_LOCALID=1";

    #[test]
    fn launchers_are_recognised_by_their_variables_in_this_order() {
        const PMIX: &str = "PMIX_RANK=1 PMIX_NAMESPACE=ns PMIX_SERVER_URI41=tcp4";
        const PMI: &str = "PMI_FD=9 PMI_RANK=2 PMI_SIZE=5";
        const PORT: &str = "PMI_PORT=host:1 PMI_ID=4";
        const JOB: &str = "KUBERNETES_SERVICE_HOST=10.0.0.1 JOB_COMPLETION_INDEX=2 SUCI_SIZE=3";
        const SET: &str = "KUBERNETES_SERVICE_HOST=10.0.0.1 SUCI_SIZE=4";
        const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK=6 OMPI_COMM_WORLD_SIZE=7";
        let all = [PMIX, PMI, PORT, SLURM, JOB, SET, OPEN_MPI];
        for (variables, launcher, rank, size) in [
            (PMIX, LauncherKind::Pmix, 1, None),
            (
                &format!("{PMIX} OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=9"),
                LauncherKind::Pmix,
                1,
                Some(9),
            ),
            (PMI, LauncherKind::Pmi, 2, Some(5)),
            (PORT, LauncherKind::Pmi, 0, None),
            (SLURM, LauncherKind::Slurm, 3, Some(4)),
            (JOB, LauncherKind::Kubernetes, 2, Some(3)),
            (SET, LauncherKind::Kubernetes, 2, Some(4)),
            (OPEN_MPI, LauncherKind::Ranks, 6, Some(7)),
            ("PMI_RANK=1 PMI_SIZE=2", LauncherKind::Ranks, 1, Some(2)),
            // The first of several counts.
            (&all.join(" "), LauncherKind::Pmix, 1, Some(7)),
            (&all[1..6].join(" "), LauncherKind::Pmi, 2, Some(5)),
            (&all[3..6].join(" "), LauncherKind::Slurm, 3, Some(4)),
            // An incomplete one does not.
            (&format!("PMIX_RANK=1 {PMI}"), LauncherKind::Pmi, 2, Some(5)),
            (
                &format!("PMI_FD=9 {SLURM}"),
                LauncherKind::Slurm,
                3,
                Some(4),
            ),
        ] {
            let found = look(variables, recognise);
            // The rank of another kind of Open MPI's does not fit there, and is an error.
            if variables.contains("PMIX") && variables.contains("OMPI_COMM_WORLD_RANK=6") {
                assert_eq!(found.unwrap().unwrap().launcher(), launcher);
                continue;
            }
            let found = found.unwrap().unwrap();
            assert_eq!(
                (found.launcher(), found.rank, found.size),
                (launcher, rank, size),
                "{variables}"
            );
        }
        for nothing in [
            "",
            "PATH=/bin",
            "PMI_ID=3",
            "SUCI_SIZE=3",
            "PMIX_NAMESPACE=ns",
        ] {
            assert_eq!(look(nothing, recognise), Ok(None), "{nothing}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (variables, launcher, part) in [
            ("PMIX_RANK=0", LauncherKind::Pmix, "PMIX_NAMESPACE is not"),
            (
                "PMIX_RANK=0 PMIX_NAMESPACE=x",
                LauncherKind::Pmix,
                "PMIX_SERVER_URI4",
            ),
            ("PMI_FD=7", LauncherKind::Pmi, "PMI_RANK or PMI_SIZE is not"),
            ("PMI_PORT=h:1", LauncherKind::Pmi, "PMI_ID is not"),
            (
                "SLURM_PROCID=0",
                LauncherKind::Slurm,
                "start the program by srun",
            ),
            (
                "JOB_COMPLETION_INDEX=0",
                LauncherKind::Kubernetes,
                "SUCI_SIZE",
            ),
            (
                "PMIX_RANK=x",
                LauncherKind::Pmix,
                "PMIX_RANK=x: not a number",
            ),
            (
                "PMI_RANK=2 PMI_SIZE=2",
                LauncherKind::Pmi,
                "PMI_RANK=2: not below PMI_SIZE=2",
            ),
            (
                "PMI_FD=4294967295 PMI_RANK=0 PMI_SIZE=1",
                LauncherKind::Pmi,
                "no descriptor",
            ),
            (
                "OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=1",
                LauncherKind::Ranks,
                "=-1: not a number",
            ),
            (
                "JOB_COMPLETION_INDEX=3 SUCI_SIZE=3",
                LauncherKind::Kubernetes,
                "not below SUCI_SIZE=3",
            ),
            (
                "JOB_COMPLETION_INDEX=0 SUCI_SIZE=3 SUCI_PORT=65536",
                LauncherKind::Kubernetes,
                "SUCI_PORT=65536: not a port",
            ),
        ] {
            let traces = look(variables, traces_in);
            let trace = traces.iter().find(|it| it.launcher == launcher).unwrap();
            let problem = trace.problem.as_deref().unwrap_or("nothing");
            assert!(problem.contains(part), "{variables}: {problem}");
            assert!(!trace.is_complete);
        }
        let wrong = look("PMI_RANK=2 PMI_SIZE=2", recognise).unwrap_err();
        assert_eq!(wrong.launcher, LauncherKind::Pmi);
    }
}
