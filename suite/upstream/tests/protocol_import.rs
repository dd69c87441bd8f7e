//! The importer on a stand-in of the same structure: what it finds, and how it fails.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use paravt_suite::profile::Profile;
use paravt_suite::protocol::native;
use paravt_suite::protocol::{PromptMode, Protocol, render};
use paravt_suite::sample::{Gold, Question, QuestionKind, Sample};
use paravt_upstream::import::{self, Files, ImportError};
use paravt_upstream::paravt::import::{RELEASE, SUBAGENT, WORKFLOW};

const DRIVER: &str = "paravt/eval/driver.py";
const UTILS: &str = "paravt/eval/utils.py";

fn standin() -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    // Read as a plain folder: the repository around it has no such files at its root.
    let text = |path| (path, std::fs::read_to_string(folder.join(path)).unwrap());
    Files { texts: [DRIVER, UTILS, SUBAGENT, WORKFLOW].map(text).into(), commit: "no commit".to_owned() }
}

/// The stand-in without some of its files.
fn without(paths: &[&str]) -> Files {
    let mut files = standin();
    files.texts.retain(|path, _| !paths.contains(path));
    files
}

/// The stand-in with another driver.
fn with_driver(code: String) -> Files {
    let mut files = standin();
    files.texts.insert(DRIVER, code);
    files
}

fn import(files: &Files, unpinned: bool) -> Result<Protocol, ImportError> {
    RELEASE.import(files, unpinned)
}

fn read_files(from: &str, unpinned: bool) -> Result<Files, ImportError> {
    import::read_files(&RELEASE, from, unpinned)
}

/// The stand-in with one passage changed in all files.
fn changed(from: &str, to: &str) -> Result<Protocol, ImportError> {
    let mut files = standin();
    assert!(files.texts.values().any(|text| text.contains(from)), "{from}");
    for text in files.texts.values_mut() {
        *text = text.replace(from, to);
    }
    import(&files, true)
}

fn problem(from: &str, to: &str) -> String {
    changed(from, to).unwrap_err().to_string()
}

fn protocol() -> Protocol {
    import(&standin(), true).unwrap()
}

fn sample(task: &str, subtitles: Option<&str>, gold: Gold) -> Sample {
    let question = Question {
        stem: "what {now}?".into(),
        options: vec!["red".into(), "blue".into()],
        letters: "AB".into(),
        subtitles: subtitles.map(str::to_owned),
    };
    Sample::new(task, "u".into(), 0, "videos/v.mp4".into(), question, gold)
}

fn user(task: &str, mode: &'static str, subtitles: Option<&str>) -> String {
    let gold = Gold::Choice { answer: "A".into() };
    let switches = Profile::Paper.switches();
    render::user_text(
        &protocol(),
        &sample(task, subtitles, gold),
        &PromptMode::named(mode),
        &switches,
        "v.mp4",
        None,
    )
    .unwrap()
}

#[test]
fn texts_are_extracted_by_their_python_names() {
    let protocol = protocol();
    let schema =
        r#"{"type": "function", "function": {"name": "crop_video", "required": ["start_time", "\u00e9"]}}"#;
    assert_eq!(protocol.system[&PromptMode::named("direct")], "Direct words, in two pieces.");
    assert_eq!(
        protocol.system[&PromptMode::named("agentic_general")],
        format!("General words with {schema}\nand {{\"braces\": 0}} that are doubled.")
    );
    assert!(!protocol.system.contains_key(&PromptMode::named("native")));
    assert_eq!(protocol.default_mode.as_str(), "agentic_general");
    assert_eq!(
        protocol.tool.modes.iter().map(PromptMode::as_str).collect::<Vec<_>>(),
        ["agentic_general", "agentic_minimal"]
    );
    assert_eq!(protocol.max_tokens, 123);
    let force = render::force(&protocol, QuestionKind::Grounding).unwrap();
    assert_eq!((force.text.as_str(), force.max_tokens), ("Times now: 'X - Y'.", 12));
    assert_eq!(render::crop_response(&protocol, 3, 0.25, 9.0).unwrap(), "<seen>3 of 0.2 to 9.0</seen>");
    assert_eq!(render::crop_error(&protocol, f64::NAN, f64::INFINITY, "").unwrap(), "<lost>nan-inf</lost>");
}

