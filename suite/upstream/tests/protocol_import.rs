//! The import: files out of trees and histories, texts out of files, and ParaVT's protocol of a stand-in's words.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use paravt_suite::profile::Profile;
use paravt_suite::protocol::{AgentLoop, Fidelity, PromptMode, Protocol, Shape, render};
use paravt_suite::sample::{Gold, Question, QuestionKind, Sample};
use paravt_upstream::import::parts::{Parts, protocol as one_mode, questions};
use paravt_upstream::import::{self, Files, ImportError, Pinned, Release, Text, Texts};
use paravt_upstream::paravt::import::RELEASE;

const DRIVER: &str = "paravt/eval/driver.py";

/// Files of the release's names.
fn files() -> Files {
    RELEASE.files.iter().map(|file| (file.path, format!("# {}\n", file.path))).collect()
}

fn read_files(from: &str) -> Result<Files, ImportError> {
    import::read_files(&RELEASE, from)
}

/// The stand-in's words.
fn words() -> BTreeMap<String, String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin/paravt.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn protocol() -> Protocol {
    RELEASE.with_texts(&Texts::of(words())).unwrap()
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
fn a_protocol_is_made_of_its_texts() {
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
    assert_eq!(protocol.max_tokens, 2048);
    let force = render::force(&protocol, QuestionKind::Grounding).unwrap();
    assert_eq!((force.text.as_str(), force.max_tokens), ("Times now: 'X - Y'.", 128));
    assert_eq!(render::crop_response(&protocol, 3, 0.25, 9.0).unwrap(), "<seen>3 of 0.2 to 9.0</seen>");
    assert_eq!(render::crop_error(&protocol, f64::NAN, f64::INFINITY, "").unwrap(), "<lost>nan-inf</lost>");
}

/// Records name a protocol by its hash: one that changes makes every earlier run another protocol's.
#[test]
fn hashes_of_protocols_are_fixed() {
    let native = paravt_suite::protocol::native::protocol().hash();
    assert_eq!(native, "6014dbfaad4cb20aea78a76fab62ee3149a5e0747bd4f80e3c7fcce94f5b9e1e");
    let standin = protocol().hash();
    assert_eq!(standin, "unpinned:166abee435bd5d84542abdc3416c012c39737aeddfddbeff6544f43f9ff4a7bc");
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

/// A release of one small file.
static SMALL: Release = Release {
    name: "small",
    repository: "nobody/small",
    commit: "c0ffee",
    files: &[Pinned::new("say.py", "e6c84f55229f97bf2e5b1e16cc727fc3e179ad669a118eee80fb4b79f76bdea5")],
    texts: &[
        Text::python("say", "say.py", 6..19),
        Text::python("ask", "say.py", 26..41).slots(&["question"]),
    ],
    make: |texts, source| {
        Ok(one_mode(Parts {
            name: "small",
            source,
            system: texts.text("say")?,
            tool: ("none", 1),
            questions: BTreeMap::from([("choice".to_owned(), texts.template("ask")?)]),
            agent: AgentLoop::new(Fidelity::Exact, Shape::OneTurn),
            max_tokens: 1,
        }))
    },
};
const SMALL_FILE: &str = "SAY = \"Be \" \"brief\"\nASK = f\"{q['text']}?\"\n";

#[test]
fn a_file_is_known_by_its_hash() {
    let of = |text: &str| SMALL.import(&Files::from([("say.py", text.to_owned())]));
    let made = of(SMALL_FILE).unwrap();
    assert_eq!(made.system.values().next().unwrap(), "Be brief");
    assert_eq!(made.questions, questions([("choice", "{question}?")]));
    assert!(made.source.pinned && !made.hash().starts_with("unpinned:"));
    let error = of(&SMALL_FILE.replace("brief", "quiet")).unwrap_err();
    assert!(matches!(error, ImportError::Hash { file: "say.py", .. }));
    for words in ["say.py has SHA-256", "commit c0ffee", "base = \"small\""] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = SMALL.import(&Files::new()).unwrap_err().to_string();
    assert!(error.contains("say.py cannot be read from nobody/small"), "{error}");
}

#[test]
fn other_words_are_marked() {
    assert!(protocol().hash().starts_with("unpinned:"));
    assert!(!protocol().source.pinned);
    let mut few = words();
    few.remove("lost");
    let error = RELEASE.with_texts(&Texts::of(few)).unwrap_err().to_string();
    assert!(error.contains("text lost"), "{error}");
}

#[test]
fn a_sub_agent_is_asked_as_in_the_releases_rollouts() {
    let (found, sample) = (protocol(), sample("mlvu", None, Gold::Choice { answer: "A".into() }));
    let prompt = render::subagent_prompt(&found, &sample, 65.96, 3725.5, 16).unwrap();
    assert_eq!(prompt, "Part 01:05 to 62:05 (3659.5 s).\n\nSay {briefly} what is there.");
    let response = render::subagent_response(&found, 65.96, 3725.5, "a {red} door").unwrap();
    assert_eq!(response, "<tool_response>\nSub: a {red} door\n</tool_response>");
}

/// A git repository of [`files`] in a fresh folder.
fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files() {
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

#[test]
fn the_pinned_commit_is_read_before_the_work_tree() {
    let dir = repository();
    let folder = dir.path().to_str().unwrap();
    assert_eq!(read_files(folder).unwrap(), files(), "of the tree: the history lacks the commit");
    // A history that has the pinned commit, as far as its name goes.
    git(dir.path(), &["tag", RELEASE.commit]);
    std::fs::write(dir.path().join(DRIVER), "edited").unwrap();
    git(dir.path(), &["commit", "--quiet", "--all", "-m", "edited"]);
    for from in [folder.to_owned(), format!("{folder}/.git"), format!("file://{folder}")] {
        assert_eq!(read_files(&from).unwrap(), files(), "{from}");
    }
    std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
    assert_eq!(read_files(folder).unwrap()[DRIVER], "edited");
}

#[test]
fn a_folder_without_the_files_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let error = read_files(dir.path().to_str().unwrap()).unwrap_err().to_string();
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
            "post-checkout", "post-index-change", "pre-commit", "reference-transaction", "fsmonitor-watchman",
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
                let read = read_files(&from);
                assert!(!marker.exists(), "{config} ran for {from}");
                // The files of the work tree are there; the history lacks one.
                let tree = work_tree && from == dir.path().to_str().unwrap();
                assert_eq!(read.is_ok(), tree, "{from}: {read:?}");
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
fn pipes_devices_and_large_files_are_refused() {
    let dir = repository();
    std::fs::remove_dir_all(dir.path().join(".git")).unwrap();
    let driver = dir.path().join("paravt/eval/driver.py");
    let problem = || {
        let error = read_files(dir.path().to_str().unwrap()).unwrap_err().to_string();
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
    git(dir.path(), &["tag", RELEASE.commit]);
    let error = read_files(&format!("file://{}", dir.path().display())).unwrap_err().to_string();
    assert!(error.contains("larger than"), "{error}");
}

#[test]
fn packed_refs_and_linked_work_trees_are_read() {
    let dir = repository();
    git(dir.path(), &["tag", RELEASE.commit]);
    let linked = tempfile::tempdir().unwrap();
    let tree = linked.path().join("tree");
    git(dir.path(), &["worktree", "add", "--quiet", "-b", "other", tree.to_str().unwrap()]);
    for folder in [dir.path(), &tree] {
        std::fs::write(folder.join(DRIVER), "edited").unwrap();
    }
    let committed = || [dir.path(), &tree].map(|folder| read_files(folder.to_str().unwrap()).unwrap());
    assert_eq!(committed(), [files(), files()], "a linked work tree shares refs and objects");
    git(dir.path(), &["gc", "--quiet"]);
    git(dir.path(), &["pack-refs", "--all"]);
    assert_eq!(committed(), [files(), files()]);
}
