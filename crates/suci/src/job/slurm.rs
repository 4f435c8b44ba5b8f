//! Slurm without PMI (`srun --mpi=none`): each process computes where all are, from the nodes of
//! the job step and the tasks on each. The ports begin at a number that the job's and the step's
//! numbers choose.

use super::recognise::{FoundLauncher, Kind, Look, Surroundings, port};
use crate::book::{number, shown};
use crate::env;
use std::fmt::Write as _;

/// The variables that are read, except [`env::PORT`].
pub(super) const VARIABLES: [&str; 10] = [
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_NODEID",
    "SLURM_LOCALID",
    "SLURM_DISTRIBUTION",
    "SLURM_DIST_PLANESIZE",
];

/// Nodes or tasks of a step at most.
const MOST: usize = 1 << 20;

/// The ports from which a job's are chosen: above those of well-known services, below those that
/// Linux gives to programs that ask for any (32,768).
const PORTS: std::ops::Range<u32> = 10_240..32_768;

/// A job step as one of its processes sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobStep {
    /// The hosts by rank.
    hosts: Vec<String>,
    /// The port of rank 0, if [`env::PORT`] names it.
    port: Option<u16>,
    /// The numbers of the job and of the step.
    numbers: (u32, u32),
}

pub(super) fn recognise(seen: &Surroundings<'_>) -> Result<Look, String> {
    let Some(rank) = seen.number("SLURM_PROCID")? else {
        return Ok(Look::Absent);
    };
    // A batch script has the first of these, too.
    let (Some(nodes), Some(tasks), Some(step)) = (
        seen.get("SLURM_STEP_NODELIST"),
        seen.get("SLURM_STEP_TASKS_PER_NODE"),
        seen.number("SLURM_STEP_ID")?,
    ) else {
        return Ok(Look::Incomplete(
            "SLURM_PROCID is set, and SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE or \
             SLURM_STEP_ID is not, as in a batch script: start the program by srun there"
                .to_owned(),
        ));
    };
    let (nodes, tasks) = (expand(&nodes)?, counts(&tasks)?);
    if nodes.len() != tasks.len() {
        return Err(format!(
            "SLURM_STEP_NODELIST has {} nodes, and SLURM_STEP_TASKS_PER_NODE has {}: let srun set \
             both",
            nodes.len(),
            tasks.len()
        ));
    }
    let chunk = chunk(seen)?;
    let places = deal(&tasks, chunk);
    check_own(seen, rank, &places)?;
    let size = u32::try_from(places.len()).unwrap_or(u32::MAX);
    if let Some(other) = seen
        .number("SLURM_STEP_NUM_TASKS")?
        .filter(|other| *other != size)
    {
        return Err(format!(
            "SLURM_STEP_NUM_TASKS={other}: SLURM_STEP_TASKS_PER_NODE has {size}: let srun set both"
        ));
    }
    let host = |&(node, _): &(usize, u32)| nodes.get(node).cloned().unwrap_or_default();
    let step = JobStep {
        hosts: places.iter().map(host).collect(),
        port: port(seen)?,
        numbers: (seen.number("SLURM_JOB_ID")?.unwrap_or(0), step),
    };
    Ok(Look::Complete(FoundLauncher {
        kind: Kind::Slurm(step),
        rank,
        size: Some(size),
    }))
}

/// How many consecutive ranks a node gets before the next one does.
fn chunk(seen: &Surroundings<'_>) -> Result<u32, String> {
    let text = seen
        .get("SLURM_DISTRIBUTION")
        .unwrap_or_else(|| "block".to_owned());
    let first = text.split([':', ',']).next().unwrap_or_default();
    let unknown = || {
        format!(
            "SLURM_DISTRIBUTION={}: it does not tell which process is where: start by srun \
             --mpi=pmi2 or --mpi=pmix, or -m block, cyclic or plane",
            shown(&text)
        )
    };
    match first {
        "block" => Ok(u32::MAX),
        "cyclic" => Ok(1),
        "plane" => {
            let size = seen.number("SLURM_DIST_PLANESIZE")?;
            size.filter(|size| *size > 0).ok_or_else(unknown)
        }
        _ => Err(unknown()),
    }
}

