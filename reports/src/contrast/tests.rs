use paravt_suite::fixtures;
use paravt_suite::protocol::PromptMode;
use paravt_suite::run::Manifest;

use super::{Side, among};
use crate::decide::Lost;
use crate::names::Varying;
use crate::question::{Factor, Question};
use crate::rows::samples;

/// A run with the tool.
fn run(change: impl FnOnce(&mut Manifest)) -> Manifest {
    let mut manifest = fixtures::manifest();
    manifest.offers_tool = true;
    manifest.backend.model = "owner/one-8b".into();
    change(&mut manifest);
    manifest
}

fn no_tool(manifest: &mut Manifest) {
    manifest.offers_tool = false;
    manifest.plan.mode = PromptMode::named("direct");
    manifest.plan.max_turns = 1;
}

fn model(name: &str) -> impl Fn(&mut Manifest) {
    move |manifest| manifest.backend.model = name.into()
}

fn asked(a: &Manifest, b: &Manifest) -> Question {
    Question::of([a, b], [false; 2])
}

/// The comparison of two runs in both orders: what it is about, whether B is the second of the two, and what else differs.
fn both(first: &Manifest, second: &Manifest) -> [(Factor, bool, Vec<String>); 2] {
    [(first, second), (second, first)].map(|(a, b)| {
        let Question { factor, is_swapped, also } = asked(a, b);
        (factor, is_swapped, also.iter().map(ToString::to_string).collect())
    })
}

#[test]
fn manifests_that_give_an_order_decide_which_run_is_b() {
    let plain = run(|_| {});
    let cases: [(Manifest, Factor, bool); 5] = [
        (run(no_tool), Factor::Tool, true),
        (run(|run| run.plan.nframes = 64), Factor::More("nframes"), false),
        (run(|run| run.plan.max_turns = 1), Factor::More("max_turns"), true),
        // Without a limit.
        (run(|run| run.plan.max_parallel = 0), Factor::More("max_parallel"), false),
        (run(|run| run.plan.max_tokens = 16), Factor::More("max_tokens"), true),
    ];
    for (other, factor, is_swapped) in cases {
        let none = Vec::<String>::new;
        assert_eq!(
            both(&plain, &other),
            [(factor.clone(), is_swapped, none()), (factor, !is_swapped, none())]
        );
    }
}

#[test]
fn what_has_no_order_stays_in_the_order_given() {
    let plain = run(|_| {});
    let cases: [(Manifest, Factor); 6] = [
        (run(model("owner/two-8b")), Factor::Model),
        (run(|run| run.protocol_hash = "other".into()), Factor::Protocol),
        (run(|run| run.backend.name = "candle".into()), Factor::Backend),
        (run(|run| run.plan.mode = PromptMode::named("native")), Factor::Setting("mode".into())),
        (run(|run| run.plan.seed = Some(1)), Factor::Setting("seed".into())),
        (run(|_| {}), Factor::Nothing),
    ];
    for (other, factor) in cases {
        for found in both(&plain, &other) {
            assert_eq!(found, (factor.clone(), false, Vec::new()));
        }
    }
    // One model under its id and in a folder of that name.
    assert_eq!(asked(&plain, &run(model("/models/one-8b"))).factor, Factor::Nothing);
}

#[test]
fn what_else_differs_is_said_from_a_to_b() {
    let other = run(|run| {
        no_tool(run);
        run.plan.temperature = 0.5;
        run.backend.model = "owner/two-8b".into();
    });
    let also = vec![
        "model was owner/two-8b, now owner/one-8b".to_owned(),
        "temperature was 0.5, now 0.0".to_owned(),
    ];
    let found = [true, false].map(|is_swapped| (Factor::Tool, is_swapped, also.clone()));
    assert_eq!(both(&run(|_| {}), &other), found);
}

#[test]
fn runs_are_called_by_what_differs() {
    let names = |runs: &[&Manifest]| {
        let varying = Varying::of(runs);
        runs.iter().map(|run| varying.name(run, &[]).unwrap_or_default()).collect::<Vec<_>>()
    };
    let (with, without) = (run(|_| {}), run(no_tool));
    assert_eq!(names(&[&with, &without]), ["with tool", "without tool"]);
    let native = run(|run| run.plan.mode = PromptMode::named("native"));
    assert_eq!(names(&[&with, &without, &native])[2], "native", "two modes offer it");
    let two = run(model("owner/two-8b"));
    assert_eq!(names(&[&with, &two]), ["one-8b", "two-8b"]);
    assert_eq!(names(&[&with, &without, &two])[1], "without tool · one-8b");
    let sampled = run(|run| run.plan.temperature = 0.7);
    assert_eq!(names(&[&with, &sampled]), ["temperature 0.0", "temperature 0.7"]);
    assert_eq!(names(&[&with]), [""], "nothing differs");
    let other = run(|run| run.task.name = "other".into());
    assert_eq!(names(&[&with, &other]), ["", ""], "they are of two splits");
}

/// The comparisons among runs, each in words.
fn questions(runs: &[Manifest]) -> Vec<String> {
    let record = fixtures::record("0", 1.0);
    let side = |manifest| Side {
        manifest,
        samples: samples(
            fixtures::plan(paravt_suite::profile::Profile::Paper).switches(),
            std::slice::from_ref(&record),
        )
        .frame,
        lost: Lost::default(),
        subtitles: false,
    };
    let sides: Vec<Side<'_>> = runs.iter().map(side).collect();
    among(&sides).iter().map(|contrast| contrast.question.clone()).collect()
}

#[test]
fn runs_that_differ_in_one_thing_are_compared() {
    let frames = |count| run(|run| run.plan.nframes = count);
    // Each with the fewest frames, whatever the order.
    let ladder = ["16 frames against 8", "32 frames against 8"];
    for order in [[8, 16, 32], [32, 16, 8], [16, 8, 32]] {
        let mut found = questions(&order.map(frames));
        found.sort();
        assert_eq!(found, ladder);
    }
    let named = |name: &str, change: fn(&mut Manifest)| {
        run(|run| {
            change(run);
            model(&format!("owner/{name}"))(run);
        })
    };
    let two_by_two = [named("m1", |_| {}), named("m1", no_tool), named("m2", no_tool), named("m2", |_| {})];
    assert_eq!(
        questions(&two_by_two),
        [
            "With the tool against without it (m1)",
            "With the tool against without it (m2)",
            "agentic_general · owner/m2 − agentic_general · owner/m1",
            "direct · owner/m2 − direct · owner/m1",
        ]
    );
    // Two ways to call are two answers about the tool, and no mean of both.
    let one_call = run(|run| run.plan.max_parallel = 1);
    assert_eq!(
        questions(&[run(no_tool), one_call, run(|run| run.plan.max_parallel = 5)]),
        [
            "With the tool against without it (1 call a turn)",
            "With the tool against without it (5 calls a turn)",
            "5 calls a turn against 1 (with tool)",
        ]
    );
    // Nothing is left out: what differs in more than one thing is compared as well.
    assert_eq!(questions(&[named("m1", no_tool), named("m2", |_| {})]), ["With the tool against without it"]);
}
