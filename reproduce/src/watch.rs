//! Health checks of servers during an evaluation, and the release of their GPU memory after it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use paravt_supervise::Process;

/// Longest time between two health checks of a server.
const INTERVAL: Duration = Duration::from_secs(30);
/// Time limit of a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of its answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Time between SIGTERM and SIGKILL of a server.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// GPU memory that may stay in use after a server is gone, in bytes.
const LEFT: u64 = 1 << 30;
/// Time in which the driver frees the memory of ended processes.
const RELEASE: Duration = Duration::from_secs(120);
/// Time between two readings of it.
const PAUSE: Duration = Duration::from_millis(500);

/// Checks servers until `done` is closed. One that has not passed `/health` for `hang` is stopped, so that its open
/// requests fail and go to another server. Returns a line about each that was stopped.
pub(crate) fn watch(servers: &mut [(u16, &mut Process)], hang: Duration, done: &Receiver<()>) -> Vec<String> {
    let mut notes = Vec::new();
    let mut well = vec![Instant::now(); servers.len()];
    while done.recv_timeout(INTERVAL.min(hang / 4).max(PAUSE)) == Err(RecvTimeoutError::Timeout) {
        for ((port, process), well) in servers.iter_mut().zip(&mut well) {
            if process.exited().is_some() {
                continue;
            }
            match health(*port) {
                Ok(()) => *well = Instant::now(),
                Err(why) if well.elapsed() >= hang => {
                    notes.push(format!(
                        "the server on port {port} has not passed /health for {} s ({why}) and is stopped; last lines \
                         of {}:\n{}",
                        hang.as_secs(),
                        process.log().display(),
                        process.tail()
                    ));
                    process.stop(GRACE);
                }
                Err(_) => {}
            }
        }
    }
    notes
}

/// Asks a server on this machine for `/health`. A 404 counts as healthy: not every server has that path.
fn health(port: u16) -> Result<(), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        let request = format!("GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    let line = asked().map_err(|error| error.to_string())?;
    match line.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()) {
        Some(code) if code < 500 => Ok(()),
        Some(code) => Err(format!("status {code}")),
        None => Err("no answer in HTTP".to_owned()),
    }
}

/// Waits until the memory of GPUs is free again: less than 1 GiB in use, or about what was in use before the servers
/// started. `read` says how many bytes are in use on each. Returns the first GPU that keeps more, and how much.
pub(crate) fn released(
    before: &[u64],
    read: impl FnMut() -> Result<Vec<u64>, String>,
) -> Result<(), (usize, u64)> {
    released_within(RELEASE, before, read)
}

fn released_within(
    limit: Duration,
    before: &[u64],
    mut read: impl FnMut() -> Result<Vec<u64>, String>,
) -> Result<(), (usize, u64)> {
    if before.is_empty() {
        return Ok(());
    }
    let until = Instant::now() + limit;
    loop {
        // If the driver fails here, the next start of a server reports it.
        let Ok(used) = read() else { return Ok(()) };
        let is_kept = |(used, before): &(&u64, &u64)| **used >= LEFT.max(**before + LEFT / 4);
        let kept = used.iter().zip(before).position(|pair| is_kept(&pair));
        match kept {
            None => return Ok(()),
            Some(gpu) if Instant::now() >= until => return Err((gpu, used[gpu])),
            Some(_) => std::thread::sleep(PAUSE.min(limit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    fn answering(reply: &'static str) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 512]);
                let _ = stream.write_all(reply.as_bytes());
            }
        });
        port
    }

    #[test]
    fn health_is_any_answer_but_a_failure_of_the_server() {
        assert_eq!(health(answering("HTTP/1.1 200 OK\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 404 Not Found\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 503 Busy\r\n\r\n")), Err("status 503".to_owned()));
        assert_eq!(health(answering("SSH-2.0\r\n")), Err("no answer in HTTP".to_owned()));
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(health(closed).is_err());
    }

    #[test]
    fn memory_of_gpus_is_waited_for() {
        const MIB: u64 = 1 << 20;
        let limit = Duration::from_secs(20);
        let mut readings = vec![vec![600 * MIB, 900 * MIB], vec![600 * MIB, 70_000 * MIB]];
        let read = || Ok(readings.pop().unwrap());
        assert_eq!(released_within(limit, &[500 * MIB, 500 * MIB], read), Ok(()));
        let kept = released_within(Duration::from_millis(20), &[0, 0], || Ok(vec![0, 2048 * MIB]));
        assert_eq!(kept, Err((1, 2048 * MIB)));
        // A desktop uses its GPU for itself.
        assert_eq!(released_within(limit, &[3000 * MIB], || Ok(vec![3100 * MIB])), Ok(()));
        assert_eq!(released_within(limit, &[0], || Err("no driver".to_owned())), Ok(()));
    }
}
