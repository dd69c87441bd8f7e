//! The regression gate: baselines, checks, history.

use crate::common::{damaged, whole};
use paravt_reports::Run;
use paravt_reports::gate::{
    self, Baseline, ENTRIES, Entry, Estimate, Rule, ScoreRule, Status, append, check, junit, read_history,
};
use paravt_reports::terminal::{COLUMNS, Detail};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::PromptMode;
use paravt_suite::record::{Outcome, Record};

const ROWS: usize = 400;

/// A run that is right in the first `right` rows.
fn run(right: usize) -> Run {
    run_of("videomme", right)
}

fn run_of(task: &str, right: usize) -> Run {
    whole(task, "Video-MME (w/o subtitles)", ROWS, right)
}

fn changed(right: usize, change: impl FnOnce(&mut Run)) -> Run {
    let mut run = run(right);
    change(&mut run);
    run
}

fn baseline(runs: &[Run]) -> Baseline {
    Baseline::of(runs, Rule::default(), vec![]).unwrap()
}

/// Through the file, as the command does.
fn written(baseline: &Baseline) -> Baseline {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    baseline.write(&path).unwrap();
    let read = Baseline::read(&path).unwrap();
    assert_eq!(read, *baseline);
    read
}

fn verdict(baseline: &Baseline, runs: &[Run]) -> gate::Verdict {
    check(&written(baseline), runs, None, None).unwrap()
}

fn gate_of(right: usize, change: impl FnOnce(&mut Run)) -> gate::Verdict {
    verdict(&baseline(&[run(200)]), &[changed(right, change)])
}

/// Names of the worst checks.
fn worst(verdict: &gate::Verdict) -> Vec<&str> {
    let worst = verdict.status();
    verdict.checks.iter().filter(|check| check.status == worst).map(|check| check.name.as_str()).collect()
}

fn message<'a>(verdict: &'a gate::Verdict, group: &str, name: &str) -> &'a str {
    let check = verdict.checks.iter().find(|check| check.group == group && check.name == name);
    check.map_or("no such check", |check| check.message.as_str())
}

fn fail(record: &mut Record) {
    record.score.outcome = Outcome::Error;
    record.score.value = 0.0;
    record.error = damaged().records[3].error.clone();
}

fn lose_frames(record: &mut Record) {
    record.transcript.frame_loss = Some("cut off".into());
}

#[test]
fn an_equal_run_passes_a_worse_one_fails_and_an_unclear_one_is_undecided() {
    assert_eq!(gate_of(200, |_| ()).status(), Status::Pass);
    assert_eq!(gate_of(220, |_| ()).status(), Status::Pass);
    let worse = gate_of(150, |_| ());
    assert_eq!((worse.status(), worst(&worse)), (Status::Fail, vec!["score"]));
    // Two points lower where one is allowed, eight answers of 400: the interval crosses the limit.
    let unclear = gate_of(192, |_| ());
    assert_eq!((unclear.status(), worst(&unclear)), (Status::Undecided, vec!["score"]));
}

/// A run of `videos` videos with four questions each; `right` of the first ones are answered.
fn few(videos: usize, right: usize) -> Run {
    let mut run = whole("mlvu", "MLVU (dev)", 4 * videos, right);
    for record in &mut run.records {
        record.sample.video = format!("videos/{}.mp4", record.sample.row / 4).into();
    }
    run
}

#[test]
fn a_collapse_on_five_videos_fails_and_on_four_is_undecided() {
    let collapse = |videos| verdict(&baseline(&[few(videos, 4 * videos)]), &[few(videos, 0)]);
    let five = collapse(5);
    assert_eq!((five.status(), worst(&five)), (Status::Fail, vec!["score"]));
    let text = message(&five, "mlvu", "score");
    assert!(text.contains("0.0 after 100.0: -100.0 points, 95 % -100.0 to -23.8, 20 pairs"), "{text}");
    assert!(text.contains("5 videos (exact p of a loss 0.031)"), "{text}");
    assert_eq!(collapse(4).status(), Status::Undecided, "1/16 by chance");
    // Half of every video, without any spread between them, and a loss within the tolerance.
    let even = |videos: usize, lost: usize| {
        let mut run = few(videos, 4 * videos);
        let lose = |record: &&mut Record| record.sample.row % 4 < lost;
        run.records.iter_mut().filter(lose).for_each(|record| record.score.value = 0.0);
        run
    };
    assert_eq!(verdict(&baseline(&[few(10, 40)]), &[even(10, 2)]).status(), Status::Fail);
    let rule = Rule { score: ScoreRule::Interval { drop_points: 60.0 }, ..Rule::default() };
    let tolerant = Baseline::of(&[few(5, 20)], rule, vec![]).unwrap();
    assert_eq!(verdict(&tolerant, &[even(5, 2)]).status(), Status::Undecided);
    // Several splits are one family: one in twenty checks fails by chance, not one in twenty splits.
    let named = |right| {
        let mut other = few(5, right);
        other.manifest.task.name = "lvbench".into();
        other.records.iter_mut().for_each(|record| record.sample.task = "lvbench".into());
        [few(5, 20), other]
    };
    let two = verdict(&baseline(&named(20)), &named(0));
    assert_eq!(two.status(), Status::Fail, "the equal split does not count in the correction");
}

