//! Recipes that the command refuses, and plans.

use crate::common::recipes::served;
use crate::common::{bench, ends, ok, text};

#[test]
fn a_plan_names_every_stage_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let plan = |name: &str, flags: &[&str]| {
        let mut command = bench();
        command.current_dir(folder.path()).args(["reproduce", name, "--plan"]).args(flags);
        text(&ok(command))
    };
    let table = plan("paravt-8b", &[]);
    assert!(table.contains("with-tool on 7 splits") && !table.contains("vllm serve ParaVT"), "{table}");
    let whole = plan("paravt-8b", &["-v"]);
    for part in
        [". protocol ", ". serve ", "vllm serve ParaVT/ParaVT-8B", ". with-tool-videomme ", "deviates"]
    {
        assert!(whole.contains(part), "{part}: {whole}");
    }
    let training = plan("paravt-8b-train", &["--only", "rl"]);
    assert!(training.contains("total_train_steps=55") && !training.contains("sft_entry"), "{training}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_table_is_planned_as_a_whole_or_by_rows() {
    let folder = tempfile::tempdir().unwrap();
    let run = |code: i32, arguments: &[&str], words: &[&str]| {
        ends(code, bench().current_dir(folder.path()).arg("reproduce").args(arguments), words)
    };
    let whole = ["conan-7b.protocol", "as-by-its-authors on 4 splits, as-in-the-table on 7"];
    run(0, &["table1", "--plan"], &whole);
    let rows = run(0, &["table1", "--plan", "--rows", "conan-7b,paravt-8b"], &["conan-7b.serve"]);
    assert!(!rows.contains("sage-7b"), "{rows}");
    assert!(rows.find("conan-7b.serve").unwrap() < rows.find("paravt-8b.serve").unwrap(), "{rows}");
    for (arguments, words) in [
        (["table1", "--model", "a/b"], "--model changes nothing here: table1 asks a model for each row"),
        (["table1", "--base-url", "http://127.0.0.1:1/v1"], "take the recipe of the row"),
        (["paravt-8b", "--rows", "a"], "--rows changes nothing here: paravt-8b is one row"),
    ] {
        run(2, &arguments, &[words]);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_recipe_with_an_unknown_task_has_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = served("o/m", "engine = \"vllm\"").replace("\"mlvu\"", "\"mlvuu\"");
    std::fs::write(folder.path().join("my.toml"), recipe).unwrap();
    let mut command = bench();
    command.current_dir(folder.path()).args(["reproduce", "my.toml", "--plan"]);
    ends(2, command, &["my.toml", "`mlvuu`; did you mean `mlvu`?"]);
}

#[test]
fn a_stage_without_a_method_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let text_of = "extends = \"paravt-8b\"\n[[stages]]\nname = \"far\"\n";
    std::fs::write(folder.path().join("far.toml"), text_of).unwrap();
    let mut command = bench();
    command.current_dir(folder.path()).args(["reproduce", "far.toml"]);
    ends(2, command, &["missing field `does`"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn flags_are_refused_where_they_would_be_ignored() {
    let (embedded, own) = (
        "changes nothing here: it is for the embedded recipes",
        "changes nothing here: no server is started",
    );
    let embeds = "changes nothing here: an embedded recipe trains and asks its own model";
    for (flags, words) in [
        ("--small", embedded),
        ("--full", embedded),
        ("--seeds 2", embedded),
        ("--seed 1", embedded),
        ("--shards 3", "changes nothing here: it is for the jobs of --launcher slurm"),
        ("--cpu-option=--x", "changes nothing here: it is for the jobs of --launcher slurm"),
        ("--skip-sft", "changes nothing here: paravt-8b trains nothing"),
        ("--allow-missing", "changes nothing here: paravt-8b trains nothing"),
        ("--engine sglang --base-url http://h/v1", own),
        ("--own-engine --backend candle", own),
        ("--chat-template-kwargs {}", embeds),
        ("--resume", embeds),
    ] {
        let recipe = if words == embeds { "paravt-nano" } else { "paravt-8b" };
        let said = format!("{} {words}", flags.split([' ', '=']).next().unwrap());
        ends(2, bench().args(["reproduce", recipe, "--plan"]).args(flags.split(' ')), &[&said]);
    }
}