/// Records name a protocol by its hash: one that changes makes every earlier run another protocol's.
#[test]
fn hashes_of_protocols_are_fixed() {
    let native = paravt_suite::protocol::native::protocol().hash();
    assert_eq!(native, "6014dbfaad4cb20aea78a76fab62ee3149a5e0747bd4f80e3c7fcce94f5b9e1e");
    let standin = protocol().hash();
    assert_eq!(standin, "unpinned:3324031594827ec69802efbd7d309328a8787954c88e6c25fa6a34e92de81383");
    // Without the files that hold the words of sub-agents.
    let hash = import(&without(&[SUBAGENT, WORKFLOW]), true).unwrap().hash();
    assert_eq!(hash, "unpinned:be49ed8b4f6e279bd15256b989d2363b17a103d0e884c136a203b4864e1c744c");
}

#[test]
fn imported_and_own_protocols_pass_the_check_of_files() {
    protocol().check().unwrap();
    paravt_suite::protocol::native::protocol().check().unwrap();
}

#[test]
fn questions_are_rendered_by_split_and_mode() {
    let body = "Q: what {now}?\nO:\nA) red\nB) blue\n";
    assert_eq!(user("videomme", "direct", None), format!("{body}Think, then one letter."));
    assert_eq!(user("mmvu", "reasoning", None), format!("{body}One letter."));
    assert_eq!(
        user("videomme_wsub", "agentic_general", Some("hello")),
        format!("Said:\nhello\n\n{body}One letter. (the path: v.mp4)")
    );
    // A text that already has the words gets no second path, in whatever case.
    assert_eq!(
        user("videomme_wsub", "agentic_minimal", Some("THE PATH")),
        format!("Said:\nTHE PATH\n\n{body}One letter.")
    );
    assert_eq!(user("videomme_wsub", "direct", None), user("videomme", "direct", None));
    assert_eq!(user("lvbench", "reasoning", None), "what {now}?\nOne letter.");
    assert_eq!(user("charades", "direct", None), "When is it? It: \"what {now}?\". Say when.");
}

#[test]
fn the_instruction_is_inverted_except_under_strict() {
    let protocol = protocol();
    let gold = Gold::Choice { answer: "A".into() };
    let text = |mode, profile: Profile| {
        let sample = sample("videomme", None, gold.clone());
        render::user_text(&protocol, &sample, &PromptMode::named(mode), &profile.switches(), "v.mp4", None)
            .unwrap()
    };
    assert!(text("direct", Profile::Release).contains("Think, then"));
    assert!(!text("direct", Profile::Strict).contains("Think, then"));
    assert_ne!(text("direct", Profile::Strict), text("agentic_general", Profile::Strict));
}

#[test]
fn other_files_are_refused_unless_unpinned_and_then_marked() {
    let error = import(&standin(), false).unwrap_err();
    assert!(matches!(error, ImportError::Hash { file: "paravt/eval/driver.py", .. }), "{error}");
    assert!(protocol().hash().starts_with("unpinned:"));
    assert!(!protocol().source.pinned);
}

#[test]
fn a_changed_structure_is_named() {
    assert!(problem("DIRECT_SYSTEM =", "SYSTEM_DIRECT =").contains("DIRECT_SYSTEM"));
    assert!(problem("def load_samples", "def load").contains("function load_samples"));
    assert!(problem("dataset_name == \"mlvu\"", "dataset_name == \"other\"").contains("mlvu"));
    assert!(problem("{len(cropped)} of ", "some of ").contains("n, start:.1f, end:.1f"));
    assert!(problem("force_max = 12", "force_max = limit").contains("force_max"));
    assert!(problem("f\"{k}) {v}\"", "f\"{k}: {v}\"").contains("option line"));
    assert!(problem("def eval_one(", "def eval_one((").contains("not parsed as Python"));
}

