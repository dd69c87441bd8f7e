//! What is asked is said, is the same on every machine, and is refused where there are no words for it.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::common::server::{Script, Server};
use crate::common::{bench, ends, imported, ok, run_task, text, world};
use paravt_suite::journal;

/// One sample of a split.
fn one(split: &str, out: &Path, server: &Server) -> Command {
    let mut command = crate::common::run(&[split], out, &server.base_url);
    command.args(["--limit", "1"]);
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_run_begins_with_what_it_asks_and_ends_with_it() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::common::run(&["mlvu", "lvbench"], dir.path(), &server.base_url);
    let output = ok(command.args(["--limit", "2", "--nframes", "8"]));
    let (said, scores) = (stderr(&output), String::from_utf8(output.stdout).unwrap());
    let block: Vec<&str> = said.lines().take_while(|line| !line.starts_with("warning: ")).collect();
    assert!(block.iter().all(|line| line.chars().count() <= 80), "{said}");
    for (line, label) in block.iter().zip(["model", "protocol", "mode", "frames", "data", ""]) {
        assert_eq!(line[..10].trim(), label, "{said}");
    }
    let whole = block.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        &format!("model scripted at {}", server.base_url),
        "protocol native, the default; this suite's own texts",
        "mode native: tool crop_video, up to 3 turns of 5 calls; profile strict",
        "frames 8 of each video, sent as images",
        "data mlvu: 2 of 6 rows in",
        "lvbench: 2 of 6 rows in",
    ] {
        assert!(whole.contains(words), "{words}: {whole}");
    }
    assert_eq!(said.matches("model  ").count(), 1, "what two splits share is said once: {said}");
    assert!(scores.contains("(protocol native, mode native, N 2, "), "{scores}");
    let mut quiet = one("mlvu", &dir.path().join("quiet"), &server);
    assert!(!stderr(&ok(quiet.arg("--quiet"))).contains("protocol  "));
    let mut planned = one("mlvu", &dir.path().join("planned"), &server);
    assert!(text(&ok(planned.arg("--dry-run"))).contains("protocol native, the default; this suite's"));
}

#[test]
fn the_same_command_asks_the_same_whatever_is_imported() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    ok(one("mlvu", &dir.path().join("bare"), &server));
    let bare = server.asked();
    for (name, flags) in [("default", &[][..]), ("direct", &["--mode", "direct"])] {
        let mut command = one("mlvu", &dir.path().join(name), &server);
        let said = stderr(&ok(command.env("PARAVT_BENCH_CACHE", imported()).args(flags)));
        assert!(said.contains("paravt is imported and not used: --protocol paravt asks"), "{said}");
        let manifest = journal::read_manifest(&dir.path().join(name).join("mlvu")).unwrap();
        assert_eq!(manifest.protocol, "native");
        assert_eq!(server.asked() == bare, flags.is_empty());
    }
    // Once chosen, a run keeps its protocol.
    let out = dir.path().join("chosen");
    let mut command = one("mlvu", &out, &server);
    let said = stderr(&ok(command.env("PARAVT_BENCH_CACHE", imported()).args(["--protocol", "paravt"])));
    assert!(said.contains("protocol  paravt, asked for (--protocol); imported from"), "{said}");
    let mut resumed = crate::common::run(&["mlvu"], &out, &server.base_url);
    let said = stderr(&ok(resumed.args(["--limit", "2", "--resume"])));
    assert!(said.contains("protocol  paravt, that of the run in "), "{said}");
    assert_eq!(journal::read(&out.join("mlvu")).unwrap().records.len(), 2);
    let auto = ["ask", "v", "?", "--protocol", "auto"];
    ends(2, bench().args(auto), &["name the protocol, e.g. paravt"]);
}

#[test]
fn a_published_row_has_its_protocol_or_is_refused() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let row = ["--paper-row", "ParaVT-8B"];
    let words = ["--paper-row ParaVT-8B: protocol paravt is not imported", "--protocol native"];
    ends(2, one("mlvu", dir.path(), &server).args(row), &words);
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    let mut command = one("mlvu", dir.path(), &server);
    let said = stderr(&ok(command.env("PARAVT_BENCH_CACHE", imported()).args(row)));
    assert!(said.contains("protocol  paravt, that of the row ParaVT-8B; "), "{said}");
    assert!(said.contains("profile\n") || said.contains("profile paper"), "{said}");
}

/// A folder with a task of each kind over one video.
fn own_tasks() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("clips")).unwrap();
    std::fs::copy(world().join("lvbench/nanoLV_0.mp4"), dir.path().join("clips/a.mp4")).unwrap();
    for (name, rows, row) in [
        (
            "picks",
            json!([{"id": "1", "clip": "a", "q": "Who?", "one": "A man", "two": "A dog", "right": 1}]),
            "kind = \"choice\"\noptions = [\"one\", \"two\"]\nanswer = \"right\"\nanswer_is = \"index\"\nquestion = \"q\"",
        ),
        (
            "moments",
            json!([{"id": "1", "clip": "a", "q": "a door", "from": 1.0, "to": 2.0}]),
            "kind = \"interval\"\ninterval = [\"from\", \"to\"]\nquestion = \"q\"",
        ),
    ] {
        std::fs::write(dir.path().join(format!("{name}.json")), rows.to_string()).unwrap();
        let toml = format!(
            "name = \"{name}\"\ntitle = \"{name}\"\nlayout = {{ annotations = [\"{name}.json\"], videos = [\"clips\"] }}\n\
             [row]\nid = \"id\"\nvideo = \"{{clip}}.mp4\"\n{row}\n"
        );
        std::fs::write(dir.path().join(format!("{name}.toml")), toml).unwrap();
    }
    dir
}

