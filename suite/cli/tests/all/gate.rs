//! Two real runs, with and without tools, through `report`, `compare` and `check`.

use std::path::Path;
use std::process::Command;

use crate::common::server::{Script, Server};
use crate::common::{self, bench, ends, ok, text};
use paravt_suite::journal::{self, Journal};
use paravt_suite::record::{Measured, Outcome};

fn run(out: &Path, base_url: &str, flags: &[&str]) {
    ok(common::run(&["videomme", "charades"], out, base_url).args(["--nframes", "8"]).args(flags));
}

fn check(run: &Path, baseline: &Path, flags: &[&str]) -> Command {
    let mut command = bench();
    command.arg("check").arg(run).arg("--baseline").arg(baseline).args(flags);
    command
}

/// The run as a broken extractor would have scored it: no answer is found in any text.
fn break_extractor(from: &Path, to: &Path) {
    for split in ["videomme", "charades"] {
        let manifest = journal::read_manifest(&from.join(split)).unwrap();
        let mut records = journal::read(&from.join(split)).unwrap().records;
        for record in &mut records {
            record.score.outcome = Outcome::Unparsed;
            record.score.prediction = None;
            record.score.value = 0.0;
        }
        Journal::create(&to.join(split), &manifest).unwrap().append(&records).unwrap();
    }
}

/// The scripted model answers right or wrong by the conversation; a gate needs some right answers.
fn make_right(run: &Path, to: &Path) {
    for split in ["videomme", "charades"] {
        let manifest = journal::read_manifest(&run.join(split)).unwrap();
        let mut records = journal::read(&run.join(split)).unwrap().records;
        for record in &mut records {
            record.score.value = 1.0;
            record.measured = Measured { seconds: 1.0, ..Measured::default() };
        }
        Journal::create(&to.join(split), &manifest).unwrap().append(&records).unwrap();
    }
}

/// The tables that a page links to are beside it.
fn links_lead_somewhere(folder: &Path) {
    let page = std::fs::read_to_string(folder.join("index.html")).unwrap();
    let links: Vec<&str> = page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let files: Vec<&&str> = links.iter().filter(|link| !link.starts_with('#')).collect();
    assert!(files.len() > 9, "{links:?}");
    files.iter().for_each(|file| assert!(folder.join(file).is_file(), "{file}"));
    let sections: Vec<&&str> = links.iter().filter(|link| link.starts_with('#')).collect();
    sections.iter().for_each(|link| assert!(page.contains(&format!("id=\"{}\"", &link[1..])), "{link}"));
}

#[test]
fn two_runs_are_reported_compared_and_gated() {
    let server = Server::start(Script::default());
    let dir = tempfile::tempdir().unwrap();
    let [tools, direct, right, broken] =
        ["tools", "direct", "right", "broken"].map(|name| dir.path().join(name));
    run(&tools, &server.base_url, &[]);
    run(&direct, &server.base_url, &["--mode", "direct"]);

    let report = dir.path().join("report");
    // Links of somebody else have the names of files and folders that are written.
    let (theirs, folder) = (dir.path().join("theirs"), dir.path().join("folder of theirs"));
    std::fs::write(&theirs, "theirs").unwrap();
    for folder in [&report, &folder] {
        std::fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(&theirs, report.join("index.html")).unwrap();
    std::os::unix::fs::symlink(&folder, report.join("tables")).unwrap();
    ok(bench().arg("report").arg(&tools).arg(&direct).arg("-o").arg(&report));
    let page = std::fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains("<h2>Comparisons</h2>") && !page.contains("src=\"http"), "a page");
    assert_eq!(std::fs::read_dir(report.join("tables")).unwrap().count(), 10 * 5 + 2 * 2);
    links_lead_somewhere(&report);
    let samples = std::fs::read_to_string(report.join("tables/samples.csv")).unwrap();
    assert!(samples.starts_with("split,run,profile,sample,video,"), "{samples}");
    let records = |run: &Path| -> usize {
        let splits = std::fs::read_dir(run).unwrap().map(|split| split.unwrap().path());
        splits.map(|split| journal::read(&split).unwrap().records.len()).sum()
    };
    assert_eq!(samples.lines().count(), 1 + records(&tools) + records(&direct));
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);

    let compared = dir.path().join("compared");
    ends(0, bench().arg("compare").args([&direct, &tools]).arg("-o").arg(&compared), &["mode was"]);
    assert!(
        compared.join("compare.md").is_file()
            && compared.join("index.html").is_file()
            && compared.join("tables/flips.csv").is_file()
    );
    links_lead_somewhere(&compared);

    make_right(&tools, &right);
    break_extractor(&tools, &broken);
    // Its folder is made.
    let baseline = dir.path().join("gate/baseline.json");
    // Three videos are too few for an interval that decides: the answers themselves are compared.
    let write = || check(&right, &baseline, &["--write", "--changed", "0"]);
    let written = ends(0, write(), &[]);
    assert!(!written.contains("in the place of"), "{written}");
    ends(0, write(), &[", in the place of the one that was there"]);
    let home = dir.path().to_str().unwrap();
    assert!(
        !std::fs::read_to_string(&baseline).unwrap().contains(home),
        "a baseline has no path of its machine"
    );

    let [markdown, junit, history] =
        ["gate.md", "gate.xml", "history.jsonl"].map(|name| dir.path().join(name));
    let flags = |path: &Path, flag: &'static str| [flag.to_owned(), path.to_str().unwrap().to_owned()];
    let files =
        [flags(&markdown, "--markdown"), flags(&junit, "--junit"), flags(&history, "--history")].concat();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    ends(0, check(&right, &baseline, &files), &[]);
    ends(1, check(&broken, &baseline, &files), &[]);
    assert!(std::fs::read_to_string(&markdown).unwrap().contains("| FAIL | videomme | score |"));
    assert!(std::fs::read_to_string(&junit).unwrap().contains("<failure"));
    assert_eq!(std::fs::read_to_string(&history).unwrap().lines().count(), 2);
    assert!(std::fs::read_to_string(history.with_extension("html")).unwrap().contains("<svg"));

    let said = ["same measurement: differs from the baseline", "mode was"];
    ends(4, check(&direct, &baseline, &[]), &said);
    ends(2, check(&right, &dir.path().join("nowhere.json"), &[]), &[]);

    // The second run of a split is judged, too, and a rule without sense leaves the old baseline alone.
    ends(1, check(&right, &baseline, &[broken.to_str().unwrap()]), &["videomme (", "(broken)"]);
    let before = std::fs::read(&baseline).unwrap();
    for points in ["nan", "inf", "-1"] {
        ends(2, check(&right, &baseline, &["--write", &format!("--drop-points={points}")]), &[]);
    }
    assert_eq!(std::fs::read(&baseline).unwrap(), before);

    // A pipe or a device is refused, and stays what it is; behind a link, its target is the baseline.
    let [pipe, link, target] = ["pipe", "link", "target.json"].map(|name| dir.path().join(name));
    ok(Command::new("mkfifo").arg(&pipe));
    for special in [&pipe, Path::new("/dev/full")] {
        for flags in [&["--write"][..], &[]] {
            let refused = check(&right, special, flags).output().unwrap();
            assert!(!refused.status.success());
            assert!(text(&refused).contains("not a regular file"), "{}", text(&refused));
        }
        assert!(!special.metadata().unwrap().is_file());
    }
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    ok(check(&right, &link, &["--write", "--changed", "0"]));
    assert!(link.is_symlink() && std::fs::read(&target).unwrap() == before);
}
