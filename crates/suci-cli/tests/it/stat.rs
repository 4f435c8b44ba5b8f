//! `suci stat` and `--metrics`, of a process that runs beside.
use crate::support::{Running, await_node, errors, free_address, output, pings, printed, suci};
use serde_json::Value;
use std::fs::DirBuilder;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::DirBuilderExt;

#[test]
fn stat_shows_what_a_process_did() {
    let (at, metrics) = (free_address().to_string(), free_address());
    let metrics_text = metrics.to_string();
    let args = ["ping", "--listen", &at, "--metrics", &metrics_text];
    let mut server = Running::start(&mut suci(&args));
    assert!(server.first_error_line().contains("answering"));
    let pid = server.0.id().to_string();
    assert_eq!(await_node(&server, |_| true)["address"], at);

    let out = output(&mut pings(&at, "30"));
    assert!(out.status.success(), "{}", errors(&out));
    // The file may have been stored between the last question and its answer.
    let through = |node: &Value| {
        let counts = ["messages_received", "messages_sent"];
        counts.iter().all(|name| node["counters"][*name] == 30)
    };
    let node = await_node(&server, through);
    let peer = &node["peers"][0];
    assert_eq!(
        (&peer["messages_received"], &peer["messages_sent"]),
        (&30.into(), &30.into())
    );
    assert_eq!(peer["message_bytes_received"], 30 * 64);
    assert!(peer["waits"]["congestion"]["times"].is_u64());

    // The same for people, of this process and among all.
    for args in [&["stat", &pid][..], &["stat"]] {
        let text = printed(&output(&mut suci(args)));
        assert!(text.contains(&format!("process {pid} (suci)")), "{text}");
        assert!(text.contains("messages 30 out, 30 in"), "{text}");
    }
    // And for Prometheus.
    let mut stream = TcpStream::connect(metrics).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("suci_node_messages_received_total{node=\"2\"} 30\n"),
        "{answer}"
    );

    // A process that was killed leaves its file, which is not shown.
    drop(server);
    let out = output(&mut suci(&["stat", &pid]));
    assert!(!out.status.success());
    assert!(
        errors(&out).contains(&format!("no node of process {pid}")),
        "{}",
        errors(&out)
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let own = dir.path().join("suci");
    DirBuilder::new().mode(0o700).create(&own).unwrap();
    // The process runs, and has no other node.
    let pid = std::process::id().to_string();
    let file = own.join(format!("{pid}-0.stat"));
    for bytes in [&b""[..], &[0xA5; 200_000]] {
        std::fs::write(&file, bytes).unwrap();
        for command in ["stat", "top"] {
            let mut command = suci(&[command, &pid]);
            let out = output(command.env("XDG_RUNTIME_DIR", dir.path()));
            let said = errors(&out);
            let part = format!("{}: no statistics ", file.display());
            assert!(!out.status.success() && said.contains(&part), "{said}");
        }
    }
}

#[test]
fn watching_goes_on() {
    let at = free_address().to_string();
    let mut server = Running::start(&mut suci(&["ping", "--listen", &at]));
    server.first_error_line();
    let pid = server.0.id().to_string();
    let mut watch = Running::start(&mut suci(&["stat", &pid, "--json", "--watch", "0.05"]));
    let mut output = watch.0.stdout.take().unwrap();
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while text.lines().count() < 4 {
        let count = output.read(&mut piece).unwrap();
        assert!(count > 0, "it ended after:\n{text}");
        text.push_str(std::str::from_utf8(&piece[..count]).unwrap());
    }
    let pid_in =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["nodes"][0]["pid"].clone();
    let pids: Vec<_> = text.lines().take(3).map(pid_in).collect();
    assert!(pids.iter().all(|other| *other == server.0.id()), "{pids:?}");
}

#[test]
fn top_needs_a_terminal() {
    let out = output(&mut suci(&["top"]));
    assert!(!out.status.success());
    assert!(errors(&out).contains("no terminal") && errors(&out).contains("suci stat"));
}