#[test]
fn answers_that_differ_are_not_called_equal() {
    let mut swapped = few(5, 20);
    let mut before = few(5, 20);
    for row in (0..20).step_by(4) {
        before.records[row].score.value = 0.0;
        swapped.records[row + 1].score.value = 0.0;
    }
    let verdict = verdict(&baseline(&[before]), &[swapped]);
    let text = message(&verdict, "mlvu", "score");
    assert!(text.contains("no video's score differs") && !text.contains("no score differs"), "{text}");
}

/// Runs of the same model on the same samples, whose answers vary from run to run: no more than one in
/// twenty checks without any tolerance fails.
#[test]
fn false_alarms_of_few_videos_are_at_most_one_in_twenty() {
    use paravt_reports::decide::{Effect, Family, Margin, Verdict};
    use paravt_reports::statistics::{Cluster, sign_flip};
    use rand::{Rng as _, SeedableRng as _};
    const DRAWS: usize = 4_000;
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    for videos in 2..=9 {
        // Questions of one video are as hard as each other and turn together with this probability.
        for together in [0.0, 0.5, 1.0] {
            let mut failed = 0;
            for _ in 0..DRAWS {
                let video = |_| {
                    let ability: f64 = random.random();
                    let mut answers = || -> f64 {
                        let common: f64 = random.random();
                        let mut right = || {
                            let alike = random.random::<f64>() < together;
                            let own: f64 = random.random();
                            f64::from(u8::from((if alike { common } else { own }) < ability))
                        };
                        (0..4).map(|_| right()).sum()
                    };
                    Cluster { sum: answers() - answers(), n: 4 }
                };
                let clusters: Vec<Cluster> = (0..videos).map(video).collect();
                let sums: Vec<f64> = clusters.iter().map(|cluster| cluster.sum).collect();
                let mut family = Family::default();
                family.push_again(Effect::difference(&clusters), Margin::no_worse(0.0), sign_flip(&sums));
                failed += usize::from(family.decide()[0].verdict == Verdict::Worse);
            }
            let share = failed as f64 / DRAWS as f64;
            assert!(
                share < 0.05 + 3.0 * (0.05f64 * 0.95 / DRAWS as f64).sqrt(),
                "{videos} {together}: {share}"
            );
        }
    }
}

#[test]
fn every_run_of_a_split_is_judged_whatever_the_order() {
    let reference = baseline(&[run(200)]);
    let named = |right: usize, name: &str| changed(right, |run| run.manifest.label = Some(name.into()));
    for runs in [[named(200, "good"), named(0, "bad")], [named(0, "bad"), named(200, "good")]] {
        let both = verdict(&reference, &runs);
        assert_eq!((both.status(), worst(&both)), (Status::Fail, vec!["score"]));
        assert!(message(&both, "videomme (bad)", "score").contains("-50.0 points"));
        assert_eq!(both.scores.len(), 2);
    }
}

#[test]
fn splits_that_only_one_side_has_are_named_and_leave_the_gate_undecided() {
    let reference = baseline(&[run(200), run_of("lvbench", 200)]);
    let not_run = verdict(&reference, &[run(200)]);
    assert_eq!(not_run.status(), Status::Undecided);
    assert!(message(&not_run, "lvbench", "same measurement").contains("was not run"));
    let more = verdict(&baseline(&[run(200)]), &[run(200), run_of("mlvu", 200)]);
    assert_eq!(more.status(), Status::Undecided);
    assert!(message(&more, "mlvu", "same measurement").contains("does not have this split"));
    assert_eq!(verdict(&reference, &[]).status(), Status::Undecided);
}

