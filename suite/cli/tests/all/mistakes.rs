//! What a user reads after the commonest mistakes, as snapshots: what failed, where, what to do.

use crate::common::server::{Fault, Script, Server};
use crate::common::{bench, copy, world};

/// A folder to make mistakes in, with `data`, and the mistakes' snapshots.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(world(), dir.path().join("data")).unwrap();
        for folder in ["empty", "hub"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs a command line and returns what it printed, with its exit code at the end.
    fn run(&self, line: &str, server: Option<&Server>) -> String {
        let url = server.map_or("http://SERVER/v1", |server| &server.base_url);
        let words = line.split_whitespace().map(|word| word.replace("http://SERVER/v1", url));
        let mut command = bench();
        command.current_dir(self.dir.path()).env("HF_HUB_OFFLINE", "1").args(words);
        let output = command.output().unwrap();
        let mut shown = format!("$ paravt-bench {line}\n");
        for stream in [&output.stdout, &output.stderr] {
            shown += &String::from_utf8_lossy(stream);
        }
        shown += &format!("exit code {}\n", output.status.code().unwrap());
        // What differs from machine to machine.
        shown.replace(url, "http://SERVER/v1").replace(env!("CARGO_PKG_VERSION"), "VERSION")
    }

    /// A mistake that ends with an exit code.
    fn mistake(&self, name: &str, line: &str, server: Option<&Server>) {
        let shown = self.run(line, server);
        assert!(!shown.ends_with("exit code 0\n"), "{shown}");
        assert!(!shown.contains(self.dir.path().to_str().unwrap()), "{shown}");
        insta::assert_snapshot!(name, shown);
    }
}

#[test]
fn wrong_names_and_flags() {
    let place = Place::new();
    place.write(
        "wrong_field.toml",
        "name = \"mine\"\nextends = \"served\"\ntitle = \"Mine\"\nmodl = \"a/b\"\n",
    );
    place.write(
        "task.toml",
        "name = \"mine\"\nlayot = { annotations = [\"rows.json\"] }\n[row]\nkind = \"text\"\nvideo = \"v\"\nquestion = \"q\"\nanswer = \"a\"\n",
    );
    place.write("protocol.toml", "name = \"mine\"\nbase = \"native\"\ndefault_mod = \"direct\"\n");
    let run = "run lvbench --data data --out runs --base-url http://SERVER/v1";
    for (name, line) in [
        ("unknown_command", "repot runs"),
        ("unknown_flag", "run lvbench --outt runs"),
        ("no_output_folder", "run lvbench"),
        ("unknown_task", "run lvbnch --data data --out runs --base-url http://SERVER/v1"),
        ("unknown_mode", &format!("{run} --mode agentc")),
        ("unknown_profile", &format!("{run} --profile published")),
        ("unknown_protocol", &format!("{run} --protocol nativ")),
        ("unknown_sample", &format!("{run} --ids 99")),
        ("negative_temperature", &format!("{run} --temperature -1")),
        ("too_few_frames", &format!("{run} --nframes 1")),
        ("shard_out_of_range", &format!("{run} --shard 9/8")),
        ("protocol_not_imported", &format!("{run} --protocol paravt")),
        ("protocol_file_with_a_wrong_field", &format!("{run} --protocol protocol.toml")),
        ("protocol_file_that_is_missing", &format!("{run} --protocol nowhere.toml")),
        ("task_file_with_a_wrong_field", "data check --task task.toml"),
        ("split_as_a_task_file", "run --task lvbench --out runs --base-url http://SERVER/v1"),
        ("unknown_recipe", "reproduce nano"),
        ("unknown_stage", "reproduce paravt-nano --until training"),
        ("stage_without_what_it_builds_on", "reproduce paravt-paradox --out out --only rl-measured,report"),
        ("unknown_engine", "reproduce paravt-8b --engine vlm"),
        ("recipe_with_a_wrong_field", "reproduce wrong_field.toml"),
        ("json_and_verbose", "report empty --json -v"),
        ("frames_of_a_live_report", "report empty --serve --frames"),
        ("export_of_a_model_without_a_name", "export empty --to eee --out out --model o/"),
        ("world_without_videos", "data make --out world --videos 0"),
        ("engine_of_an_embedded_recipe", "doctor --for paravt-nano --engine vllm"),
    ] {
        place.mistake(name, line, None);
    }
}

#[test]
fn missing_and_damaged_data() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("damaged/lvbench/data")).unwrap();
    place.write("damaged/lvbench/data/train-00000-of-00001.parquet", "PAR1 this is not parquet PAR1");
    let run = "run lvbench --out runs --base-url http://SERVER/v1";
    for (name, line) in [
        ("missing_data", format!("{run} --hf-home hub")),
        ("missing_data_folder", format!("{run} --data nowhere")),
        ("damaged_parquet", format!("{run} --data damaged --hf-home hub")),
        ("data_check_of_nothing", "data check lvbench --hf-home hub".to_owned()),
    ] {
        place.mistake(name, &line, None);
    }
}

