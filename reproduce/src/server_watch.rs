//! Health checks of servers during an evaluation, and the release of their GPU memory after it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use paravt_hub::http::{Method, health, request};
use paravt_supervise::{Command, Process};

/// Longest time between two health checks of a server.
const INTERVAL: Duration = Duration::from_secs(30);
/// Maximum restarts in one evaluation: of one server beside others, and of all servers after a failed split.
pub(crate) const RESTARTS: usize = 2;
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
    pub(crate) address: SocketAddr,
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
                None => match look.stands_still(server.address, limits) {
                    Some(how) => how,
                    None => continue,
                },
            };
            ended += 1;
            server.process.stop(GRACE);
            let (log, tail) = (server.process.log().display().to_string(), server.process.tail());
            let again = !is_over && !is_single && server.restarts < RESTARTS;
            let then = if again { "; it is started again" } else { "" };
            say(&format!(
                "the server on port {} {how}{then}; last lines of {log}:\n{tail}",
                server.address.port()
            ));
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
    fn stands_still(&mut self, server: SocketAddr, limits: Limits) -> Option<String> {
        if self.last.elapsed() < INTERVAL.min(limits.hang / 4) {
            return None;
        }
        self.last = Instant::now();
        match health(server).and_then(|()| progress(server, &mut self.tokens)) {
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

/// Whether the engine behind a server works. That of vLLM is a process of its own: `/health` stays well while it hangs.
/// Its token counters (`/metrics`) have moved since the last look, which `before` holds, or it answers a request for one
/// token. A server without such counters is taken at its word.
fn progress(server: SocketAddr, before: &mut Option<f64>) -> Result<(), String> {
    let Ok((200, metrics)) = request(server, Method::GET, "/metrics", "") else { return Ok(()) };
    let Some(now) = counted_tokens(&metrics) else { return Ok(()) };
    if before.replace(now) != Some(now) {
        return Ok(());
    }
    let (_, models) = request(server, Method::GET, "/v1/models", "")?;
    let models: serde_json::Value = serde_json::from_str(&models).unwrap_or_default();
    let asked = serde_json::json!({
        "model": models["data"][0]["id"], "max_tokens": 1,
        "messages": [{"role": "user", "content": "."}],
    });
    match request(server, Method::POST, "/v1/chat/completions", &asked.to_string()) {
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
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

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
    fn standing_still(answers: bool) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
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
        address
    }

    #[test]
    fn an_engine_that_stands_still_is_asked_for_a_token() {
        for answers in [true, false] {
            let (server, mut before) = (standing_still(answers), None);
            assert_eq!(health(server), Ok(()));
            assert_eq!(progress(server, &mut before), Ok(()), "the first look");
            assert_eq!(before, Some(48.0));
            assert_eq!(progress(server, &mut before).is_ok(), answers);
            assert_eq!(progress(server, &mut Some(47.0)), Ok(()), "it has moved");
        }
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert_eq!(progress(silent, &mut None), Ok(()), "it has no counters");
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