#[test]
fn runs_of_two_modes_are_each_judged_by_their_own_entry() {
    let direct = |right| changed(right, |run| run.manifest.plan.mode = PromptMode::named("direct"));
    let reference = baseline(&[run(200), direct(100)]);
    assert_eq!(verdict(&reference, &[direct(100), run(200)]).status(), Status::Pass);
    assert_eq!(verdict(&reference, &[direct(100), run(100)]).status(), Status::Fail);
    let one = verdict(&reference, &[direct(100)]);
    assert_eq!(one.status(), Status::Undecided, "the entry with tools was not run");
}

#[test]
fn another_measurement_is_never_compared_and_what_differs_is_listed() {
    let differs = |change: &dyn Fn(&mut Run), expected: &str| {
        let verdict = gate_of(0, change);
        assert_eq!(verdict.status(), Status::Undecided, "{expected}");
        let message = message(&verdict, "videomme", "same measurement");
        assert!(message.contains("differs from the baseline") && message.contains(expected), "{message}");
        assert!(verdict.scores.is_empty());
    };
    let protocol = |run: &mut Run| {
        run.manifest.protocol_hash = "4567".into();
        run.records.iter_mut().for_each(|record| record.protocol = "4567".into());
    };
    differs(&protocol, "protocol was paravt (0123), now paravt (4567)");
    differs(&|run| run.manifest.plan.temperature = 0.7, "temperature was 0.0, now 0.7");
    differs(&|run| run.manifest.plan.nframes = 32, "nframes was 64, now 32");
    differs(&|run| run.manifest.backend.name = "candle".into(), "backend was openai, now candle");
    differs(&|run| run.manifest.backend.model = "other".into(), "model was made-up-8b, now other");
    differs(
        &|run| drop(run.manifest.data.insert("rows.parquet".into(), "12ab".into())),
        "data.rows.parquet was not set, now 12ab",
    );
    differs(&|run| run.manifest.selection.limit = Some(400), "selection.limit was not set, now 400");
    let dtype = |run: &mut Run| drop(run.manifest.backend.details.insert("dtype".into(), "bf16".into()));
    differs(&dtype, "dtype was not set, now bf16");
    let strict = |run: &mut Run| {
        run.manifest.plan.rules = Profile::Strict.into();
        run.records.iter_mut().for_each(|record| record.profile = Profile::Strict);
    };
    differs(&strict, "profile was paper, now strict");
    // Where it runs and how long it waits changes no answer.
    let elsewhere = gate_of(200, |run| {
        let details = &mut run.manifest.backend.details;
        details.insert("base_urls".into(), "http://other".into());
        details.insert("timeout_seconds".into(), "5".into());
    });
    assert_eq!(elsewhere.status(), Status::Pass);
}

#[test]
fn a_replay_of_a_run_is_the_same_measurement_and_of_another_engine_not() {
    let replay_of = |engine: &str| {
        changed(200, |run| {
            run.manifest.backend.name = "replay".into();
            run.manifest.backend.details.insert("recorded_with".into(), engine.into());
            run.manifest.backend.details.insert("recorded_by".into(), "paravt-bench 9".into());
        })
    };
    let recorded = changed(200, |run| {
        run.manifest.backend.details.insert("dtype".into(), "f32".into());
    });
    assert_eq!(verdict(&baseline(&[recorded]), &[replay_of("openai")]).status(), Status::Pass);
    let other = verdict(&baseline(&[run(200)]), &[replay_of("candle")]);
    assert!(message(&other, "videomme", "same measurement").contains("backend was openai, now candle"));
}

#[test]
fn a_run_with_samples_missing_decides_nothing() {
    let missing = gate_of(0, |run| run.records.truncate(300));
    assert_eq!((missing.status(), worst(&missing)), (Status::Undecided, vec!["complete"]));
    assert!(missing.checks.iter().all(|check| check.name != "score"), "no score of an incomplete run");
}

