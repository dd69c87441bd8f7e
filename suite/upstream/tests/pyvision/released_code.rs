//! The answers of the release's own functions on random cases: `ci/compare/pyvision` makes them and runs these tests.

use std::path::PathBuf;

use paravt_jail::{Figure, Opened, Outcome, Output};
use paravt_python::format_named;
use paravt_suite::message::Part;
use paravt_suite::protocol::{self, CodeLoop, CodeRules, Protocol, render};
use paravt_suite::record::EndReason;
use paravt_upstream::import::read_files;
use paravt_upstream::pyvision::{
    ActionError, Environment, Progress, RELEASE, Turn, is_forbidden, judged_answer, rule_score, video_lines,
};
use serde_json::Value;

fn given(variable: &str) -> PathBuf {
    std::env::var_os(variable)
        .unwrap_or_else(|| panic!("{variable} is not set: run ci/compare/pyvision"))
        .into()
}

fn protocol() -> Protocol {
    let checkout = given("PARAVT_PYVISION");
    let protocol = RELEASE.import(&read_files(&RELEASE, checkout.to_str().unwrap()).unwrap()).unwrap();
    protocol.check().unwrap();
    protocol
}

fn code_loop() -> CodeLoop {
    protocol().code().unwrap().1.clone()
}

fn rules() -> CodeRules {
    code_loop().rules
}

fn cases(kind: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(given("PARAVT_PYVISION_CASES")).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let cases = cases[kind].as_array().unwrap().clone();
    assert!(cases.len() >= 1000, "{kind}");
    cases
}

fn number(value: &Value) -> u32 {
    u32::try_from(value.as_u64().unwrap()).unwrap()
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn templates_are_formatted_alike() {
    for case in cases("formats") {
        let found = format_named(case[0].as_str().unwrap(), &[("query", "Q{0}"), ("video_info", "V")]);
        assert_eq!(found.ok().as_deref(), case[1].as_str(), "{case}");
    }
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn first_prompts_are_equal() {
    let release = protocol();
    let (agent_loop, code) = release.code().unwrap();
    for case in cases("prompts") {
        let video = Opened {
            frames: case["video_length"].as_u64().unwrap(),
            fps: case["fps"].as_f64().unwrap(),
            width: number(&case["width"]),
            height: number(&case["height"]),
            open_seconds: 0.0,
            pictures: Vec::new(),
        };
        let info = video_lines(&code.rules.texts, &video).unwrap();
        let opened = protocol::FileInfo { info, ..protocol::FileInfo::default() };
        let prompt = render::code_opening(agent_loop, case["query"].as_str().unwrap(), opened).unwrap();
        assert!(
            matches!(&prompt[..], [Part::Text(text)] if text == case["prompt"].as_str().unwrap()),
            "{prompt:?}"
        );
    }
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn turns_are_read_and_answered_alike() {
    let rules = CodeRules { forbid: false, verbatim: true, ..rules() };
    let picture = picture();
    for case in cases("steps") {
        let mut environment = Environment::new(&rules, 0);
        for turn in case.as_array().unwrap() {
            let stdout = turn["stdout"].as_str().unwrap();
            let mut code = None;
            let run = |given: &str| {
                code = Some(given.to_owned());
                let figure = Figure { png: picture.clone(), width: 2, height: 2 };
                let made = turn["figures"].as_u64().unwrap();
                let fails = turn["fails"].as_bool().unwrap();
                let outcome = if fails { Outcome::Raised(stdout.to_owned()) } else { Outcome::Done };
                Ok(Output {
                    outcome,
                    stdout: stdout.to_owned(),
                    stdout_bytes: stdout.len() as u64,
                    figures: vec![figure; usize::try_from(made).unwrap()],
                    figures_made: made,
                    figures_total: turn["total"].as_u64().unwrap(),
                    seconds: 0.0,
                    restarted: false,
                })
            };
            let step = environment.step(turn["turn"].as_str().unwrap(), run).unwrap();
            assert_eq!(code.as_deref(), turn["code"].as_str(), "{turn}");
            assert_eq!(step.answer.as_deref(), turn["answer"].as_str(), "{turn}");
            assert_eq!(step.turn == Turn::Answered, turn["done"].as_bool().unwrap(), "{turn}");
            assert_eq!(step.error.is_some(), turn["error"].as_bool().unwrap(), "{turn}");
            let raw = step.observation.map(|observation| observation.raw());
            assert_eq!(raw.as_deref(), turn["observation"].as_str(), "{turn}");
        }
    }
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn the_verifier_finds_the_same_answer() {
    for case in cases("verdicts") {
        assert_eq!(judged_answer(case[0].as_str().unwrap()), case[1].as_str(), "{case}");
    }
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn code_is_forbidden_alike() {
    for case in cases("looks") {
        let code = case[0].as_str().unwrap();
        assert_eq!(is_forbidden(code), case[1].as_bool().unwrap(), "{case}");
    }
    let mut environment = Environment::new(&rules(), 0);
    let step = environment.step("```python\nx.input(3)\n```", |_| unreachable!("it does not run")).unwrap();
    assert_eq!(step.error, Some(ActionError::Forbidden));
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn answers_are_judged_alike_by_the_rule() {
    for case in cases("rules") {
        let text = |index: usize| case[index].as_str().unwrap();
        assert_eq!(rule_score(text(0), text(1)), case[2].as_f64().unwrap(), "{case}");
    }
}

/// A reason by the release's number.
fn numbered(end: EndReason) -> u64 {
    match end {
        EndReason::Done => 1,
        EndReason::OverLength => 2,
        EndReason::ExceedMaxTurns => 3,
        EndReason::ExceedMaxImages => 4,
        EndReason::ErrorInAction => 5,
    }
}

#[test]
#[ignore = "run by ci/compare/pyvision with a checkout of the release"]
fn episodes_end_alike() {
    let released = code_loop();
    for case in cases("episodes") {
        let rules = CodeRules {
            context_tokens: number(&case["context"]),
            prompt_tokens: number(&case["prompt"]),
            ..released.rules.clone()
        };
        let turns = usize::try_from(number(&case["limit"])).unwrap();
        let mut progress = Progress::new(&CodeLoop { turns, rules, ..released });
        progress.count_prompt(number(&case["given"]).into());
        for turn in case["turns"].as_array().unwrap() {
            let kind = match turn["kind"].as_str().unwrap() {
                "ran" => Turn::Ran,
                "answered" => Turn::Answered,
                _ => Turn::Failed,
            };
            let count = |name: &str| turn[name].as_u64().unwrap();
            let end = progress.count_turn(count("tokens"), kind);
            let end = end.or_else(|| progress.count_observation(count("observed")));
            if end.or_else(|| progress.count_images(count("images"))).is_some() {
                break;
            }
        }
        assert_eq!(progress.end.map(numbered), case["end"].as_u64(), "{case}");
        assert_eq!(progress.calls, number(&case["calls"]), "{case}");
        // The release does not hand the images on with which it ends.
        if progress.end != Some(EndReason::ExceedMaxImages) {
            assert_eq!(progress.images, case["images"].as_u64().unwrap(), "{case}");
        }
    }
}

/// A PNG of two pixels by two.
fn picture() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, 2, 2);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[0; 12]).unwrap();
    bytes
}