#[test]
fn an_f_string_format_without_equivalent_is_refused() {
    let crop = "one f-string with the values n, start:.1f, end:.1f";
    for other in ["{st:.2f} to", "{st} to", "{st!r:.1f} to", "{st:{width}} to", "{st=} to"] {
        assert!(problem("{st:.1f} to", other).contains(crop), "{other}");
    }
    assert!(problem("{len(cropped)} of", "{len(cropped):02} of").contains(crop));
    assert!(problem("<lost>{st:.1f}-", "<lost>{st:.0f}-").contains("values start:.1f, end:.1f"));
    assert!(problem("{sub_text}", "{sub_text:.80}").contains("{subtitles}"));
    assert!(problem("{caption}", "{caption!r}").contains("f-string for question"));
    assert!(problem("{o}", "{o:>3}").contains("letter, option"));
    assert!(problem("chr(65 + i)", "chr(97 + i)").contains("letter, option"));
    // Braces that are doubled, or stand in a plain piece beside the f-string, are text.
    let braces = changed("{len(cropped)} of ", "{{n}} {len(cropped)} of \" \"{end:.9f} ").unwrap();
    let shown = render::crop_response(&braces, 3, 0.25, 9.0).unwrap();
    assert_eq!(shown, "<seen>{n} 3 of {end:.9f} 0.2 to 9.0</seen>");
    let named = changed("{st:.1f} to", "{st=:.1f} to").unwrap();
    assert_eq!(render::crop_response(&named, 3, 0.25, 9.0).unwrap(), "<seen>3 of st=0.2 to 9.0</seen>");
}

#[test]
fn a_value_that_nothing_fills_is_refused_at_import() {
    assert!(
        problem("{item['question']}\\n{mcq_instr}\"}", "{item['hint']}\\n{mcq_instr}\"}")
            .contains("question,")
    );
    assert!(problem("\"\\n\".join", "\" \".join").contains("letter, option"));
    assert!(problem("json.dumps(", "str(").contains("TOOL_SCHEMA = json.dumps"));
    assert!(problem("{opts_str}", "{opts_str.upper()}").contains("f-string for question"));
}

#[test]
fn a_negated_condition_gives_the_same_texts() {
    for (from, to) in [
        (
            "\"Think, then one letter.\"\n        if prompt_mode == \"direct\"\n        else \"One letter.\"",
            "\"One letter.\" if prompt_mode != \"direct\" else \"Think, then one letter.\"",
        ),
        (
            "\"Think, then one letter.\"\n        if prompt_mode == \"direct\"\n        else \"One letter.\"",
            "\"One letter.\" if not (prompt_mode == \"direct\") else \"Think, then one letter.\"",
        ),
        (
            "f\"Said:\\n{sub_text}\\n\\n\" if sub_text else \"\"",
            "\"\" if not sub_text else f\"Said:\\n{sub_text}\\n\\n\"",
        ),
    ] {
        assert_eq!(changed(from, to).unwrap().hash(), protocol().hash(), "{to}");
    }
    let mut files = standin();
    let (choice, grounding) = (
        "\"Letter now.\"",
        "(\n                        \"Times now: \"\n                        \"'X - Y'.\"\n                    )",
    );
    for (from, to) in [
        ("if sample[\"is_mcq\"]:", "if not sample[\"is_mcq\"]:"),
        (choice, "CHOICE"),
        (grounding, choice),
        ("CHOICE", grounding),
        ("force_max = 6", "force_max = FIRST"),
        ("force_max = 12", "force_max = 6"),
        ("FIRST", "12"),
    ] {
        let driver = files.texts.get_mut(DRIVER).unwrap();
        assert!(driver.contains(from), "{from}");
        *driver = driver.replace(from, to);
    }
    assert_eq!(import(&files, true).unwrap().hash(), protocol().hash());
}

#[test]
fn a_sub_agent_is_asked_as_in_the_releases_rollouts() {
    let (found, sample) = (protocol(), sample("mlvu", None, Gold::Choice { answer: "A".into() }));
    let prompt = render::subagent_prompt(&found, &sample, 65.96, 3725.5, 16).unwrap();
    assert_eq!(prompt, "Part 01:05 to 62:05 (3659.5 s).\n\nSay {briefly} what is there.");
    let response = render::subagent_response(&found, 65.96, 3725.5, "a {red} door").unwrap();
    assert_eq!(response, "<tool_response>\nSub: a {red} door\n</tool_response>");

    for (from, to, wanted) in [
        ("class CroppedVideoSubagent", "class Other", "class CroppedVideoSubagent"),
        ("({duration:.1f} s)", "({duration:.2f} s)", "start_clock, end_clock, duration:.1f"),
        ("def build_prompt", "def prompt", "function build_prompt"),
        ("Sub: {tool_output_text}", "Sub: {result}", "one f-string with the values summary"),
    ] {
        let found = problem(from, to);
        assert!(found.contains(wanted) && found.contains("paravt/rl/"), "{found}");
    }
    assert_ne!(changed("Say {{briefly}}", "Tell").unwrap().hash(), found.hash(), "the hash has the text");

    let own = import(&without(&[SUBAGENT]), true).unwrap();
    assert_eq!(own.subagent_prompt, native::protocol().subagent_prompt);
    assert!(!own.source.files.contains_key(SUBAGENT) && !own.source.pinned);
}

