//! Programs on two nodes of this host, whose addresses differ.

use crate::cluster::{Nodes, Server, plain_python, run};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use suci::security::ClusterKey;

#[test]
fn an_exchange_has_the_nodes_addresses() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_echo", &[&nodes.ips[1]]);
    let [server_ip, client_ip] = &nodes.ips;
    assert_eq!(
        server.finish(),
        format!("client {client_ip} at {server_ip}\n")
    );
}

#[test]
fn small_exchanges_go_past_the_kernel() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_past_the_kernel", &[]);
}

#[test]
fn bytes_keep_their_order_whichever_way_they_go() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_by_all_ways", &[]);
}

#[test]
fn bytes_that_the_kernel_holds_back_keep_their_order() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_corked", &[]);
}

#[test]
fn an_epoll_tells_nothing_of_a_closed_descriptor() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_in_threads", &["41"]);
    nodes.call(&server, "call_and_close_registered", &[]);
}

#[test]
fn an_idle_program_wakes_nobody() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_and_idle", &[]);
}

#[test]
fn a_wait_for_an_epoll_and_another_connection_ends() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_in_threads", &["2"]);
    nodes.call(&server, "call_and_wait_for_an_epoll", &[]);
}

#[test]
fn connections_of_an_epoll_in_another_one_go_through_the_kernel() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_by_nested_epolls", &[]);
}

#[test]
fn an_event_that_is_told_once_is_told_once() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_one_shot", &[]);
}

#[test]
fn a_listener_at_any_address_serves_nodes_and_clients_of_tcp() {
    let nodes = Nodes::on_loopback();
    for any in ["0.0.0.0", "::"] {
        let server = Server::start(&mut nodes.python(0, &["serve_one_by_one", any, "2"]));
        nodes.call(&server, "call_echo", &[&nodes.ips[1]]);
        run(&mut plain_python(&[
            "call_echo",
            "127.0.0.1",
            &server.port,
            "127.0.0.1",
        ]));
        let said = server.finish().replace("::ffff:", "");
        let [server_ip, client_ip] = &nodes.ips;
        let wanted = format!("client {client_ip} at {server_ip}\nclient 127.0.0.1 at 127.0.0.1\n");
        assert_eq!(said, wanted, "{any}");
    }
}

#[test]
fn a_second_socket_that_shares_a_port_needs_nothing_of_the_node() {
    let nodes = Nodes::on_loopback();
    let [_, warned] = run(&mut nodes.python(0, &["listen_in_both_families", "0.0.0.0"]));
    assert_eq!(warned, "");
}

#[test]
fn a_port_without_listener_refuses() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    nodes.call(&server, "call_refused", &[]);
    server.finish();
}

/// F25: no process has the port of the peer's node: connections are refused at once, as by TCP.
#[test]
fn f25_a_node_without_process_refuses_at_once() {
    let nodes = Nodes::on_loopback();
    let [said, warned] = run(&mut nodes.python(1, &["call_nobody", &nodes.ips[0]]));
    assert_eq!(warned, "");
    print!("{said}");
}

#[test]
fn many_connections_that_do_not_block() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_events", &["40"]);
    nodes.call(&server, "call_events", &["40"]);
    server.finish();
}

#[test]
fn children_serve_connections_of_their_parent() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_in_children", &["3"]);
    for _ in 0..3 {
        nodes.call(&server, "call_echo", &[&nodes.ips[1]]);
    }
    server.finish();
}

#[test]
fn workers_accept_connections_of_their_parent() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_by_workers", &["3"]);
    for _ in 0..3 {
        nodes.call(&server, "call_echo", &[&nodes.ips[1]]);
    }
    assert_eq!(server.finish(), nodes.told(3));
}

#[test]
fn a_program_after_exec_is_told_the_client() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_by_programs", &["3"]);
    for _ in 0..3 {
        nodes.call(&server, "call_echo", &[&nodes.ips[1]]);
    }
    assert_eq!(server.finish(), nodes.told(3));
}

