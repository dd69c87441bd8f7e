//! The embedded reproduction from end to end, in small: generate, train, evaluate, report.

use std::path::Path;
use std::process::Output;

use crate::common::recipes::{EMBEDDED, stage};
use crate::common::text;

fn reproduce(folder: &Path, extra: &[&str]) -> Output {
    let mut command = crate::common::bench();
    command.current_dir(folder).args(["reproduce", "small.toml", "--out", "out"]).args(extra);
    command.output().unwrap()
}

#[test]
fn stages_run_once_to_the_report_and_again_from_a_named_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("small.toml"), EMBEDDED).unwrap();
    let plan = reproduce(folder.path(), &["--plan"]);
    assert!(plan.status.success() && !folder.path().join("out").exists());
    for stage in ["base", "world", "data", "sft", "rl", "with-tool", "no-tool", "report"] {
        assert!(text(&plan).contains(&format!(". {stage}")), "{stage}: {}", text(&plan));
    }

    let first = reproduce(folder.path(), &[]);
    assert!(first.status.success(), "{}", text(&first));
    let page = std::fs::read_to_string(folder.path().join("out/report/index.html")).unwrap();
    assert!(page.contains("f_tau") && page.contains("LVBench"), "curves and scores are in the page");
    assert!(page.contains("Tools?"), "the recipe's question is in the page");
    assert!(text(&first).contains("Tools?: with-tool against no-tool, 1 seed"), "{}", text(&first));
    let study = std::fs::read_to_string(folder.path().join("out/report/tables/study.csv")).unwrap();
    assert_eq!(study.lines().count(), 1 + 3, "the mean and two splits: {study}");
    let curves = std::fs::read_to_string(folder.path().join("out/report/tables/curves.csv")).unwrap();
    assert!(curves.contains("rl,PARA-GRPO,f_tau,1"), "{curves}");

    let second = reproduce(folder.path(), &[]);
    assert_eq!(text(&second).matches("(done before)").count(), 7, "{}", text(&second));

    // The evaluation without tools does not build on it.
    let again = reproduce(folder.path(), &["--from", "with-tool"]);
    assert_eq!(text(&again).matches("(done before)").count(), 6, "{}", text(&again));
    assert!(text(&again).contains("out/discarded/with-tool-"), "{}", text(&again));

    // What a training is a training of, beside its curves.
    let run = stage(&folder.path().join("out"), "with-tool").unwrap().join("lvbench");
    let identity: serde_json::Value =
        serde_json::from_slice(&std::fs::read(run.join("training.json")).unwrap()).unwrap();
    assert_eq!((identity["recipe"].as_str(), identity["protocol"].as_str()), (Some("small"), Some("nano")));
    assert!(identity["parameters"].as_u64().unwrap() > 1_000_000 && run.join("training.jsonl").is_file());

    // A finished training that lost a file, as one of an older version may have, is done again.
    let sft = stage(&folder.path().join("out"), "sft").unwrap();
    std::fs::remove_file(sft.join("final/config.json")).unwrap();
    let mended = reproduce(folder.path(), &[]);
    assert!(mended.status.success(), "{}", text(&mended));
    assert!(text(&mended).contains("final/config.json is missing"), "{}", text(&mended));
    assert_eq!(text(&mended).matches("(done before)").count(), 6, "{}", text(&mended));
    assert!(sft.join("final/config.json").is_file());

    // So is one that other code made, unless that is accepted.
    let mark = sft.join("stage.json");
    let marked = std::fs::read_to_string(&mark).unwrap();
    let mut other: serde_json::Value = serde_json::from_str(&marked).unwrap();
    other["code"] = "0123".into();
    std::fs::write(&mark, other.to_string()).unwrap();
    let kept = reproduce(folder.path(), &["--keep-stages"]);
    assert_eq!(text(&kept).matches("(done before)").count(), 7, "{}", text(&kept));
    let redone = reproduce(folder.path(), &[]);
    assert!(text(&redone).contains("another version of the code"), "{}", text(&redone));
    assert_eq!(text(&redone).matches("(done before)").count(), 6, "{}", text(&redone));

    // One process at a time.
    let lock = std::fs::File::open(folder.path().join("out/.lock")).unwrap();
    lock.lock().unwrap();
    let locked = reproduce(folder.path(), &[]);
    assert!(!locked.status.success() && text(&locked).contains("another process"), "{}", text(&locked));
    drop(lock);

    let wrong = reproduce(folder.path(), &["--from", "evaluate"]);
    assert!(!wrong.status.success() && text(&wrong).contains("there are base, world"), "{}", text(&wrong));
}

#[test]
fn a_recipe_of_the_base_alone_trains_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = EMBEDDED.find("[data]").unwrap();
    let end = EMBEDDED.find("[evaluate]").unwrap();
    let (start, end) = (&EMBEDDED[..start], &EMBEDDED[end..]);
    let recipe = format!("{start}[rl]\nenabled = false\n{end}").replace("{rl}/final", "{base}");
    std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
    let plan = text(&reproduce(folder.path(), &["--plan"]));
    assert!(!plan.contains(". sft") && plan.contains("  5. report"), "{plan}");
}

#[test]
fn an_unknown_field_of_a_recipe_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = EMBEDDED.replace("prompts_per_step", "prompt_per_step");
    std::fs::write(folder.path().join("small.toml"), recipe).unwrap();
    let output = reproduce(folder.path(), &["--plan"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("did you mean `prompts_per_step`"), "{}", text(&output));
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
        let output = reproduce(folder.path(), &[]);
        assert_eq!(output.status.code(), Some(2), "{to}: {}", text(&output));
        assert!(text(&output).contains(named), "{to}: {}", text(&output));
        assert!(!folder.path().join("out").exists(), "{to}");
    }
    std::fs::write(folder.path().join("small.toml"), b"\xff\xfe").unwrap();
    let output = reproduce(folder.path(), &[]);
    assert!(output.status.code() == Some(2) && text(&output).contains("small.toml"), "{}", text(&output));
}