#[test]
fn another_condition_is_refused() {
    let instruction = "mcq_instr = text if prompt_mode == \"direct\" else text";
    for other in ["prompt_mode == \"reasoning\"", "prompt_mode in (\"direct\",)", "hf_home == \"direct\""] {
        assert!(problem("prompt_mode == \"direct\"", other).contains(instruction), "{other}");
    }
    assert!(problem("if sub_text else", "if opts else").contains("if sub_text else"));
    assert!(problem("if sub_text else \"\"", "if sub_text else \"none\"").contains("if sub_text else"));
    assert!(problem("sample[\"is_mcq\"]", "sample[\"open\"]").contains("is_mcq"));
    assert!(problem("sample[\"is_mcq\"]", "sample[\"is_mcq\"] and turn").contains("is_mcq"));
    let suffix = "not in ….lower()";
    for (from, to) in [
        ("not in q_text.lower()", "in q_text.lower()"),
        ("not in q_text.lower()", "not in q_text"),
        ("prompt_mode.startswith(\"agentic_\") and", "prompt_mode.startswith(\"agentic_\") or"),
        ("prompt_mode.startswith(\"agentic_\") and", "not prompt_mode.startswith(\"agentic_\") and"),
        ("prompt_mode.startswith(\"agentic_\") and", "prompt_mode.startswith(\"direct\") and"),
    ] {
        assert!(problem(from, to).contains(suffix), "{to}");
    }
    assert!(problem("if dataset_name == \"mlvu\"", "if dataset_name != \"mlvu\"").contains("mlvu"));
}

#[test]
fn a_second_assignment_is_refused_not_ignored() {
    let again = |line: &str, more: &str| problem(line, &format!("{line}{more}"));
    assert!(
        again("REASONING_SYSTEM = \"Reasoning words.\"", "\nREASONING_SYSTEM += \"!\"").contains("REASONING")
    );
    assert!(again("DEFAULT_MAX_TOKENS = 123", "\nDEFAULT_MAX_TOKENS = 5").contains("DEFAULT_MAX_TOKENS"));
    assert!(again("force_max = 12", "\n                    force_max = 13").contains("force_max"));
    let question = "f\"Q: {item['question']}\\nO:\\n{opts_str}\\n{mcq_instr}\"\n            samples";
    let twice =
        problem(question, &question.replace("samples", "question = question.strip()\n            samples"));
    assert!(twice.contains("one f-string for question"), "{twice}");
}

