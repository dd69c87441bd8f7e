//! The importer on a stand-in of the same structure: what it finds, and how it fails.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use paravt_suite::profile::Profile;
use paravt_suite::protocol::import::{Files, ImportError, import, read_files};
use paravt_suite::protocol::{PromptMode, Protocol, render};
use paravt_suite::sample::{Gold, Question, QuestionKind, Sample, Tags};

fn standin() -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/standin");
    // Read as a plain folder: the repository around it has no such files at its root.
    Files {
        driver: std::fs::read_to_string(folder.join("paravt/eval/driver.py")).unwrap(),
        utils: std::fs::read_to_string(folder.join("paravt/eval/utils.py")).unwrap(),
    }
}

fn protocol() -> Protocol {
    import(&standin(), true).unwrap()
}

fn sample(task: &str, subtitles: Option<&str>, gold: Gold) -> Sample {
    Sample {
        task: task.into(),
        uid: "u".into(),
        id: "i".into(),
        row: 0,
        video: "videos/v.mp4".into(),
        question: Question {
            stem: "what {now}?".into(),
            options: vec!["red".into(), "blue".into()],
            letters: "AB".into(),
            subtitles: subtitles.map(str::to_owned),
        },
        gold,
        tags: Tags::new(),
        evidence: None,
        flags: vec![],
    }
}

fn user(task: &str, mode: PromptMode, subtitles: Option<&str>) -> String {
    let gold = Gold::Choice { answer: "A".into() };
    let switches = Profile::Paper.switches();
    render::user_text(&protocol(), &sample(task, subtitles, gold), mode, &switches, "v.mp4", None).unwrap()
}

#[test]
fn texts_are_taken_from_where_they_stand() {
    let protocol = protocol();
    let schema =
        r#"{"type": "function", "function": {"name": "crop_video", "required": ["start_time", "\u00e9"]}}"#;
    assert_eq!(protocol.system[&PromptMode::Direct], "Direct words, in two pieces.");
    assert_eq!(
        protocol.system[&PromptMode::AgenticGeneral],
        format!("General words with {schema}\nand {{\"braces\": 0}} that are doubled.")
    );
    assert!(!protocol.system.contains_key(&PromptMode::Native));
    assert_eq!(protocol.max_tokens, 123);
    let force = render::force(&protocol, QuestionKind::Grounding).unwrap();
    assert_eq!((force.text.as_str(), force.max_tokens), ("Times now: 'X - Y'.", 12));
    assert_eq!(render::crop_response(&protocol, 3, 0.25, 9.0).unwrap(), "<seen>3 of 0.2 to 9.0</seen>");
    assert_eq!(render::crop_error(&protocol, f64::NAN, f64::INFINITY).unwrap(), "<lost>nan-inf</lost>");
}

#[test]
fn questions_are_rendered_by_split_and_mode() {
    let body = "Q: what {now}?\nO:\nA) red\nB) blue\n";
    assert_eq!(user("videomme", PromptMode::Direct, None), format!("{body}Think, then one letter."));
    assert_eq!(user("mmvu", PromptMode::Reasoning, None), format!("{body}One letter."));
    assert_eq!(
        user("videomme_wsub", PromptMode::AgenticGeneral, Some("hello")),
        format!("Said:\nhello\n\n{body}One letter. (the path: v.mp4)")
    );
    // A text that already has the words gets no second path, in whatever case.
    assert_eq!(
        user("videomme_wsub", PromptMode::AgenticMinimal, Some("THE PATH")),
        format!("Said:\nTHE PATH\n\n{body}One letter.")
    );
    assert_eq!(user("videomme_wsub", PromptMode::Direct, None), user("videomme", PromptMode::Direct, None));
    assert_eq!(user("lvbench", PromptMode::Reasoning, None), "what {now}?\nOne letter.");
    assert_eq!(user("charades", PromptMode::Direct, None), "When is it? It: \"what {now}?\". Say when.");
}

#[test]
fn the_instruction_is_inverted_except_under_strict() {
    let protocol = protocol();
    let gold = Gold::Choice { answer: "A".into() };
    let text = |mode, profile: Profile| {
        let sample = sample("videomme", None, gold.clone());
        render::user_text(&protocol, &sample, mode, &profile.switches(), "v.mp4", None).unwrap()
    };
    assert!(text(PromptMode::Direct, Profile::Release).contains("Think, then"));
    assert!(!text(PromptMode::Direct, Profile::Strict).contains("Think, then"));
    assert_ne!(text(PromptMode::Direct, Profile::Strict), text(PromptMode::AgenticGeneral, Profile::Strict));
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
    let problem = |from: &str, to: &str| {
        let mut files = standin();
        assert!(files.driver.contains(from) || files.utils.contains(from), "{from}");
        files.driver = files.driver.replace(from, to);
        files.utils = files.utils.replace(from, to);
        import(&files, true).unwrap_err().to_string()
    };
    assert!(problem("DIRECT_SYSTEM =", "SYSTEM_DIRECT =").contains("DIRECT_SYSTEM"));
    assert!(problem("def load_samples", "def load").contains("function load_samples"));
    assert!(problem("dataset_name == \"mlvu\"", "dataset_name == \"other\"").contains("mlvu"));
    assert!(problem("{len(cropped)} of ", "some of ").contains("n, start, end"));
    assert!(problem("force_max = 12", "force_max = limit").contains("force_max"));
    assert!(problem("f\"{k}) {v}\"", "f\"{k}: {v}\"").contains("option line"));
    assert!(problem("def eval_one(", "def eval_one((").contains("not parsed as Python"));
}

#[test]
fn a_folder_without_the_files_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let error = read_files(dir.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("driver.py"), "{error}");
}