#[test]
fn errors_and_lost_frames_beyond_the_baseline_fail_whatever_the_score() {
    let errors = gate_of(200, |run| fail(&mut run.records[399]));
    assert_eq!((errors.status(), worst(&errors)), (Status::Fail, vec!["errors"]));
    let lost = gate_of(200, |run| run.records.iter_mut().for_each(lose_frames));
    assert_eq!(lost.status(), Status::Fail);
    assert!(worst(&lost).contains(&"lost frames"));
    assert_eq!(message(&lost, "videomme", "lost frames"), "400, baseline 0, allowed 0");
    let one = Rule { more_lost: 1, ..Rule::default() };
    let allowed = Baseline::of(&[run(200)], one, vec![]).unwrap();
    let run = changed(200, |run| lose_frames(&mut run.records[0]));
    assert_eq!(verdict(&allowed, &[run]).status(), Status::Pass);
}

#[test]
fn allowed_counts_do_not_wrap_around() {
    let rule = Rule { more_errors: usize::MAX, more_lost: usize::MAX, ..Rule::default() };
    let few = changed(200, |run| (390..392).for_each(|row| fail(&mut run.records[row])));
    let reference = Baseline::of(&[few], rule, vec![]).unwrap();
    let all = changed(200, |run| (300..400).for_each(|row| fail(&mut run.records[row])));
    let verdict = verdict(&reference, &[all]);
    assert_eq!(verdict.status(), Status::Pass);
    assert!(message(&verdict, "videomme", "errors").contains(&format!("allowed {}", usize::MAX)));
}

#[test]
fn answers_of_a_deterministic_run_are_compared_one_by_one() {
    let exact = |allowed| {
        let rule = Rule { score: ScoreRule::Exact { changed: allowed }, ..Rule::default() };
        Baseline::of(&[run(200)], rule, vec![]).unwrap()
    };
    assert_eq!(verdict(&exact(0), &[run(200)]).status(), Status::Pass);
    // Two answers that cancel out leave the score as it is.
    let swapped = || {
        changed(200, |run| {
            run.records[0].score.value = 0.0;
            run.records[399].score.value = 1.0;
        })
    };
    let strict = verdict(&exact(1), &[swapped()]);
    assert_eq!((strict.status(), worst(&strict)), (Status::Fail, vec!["score"]));
    let message = message(&strict, "videomme", "score");
    assert_eq!(message, "2 of 400 answers differ, allowed 1; 1 right to wrong, 1 wrong to right: 0, 399");
    assert_eq!(verdict(&exact(2), &[swapped()]).status(), Status::Pass);
    let other_wrong = changed(200, |run| run.records[300].score.prediction = Some("D".into()));
    assert_eq!(verdict(&exact(0), &[other_wrong]).status(), Status::Fail, "another wrong answer");
    let rule = Rule { score: ScoreRule::Exact { changed: 0 }, ..Rule::default() };
    let sampled = changed(200, |run| run.manifest.plan.temperature = 1.0);
    let refused = Baseline::of(&[sampled], rule, vec![]).unwrap_err().to_string();
    assert!(refused.contains("temperature 0"), "{refused}");
}

/// A training from a seed: right in so many rows of two splits.
fn training(seed: usize, right: usize) -> [Run; 2] {
    ["videomme", "lvbench"].map(|task| {
        let mut run = run_of(task, right);
        run.manifest.backend.model = format!("stages/rl-{seed}/final");
        run.manifest.label = Some(format!("seed {seed}"));
        run
    })
}

#[test]
fn another_training_is_judged_by_the_spread_of_the_seeds() {
    let rule = Rule { score: ScoreRule::Seeds, any_model: true, ..Rule::default() };
    let runs: Vec<Run> = [(0, 300), (1, 308), (2, 292), (3, 300)]
        .into_iter()
        .flat_map(|(seed, right)| training(seed, right))
        .collect();
    let reference = Baseline::of(&runs, rule, vec![]).unwrap();
    // Scores of 75, 77, 73 and 75 %: s = 1.633, t(3) = 3.182, sqrt(1 + 1/4) = 1.118: 69.19 % is the bound.
    assert_eq!(verdict(&reference, &training(9, 277)).status(), Status::Pass);
    let worse = verdict(&reference, &training(9, 276));
    assert_eq!((worse.status(), worst(&worse)), (Status::Fail, vec!["seed 9"]));
    let text = message(&worse, "all splits", "seed 9");
    assert!(text.contains("mean 69.0 %; 4 seeds scored 75.0 %, another one 69.2 % at least"), "{text}");
    let one = verdict(&reference, &training(9, 300)[..1]);
    assert_eq!(one.status(), Status::Undecided);
    assert!(message(&one, "all splits", "seed 9").contains("not judged on lvbench"));
    assert_eq!(verdict(&reference, &[]).status(), Status::Undecided);
    let lost = training(9, 300).map(|mut run| {
        run.records.iter_mut().for_each(lose_frames);
        run
    });
    assert_eq!(verdict(&reference, &lost).status(), Status::Fail);
    let two = Baseline::of(&runs[..4], rule, vec![]).unwrap_err().to_string();
    assert!(two.contains("needs 3"), "{two}");
}