/// Deals ranks to nodes, `chunk` at a time: for each rank its node, and its number there.
fn deal(tasks: &[u32], chunk: u32) -> Vec<(usize, u32)> {
    let mut dealt = vec![0_u32; tasks.len()];
    let mut places = Vec::new();
    loop {
        let before = places.len();
        for (node, (dealt, &all)) in dealt.iter_mut().zip(tasks).enumerate() {
            for _ in 0..chunk.min(all - *dealt) {
                places.push((node, *dealt));
                *dealt += 1;
            }
        }
        if places.len() == before {
            return places;
        }
    }
}

/// Refuses a distribution that does not have this process where it is: others would look for it
/// elsewhere.
fn check_own(seen: &Surroundings<'_>, rank: u32, places: &[(usize, u32)]) -> Result<(), String> {
    let computed = usize::try_from(rank).ok().and_then(|rank| places.get(rank));
    let (Some(node), Some(local)) = (seen.number("SLURM_NODEID")?, seen.number("SLURM_LOCALID")?)
    else {
        return Err(
            "SLURM_NODEID or SLURM_LOCALID is not set: start the program by srun".to_owned(),
        );
    };
    match computed {
        Some(&(at, number)) if u32::try_from(at) == Ok(node) && number == local => Ok(()),
        _ => Err(format!(
            "process SLURM_PROCID={rank} is number SLURM_LOCALID={local} on node \
             SLURM_NODEID={node}, where SLURM_DISTRIBUTION and SLURM_STEP_TASKS_PER_NODE do not \
             have it: start by srun --mpi=pmi2 or --mpi=pmix, or -m block, cyclic or plane"
        )),
    }
}

impl JobStep {
    /// The port of a process.
    pub(super) fn port(&self, rank: u32, size: u32) -> Result<u16, String> {
        let first = self
            .port
            .map_or_else(|| self.chosen(size), |port| Ok(port.into()))?;
        u16::try_from(first.saturating_add(rank)).map_err(|_| {
            format!(
                "process {rank} would listen at port {}: set {} to at most {}",
                first.saturating_add(rank),
                env::PORT,
                65_536_u32.saturating_sub(size)
            )
        })
    }

    /// The first port of the job's.
    fn chosen(&self, size: u32) -> Result<u32, String> {
        let (job, step) = self.numbers;
        let starts = (PORTS.end - PORTS.start)
            .checked_sub(size)
            .filter(|starts| *starts > 0);
        let starts = starts.ok_or_else(|| {
            format!(
                "{size} processes are more than there are ports from {} to {}: start by srun \
                 --mpi=pmi2 or --mpi=pmix",
                PORTS.start,
                PORTS.end - 1
            )
        })?;
        // Jobs that follow one another are far apart (Knuth's multiplicative hash).
        let mixed = job.wrapping_mul(2_654_435_761) ^ step.wrapping_mul(40_503);
        Ok(PORTS.start + (mixed >> 8) % starts)
    }

    /// The text of the book of all processes.
    pub(super) fn book(&self, size: u32) -> Result<String, String> {
        let mut text = String::new();
        for (rank, host) in (0..).zip(&self.hosts) {
            let port = self.port(rank, size)?;
            // Writing into a string cannot fail.
            let _ = writeln!(text, "{rank} {host}:{port}");
        }
        Ok(text)
    }
}

/// Expands a list of nodes, such as `n[0-2,5],m1`.
fn expand(list: &str) -> Result<Vec<String>, String> {
    let wrong = || {
        format!(
            "SLURM_STEP_NODELIST={}: not a list of nodes: let srun set it",
            shown(list)
        )
    };
    let mut nodes = Vec::new();
    let (mut depth, mut begin) = (0_u32, 0);
    let ends = list.char_indices().chain([(list.len(), ',')]);
    for (at, character) in ends {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1).ok_or_else(wrong)?,
            ',' if depth == 0 => {
                let word = list.get(begin..at).filter(|word| !word.is_empty());
                expand_word(word.ok_or_else(wrong)?, &mut nodes).ok_or_else(wrong)?;
                begin = at + 1;
            }
            _ => {}
        }
    }
    match depth {
        0 => Ok(nodes),
        _ => Err(wrong()),
    }
}

