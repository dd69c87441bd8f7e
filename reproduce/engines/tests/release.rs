//! The released lmms-engine itself, on a CPU: trained, killed, gone on, merged. Needs a checkout of the release and an
//! environment for it, which `ci/target8-train` makes.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use paravt_engines::{CURVES, Job, Outcome, Paths, Place, Told, Watch, merge, sft};

fn given(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is set by ci/target8-train")).into()
}

#[test]
#[ignore = "needs the release: run by ci/target8-train"]
fn the_released_trainer_goes_on_after_a_stop_and_its_shards_are_merged() {
    let world = given("PARAVT_TARGET8_WORLD");
    let environment = given("PARAVT_TARGET8_ENVIRONMENT");
    let shim = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../ci/target8/shim");
    let paths = Paths {
        checkout: given("PARAVT_TARGET8_CHECKOUT"),
        engines: given("PARAVT_TARGET8_CHECKOUT").join("paravt/rl"),
        sft_environment: environment.clone(),
        rl_environment: environment,
        base: world.join("model"),
        sft_rows: world.join("sft_rows"),
        rl_rows: world.join("rl_rows/paravt_rl_diverse_4k4.parquet"),
    };
    let settings = sft::Settings {
        processes: 2,
        cpu: true,
        steps: 6,
        stop_after: Some(4),
        save_every: 2,
        packs: 2,
        packing_length: 1024,
        attention: "sdpa".to_owned(),
        liger: false,
        rmpad: false,
        workers: 1,
        prefetch: 2,
        pin_memory: false,
        ..sft::Settings::default()
    };
    let watch = Watch { poll_seconds: 0.1, first_step_seconds: 300.0, ..Watch::default() };
    let shim = ("PYTHONPATH".to_owned(), shim.canonicalize().unwrap().display().to_string());
    let environment = [shim, ("PARAVT_ON_CPU".to_owned(), "1".to_owned())].into();
    let sft = sft::Job { settings, watch, environment, paths };
    let root = given("PARAVT_TARGET8_WORLD").join("stages");
    let folder = root.join("sft");
    std::fs::create_dir_all(&folder).unwrap();
    let run = |job: &Job, folder: &std::path::Path, stopped: &dyn Fn() -> bool| {
        let mut tell = |told: Told<'_>| eprintln!("{told:?}");
        job.run(&mut Place { folder, stopped, tell: &mut tell }).unwrap()
    };
    let job = Job::Sft(sft.clone());
    // Stopped between two checkpoints.
    let steps = || std::fs::read_to_string(folder.join(CURVES)).unwrap_or_default().lines().count();
    assert_eq!(run(&job, &folder, &|| steps() >= 3), Outcome::Interrupted);
    assert_eq!(run(&job, &folder, &|| false), Outcome::Complete);
    let merged = root.join("merge");
    std::fs::create_dir_all(&merged).unwrap();
    let merge = merge::Job {
        sft: folder.clone(),
        settings: sft.settings,
        watch: sft.watch,
        environment: sft.environment,
        paths: sft.paths,
    };
    assert_eq!(run(&Job::Merge(merge), &merged, &|| false), Outcome::Complete);
    eprintln!("{}", std::fs::read_to_string(folder.join(CURVES)).unwrap());
}
