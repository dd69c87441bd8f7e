//! Short requests to servers on this machine.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Time limit of a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Time limit of its answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes of it that are read.
const MAX_ANSWER: usize = 4 << 20;

/// Asks a server for `/health`. A 404 counts as healthy: not every server has that path. A 503 does not: vLLM answers it
/// once its engine is dead, SGLang while it starts or ends and when it generates no token in time.
///
/// # Errors
/// No answer in time, or one of 500 and above.
pub fn health(server: SocketAddr) -> Result<(), String> {
    match request(server, "GET", "/health", "")? {
        (code, _) if code < 500 => Ok(()),
        (code, _) => Err(format!("status {code}")),
    }
}

/// Status and body of a server's answer to one request.
///
/// # Errors
/// No connection, no answer in time, or one that is not HTTP.
pub fn request(server: SocketAddr, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
    within(ANSWER, server, method, path, body)
}

fn within(
    limit: Duration,
    server: SocketAddr,
    method: &str,
    path: &str,
    body: &str,
) -> Result<(u16, String), String> {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&server, CONNECT)?;
        stream.set_write_timeout(Some(limit))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    /// A server that gives each connection to a function.
    fn serving(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().for_each(|stream| serve(stream.unwrap())));
        address
    }

    fn answering(reply: &'static str) -> SocketAddr {
        serving(|mut stream| {
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(reply.as_bytes());
        })
    }

    #[test]
    fn health_is_any_answer_but_a_failure_of_the_server() {
        assert_eq!(health(answering("HTTP/1.1 200 OK\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 404 Not Found\r\n\r\n")), Ok(()));
        assert_eq!(health(answering("HTTP/1.1 503 Busy\r\n\r\n")), Err("status 503".to_owned()));
        assert_eq!(health(answering("SSH-2.0\r\n")), Err("no answer in HTTP".to_owned()));
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        assert!(health(closed).is_err());
    }

    #[test]
    fn an_answer_without_end_is_cut_off() {
        let endless = |chunk: usize, pause: Duration| {
            serving(move |mut stream| {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
                while stream.write_all(&vec![b'x'; chunk]).is_ok() {
                    std::thread::sleep(pause);
                }
            })
        };
        let within = |server| within(Duration::from_millis(500), server, "GET", "/health", "");
        assert_eq!(within(endless(1, Duration::from_millis(20))), Ok((200, String::new())));
        assert_eq!(within(endless(1 << 20, Duration::ZERO)), Ok((200, String::new())));
    }
}