/// Expands a word with any number of brackets. Returns nothing if it makes no sense.
fn expand_word(word: &str, nodes: &mut Vec<String>) -> Option<()> {
    let mut all = vec![String::new()];
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('[') {
        let (ranges, behind) = after.split_once(']')?;
        let mut numbers = Vec::new();
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (from, to) = (number(first)?, number(last)?);
            let count = usize::try_from(to.checked_sub(from)?).ok()?;
            if numbers.len() + count >= MOST {
                return None;
            }
            let width = first.len();
            numbers.extend((from..=to).map(|it| format!("{it:0width$}")));
        }
        if all.len() * numbers.len() > MOST {
            return None;
        }
        let with = |begun: &String| {
            let begun = format!("{begun}{before}");
            numbers
                .iter()
                .map(move |it| format!("{begun}{it}"))
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
        rest = behind;
    }
    // A colon, a blank or `#` would be another thing in a book.
    let is_name = |name: &String| {
        !name.is_empty()
            && name
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
    };
    all.iter_mut().for_each(|name| name.push_str(rest));
    (all.iter().all(is_name) && nodes.len() + all.len() <= MOST).then(|| nodes.append(&mut all))
}

/// Reads how many tasks each node has, such as `2(x3),1`.
fn counts(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || {
        let shown = shown(text);
        format!("SLURM_STEP_TASKS_PER_NODE={shown}: not numbers of tasks: let srun set it")
    };
    let (mut counts, mut total) = (Vec::new(), 0_usize);
    for word in text.split(',') {
        let (count, times) = match word.split_once("(x") {
            None => (word, Some(1)),
            Some((count, times)) => (count, times.strip_suffix(')').and_then(number)),
        };
        let (count, times) = (number(count).ok_or_else(wrong)?, times.ok_or_else(wrong)?);
        let nodes = usize::try_from(times).unwrap_or(MOST);
        let tasks = usize::try_from(count).unwrap_or(MOST);
        total = total.saturating_add(nodes.saturating_mul(tasks.max(1)));
        if total > MOST {
            return Err(wrong());
        }
        counts.extend(std::iter::repeat_n(count, nodes));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_nodes_are_expanded() {
        for (list, nodes) in [
            ("n1", "n1"),
            ("n[0-2,5],m1", "n0 n1 n2 n5 m1"),
            ("rack[1-2]n[09-10]", "rack1n09 rack1n10 rack2n09 rack2n10"),
            ("a[1]-ib.example", "a1-ib.example"),
        ] {
            let nodes: Vec<_> = nodes.split(' ').collect();
            assert_eq!(expand(list).unwrap(), nodes, "{list}");
        }
        for bad in [
            "",
            ",",
            "n[",
            "n]",
            "n[1",
            "n[2-1]",
            "n[a]",
            "n[-1]",
            "n[]",
            "n[[1]]",
            "n1,",
            "n 1",
            "n:1",
            "n#1",
            "n[0-4294967295]",
            "n[0-9999][0-9999]",
            "n[1-2-3]",
            "\u{1b}[2J",
        ] {
            let said = expand(bad).unwrap_err();
            assert!(said.starts_with("SLURM_STEP_NODELIST="), "{bad}: {said}");
            assert!(said.len() < 250 && !said.contains('\u{1b}'), "{said}");
        }
    }

    #[test]
    fn numbers_of_tasks_are_read() {
        assert_eq!(counts("2(x3),1"), Ok(vec![2, 2, 2, 1]));
        assert_eq!(counts("4"), Ok(vec![4]));
        for bad in [
            "",
            "x",
            "2(x)",
            "2(x3",
            "2(3)",
            "2,,1",
            "-1",
            "1(x4294967295)",
            "4294967295",
        ] {
            assert!(counts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranks_are_dealt_to_nodes() {
        let nodes = |tasks: &[u32], chunk| -> Vec<usize> {
            deal(tasks, chunk).iter().map(|(node, _)| *node).collect()
        };
        assert_eq!(nodes(&[2, 2, 1], u32::MAX), [0, 0, 1, 1, 2]);
        assert_eq!(nodes(&[2, 2, 1], 1), [0, 1, 2, 0, 1]);
        assert_eq!(nodes(&[4, 3], 2), [0, 0, 1, 1, 0, 0, 1]);
        assert_eq!(deal(&[2, 1], 1), [(0, 0), (1, 0), (0, 1)]);
    }

    fn step(variables: &[(&str, &str)]) -> Result<FoundLauncher, String> {
        let all = [
            ("SLURM_JOB_ID", "17"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_PROCID", "2"),
            ("SLURM_STEP_NUM_TASKS", "4"),
            ("SLURM_STEP_NODELIST", "n[0-1]"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
            ("SLURM_NODEID", "1"),
            ("SLURM_LOCALID", "0"),
        ];
        let value = |name: &str| {
            let mut both = variables.iter().chain(&all);
            both.find(|(other, _)| *other == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let seen = Surroundings {
            variable: &value,
            host: String::new(),
            hosts: String::new(),
        };
        match recognise(&seen)? {
            Look::Complete(found) => Ok(found),
            _ => Err("incomplete".to_owned()),
        }
    }

    fn book(variables: &[(&str, &str)]) -> Result<String, String> {
        let found = step(variables)?;
        match found.kind {
            Kind::Slurm(step) => step.book(found.size.unwrap()),
            _ => Err("another kind".to_owned()),
        }
    }

    #[test]
    fn a_step_has_a_book() {
        let port = ("SUCI_PORT", "7000");
        assert_eq!(
            book(&[port]).unwrap(),
            "0 n0:7000\n1 n0:7001\n2 n1:7002\n3 n1:7003\n"
        );
        let cyclic = [
            port,
            ("SLURM_DISTRIBUTION", "cyclic"),
            ("SLURM_NODEID", "0"),
            ("SLURM_LOCALID", "1"),
        ];
        assert_eq!(
            book(&cyclic).unwrap(),
            "0 n0:7000\n1 n1:7001\n2 n0:7002\n3 n1:7003\n"
        );
        let plane = [
            port,
            ("SLURM_DISTRIBUTION", "plane"),
            ("SLURM_DIST_PLANESIZE", "2"),
        ];
        assert_eq!(book(&plane), book(&[port]));
        // Without the variable the job's number chooses, as it does for all its processes.
        let chosen = book(&[]).unwrap();
        assert_eq!(
            chosen,
            book(&[("SLURM_PROCID", "3"), ("SLURM_LOCALID", "1")]).unwrap()
        );
        assert_ne!(chosen, book(&[("SLURM_JOB_ID", "18")]).unwrap());
        assert_ne!(chosen, book(&[("SLURM_STEP_ID", "1")]).unwrap());
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (name, value, part) in [
            (
                "SLURM_DISTRIBUTION",
                "arbitrary",
                "SLURM_DISTRIBUTION=arbitrary: ",
            ),
            ("SLURM_DISTRIBUTION", "plane", "SLURM_DISTRIBUTION=plane: "),
            (
                "SLURM_DISTRIBUTION",
                "cyclic",
                "process SLURM_PROCID=2 is number",
            ),
            ("SLURM_PROCID", "4", "process SLURM_PROCID=4 is number"),
            ("SLURM_STEP_NODELIST", "n[0-2]", "has 3 nodes"),
            ("SLURM_STEP_NUM_TASKS", "5", "SLURM_STEP_NUM_TASKS=5"),
            ("SLURM_STEP_ID", "", "incomplete"),
            ("SLURM_LOCALID", "", "SLURM_LOCALID is not set"),
            ("SUCI_PORT", "65534", "process 2 would listen at port 65536"),
            ("SUCI_PORT", "0", "SUCI_PORT=0: not a port"),
        ] {
            let said = book(&[(name, value)]).unwrap_err();
            assert!(said.contains(part), "{name}={value}: {said}");
        }
    }

    #[test]
    fn chosen_ports_fit_however_many_processes_there_are() {
        for size in [1, 4_096, PORTS.end - PORTS.start - 1] {
            for job in (0..10_000).chain([u32::MAX]) {
                let step = JobStep {
                    hosts: Vec::new(),
                    port: None,
                    numbers: (job, 1),
                };
                let first = u32::from(step.port(0, size).unwrap());
                assert!(
                    first >= PORTS.start && first + size <= PORTS.end,
                    "{job} {size}"
                );
            }
        }
        let step = JobStep {
            hosts: Vec::new(),
            port: None,
            numbers: (1, 1),
        };
        assert!(step.port(0, PORTS.end - PORTS.start).is_err());
    }
}
