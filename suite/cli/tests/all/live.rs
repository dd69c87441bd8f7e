//! `report --serve`: a run in a browser's hands while it runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::common::server::{Script, Server};
use crate::common::{self, bench, ends, ok, until};
use paravt_suite::journal::{self, Journal};

/// The server, its port and the path of its page; it ends with the test.
struct Live(Child, u16, String);

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Live {
    fn start(runs: &std::path::Path) -> Self {
        let mut child =
            bench().arg("report").arg(runs).arg("--serve=0").stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split_once(' '));
        let (port, path) = address.unwrap_or_else(|| panic!("{line}")).0.split_once('/').unwrap();
        assert_eq!(path.len(), 32, "{line}");
        Self(child, port.parse().unwrap(), path.to_owned())
    }

    /// Status and text of its page.
    fn page(&self, method: &str, host: &str) -> (u16, String) {
        self.ask(&format!("{method} /{}", self.2), host)
    }

    /// Status and text of an answer.
    fn ask(&self, request: &str, host: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.1)).unwrap();
        write!(stream, "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

#[test]
fn a_run_is_shown_while_it_runs_to_this_machine_alone() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let (whole, part) = (dir.path().join("whole"), dir.path().join("part"));
    ok(common::run(&["videomme"], &whole, &server.base_url).args(["--nframes", "8"]));
    // The same run when all samples but one were recorded, and that moment was now.
    let mut manifest = journal::read_manifest(&whole.join("videomme")).unwrap();
    manifest.ended_at = None;
    let mut records = journal::read(&whole.join("videomme")).unwrap().records;
    let (expected, last) = (records.len(), records.pop().unwrap());
    let hostile = "<script>alert(1)</script>";
    records[0].transcript.final_text = hostile.to_owned();
    records[0].measured.finished_at += 1.0;
    let mut journal = Journal::create(&part.join("videomme"), &manifest).unwrap();
    journal.append(&records).unwrap();

    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let before = Live::start(&empty);
    let (status, page) = before.page("GET", &format!("127.0.0.1:{}", before.1));
    assert!(status == 200 && page.contains("No run in these folders yet"), "{page}");

    let live = Live::start(&part);
    let here = format!("127.0.0.1:{}", live.1);
    let (status, page) = live.page("GET", &here);
    assert_eq!(status, 200, "{page}");
    let recorded = records.len();
    assert!(page.contains(&format!("{recorded} of {expected} samples")), "{page}");
    assert!(page.contains("to go at that rate"), "{page}");
    assert!(page.contains("&lt;script&gt;") && !page.contains(hostile), "{page}");
    assert!(
        page.contains("http-equiv=\"refresh\"") && !page.contains(dir.path().to_str().unwrap()),
        "{page}"
    );

    // Foreign names of this machine, other methods and other paths, among them that of a user who knows only the port.
    for host in ["example.org", "127.0.0.1", "127.0.0.1.example.org", ""] {
        assert_eq!(live.page("GET", host).0, 403, "{host}");
    }
    assert_eq!(live.page("GET", &format!("localhost:{}", live.1)).0, 200);
    assert_eq!(live.page("POST", &here).0, 405);
    for path in ["/", "/../../etc/passwd", "/0123456789abcdef0123456789abcdef"] {
        assert_eq!(live.ask(&format!("GET {path}"), &here).0, 404, "{path}");
    }

    journal.append(&[last]).unwrap();
    let finished = format!("{expected} of {expected} samples");
    until("the page follows the journal", 60, || live.page("GET", &here).1.contains(&finished));
}

#[test]
fn connections_that_say_nothing_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let live = Live::start(dir.path());
    let here = format!("127.0.0.1:{}", live.1);
    let mut silent: Vec<TcpStream> = (0..160).map(|_| TcpStream::connect(&here).unwrap()).collect();
    for (number, stream) in silent.iter_mut().enumerate().filter(|(number, _)| number % 2 == 0) {
        write!(stream, "GET /{number} HTTP/1.1\r\nHo").unwrap();
    }
    assert_eq!(live.page("GET", &here).0, 200);
    for stream in &mut silent {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        // Closed: nothing, an error message or a reset.
        let _ = stream.read_to_end(&mut Vec::new()).map_err(|error| {
            assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "still open");
        });
    }
}

#[test]
fn nothing_to_serve_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    ends(2, bench().arg("report").arg(dir.path().join("none")).arg("--serve=0"), &["no such folder"]);
}
