//! Health checks of servers during an evaluation, and the release of their GPU memory after it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use paravt_supervise::{Command, Process};

/// Longest time between two health checks of a server.
const INTERVAL: Duration = Duration::from_secs(30);
/// Maximum restarts in one evaluation: of one server beside others, and of all servers after a failed split.
pub(crate) const RESTARTS: usize = 2;
/// Time limit of a connection.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of its answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of it that are read.
const MAX_ANSWER: usize = 4 << 20;
/// Time between SIGTERM and SIGKILL of a server.
pub(crate) const GRACE: Duration = Duration::from_secs(10);
/// GPU memory that may stay in use after a server is gone, in bytes.
const LEFT: u64 = 1 << 30;
/// Time in which the driver frees the memory of ended processes.
const RELEASE: Duration = Duration::from_secs(120);
/// Time between two readings of it.
const PAUSE: Duration = Duration::from_millis(500);

/// A server, and what starts it again.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) command: Command,
    pub(crate) process: Process,
    /// How often it was started again.
    pub(crate) restarts: usize,
}

/// How long a server may stand still, and how long it may take to be ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) hang: Duration,
    pub(crate) ready: Duration,
}

/// Watches servers until `done` is closed. One that has not passed `/health` for as long as it may, or whose engine has stood
/// still for so long, is stopped, so that its open requests fail and go to another server. One that has ended is said at once,
/// and started again beside the others, with its log in `folder`; requests find it when it is ready. A single one
/// is not: without it the evaluation ends. Returns how many ended.
pub(crate) fn watch(
    servers: &mut [Server],
    folder: &Path,
    limits: Limits,
    done: &Receiver<()>,
    say: &mut dyn FnMut(&str),
) -> usize {
    let is_single = servers.len() == 1;
    let mut looks: Vec<Look> = servers.iter().map(|_| Look::default()).collect();
    let mut ended = 0;
    let mut is_over = false;
    // What ends the work is looked at once more after it.
    while !is_over {
        is_over = done.recv_timeout(PAUSE) != Err(RecvTimeoutError::Timeout);
        for (server, look) in servers.iter_mut().zip(&mut looks) {
            let how = match server.process.exited() {
                _ if look.is_given_up => continue,
                Some(status) => format!("ended with {status}"),
                None => match look.stands_still(server.port, limits) {
                    Some(how) => how,
                    None => continue,
                },
            };
            ended += 1;
            server.process.stop(GRACE);
            let (log, tail) = (server.process.log().display().to_string(), server.process.tail());
            let again = !is_over && !is_single && server.restarts < RESTARTS;
            let then = if again { "; it is started again" } else { "" };
            say(&format!("the server on port {} {how}{then}; last lines of {log}:\n{tail}", server.port));
            *look = Look { is_up: false, is_given_up: !again, ..Look::default() };
            if again {
                server.restarts += 1;
                match Process::start(&server.name, &server.command, folder) {
                    Ok(process) => server.process = process,
                    Err(error) => {
                        say(&error.to_string());
                        look.is_given_up = true;
                    }
                }
            }
        }
    }
    ended
}

/// What is known of a server's health.
struct Look {
    /// The last look, and the last at which all was well.
    last: Instant,
    well: Instant,
    /// Tokens that it had counted.
    tokens: Option<f64>,
    /// It has passed since it was started; until then it loads its model.
    is_up: bool,
    /// It is not watched any more.
    is_given_up: bool,
}

impl Default for Look {
    fn default() -> Self {
        let now = Instant::now();
        Self { last: now, well: now, tokens: None, is_up: true, is_given_up: false }
    }
}

impl Look {
    /// How a server has stood still for too long; `None` while it is well, and between two looks.
    fn stands_still(&mut self, port: u16, limits: Limits) -> Option<String> {
        if self.last.elapsed() < INTERVAL.min(limits.hang / 4) {
            return None;
        }
        self.last = Instant::now();
        match health(port).and_then(|()| progress(port, &mut self.tokens)) {
            Ok(()) => {
                (self.well, self.is_up) = (Instant::now(), true);
                None
            }
            Err(why) => {
                let limit = if self.is_up { limits.hang } else { limits.ready.max(limits.hang) };
                let seconds = limit.as_secs();
                (self.well.elapsed() >= limit)
                    .then(|| format!("has not passed /health for {seconds} s ({why}) and is stopped"))
            }
        }
    }
}

/// Asks a server on this machine for `/health`. A 404 counts as healthy: not every server has that path.
fn health(port: u16) -> Result<(), String> {
    match exchange(port, "GET", "/health", "")? {
        (code, _) if code < 500 => Ok(()),
        (code, _) => Err(format!("status {code}")),
    }
}

