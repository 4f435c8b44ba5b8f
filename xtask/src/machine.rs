//! The machine on which something is measured.

/// Properties of the machine as names and values, without those that cannot be found out.
#[must_use]
pub fn facts() -> Vec<(&'static str, String)> {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let setting = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let count = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let model = field(&processors, "model name").unwrap_or("unknown");
    let gib =
        field(&memory, "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let facts = [
        ("Processors", format!("{count} x {model}")),
        ("Virtual", virtualisation(&processors).to_owned()),
        (
            "Memory",
            gib.map_or_else(String::new, |kib| format!("{} GiB", kib.div_ceil(1 << 20))),
        ),
        ("Kernel", format!("Linux {}", setting("kernel/osrelease"))),
        (
            "Socket buffers",
            format!(
                "rmem_max {} B, wmem_max {} B",
                setting("net/core/rmem_max"),
                setting("net/core/wmem_max")
            ),
        ),
        (
            "TCP buffers",
            format!(
                "tcp_rmem {}, tcp_wmem {}",
                setting("net/ipv4/tcp_rmem"),
                setting("net/ipv4/tcp_wmem")
            ),
        ),
    ];
    facts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// `name : value` of /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then_some(value.trim())
    })
}

fn virtualisation(processors: &str) -> &'static str {
    let flags = field(processors, "flags").unwrap_or_default();
    let is_guest = flags.split_whitespace().any(|flag| flag == "hypervisor");
    if is_guest {
        "yes: a guest of a hypervisor"
    } else {
        "no"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\nflags\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name"), Some("Some CPU"));
        assert_eq!(field(text, "model"), None);
        assert!(virtualisation(text).starts_with("yes"));
        assert_eq!(virtualisation("flags : fpu\n"), "no");
    }
}