/// A git repository of the stand-in in a fresh folder.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in standin().texts {
        std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    git(dir.path(), &["init", "--quiet"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "stand-in"]);
    dir
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(variable);
    }
    let command = command.arg("-C").arg(folder).args(["-c", "user.name=n", "-c", "user.email=n@localhost"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn source_commit(folder: &Path) -> String {
    let source = import(&read_files(folder.to_str().unwrap(), true).unwrap(), true).unwrap().source;
    assert!(!source.pinned);
    source.commit
}

#[test]
fn unpinned_files_are_labelled_with_what_they_are() {
    let dir = repository();
    let head = git(dir.path(), &["rev-parse", "HEAD"]);
    assert_eq!(source_commit(dir.path()), head);
    // A history that has the pinned commit, as far as its name goes.
    git(dir.path(), &["tag", RELEASE.commit]);

    let driver = dir.path().join("paravt/eval/driver.py");
    let edited = standin().texts[DRIVER].replace("Reasoning words.", "Edited words.");
    std::fs::write(&driver, edited).unwrap();
    assert_eq!(source_commit(dir.path()), format!("{head} with uncommitted edits"));
    let protocol = import(&read_files(dir.path().to_str().unwrap(), true).unwrap(), true).unwrap();
    assert_eq!(
        protocol.system[&PromptMode::named("reasoning")],
        "Edited words.",
        "the edits are what is imported"
    );
    let committed = read_files(dir.path().to_str().unwrap(), false).unwrap();
    assert_eq!((committed.texts, committed.commit.as_str()), (standin().texts, RELEASE.commit));

    git(dir.path(), &["commit", "--quiet", "--all", "-m", "edited"]);
    let next = git(dir.path(), &["rev-parse", "HEAD"]);
    assert_eq!(source_commit(dir.path()), next);
    assert_eq!(source_commit(&dir.path().join(".git")), next, "a git directory has its HEAD");

    std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
    assert!(source_commit(dir.path()).starts_with("no commit"));
    let inside = repository();
    let nested = inside.path().join("vendor");
    std::fs::create_dir(&nested).unwrap();
    paravt_files::rename(&dir.path().join("paravt"), &nested.join("paravt")).unwrap();
    assert!(source_commit(&nested).starts_with("no commit"), "the outer repository's commit is not theirs");
}

#[test]
fn a_url_is_imported_at_its_head() {
    let dir = repository();
    let url = format!("file://{}", dir.path().display());
    let files = read_files(&url, true).unwrap();
    assert_eq!(files.commit, git(dir.path(), &["rev-parse", "HEAD"]));
    assert_eq!(files.texts, standin().texts);
}

#[test]
fn a_folder_without_the_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = read_files(dir.path().to_str().unwrap(), false).unwrap_err().to_string();
    assert!(error.contains("driver.py"), "{error}");
}

/// Configurations of a checkout that name a program; `PWN` is the marker that the program would make.
const TRICKS: [&str; 9] = [
    "[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = .\n\tpromisor = true\n\tuploadpack = \"touch PWN; git-upload-pack\"\n",
    "[extensions]\n\tpartialClone = evil\n[core]\n\tsshCommand = touch PWN\n[remote \"evil\"]\n\turl = ssh://host/x\n\tpromisor = true\n",
    "[protocol \"ext\"]\n\tallow = always\n[extensions]\n\tpartialClone = evil\n[remote \"evil\"]\n\turl = \"ext::touch PWN\"\n\tpromisor = true\n",
    "[core]\n\tfsmonitor = touch PWN\n",
    "[core]\n\tpager = touch PWN\n[pager]\n\tshow = touch PWN\n\tcat-file = touch PWN\n",
    "[diff]\n\texternal = touch PWN\n[diff \"py\"]\n\ttextconv = touch PWN\n\tcommand = touch PWN\n",
    "[filter \"evil\"]\n\tsmudge = touch PWN\n\tclean = touch PWN\n\tprocess = touch PWN\n\trequired = true\n",
    "[alias]\n\tcat-file = !touch PWN\n\tshow = !touch PWN\n[core]\n\talternateRefsCommand = touch PWN\n\tgitProxy = touch PWN\n\taskPass = touch PWN\n",
    "[include]\n\tpath = MORE\n[includeIf \"gitdir:/**\"]\n\tpath = MORE\n",
];

/// A checkout whose commit lacks one of the files' objects, so that a promisor would be asked for it.
fn hostile_checkout(config: &str, marker: &Path) -> tempfile::TempDir {
    let dir = repository();
    std::fs::write(dir.path().join(".gitattributes"), "*.py diff=py filter=evil\n").unwrap();
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "-m", "attributes"]);
    git(dir.path(), &["tag", RELEASE.commit]);
    let blob = git(dir.path(), &["rev-parse", "HEAD:paravt/eval/utils.py"]);
    std::fs::remove_file(dir.path().join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let marker = marker.to_str().unwrap();
    let more = dir.path().join("more.config");
    std::fs::write(&more, TRICKS[0].replace("PWN", marker)).unwrap();
    let config = config.replace("PWN", marker).replace("MORE", more.to_str().unwrap());
    let file = dir.path().join(".git/config");
    let own = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\thooksPath = hooks\n";
    std::fs::write(file, format!("{own}{config}")).unwrap();
    for folder in ["hooks", ".git/hooks"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        for hook in [
            "post-checkout",
            "post-index-change",
            "pre-commit",
            "reference-transaction",
            "fsmonitor-watchman",
        ] {
            let path = dir.path().join(folder).join(hook);
            std::fs::write(&path, format!("#!/bin/sh\ntouch {marker}\n")).unwrap();
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&path, executable).unwrap();
        }
    }
    dir
}

