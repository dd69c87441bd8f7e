//! Code that writes to the socket of the interpreter itself.

use std::time::{Duration, Instant};

use paravt_jail::{Limits, Outcome, Output};

use crate::{ended, episode, jail, limits, stdout, video};

/// `send(bytes)` writes to the socket, `frame(bytes)` with a length before it.
const SEND: &str = r"
import os, stat, struct, json, time
for number in range(256):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode): break
    except OSError: pass
def send(data): os.write(number, data)
def frame(data): send(struct.pack('>I', len(data)) + data)
";

fn after(code: &str) -> Output {
    let limits = Limits { call: Duration::from_secs(2), ..limits() };
    let mut episode = jail(limits).start(&video()).unwrap();
    assert_eq!(stdout(&mut episode, SEND), "");
    let began = Instant::now();
    let output = episode.run(code).unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{code}");
    output
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn what_is_not_a_reply_ends_the_jail() {
    for (code, reason) in [
        (r"send(b'\xff\xff\xff\xff')", "a frame of 4294967295 bytes"),
        (r"send(b'\x7f\xff\xff\xff' + bytes(100))", "a frame of 2147483647 bytes"),
        ("frame(b'')", "is not one"),
        ("frame(b'no json')", "is not one"),
        (r"frame(b'\xff\xfe')", "is not one"),
        ("frame(b'[' * 100000)", "is not one"),
        (r#"frame(b'{"call": 2, "stdout": "\\ud800"}')"#, "is not one"),
        (r#"frame(b'{"call": 2, "stdout": "x", "answer": "B"}')"#, "unknown field `answer`"),
        (r#"frame(b'{"call": 2, "call": 2}')"#, "duplicate field"),
        (r#"frame(b'{"call": 2, "figures": -1}')"#, "is not one"),
        (r#"frame(b'{"call": 2, "figures_total": 1e999}')"#, "is not one"),
        (r#"frame(b'{"call": 2, "figures": 65}')"#, "65 figures"),
        (r#"frame(b'{"call": 3}')"#, "it answered call 3 in the place of 2"),
        (r#"frame(json.dumps({"call": 2, "stdout": "x" * 2000000}).encode())"#, "2000000 bytes"),
        (r#"frame(b'{"call": 2, "figures": 1}'); frame(b'GIF89a' + bytes(100))"#, "not a PNG"),
        (
            r#"frame(b'{"call": 2, "figures": 1}'); send(struct.pack('>I', 1 << 30))"#,
            "a frame of 1073741824 bytes",
        ),
    ] {
        let output = after(code);
        assert!(ended(&output).contains(reason), "{code}: {output:?}");
        assert_eq!((output.stdout.as_str(), output.figures.len()), ("", 0));
    }
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn half_a_reply_is_late() {
    for code in [
        "send(b'\\0'); time.sleep(60)",
        "send(struct.pack('>I', 1000) + b'{'); time.sleep(60)",
        "frame(b'{\"call\": 2, \"figures\": 2}'); time.sleep(60)",
        "send(struct.pack('>I', 1000))\nwhile True: send(b' '); time.sleep(0.05)",
        // The socket is full before the code that would read from it does.
        "import threading\nwhile True: pass",
    ] {
        let output = after(code);
        let is_late = output.outcome == Outcome::TimedOut;
        assert!(is_late || ended(&output).contains("is not one"), "{code}: {output:?}");
    }
}

/// Code can claim a result of its own call, which it could print as well; the next call finds the second reply.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_forged_reply_is_good_for_one_call_only() {
    let mut episode = episode();
    assert_eq!(stdout(&mut episode, SEND), "");
    let output = episode.run(r#"frame(b'{"call": 2, "stdout": "mine"}')"#).unwrap();
    assert_eq!((output.outcome, output.stdout.as_str()), (Outcome::Done, "mine"));
    std::thread::sleep(Duration::from_millis(200));
    let output = episode.run("print('theirs')").unwrap();
    assert!(ended(&output).contains("not asked for"), "{output:?}");
    // Replies in advance are found before the code of the next call is sent.
    let code = r#"
import threading
def later():
    time.sleep(0.3)
    frame(b'{"call": 3, "stdout": "in advance"}')
threading.Thread(target=later).start()
"#;
    assert_eq!(stdout(&mut episode, &format!("{SEND}{code}")), "");
    std::thread::sleep(Duration::from_millis(600));
    let output = episode.run("print(1)").unwrap();
    assert!(ended(&output).contains("not asked for"), "{output:?}");
}