#[test]
fn servers_that_do_not_answer() {
    let place = Place::new();
    let once = "run lvbench --data data --nframes 4 --tries 1 --out";
    place.mistake("no_server", &format!("{once} runs"), None);
    place.mistake("address_without_http", &format!("{once} runs --base-url localhost:8000"), None);
    place.mistake("dead_server", &format!("{once} runs --base-url http://127.0.0.1:9/v1"), None);
    let locked = Server::start(Script { refuses: Some(Fault::Unauthorized), ..Script::default() });
    place.mistake("wrong_key", &format!("{once} runs --base-url http://SERVER/v1"), Some(&locked));
    let other = Server::start(Script { faults: vec![Some(Fault::NoModel)], ..Script::default() });
    let line = format!("{once} wrong --base-url http://SERVER/v1 --model wrong --concurrency 1");
    place.mistake("wrong_model", &line, Some(&other));
    let broken = Server::start(Script { faults: vec![Some(Fault::Server)], ..Script::default() });
    let line = format!("{once} broken --base-url http://SERVER/v1 --concurrency 1");
    place.mistake("broken_server", &line, Some(&broken));
}

#[test]
fn a_port_that_is_taken() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let recipe = "name = \"mine\"\nextends = \"served\"\ntitle = \"Mine\"\nmodel = \"owner/name\"\n\
                  [evaluate]\nprofile = \"strict\"\nnframes = 4\nmode = \"direct\"\n\
                  [matrix]\nrun = [\"direct\"]\nsplit = [\"lvbench\"]\n[serve]\nengine = \"transformers\"\ncommand = \"true {model}\"\n";
    place.write("mine.toml", &format!("{recipe}port = {port}\n"));
    let shown = place.run("reproduce mine.toml --data data --protocol native --out out", None);
    insta::assert_snapshot!("port_in_use", shown.replace(&port.to_string(), "PORT"));
}

#[test]
fn engines_in_this_process() {
    let place = Place::new();
    let run = "run lvbench --data data --nframes 4 --out runs --backend";
    place.mistake("no_model", &format!("{run} candle"), None);
    place.mistake("missing_model_folder", &format!("{run} candle --model nowhere"), None);
    place.mistake("wrong_model_folder", &format!("{run} candle --model empty"), None);
    place.mistake("model_that_is_not_in_the_cache", &format!("{run} candle --model owner/name"), None);
    std::fs::create_dir(place.path("model")).unwrap();
    place.write("model/config.json", "{}");
    place.mistake("wrong_device", &format!("{run} candle --model model --device gpu"), None);
    let on_cpu = format!("{run} candle --model model");
    place.mistake("revision_of_a_folder", &format!("{on_cpu} --revision v1"), None);
    place.mistake("gpu_kernels_on_a_cpu", &format!("{on_cpu} --gpu-kernels candle"), None);
    // A build with the feature says that there is no GPU, or finds one.
    if !cfg!(feature = "cuda") {
        place.mistake("no_gpu_in_this_build", &format!("{run} candle --model model --device cuda:0"), None);
    }
    place.mistake("replay_of_nothing", &format!("{run} replay --from empty"), None);
    place.mistake("server_of_an_embedded_recipe", "reproduce paravt-nano --base-url http://h/v1", None);
    place.mistake(
        "stages_that_leave_each_other_out",
        "reproduce paravt-nano --only sft --from rl --plan",
        None,
    );
}

#[test]
fn run_directories() {
    let place = Place::new();
    let server = Server::start(Script::default());
    let run = |task: &str, out: &str, extra: &str| {
        format!(
            "run {task} --data data --mode direct --nframes 4 --concurrency 1 --out {out} --base-url http://SERVER/v1 {extra}"
        )
    };
    for (task, out) in [("lvbench", "a"), ("mlvu", "b")] {
        let shown = place.run(&run(task, out, ""), Some(&server));
        assert!(shown.ends_with("exit code 0\n"), "{shown}");
    }
    let mistake = |name: &str, line: &str| place.mistake(name, line, Some(&server));
    mistake("two_runs_in_one_folder", &run("lvbench", "a", ""));
    mistake("resume_with_other_settings", &run("lvbench", "a", "--resume --max-turns 1"));
    mistake("compare_different_tasks", "compare a b");
    mistake("check_without_a_baseline", "check a --baseline base.json");
    mistake("unknown_row_of_the_table", "report a --paper-row ParaVT");
    mistake("report_of_an_empty_folder", "report empty");
    mistake("report_of_a_missing_folder", "report nowhere");
    mistake("merge_of_what_is_not_a_shard", "merge a/lvbench --out merged");

    copy(&place.path("a"), &place.path("newer"));
    let manifest = place.path("newer/lvbench/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let version = format!("\"version\": {}", paravt_suite::run::RUN_VERSION);
    assert!(text.contains(&version), "{text}");
    std::fs::write(&manifest, text.replacen(&version, "\"version\": 99", 1)).unwrap();
    mistake("run_of_a_newer_version", "report newer");

    copy(&place.path("a"), &place.path("damaged"));
    let journal = place.path("damaged/lvbench/journal.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, format!("{{\"version\": 1, oops\n{text}")).unwrap();
    mistake("damaged_journal_line", "report damaged");
    mistake("resume_of_a_damaged_journal", &run("lvbench", "damaged", "--resume"));

    std::fs::write(place.path("base.json"), "{\"version\": 1").unwrap();
    mistake("damaged_baseline", "check a --baseline base.json");
    copy(&place.path("a/lvbench"), &place.path("twice"));
    copy(&place.path("a/lvbench"), &place.path("a/again"));
    mistake("two_runs_of_a_task_in_one_folder", "compare a b");
}