#[test]
fn a_client_that_has_gone_is_told_when_it_is_accepted() {
    let (nodes, dir) = (Nodes::on_loopback(), tempfile::tempdir().unwrap());
    let go = dir.path().join("go").to_str().unwrap().to_owned();
    let server = nodes.serve("serve_after_the_client", &[&go]);
    nodes.call(&server, "call_and_go", &[&go]);
    assert_eq!(server.finish(), nodes.told(1));
}

/// The process that listened has ended; its child takes the node over. It is one process that
/// serves all clients, and no worker of it.
#[test]
fn f24_a_daemon_that_forks_after_it_listened_is_reached() {
    let nodes = Nodes::on_loopback();
    let mut number = 0;
    for end in ["exit", "_exit", "kill"] {
        for forks in ["1", "2"] {
            let server = nodes.serve("serve_in_background", &[forks, "3", end]);
            let began = Instant::now();
            let mut client = nodes.python(1, &["call_until_served", &nodes.ips[0], &server.port]);
            let [said, _] = run(client.arg("3"));
            let took = began.elapsed();
            assert_eq!(said, "1\n", "{end}, {forks} forks");
            assert!(
                took < Duration::from_secs(10),
                "{end}, {forks} forks: {took:?}"
            );
            assert_eq!(server.output(), nodes.told(3));
            number += 1;
        }
    }
    println!("figure: {number} daemons of one or two forks serve clients of their node");
}

#[test]
fn f24_workers_whose_parent_is_killed_take_the_node_over_in_turn() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_by_heirs", &["3"]);
    let mut client = nodes.python(1, &["call_until_served", &nodes.ips[0], &server.port]);
    let [said, _] = run(client.arg("3"));
    assert_eq!(said, "3\n");
    assert_eq!(server.output(), nodes.told(3));
}

#[test]
fn a_child_uses_the_connection_of_its_parent() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["1"]);
    let words = ["call_from_child", &nodes.ips[0], &server.port];
    let [_, warned] = run(&mut nodes.python(1, &words));
    assert!(warned.contains("node 1 cannot be opened"), "{warned}");
    server.finish();
}

#[test]
fn a_process_delivers_before_it_ends() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_sink", &[]);
    let sent = nodes.call(&server, "call_and_leave", &[]);
    assert_eq!(server.finish(), sent);
}

#[test]
fn connections_leave_nothing_behind() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_one_by_one", &["200"]);
    nodes.call(&server, "call_often", &["200"]);
    server.finish();
}

#[test]
fn a_closed_listener_refuses() {
    let nodes = Nodes::on_loopback();
    let mut command = nodes.python(0, &["serve_and_close_listener", &nodes.ips[0]]);
    let server = Server::start(command.stdin(Stdio::piped()));
    nodes.call(&server, "call_until_refused", &[]);
}

#[test]
fn a_killed_process_ends_its_connections() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_and_die", &[]);
    nodes.call(&server, "call_the_dying", &[]);
}

#[test]
fn a_program_in_c_finds_what_tcp_has() {
    let nodes = Nodes::on_loopback();
    let server = Server::start(&mut nodes.c(0, &["serve", &nodes.ips[0]]));
    run(&mut nodes.c(1, &["call", &nodes.ips[0], &server.port]));
    server.finish();
}

#[test]
fn a_cancelled_thread_ends_and_leaves_no_lock() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_in_threads", &["101"]);
    nodes.interrupt(&server, "cancel");
}

#[test]
fn a_handler_that_leaves_a_call_stops_no_connection() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_in_threads", &["3"]);
    nodes.interrupt(&server, "jump");
}

#[test]
fn a_program_connects_while_it_exits() {
    let nodes = Nodes::on_loopback();
    let server = Server::start(&mut nodes.c(0, &["serve", &nodes.ips[0]]));
    let [said, _] = run(&mut nodes.c(1, &["exit", &nodes.ips[0], &server.port]));
    assert_eq!(said, "at exit\n");
    server.finish();
}

#[test]
fn clients_beyond_the_backlog_are_refused() {
    let (nodes, dir) = (Nodes::on_loopback(), tempfile::tempdir().unwrap());
    let go = dir.path().join("go").to_str().unwrap().to_owned();
    let server = nodes.serve("serve_late", &["4", &go]);
    nodes.call(&server, "call_in_crowd", &["4", &go]);
    server.finish();
}

