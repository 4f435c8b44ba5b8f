//! Many sockets: at once, one after the other, and never accepted.

use crate::nodes::{at, node, pair};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use suci::NodeId;
use suci_sockets::{SuciListener, SuciStream};

/// Serves each connection until its peer closes, all in this thread.
fn echo(listener: &SuciListener, count: usize) {
    for _ in 0..count {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = [0; 4];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    }
}

#[test]
fn a_listener_keeps_serving_under_opens_that_are_never_accepted() {
    let (server, client) = pair();
    let flooder = node(2, 1);
    flooder.add_peer(NodeId(0), server.local_addr()).unwrap();
    let flooded = SuciListener::with_backlog(&server, 81, 64).unwrap();
    let served = SuciListener::bind(&server, 80).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = Vec::new();
            let mut refused = 0;
            for _ in 0..2000 {
                match SuciStream::connect(&flooder, at(81)) {
                    Ok(stream) => open.push(stream),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                        refused += 1;
                    }
                }
            }
            assert_eq!((open.len(), refused), (64, 1936));
        });
        scope.spawn(|| echo(&served, 100));
        for _ in 0..100 {
            let mut stream = SuciStream::connect(&client, at(80)).unwrap();
            stream.write_all(b"ping").unwrap();
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).unwrap();
        }
    });
    drop(flooded);
}

#[test]
fn many_sockets_echo_at_once() {
    const COUNT: usize = 50;
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let accepted: Vec<_> = (0..COUNT).map(|_| listener.accept().unwrap().0).collect();
            for stream in accepted {
                scope.spawn(move || std::io::copy(&mut &stream, &mut &stream).unwrap());
            }
        });
        for index in 0..COUNT {
            let client = &client;
            scope.spawn(move || {
                let stream = SuciStream::connect(client, at(80)).unwrap();
                let sent = vec![index as u8; 100_000];
                let reader = stream.clone();
                let reading = scope.spawn(move || {
                    let mut all = vec![0; 100_000];
                    (&reader).read_exact(&mut all).unwrap();
                    all
                });
                (&stream).write_all(&sent).unwrap();
                assert!(reading.join().unwrap() == sent);
            });
        }
    });
}
