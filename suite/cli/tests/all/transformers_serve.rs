//! End to end against a server that nobody here wrote: `transformers serve` with a tiny Qwen3-VL.
//!
//! Scores mean nothing; message shapes, frames, records and resuming are the real thing.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{self, SPLITS, ends, free_port, ok, python, stable_records, tiny};
use paravt_suite::record::{Outcome, RecordedPart};

struct Serve {
    child: Child,
    port: u16,
    model: PathBuf,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serve {
    fn start(dir: &Path) -> Self {
        let model = tiny("tiny_qwen3vl.py");
        let port = free_port();
        let log = std::fs::File::create(dir.join("serve.log")).unwrap();
        let child = Command::new(python().with_file_name("transformers"))
            .arg("serve")
            .arg(&model)
            .args(["--device", "cpu", "--host", "127.0.0.1", "--port", &port.to_string()])
            .env("HF_HUB_OFFLINE", "1")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let serve = Self { child, port, model };
        let started = Instant::now();
        while !serve.healthy() {
            let log = || std::fs::read_to_string(dir.join("serve.log")).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(180), "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(300));
        }
        serve
    }

    fn healthy(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return false };
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut reply = String::new();
        let _ = stream.read_to_string(&mut reply);
        reply.starts_with("HTTP/1.1 200")
    }

    fn run(&self, tasks: &[&str], out: &Path, model: &Path, extra: &[&str]) -> Command {
        let mut command = common::run(tasks, out, &format!("http://127.0.0.1:{}/v1", self.port));
        command.args(["--nframes", "8", "--max-tokens", "12", "--concurrency", "2", "--limit", "2"]);
        command.arg("--model").arg(model).args(extra);
        command
    }
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn all_splits_end_to_end() {
    let dir = tempfile::tempdir().unwrap();
    let serve = Serve::start(dir.path());
    let out = dir.path().join("run");
    ok(serve.run(&["all"], &out, &serve.model, &[]));
    for split in SPLITS {
        let records = stable_records(&out.join(split));
        assert_eq!(records.len(), 2, "{split}");
        for record in &records {
            assert_ne!(record.score.outcome, Outcome::Error, "{split}: {:?}", record.error);
            let call = &record.transcript.calls[0];
            assert!(call.usage.unwrap().prompt_tokens > 100, "the frames reached the model");
            assert!(call.usage.unwrap().completion_tokens > 0);
            let user = &record.transcript.messages[1].parts;
            let images = user.iter().filter(|part| matches!(part, RecordedPart::Image { .. })).count();
            assert_eq!((images, user.len()), (8, 9), "{split}");
        }
    }
    // Finished runs resume to themselves, and a second run says the same: greedy decoding, same frames.
    let before = stable_records(&out.join("mlvu"));
    ok(serve.run(&["mlvu"], &out, &serve.model, &["--resume"]));
    assert_eq!(stable_records(&out.join("mlvu")), before);
    let again = dir.path().join("again");
    ok(serve.run(&["mlvu"], &again, &serve.model, &[]));
    assert_eq!(stable_records(&again.join("mlvu")), before);

    // A model that the server does not have is an error by name, not an answer.
    let wrong = dir.path().join("wrong");
    ends(4, serve.run(&["mlvu"], &wrong, Path::new("nobody/nothing"), &["--tries", "1"]), &[]);
    assert_eq!(stable_records(&wrong.join("mlvu"))[0].score.outcome, Outcome::Error);
}