#[test]
fn a_listener_that_opens_again_is_reached_again() {
    let nodes = Nodes::on_loopback();
    let server = nodes.serve("serve_again", &["300"]);
    nodes.call(&server, "call_again", &["300"]);
    server.finish();
}

#[test]
fn a_connection_whose_program_is_gone_ends() {
    let nodes = Nodes::on_loopback();
    let mut command = nodes.python(0, &["serve_and_hold", &nodes.ips[0]]);
    let server = Server::start(command.stdin(Stdio::piped()));
    nodes.call(&server, "call_and_abandon", &[]);
}

#[test]
fn a_process_does_not_wait_at_its_end_for_nodes_that_never_answered() {
    let nodes = Nodes::on_loopback();
    let silent = std::net::UdpSocket::bind((nodes.ips[0].as_str(), 7100)).unwrap();
    let mut command = nodes.python(1, &["call_and_give_up", &nodes.ips[0], "80"]);
    let began = Instant::now();
    run(&mut command);
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(9),
        "{took:?}: it waited for 10 s"
    );
    drop(silent);
}

#[test]
fn a_socket_that_was_closed_while_it_waited_is_not_answered() {
    let nodes = Nodes::on_loopback();
    let mut server = nodes.serve("serve_one_by_one", &["2"]);
    let id = server.id().to_string();
    nodes.call(&server, "call_from_reused_port", &[&id]);
    server.finish();
}

#[test]
fn a_fork_waits_until_the_book_is_read() {
    let (nodes, dir) = (Nodes::on_loopback(), tempfile::tempdir().unwrap());
    let pipe = dir.path().join("book");
    run(Command::new("mkfifo").arg(&pipe));
    let book = nodes.book.to_str().unwrap();
    let words = ["call_from_child_of_reader", &nodes.ips[0], "80", book];
    run(nodes.python(1, &words).env("SUCI_BOOK", &pipe));
}

#[test]
fn without_a_node_listeners_serve_tcp_and_connections_to_nodes_fail() {
    let nodes = Nodes::on_loopback();
    let taken = std::net::UdpSocket::bind((nodes.ips[0].as_str(), 7100)).unwrap();
    let mut command = nodes.python(0, &["serve_one_by_one", &nodes.ips[0], "1"]);
    let server = Server::start(command.stderr(Stdio::null()));
    run(&mut plain_python(&[
        "call_echo",
        &nodes.ips[0],
        &server.port,
        "127.0.0.1",
    ]));
    server.finish();
    let words = ["call_with_error", &nodes.ips[1], "80", "ENETDOWN"];
    let [_, warned] = run(&mut nodes.python(0, &words));
    assert!(warned.contains("node 0 cannot be opened"), "{warned}");
    drop(taken);
}

#[test]
fn a_server_that_clears_its_environment_is_sealed() {
    let nodes = Nodes::on_loopback();
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    let text = ClusterKey::generate().unwrap().to_secret_text();
    std::fs::write(&key, text).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let words = ["serve_without_environment", &nodes.ips[0], "1"];
    let server = Server::start(nodes.python(0, &words).env("SUCI_KEY_FILE", &key));
    let words = ["call_echo", &nodes.ips[0], &server.port, &nodes.ips[1]];
    let [_, warned] = run(nodes.python(1, &words).env("SUCI_KEY_FILE", &key));
    assert_eq!(warned, "");
    assert_eq!(server.finish(), nodes.told(1));
}

#[test]
fn wrong_settings_leave_tcp_alone_and_say_so() {
    let nodes = Nodes::on_loopback();
    let server = Server::start(&mut plain_python(&["serve_one_by_one", &nodes.ips[0], "1"]));
    let words = ["call_echo", &nodes.ips[0], &server.port, "127.0.0.1"];
    let [_, warned] = run(nodes.python(1, &words).env_remove("SUCI_ID"));
    assert_eq!(
        warned,
        "suci-preload: SUCI_ID is not set: set it to a node. All connections are TCP\n"
    );
    server.finish();
}
