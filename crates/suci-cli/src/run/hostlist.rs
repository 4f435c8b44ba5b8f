//! Lists of hosts: which there are, and how many processes each takes.

use std::path::Path;

use crate::args::MAX_PROCESSES;
use crate::error::{Context, Failure, Result};

/// A host, and how many processes it takes, if that is said.
type Listed = (String, Option<u32>);

/// Parses the words of `--hosts`.
pub(super) fn parse(words: &[String]) -> Result<Vec<Listed>> {
    let mut hosts = Vec::new();
    for word in words {
        let listed =
            host(word).map_err(|problem| Failure::new(format!("--hosts {word}: {problem}")))?;
        add(&mut hosts, listed);
    }
    Ok(hosts)
}

/// Reads a file: a host in each line, as Open MPI, MPICH and PBS write it.
pub(super) fn read(path: &Path) -> Result<Vec<Listed>> {
    let text = std::fs::read_to_string(path).context(path.display())?;
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let words: Vec<_> = line.split_whitespace().collect();
        let listed = match words[..] {
            [] => continue,
            [word] => host(word),
            [name, number] => {
                let number = number.strip_prefix("slots=").unwrap_or(number);
                host(name).and_then(|(name, _)| Ok((name, Some(count(number)?))))
            }
            _ => Err("write HOST, HOST N or HOST slots=N".to_owned()),
        };
        let place = || format!("{}:{}", path.display(), index + 1);
        let listed = listed.map_err(|problem| Failure::new(format!("{}: {problem}", place())))?;
        add(&mut hosts, listed);
    }
    match hosts.is_empty() {
        true => Err(Failure::new(format!(
            "{}: no host: name one in each line",
            path.display()
        ))),
        false => Ok(hosts),
    }
}

/// Enters a host. One that is named again takes as many more, as in the files of PBS.
fn add(hosts: &mut Vec<Listed>, (name, count): Listed) {
    match hosts.iter_mut().find(|(other, _)| *other == name) {
        Some((_, before)) => {
            let sum = before.unwrap_or(1).saturating_add(count.unwrap_or(1));
            *before = Some(sum);
        }
        None => hosts.push((name, count)),
    }
}

/// Parses `HOST` or `HOST:N`; addresses of IPv6 with a number have brackets.
fn host(word: &str) -> Result<Listed, String> {
    let (name, number) = match word.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or("write [ADDRESS]:N")?;
            match rest.strip_prefix(':') {
                Some(number) => (name, Some(number)),
                None if rest.is_empty() => (name, None),
                None => return Err("write [ADDRESS]:N".to_owned()),
            }
        }
        None => match word.split_once(':') {
            Some((name, number)) if !number.contains(':') => (name, Some(number)),
            _ => (word, None),
        },
    };
    let is_name = |it: char| it.is_ascii_alphanumeric() || "-_.@:%".contains(it);
    // `ssh` would take a name that begins so for an option.
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_name) {
        return Err("not the name or address of a host".to_owned());
    }
    Ok((name.to_owned(), number.map(count).transpose()?))
}

fn count(text: &str) -> Result<u32, String> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse::<u32>().ok().filter(|_| digits);
    let allowed = number.filter(|it| (1..=MAX_PROCESSES).contains(&u64::from(*it)));
    allowed
        .ok_or_else(|| format!("\"{text}\": write a number of processes from 1 to {MAX_PROCESSES}"))
}

/// Deals `wanted` processes to hosts in their order: each takes as many as it was listed with, or
/// one. If none was listed with a number, all take equal parts.
pub(super) fn deal(hosts: Vec<Listed>, wanted: Option<u32>) -> Result<Vec<(String, u32)>> {
    let count = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    let are_equal = hosts.iter().all(|(_, number)| number.is_none());
    let room: u32 = match (are_equal, wanted) {
        (true, Some(wanted)) => wanted,
        _ => hosts
            .iter()
            .map(|(_, number)| number.unwrap_or(1))
            .fold(0, u32::saturating_add),
    };
    let wanted = wanted.unwrap_or(room);
    if u64::from(wanted) > MAX_PROCESSES {
        return Err(Failure::new(format!(
            "{wanted} processes: at most {MAX_PROCESSES} are possible"
        )));
    }
    if wanted > room {
        return Err(Failure::new(format!(
            "{wanted} processes are more than the hosts take ({room}): name larger numbers (HOST:N)"
        )));
    }
    let mut left = wanted;
    let mut places = Vec::new();
    for (index, (name, number)) in (0_u32..).zip(hosts) {
        let share = match are_equal {
            true => wanted / count + u32::from(index < wanted % count),
            false => number.unwrap_or(1),
        };
        let share = share.min(left);
        left -= share;
        if share > 0 {
            places.push((name, share));
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(words: &str, wanted: Option<u32>) -> String {
        let words: Vec<_> = words.split(',').map(str::to_owned).collect();
        match parse(&words).and_then(|hosts| deal(hosts, wanted)) {
            Ok(places) => {
                let shown: Vec<_> = places
                    .iter()
                    .map(|(name, count)| format!("{name} {count}"))
                    .collect();
                shown.join(", ")
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn processes_are_dealt_to_hosts_in_their_order() {
        for (words, wanted, expected) in [
            ("a:4,b:4", None, "a 4, b 4"),
            ("a:4,b:4", Some(5), "a 4, b 1"),
            ("a:4,b:4", Some(4), "a 4"),
            ("a,b", None, "a 1, b 1"),
            ("a,b", Some(5), "a 3, b 2"),
            ("a,b:2,a", None, "a 2, b 2"),
            ("user@a.example:2", None, "user@a.example 2"),
            ("[fd00::1]:2,fd00::2", None, "fd00::1 2, fd00::2 1"),
        ] {
            assert_eq!(dealt(words, wanted), expected, "{words} {wanted:?}");
        }
    }

    #[test]
    fn wrong_hosts_are_refused() {
        for (words, wanted, part) in [
            (
                "a:4,b:4",
                Some(9),
                "9 processes are more than the hosts take (8)",
            ),
            ("a:0", None, "--hosts a:0: \"0\": write a number"),
            ("a:x", None, "\"x\": write a number"),
            ("-oProxyCommand=x", None, "not the name or address"),
            ("a b", None, "not the name or address"),
            ("", None, "not the name or address"),
            ("[fd00::1", None, "write [ADDRESS]:N"),
            ("a:4096,b:4096", None, "8192 processes: at most 4096"),
        ] {
            let said = dealt(words, wanted);
            assert!(said.contains(part), "{words}: {said}");
        }
    }

    #[test]
    fn files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        std::fs::write(&path, "# cluster\na slots=4\nb 2 # two\n\nc:3\nd\nd\n").unwrap();
        let shown: Vec<_> = read(&path)
            .unwrap()
            .into_iter()
            .map(|(name, count)| (name, count.unwrap()))
            .collect();
        let expected =
            [("a", 4), ("b", 2), ("c", 3), ("d", 2)].map(|(name, count)| (name.to_owned(), count));
        assert_eq!(shown, expected);
        for (text, part) in [
            ("a\nb x\n", "hosts:2: \"x\""),
            ("a 1 2\n", "hosts:1: write HOST"),
            ("#\n", "no host"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = read(&path).unwrap_err().to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