#[test]
fn no_program_that_a_checkout_names_is_run() {
    for config in TRICKS {
        for work_tree in [true, false] {
            let outside = tempfile::tempdir().unwrap();
            let marker = outside.path().join("pwned");
            let dir = hostile_checkout(config, &marker);
            if !work_tree {
                std::fs::remove_dir_all(dir.path().join("paravt")).unwrap();
            }
            for from in [
                dir.path().to_str().unwrap().to_owned(),
                dir.path().join(".git").to_str().unwrap().to_owned(),
                format!("file://{}", dir.path().display()),
            ] {
                for unpinned in [false, true] {
                    let read = read_files(&from, unpinned);
                    assert!(!marker.exists(), "{config} ran for {from}, unpinned {unpinned}");
                    // The files of the work tree are there; the history lacks one.
                    let tree = work_tree && from == dir.path().to_str().unwrap();
                    assert_eq!(read.is_ok(), tree, "{from}: {read:?}");
                }
            }
        }
    }
}

/// The promisor trick is a real one: git as it is called in a checkout does run the program. Without
/// this the test above would pass because nothing was ever run.
#[test]
fn plain_git_executes_programs_named_by_a_hostile_checkout() {
    let outside = tempfile::tempdir().unwrap();
    let marker = outside.path().join("pwned");
    let dir = hostile_checkout(TRICKS[0], &marker);
    let file = format!("{}:paravt/eval/utils.py", RELEASE.commit);
    let _ = Command::new("git").arg("-C").arg(dir.path()).args(["show", &file]).output().unwrap();
    assert!(marker.exists(), "the trick no longer works on this git; find one that does");
}

#[test]
fn code_that_is_nested_too_deeply_is_refused() {
    let elif = format!("if x:\n    pass\n{}", "elif x:\n    pass\n".repeat(50_000));
    let blocks: String = (0..1500).map(|depth| format!("{}if x:\n", " ".repeat(depth))).collect();
    let blocks = format!("{blocks}{}x = {}x\n", " ".repeat(1500), "not ".repeat(1000));
    for code in [
        format!("x = {}x\n", "not ".repeat(200_000)),
        format!("x = y{}\n", ".a".repeat(200_000)),
        format!("x = 1{}\n", "+1".repeat(200_000)),
        format!("x = {}\n", "lambda: ".repeat(200_000)),
        format!("x = f\"{{{}x}}\"\n", "not ".repeat(200_000)),
        format!("x = rf\"{{x:{}}}\"\n", "{y:".repeat(100_000)),
        elif,
        blocks,
    ] {
        let error = import(&with_driver(code), true).unwrap_err().to_string();
        assert!(error.contains("not parsed as Python: maximum recursion depth"), "{error}");
    }
    // Long is not deep.
    let long = format!("{}x = 1\n", "x = {'a': [1, 2], 'b': f'{x}'}\n".repeat(20_000));
    let error = import(&with_driver(long), true).unwrap_err().to_string();
    assert!(!error.contains("recursion"), "{error}");
}

#[test]
fn pipes_devices_and_large_files_are_refused() {
    let dir = repository();
    std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
    let driver = dir.path().join("paravt/eval/driver.py");
    let problem = || {
        let error = read_files(dir.path().to_str().unwrap(), true).unwrap_err().to_string();
        assert!(error.contains("driver.py"), "{error}");
        error
    };
    std::fs::remove_file(&driver).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &driver).unwrap();
    assert!(problem().contains("not a regular file"));
    std::fs::remove_file(&driver).unwrap();
    assert!(Command::new("mkfifo").arg(&driver).status().unwrap().success());
    assert!(problem().contains("not a regular file"));
    std::fs::remove_file(&driver).unwrap();
    std::fs::File::create(&driver).unwrap().set_len(1 << 30).unwrap();
    assert!(problem().contains("larger than"));
}

#[test]
fn a_large_file_in_the_history_is_refused() {
    let dir = repository();
    std::fs::File::create(dir.path().join("paravt/eval/driver.py")).unwrap().set_len(1 << 26).unwrap();
    git(dir.path(), &["commit", "--quiet", "--all", "-m", "large"]);
    let error = read_files(&format!("file://{}", dir.path().display()), true).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn packed_refs_and_linked_work_trees_are_read() {
    let dir = repository();
    let head = git(dir.path(), &["rev-parse", "HEAD"]);
    let linked = tempfile::tempdir().unwrap();
    let tree = linked.path().join("tree");
    git(dir.path(), &["worktree", "add", "--quiet", "-b", "other", tree.to_str().unwrap()]);
    assert_eq!(source_commit(&tree), head, "a linked work tree has its own HEAD");
    git(dir.path(), &["gc", "--quiet"]);
    git(dir.path(), &["pack-refs", "--all"]);
    assert_eq!(source_commit(dir.path()), head);
    assert_eq!(source_commit(&tree), head);
}