#[test]
fn incomplete_and_failed_runs_cannot_become_a_baseline() {
    let refused = |runs: &[Run], reason: &str| {
        let error = Baseline::of(runs, Rule::default(), vec![]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(&[changed(200, |run| run.records.iter_mut().for_each(fail))], "every sample failed");
    refused(&[changed(200, |run| drop(run.records.pop()))], "incomplete: 399 of 400");
    let lost = |count: usize| changed(200, |run| run.records[..count].iter_mut().for_each(lose_frames));
    refused(&[lost(3)], "3 of 400 rows lack a full answer (3 frame loss), at most 2 may");
    assert!(Baseline::of(&[lost(2)], Rule::default(), vec![]).is_ok(), "a share that the rule allows");
    refused(&[run(200), changed(200, |run| run.manifest.label = Some("again".into()))], "same measurement");
    refused(&[], "needs a run");
    for drop_points in [f64::NAN, f64::INFINITY, -1.0, 100.0] {
        let rule = Rule { score: ScoreRule::Interval { drop_points }, ..Rule::default() };
        let error = Baseline::of(&[run(200)], rule, vec![]).unwrap_err().to_string();
        assert!(error.contains("0 to below 100"), "{error}");
    }
}

#[test]
fn a_baseline_that_cannot_be_read_back_does_not_replace_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    let old = baseline(&[run(200)]);
    old.write(&path).unwrap();
    let mut broken = baseline(&[run(200)]);
    broken.rule.score = ScoreRule::Interval { drop_points: f64::NAN };
    assert!(broken.write(&path).unwrap_err().to_string().contains("not written"));
    let mut cut = baseline(&[run(200)]);
    cut.splits[0].records.pop();
    assert!(cut.write(&path).is_err());
    assert_eq!(Baseline::read(&path).unwrap(), old);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn cut_doubled_and_edited_baselines_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    baseline(&[run(200)]).write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let refused = |changed: String, reason: &str| {
        assert_ne!(changed, text);
        std::fs::write(&path, changed).unwrap();
        let error = Baseline::read(&path).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("baseline.json"), "{error}");
    };
    let lines: Vec<&str> = text.lines().collect();
    let without_last = [&lines[..lines.len() - 2], &lines[lines.len() - 1..]].concat().join("\n");
    refused(without_last, "baseline.json");
    refused(text.replacen("\"value\":1.0", "\"value\":0.0", 1), "changed after it was written");
    refused(text.replace("\"drop_points\":1.0", "\"drop_points\":99.0"), "changed after it was written");
    refused(text.replacen("\"version\":1", "\"version\":2", 1), "written by a newer version (format 2");
    refused(text[..text.len() / 2].to_owned(), "not a baseline");
    refused("[]".to_owned(), "not a baseline");
    refused("{\"version\": 1, \"binary\": \"b\"}".to_owned(), "not a baseline: missing field `sha256`");
}

#[test]
fn an_edited_baseline_with_a_recomputed_hash_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    baseline(&[run(200)]).write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find("\"body\":").unwrap() + "\"body\":".len();
    let body = &text[start..text.trim_end().len() - 1];
    let refused = |changed: String, reason: &str| {
        assert_ne!(changed, body);
        let hash = paravt_files::sha256(&changed);
        std::fs::write(&path, format!("{{\"version\":1,\"sha256\":\"{hash}\",\"body\":{changed}}}\n"))
            .unwrap();
        let error = Baseline::read(&path).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    let line = body.lines().find(|line| line.contains("\"uid\":\"7\"")).unwrap();
    refused(body.replace(&format!("{line}\n"), ""), "399 records where 400 were written");
    refused(body.replace(line, &format!("{line}\n{line}\n{line}")), "402 records");
    let (eighth, again) = (body.lines().find(|line| line.contains("\"uid\":\"8\"")).unwrap(), line);
    refused(body.replace(eighth, again), "twice");
    refused(body.replacen("\"value\":1.0", "\"value\":-1e308", 1), "not between 0 and 1");
    refused(body.replacen("\"seconds\":0.5", "\"seconds\":-0.5", 1), "out of range");
    refused(body.replace("\"drop_points\":1.0", "\"drop_points\":-3.0"), "cannot be a tolerance");
    refused(body.replacen("\"protocol\":\"0123\"", "\"protocol\":\"9999\"", 1), "protocol");
    refused(body.replace("\"more_errors\":0", "\"more_errors\":1e400"), "baseline.json");
}