/// Whether the engine behind a server works. That of vLLM is a process of its own: `/health` stays well while it hangs.
/// Its token counters (`/metrics`) have moved since the last look, which `before` holds, or it answers a request for one
/// token. A server without such counters is taken at its word.
fn progress(port: u16, before: &mut Option<f64>) -> Result<(), String> {
    let Ok((200, metrics)) = exchange(port, "GET", "/metrics", "") else { return Ok(()) };
    let Some(now) = counted_tokens(&metrics) else { return Ok(()) };
    if before.replace(now) != Some(now) {
        return Ok(());
    }
    let (_, models) = exchange(port, "GET", "/v1/models", "")?;
    let models: serde_json::Value = serde_json::from_str(&models).unwrap_or_default();
    let request = serde_json::json!({
        "model": models["data"][0]["id"], "max_tokens": 1,
        "messages": [{"role": "user", "content": "."}],
    });
    match exchange(port, "POST", "/v1/chat/completions", &request.to_string()) {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("no token was counted since the last look, and a request for one got {why}")),
    }
}

/// Tokens read and written since the server started; `None` where its metrics have no such counters.
fn counted_tokens(metrics: &str) -> Option<f64> {
    let counters = ["vllm:prompt_tokens_total", "vllm:generation_tokens_total"];
    let counts = metrics.lines().filter_map(|line| {
        let (name, value) = line.split_once(['{', ' '])?;
        let value = value.rsplit(' ').next()?;
        counters.contains(&name).then(|| value.parse::<f64>().ok())?
    });
    counts.reduce(|sum, count| sum + count)
}

/// One request to a server on this machine: status and body of its answer.
fn exchange(port: u16, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
    exchange_within(ANSWER, port, method, path, body)
}

fn exchange_within(
    limit: Duration,
    port: u16,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String), String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_write_timeout(Some(limit))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let (mut answer, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        // Of a server that sends without end, byte by byte or as fast as it can, no more is waited for or kept.
        let until = Instant::now() + limit;
        while answer.len() < MAX_ANSWER {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            stream.set_read_timeout(Some(left))?;
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
                // It may leave the connection open, or reset it, once it has said what it had to say.
                Err(error) if answer.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = asked().map_err(|error| error.to_string())?;
    let code = answer.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok());
    let code = code.filter(|_| answer.starts_with("HTTP/")).ok_or("no answer in HTTP")?;
    Ok((code, answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned()))
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
    fn an_answer_without_end_is_cut_off() {
        let endless = |chunk: usize, pause: Duration| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = listener.local_addr().unwrap().port();
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
                    while stream.write_all(&vec![b'x'; chunk]).is_ok() {
                        std::thread::sleep(pause);
                    }
                }
            });
            port
        };
        let within = |port| exchange_within(Duration::from_millis(500), port, "GET", "/health", "");
        assert_eq!(within(endless(1, Duration::from_millis(20))), Ok((200, String::new())));
        assert_eq!(within(endless(1 << 20, Duration::ZERO)), Ok((200, String::new())));
    }

    const METRICS: &str = "# TYPE vllm:prompt_tokens_total counter\n\
        vllm:num_requests_running{engine=\"0\",model_name=\"nano\"} 2.0\n\
        vllm:prompt_tokens_total{engine=\"0\",model_name=\"nano\"} 32.0\n\
        vllm:prompt_tokens_created{engine=\"0\",model_name=\"nano\"} 1.7954210077423372e+09\n\
        vllm:prompt_tokens_by_source_total{engine=\"0\",source=\"local_compute\"} 32.0\n\
        vllm:generation_tokens_total{engine=\"0\",model_name=\"nano\"} 1.6e+01\n";

    #[test]
    fn tokens_are_counted_as_vllm_names_them() {
        assert_eq!(counted_tokens(METRICS), Some(48.0));
        assert_eq!(counted_tokens("process_cpu_seconds_total 3.5\n"), None);
    }

    /// A server whose metrics stand still, and whether it answers a request for a token.
    fn standing_still(answers: bool) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0; 512];
                let read = stream.read(&mut request).unwrap();
                let body = match std::str::from_utf8(&request[..read]).unwrap() {
                    asked if asked.starts_with("GET /metrics") => METRICS,
                    asked if asked.starts_with("GET /v1/models") => "{\"data\":[{\"id\":\"nano\"}]}",
                    asked if asked.starts_with("GET /health") || answers => "",
                    asked => {
                        assert!(asked.contains("\"model\":\"nano\""), "{asked}");
                        continue;
                    }
                };
                stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes()).unwrap();
            }
        });
        port
    }

    #[test]
    fn an_engine_that_stands_still_is_asked_for_a_token() {
        for answers in [true, false] {
            let (port, mut before) = (standing_still(answers), None);
            assert_eq!(health(port), Ok(()));
            assert_eq!(progress(port, &mut before), Ok(()), "the first look");
            assert_eq!(before, Some(48.0));
            assert_eq!(progress(port, &mut before).is_ok(), answers);
            assert_eq!(progress(port, &mut Some(47.0)), Ok(()), "it has moved");
        }
        assert_eq!(progress(answering("HTTP/1.1 404 Not Found\r\n\r\n"), &mut None), Ok(()));
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
