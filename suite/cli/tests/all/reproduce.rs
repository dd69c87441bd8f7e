//! The embedded reproduction from end to end, in small: generate, train, evaluate, report.

use std::path::Path;
use std::process::Command;

use crate::common::recipes::{EMBEDDED, stage};
use crate::common::{bench, ends};

fn reproduce(folder: &Path, extra: &[&str]) -> Command {
    let mut command = bench();
    command.current_dir(folder).args(["reproduce", "small.toml", "--out", "out"]).args(extra);
    command
}

/// What a reproduction prints that ends well, and that many of its stages were done before.
fn reproduced(folder: &Path, extra: &[&str], done_before: usize) -> String {
    let said = ends(0, reproduce(folder, extra), &[]);
    assert_eq!(said.matches("(done before)").count(), done_before, "{said}");
    said
}

#[test]
fn stages_run_once_to_the_report_and_again_from_a_named_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), EMBEDDED).unwrap();
    let stages = [". base", ". world", ". data", ". sft", ". rl", ". with-tool", ". no-tool", ". report"];
    ends(0, reproduce(folder.path(), &["--plan"]), &stages);
    assert!(!folder.path().join("out").exists());

    let first = reproduced(folder.path(), &[], 0);
    let page = std::fs::read_to_string(folder.path().join("out/report/index.html")).unwrap();
    assert!(page.contains("f_tau") && page.contains("LVBench"), "curves and scores are in the page");
    assert!(page.contains("The training before it"), "the curves of the cold start are in the page");
    assert!(page.contains("Tools?"), "the recipe's question is in the page");
    assert!(first.contains("Tools?: with-tool against no-tool, 1 seed"), "{first}");
    let study = std::fs::read_to_string(folder.path().join("out/report/tables/study.csv")).unwrap();
    assert_eq!(study.lines().count(), 1 + 3, "the mean and two splits: {study}");
    let curves = std::fs::read_to_string(folder.path().join("out/report/tables/curves.csv")).unwrap();
    assert!(curves.contains("rl,PARA-GRPO,f_tau,1"), "{curves}");

    reproduced(folder.path(), &[], 7);

    // The evaluation without tools does not build on it.
    let again = reproduced(folder.path(), &["--from", "with-tool"], 6);
    assert!(again.contains("out/discarded/with-tool-"), "{again}");

    // What a training is a training of, beside its curves.
    let run = stage(&folder.path().join("out"), "with-tool").unwrap().join("lvbench");
    let identity: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("training.json")).unwrap()).unwrap();
    assert_eq!((identity["recipe"].as_str(), identity["protocol"].as_str()), (Some("small"), Some("nano")));
    assert!(identity["parameters"].as_u64().unwrap() > 1_000_000 && run.join("training.jsonl").is_file());

    // A finished training that lost a file, as one of an older version may have, is done again.
    let sft = stage(&folder.path().join("out"), "sft").unwrap();
    std::fs::remove_file(sft.join("final/config.json")).unwrap();
    let mended = reproduced(folder.path(), &[], 6);
    assert!(mended.contains("final/config.json is missing"), "{mended}");
    assert!(sft.join("final/config.json").is_file());

    // So is one that other code made, unless that is accepted.
    let mark = sft.join("stage.json");
    let marked = std::fs::read_to_string(&mark).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&marked).unwrap();
    other["code"] = "0123".into();
    std::fs::write(&mark, other.to_string()).unwrap();
    reproduced(folder.path(), &["--keep-stages"], 7);
    let redone = reproduced(folder.path(), &[], 6);
    assert!(redone.contains("another version of the code"), "{redone}");

    // One process at a time.
    let lock = std::fs::File::open(folder.path().join("out/.lock")).unwrap();
    lock.lock().unwrap();
    ends(3, reproduce(folder.path(), &[]), &["another process"]);
    drop(lock);

    ends(2, reproduce(folder.path(), &["--from", "evaluate"]), &["there are base, world"]);
}

#[test]
fn a_recipe_of_the_base_alone_trains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = EMBEDDED.find("[data]").unwrap();
    let end = EMBEDDED.find("[evaluate]").unwrap();
    let (start, end) = (&EMBEDDED[..start], &EMBEDDED[end..]);
    let recipe = format!("{start}[rl]\nenabled = false\n{end}").replace("{rl}/final", "{base}");
    std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
    let plan = ends(0, reproduce(folder.path(), &["--plan"]), &["  5. report"]);
    assert!(!plan.contains(". sft"), "{plan}");
}

#[test]
fn an_invalid_recipe_is_refused_before_any_stage() {
    let folder = tempfile::tempdir().unwrap();
    for (from, to, named) in [
        ("name = \"with-tool\"", "name = \"../../../up\"", "[[stages]] name"),
        ("name = \"with-tool\"", "name = \"/abs\"", "[[stages]] name"),
        ("save_every = 2", "save_every = 0", "`sft.save_every` is 0"),
        ("packs_per_step = 1", "packs_per_step = 0", "`sft.packs_per_step` is 0"),
        ("prompts_per_step = 2", "prompts_per_step = 0", "`rl.prompts_per_step` is 0"),
        ("micro_batch_tokens = 1024", "micro_batch_tokens = 0", "`rl.micro_batch_tokens` is 0"),
        ("splits = [\"lvbench\", \"charades\"]", "splits = [\"nothing\"]", "nothing"),
        ("title = \"small\"", "title = \"small\"\nkind = \"served\"", "small.toml"),
    ] {
        std::fs::write(folder.path().join("small.toml"), EMBEDDED.replacen(from, to, 1)).unwrap();
        ends(2, reproduce(folder.path(), &[]), &[named]);
        assert!(!folder.path().join("out").exists(), "{to}");
    }
    std::fs::write(folder.path().join("small.toml"), b"\xff\xfe").unwrap();
    ends(2, reproduce(folder.path(), &[]), &["small.toml"]);
}