#[test]
fn a_baseline_holds_no_endpoint_no_command_line_and_no_server_text() {
    let runs = [changed(200, |run| {
        run.manifest.command = vec!["--key=secret".into()];
        run.manifest.backend.details.insert("base_urls".into(), "http://secret".into());
        run.records[0].transcript.final_text = "secret".into();
        fail(&mut run.records[399]);
        run.records[399].error.as_mut().unwrap().message = "secret".into();
        run.records[398].transcript.frame_loss = Some("secret".into());
    })];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("baseline.json");
    baseline(&runs).write(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains("secret"));
    assert_eq!(check(&Baseline::read(&path).unwrap(), &runs, None, None).unwrap().status(), Status::Pass);
}

/// A history of equal checks with these seconds per sample.
fn history(reference: &Baseline, seconds: impl IntoIterator<Item = f64>) -> Vec<Entry> {
    let entry = |seconds: f64| Entry::of(&timed(reference, seconds, &[]), "abc", 1.0);
    seconds.into_iter().map(entry).collect()
}

fn timed(reference: &Baseline, seconds: f64, past: &[Entry]) -> gate::Verdict {
    let run = changed(200, |run| run.records.iter_mut().for_each(|record| record.measured.seconds = seconds));
    check(reference, &[run], None, Some(past)).unwrap()
}

#[test]
fn speed_is_judged_by_the_history_and_undecided_without_one() {
    let reference = baseline(&[run(200)]);
    let noise = [0.5, 0.52, 0.49, 0.5, 0.53, 0.5, 0.51, 0.5];
    assert_eq!(noise.len(), ENTRIES);
    let past = history(&reference, noise);
    assert_eq!(timed(&reference, 0.54, &past).status(), Status::Pass);
    let slow = timed(&reference, 1.0, &past);
    assert_eq!((slow.status(), worst(&slow)), (Status::Fail, vec!["speed"]));
    let young = timed(&reference, 1.0, &past[1..]);
    assert_eq!(young.status(), Status::Pass, "too few entries fail nothing");
    assert!(message(&young, "videomme", "speed").contains("undecided: 7 entries of 8 needed"));

    // A slowdown does not become the new normal by being checked often.
    let mut repeated = past.clone();
    for _ in 0..20 {
        let verdict = timed(&reference, 1.0, &repeated);
        assert_eq!(worst(&verdict), ["speed"]);
        repeated.push(Entry::of(&verdict, "abc", 1.0));
    }
    // Another machine's or another baseline's entries say nothing.
    let foreign = |change: fn(&mut Entry)| {
        let mut foreign = past.clone();
        foreign.iter_mut().for_each(change);
        timed(&reference, 1.0, &foreign).status()
    };
    assert_eq!(foreign(|entry| entry.host = Some("0000".into())), Status::Pass);
    assert_eq!(foreign(|entry| entry.baseline = Some("0000".into())), Status::Pass);
    assert_eq!(gate_of(200, |_| ()).status(), Status::Pass);
}

