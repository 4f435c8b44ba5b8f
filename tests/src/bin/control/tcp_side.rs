//! TCP: one socket for bulk and one for questions, each with a thread at the server.

use super::{Count, GRADIENT, Outcome, PARAMETERS, QUESTION, Role, ask_on, await_start};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes read at once.
const CHUNK: usize = 256 << 10;

/// The time between two looks at the counts.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) fn play(role: &Role) -> Outcome<()> {
    let [bulk, control, ..] = role.addresses[..] else {
        return Err("too few addresses".into());
    };
    if role.id == 0 {
        let (bulk, control) = (TcpListener::bind(bulk)?, TcpListener::bind(control)?);
        await_start()?;
        return serve(role, &bulk, control);
    }
    await_start()?;
    if role.id == role.asker() {
        ask(role, control)
    } else {
        work(role, bulk)
    }
}

fn connect(address: SocketAddr) -> Outcome<TcpStream> {
    let began = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if began.elapsed() > Duration::from_secs(10) => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Each thread ends with its socket, or with the process.
fn serve(role: &Role, bulk: &TcpListener, control: TcpListener) -> Outcome<()> {
    let received = Arc::new(AtomicU64::new(0));
    for _ in 1..role.asker() {
        let (stream, _) = bulk.accept()?;
        begin_bulk(stream, PARAMETERS, &received)?;
    }
    std::thread::spawn(move || answer(&control));
    count(role, &received)
}

fn answer(control: &TcpListener) -> Outcome<()> {
    let (mut stream, _) = control.accept()?;
    stream.set_nodelay(true)?;
    let mut question = [0; QUESTION.len()];
    while stream.read_exact(&mut question).is_ok() {
        stream.write_all(&question)?;
    }
    Ok(())
}

/// Sends messages of `length` bytes and takes arriving ones, a thread for each.
fn begin_bulk(stream: TcpStream, length: usize, received: &Arc<AtomicU64>) -> Outcome<()> {
    let writer = stream.try_clone()?;
    let received = Arc::clone(received);
    std::thread::spawn(move || write_on(writer, length));
    std::thread::spawn(move || read_on(stream, &received));
    Ok(())
}

fn read_on(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
    {
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}

fn write_on(mut stream: TcpStream, length: usize) {
    let payload = vec![1; length];
    while stream.write_all(&payload).is_ok() {}
}

fn count(role: &Role, received: &AtomicU64) -> Outcome<()> {
    let (mut count, began) = (Count::new(role), Instant::now());
    while !role.is_over(began) {
        std::thread::sleep(LOOK);
        count.look(|| Ok(received.load(Ordering::Relaxed)))?;
    }
    count.report();
    Ok(())
}

fn work(role: &Role, bulk: SocketAddr) -> Outcome<()> {
    let received = Arc::new(AtomicU64::new(0));
    begin_bulk(connect(bulk)?, GRADIENT, &received)?;
    count(role, &received)
}

fn ask(role: &Role, control: SocketAddr) -> Outcome<()> {
    let mut stream = connect(control)?;
    ask_on(role, || {
        stream.write_all(QUESTION)?;
        stream.read_exact(&mut [0; QUESTION.len()])?;
        Ok(())
    })
}