#[test]
fn what_a_protocol_has_no_words_for_is_refused_before_the_first_sample() {
    let server = Server::start(Script::default());
    let dir = own_tasks();
    let refused = |command: &mut Command, words: &[&str]| {
        let said = ends(2, command.env("PARAVT_BENCH_CACHE", imported()), words);
        assert_eq!(server.requests.load(Ordering::Relaxed), 0, "{said}");
    };
    for (task, kind) in [("picks", "choice"), ("moments", "grounding")] {
        let file = dir.path().join(format!("{task}.toml"));
        let run = |protocol: &str| {
            let out = dir.path().join(format!("{task}-{protocol}"));
            let mut command = run_task(&file, &out, &server.base_url);
            command.args(["--nframes", "8", "--protocol", protocol]);
            command
        };
        for extra in [&[][..], &["--dry-run"], &["--mode", "direct"], &["--profile", "release"]] {
            let missing = format!("protocol paravt has no question text for {task} ({kind})");
            refused(run("paravt").args(extra), &[&missing, "hint: use --protocol native"]);
        }
        // One split that cannot be asked keeps the others from being asked, too.
        let said = format!("no question text for {task}");
        refused(run("paravt").arg("mlvu").arg("--data").arg(world()), &[&said]);
    }
    let mut ask = bench();
    ask.arg("ask").arg(dir.path().join("clips/a.mp4")).args(["Who?", "--option", "x"]);
    ask.args(["--protocol", "paravt", "--base-url", &server.base_url]);
    refused(&mut ask, &["no question text for ask (choice)", "--protocol native"]);
    // An agent of choice questions alone.
    let only = dir.path().join("only.toml");
    std::fs::write(
        &only,
        "name = \"only\"\nbase = \"native\"\n[questions]\nmmvu = \"{question} {options}\"\n",
    )
    .unwrap();
    let stored = dir.path().join("only.json");
    let exported = ok(bench().args(["protocol", "export"]).arg(&only));
    let mut fields: Value = serde_json::from_slice(&exported.stdout).unwrap();
    for kind in ["choice", "grounding", "open"] {
        fields["questions"].as_object_mut().unwrap().remove(kind);
    }
    std::fs::write(&stored, fields.to_string()).unwrap();
    let mut all = crate::common::run(&["all"], &dir.path().join("all"), &server.base_url);
    let said = "protocol only has no question text for videomme (choice)";
    refused(all.arg("--protocol").arg(&stored), &[said]);
    // With native both are asked.
    for task in ["picks", "moments"] {
        let file = dir.path().join(format!("{task}.toml"));
        let mut command = run_task(&file, &dir.path().join("out"), &server.base_url);
        ok(command.env("PARAVT_BENCH_CACHE", imported()).args(["--nframes", "8"]));
    }
}

#[test]
fn nothing_that_is_given_is_ignored_without_a_word() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    for (flags, words) in [
        (&["--device", "cuda:0"][..], "--device is for a model in this process"),
        (&["--dtype", "bf16"], "--dtype is for a model in this process"),
        (&["--concurrency", "0"], "--concurrency: expected at least 1"),
        (&["--tries", "0"], "--tries"),
        (&["--max-requests", "0"], "--max-requests"),
        (&["--max-tokens", "0"], "--max-tokens"),
        (&["--batch", "0"], "--batch"),
        (&["--label", ""], "--label"),
        (&["--from", "runs"], "--from names a recorded run"),
    ] {
        ends(2, one("mlvu", &dir.path().join("refused"), &server).args(flags), &[words]);
    }
    assert_eq!(server.requests.load(Ordering::Relaxed), 0);
    let odd = stderr(&ok(one("mlvu", &dir.path().join("odd"), &server).args(["--nframes", "3"])));
    assert!(
        odd.contains("warning: --nframes 3: 4 frames are sent") && odd.contains("frames    4 of"),
        "{odd}"
    );
    let sent = paravt_suite::journal::read_manifest(&dir.path().join("odd/mlvu")).unwrap().plan.nframes;
    assert_eq!(sent, 4, "the manifest says what is sent");
    let pictures = server.latest.lock().unwrap().to_string().matches("data:image").count();
    assert!(pictures >= 4, "{pictures}");
    let unused = ["--mode", "direct", "--max-turns", "2", "--crop", "frames"];
    let unused = stderr(&ok(one("mlvu", &dir.path().join("unused"), &server).args(unused)));
    for flag in ["--max-turns", "--crop"] {
        let warning = format!("warning: {flag}: changes nothing, since mode direct offers no tool");
        assert!(unused.contains(&warning), "{unused}");
    }
    let no_turn = ["--mode", "agentic_general", "--max-turns", "0", "--max-parallel", "2"];
    let no_turn = stderr(&ok(one("mlvu", &dir.path().join("no-turn"), &server).args(no_turn)));
    assert!(no_turn.contains("warning: --max-parallel: changes no answer"), "{no_turn}");
    assert!(!no_turn.contains("warning: --max-turns"), "{no_turn}");
    let other = stderr(&ok(one("mlvu", &dir.path().join("other"), &server).args(["--model", "wrong"])));
    assert!(other.contains("the server does not list this model, but scripted"), "{other}");
    assert!(other.contains("model     wrong at ") && other.contains("(lists scripted)"), "{other}");
    let named = stderr(&ok(one("mlvu", &dir.path().join("named"), &server).args(["--model", "scripted"])));
    assert!(!named.contains("does not list") && !named.contains("lists"), "{named}");
}