#[test]
fn benches_are_judged_by_the_history_and_new_ones_are_named() {
    let estimate =
        |name: &str, mean: f64| Estimate { name: name.into(), mean, interval: (0.9 * mean, 1.1 * mean) };
    let reference = Baseline::of(&[run(200)], Rule::default(), vec![estimate("frames", 1e6)]).unwrap();
    let verdict = |estimates: &[Estimate], past: Option<&[Entry]>| {
        check(&reference, &[run(200)], Some(estimates), past).unwrap()
    };
    let new = verdict(&[estimate("frames", 1e6), estimate("decode", 2e6)], None);
    assert_eq!(new.status(), Status::Pass);
    assert!(message(&new, "benches", "decode").contains("new, no baseline"));
    assert_eq!(verdict(&[], None).status(), Status::Undecided, "a bench of the baseline was not run");
    let past: Vec<Entry> = (0..ENTRIES)
        .map(|n| {
            let mean = if n % 2 == 0 { 1e6 } else { 1.02e6 };
            Entry::of(&verdict(&[estimate("frames", mean)], Some(&[])), "abc", 1.0)
        })
        .collect();
    assert_eq!(verdict(&[estimate("frames", 1.03e6)], Some(&past)).status(), Status::Pass);
    assert_eq!(worst(&verdict(&[estimate("frames", 3e6)], Some(&past))), ["frames"]);
    let nonsense = Baseline::of(&[run(200)], Rule::default(), vec![estimate("frames", f64::NAN)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert!(nonsense.write(&dir.path().join("b.json")).is_err());
}

#[test]
fn a_torn_last_line_of_a_history_is_cut_off_and_the_next_check_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    let verdict = gate_of(200, |_| ());
    let entry = |time: f64| Entry::of(&verdict, "abc", time);
    assert_eq!(read_history(&path).unwrap().entries.len(), 0);
    for time in [1.0, 2.0] {
        assert_eq!(append(&path, &entry(time)).unwrap().entries.last().unwrap().time, time);
    }
    let whole = std::fs::read_to_string(&path).unwrap();
    for cut in [1, 20, whole.len() / 2 - 2] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let torn = read_history(&path).unwrap();
        // Without its line feed alone a line is whole.
        assert_eq!((torn.torn_bytes > 0, torn.entries.len()), (cut > 1, if cut > 1 { 1 } else { 2 }));
        let kept = torn.entries.len();
        assert_eq!(append(&path, &entry(3.0)).unwrap().entries.len(), kept + 1);
        let read = read_history(&path).unwrap();
        assert_eq!((read.torn_bytes, read.entries.len()), (0, kept + 1));
    }
    // Half a character, too.
    let mut bytes = whole.clone().into_bytes();
    bytes.extend("{\"time\":1,\"commit\":\"é".as_bytes());
    bytes.pop();
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(append(&path, &entry(3.0)).unwrap().entries.len(), 3);
    assert_eq!(read_history(&path).unwrap().entries.len(), 3);
}

#[test]
fn a_history_with_damage_before_its_end_is_refused_and_nothing_appended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    let entry = Entry::of(&gate_of(200, |_| ()), "abc", 1.0);
    append(&path, &entry).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let refused = |text: String, reason: &str| {
        std::fs::write(&path, &text).unwrap();
        let error = append(&path, &entry).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "nothing was appended");
    };
    refused(format!("{{\"time\":1{good}"), "line 1");
    refused(
        format!("{good}{}", good.replace("\"version\":1", "\"version\":7")),
        "line 2: written by a newer",
    );
    let pipe = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert!(append(&pipe, &entry).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
fn the_verdict_is_written_as_markdown_and_junit() {
    let verdict = gate_of(150, |run| run.manifest.task.title = "<x> & \"y\"".into());
    insta::assert_snapshot!("gate.md", gate::markdown(&verdict));
    insta::assert_snapshot!("gate.xml", junit(&verdict).unwrap());
    for (name, detail) in [("gate_brief.txt", Detail::Brief), ("gate_full.txt", Detail::Full)] {
        let text = gate::terminal(&verdict, detail).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        insta::assert_snapshot!(name, text);
    }
    let machine: serde_json::Value = serde_json::from_str(&gate::json(&verdict)).unwrap();
    assert_eq!(machine["status"], "fail");
    assert_eq!(machine["checks"].as_array().unwrap().len(), verdict.checks.len());
}

#[test]
fn a_run_without_regression_is_one_line_and_an_undecided_check_keeps_its_own() {
    let brief = |verdict| gate::terminal(&verdict, Detail::Brief).to_string();
    let passed = brief(gate_of(200, |_| ()));
    assert_eq!(passed.lines().filter(|line| line.starts_with("pass ")).count(), 1, "{passed}");
    let open = brief(gate_of(200, |run| run.records.truncate(390)));
    assert!(open.starts_with("UNDECIDED"), "{open}");
    let line = open.lines().find(|line| line.contains("complete")).unwrap();
    assert!(line.starts_with("undecided videomme"), "{open}");
}
