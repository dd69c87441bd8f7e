//! Downloads from a hub that misbehaves.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::common::{
    self, COMMIT, Faults, TOKEN, TestHub, ZipMember, files_below, git_oid, noise, sha256, zip,
};
use paravt_fetch::{
    Event, FetchError, FetchOptions, Fetched, Hub, Observer, Only, RepoType, Retries, Silent, Source, Token,
    fetch, plan,
};

/// Small ranges, so that a small file has many.
const RANGE: u64 = 100_000;

#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl Observer for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

impl Events {
    fn bytes(&self) -> u64 {
        let bytes = |event: &Event| if let Event::Bytes(bytes) = event { *bytes } else { 0 };
        self.0.lock().unwrap().iter().map(bytes).sum()
    }
}

fn source() -> Source {
    Source {
        repos: vec!["tiny/moved".into(), "tiny/bench".into()],
        ..common::source("rows/*.json", "media/*/*.bin")
    }
}

fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let (one, two) = (noise(300_000, 1), noise(50_000, 2));
    vec![
        ("part_1.zip", zip(&[ZipMember::new("deep/a.mp4", &one), ZipMember::new("b.mp4", &two)])),
        ("part_2.zip", zip(&[ZipMember { deflate: true, ..ZipMember::new("data/c.mp4", &one) }])),
        ("media/x/big.bin", noise(1_234_567, 3)),
        ("media/x/same.bin", noise(1_234_567, 3)),
        ("media/y z/small#1.bin", noise(10, 4)),
        ("media/y z/empty.bin", Vec::new()),
        ("rows/test.json", b"[{\"a\": 1}]".to_vec()),
        ("README.md", b"not asked for".to_vec()),
    ]
}

struct Run {
    result: Result<Fetched, FetchError>,
    events: Arc<Events>,
}

fn run_with(hub: &TestHub, source: &Source, root: &Path, token: Option<&str>, options: &FetchOptions) -> Run {
    let events = Arc::new(Events::default());
    let observer: Arc<dyn Observer> = events.clone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let result = runtime.block_on(async {
        let client = hub.client(token);
        let plan = plan(&client, source, root, options, &*observer).await?;
        fetch(&client, source, &plan, root, options, &observer).await
    });
    Run { result, events }
}

fn options() -> FetchOptions {
    FetchOptions { range: RANGE, ..FetchOptions::default() }
}

fn run(hub: &TestHub, root: &Path) -> Run {
    run_with(hub, &source(), root, None, &options())
}

fn snapshot(root: &Path) -> std::path::PathBuf {
    root.join("hub/datasets--tiny--bench/snapshots").join(COMMIT)
}

fn check_whole(root: &Path) {
    for (name, bytes) in contents().iter().filter(|(name, _)| *name != "README.md") {
        let found = std::fs::read(snapshot(root).join(name)).unwrap();
        assert_eq!(found.len(), bytes.len(), "{name}");
        assert!(found == *bytes, "{name}");
    }
    let videos = files_below(&root.join("bench/videos"));
    assert_eq!(videos.keys().collect::<Vec<_>>(), ["a.mp4", "b.mp4", "c.mp4"]);
    assert!(videos["a.mp4"] == noise(300_000, 1) && videos["c.mp4"] == videos["a.mp4"]);
    let blobs = std::fs::read_dir(root.join("hub/datasets--tiny--bench/blobs")).unwrap();
    let left: Vec<_> =
        blobs.map(|blob| blob.unwrap().path()).filter(|path| path.extension().is_some()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Fetches everything from a hub with these faults; what was noted.
fn arrives(faults: Faults) -> Arc<Events> {
    let (hub, root) = (TestHub::start(&contents(), faults.clone()), tempfile::tempdir().unwrap());
    let Run { result, events } = run(&hub, root.path());
    result.unwrap_or_else(|error| panic!("{faults:?}: {error}"));
    check_whole(root.path());
    events
}

/// Why a fetch from a hub with these faults fails.
fn fails(faults: Faults) -> FetchError {
    let (hub, root) = (TestHub::start(&contents(), faults), tempfile::tempdir().unwrap());
    run(&hub, root.path()).result.unwrap_err()
}

#[test]
fn a_source_arrives_whole_in_the_layout_of_the_cache() {
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    let first = run(&hub, root.path());
    let fetched = first.result.unwrap();
    assert_eq!((fetched.repo.as_str(), fetched.commit.as_str(), fetched.members), ("tiny/bench", COMMIT, 3));
    assert_eq!(fetched.snapshot, snapshot(root.path()));
    check_whole(root.path());
    assert!(!snapshot(root.path()).join("README.md").exists());
    let cache = root.path().join("hub/datasets--tiny--bench");
    assert_eq!(std::fs::read_to_string(cache.join("refs/main")).unwrap(), COMMIT);
    let big = noise(1_234_567, 3);
    let link = std::fs::read_link(snapshot(root.path()).join("media/x/big.bin")).unwrap();
    assert_eq!(link, Path::new("../../../../blobs").join(sha256(&big)));
    assert!(cache.join("blobs").join(git_oid(&noise(10, 4))).is_file());
    // Equal bytes come once, large files in ranges.
    let distinct: usize = contents()[..3].iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(first.events.bytes() as usize, distinct + 10 + contents()[6].1.len());
    let ranges = hub.served.ranges.lock().unwrap().iter().filter(|(_, range)| range.is_some()).count();
    assert!(ranges >= 13, "{ranges}");
    assert_eq!(hub.served.leaked.load(Ordering::SeqCst), 0);

    let reads = hub.served.reads.load(Ordering::SeqCst);
    let again = run(&hub, root.path());
    assert_eq!(again.result.unwrap().members, 3);
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), reads, "what is there is not fetched again");
}

#[test]
#[ignore = "needs Python: run by ci/test"]
fn the_real_client_reads_the_cache_offline() {
    let python =
        std::env::var("PARAVT_PYTHON").expect("PARAVT_PYTHON is not set: run ci/setup, then ci/test");
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    run(&hub, root.path()).result.unwrap();
    let script = "import sys, huggingface_hub as h\n\
        folder = h.snapshot_download('tiny/bench', repo_type='dataset', revision=sys.argv[1], local_files_only=True)\n\
        file = h.hf_hub_download('tiny/bench', 'media/x/big.bin', repo_type='dataset', revision=sys.argv[1], local_files_only=True)\n\
        repo = [r for r in h.scan_cache_dir().repos if r.repo_id == 'tiny/bench'][0]\n\
        assert not h.scan_cache_dir().warnings, h.scan_cache_dir().warnings\n\
        print(folder, len(open(file, 'rb').read()), repo.nb_files, sep='\\n')";
    for revision in ["main", COMMIT] {
        let output = Command::new(&python)
            .args(["-c", script, revision])
            .env("HF_HOME", root.path())
            .env("HF_HUB_OFFLINE", "1")
            .env_remove("HF_HUB_CACHE")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(Path::new(lines[0]), snapshot(root.path()));
        assert_eq!(lines[1..], ["1234567", "6"], "files by distinct bytes");
    }
}

#[test]
fn dropped_connections_are_resumed() {
    let events = arrives(Faults { drop_after: Some(70_000), drops: 25, busy: 2, ..Faults::default() });
    let sizes: usize = contents()[..3].iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(events.bytes() as usize, sizes + 10 + contents()[6].1.len(), "no byte came twice");
    let events = events.0.lock().unwrap();
    assert!(
        events.iter().any(|event| matches!(event, Event::Retry { message, .. } if message.contains("429")))
    );
}

#[test]
fn a_server_that_never_sends_is_given_up_with_its_last_failure() {
    let error = fails(Faults { busy: 10_000, ..Faults::default() });
    assert!(matches!(error, FetchError::Network { tries: 6, .. }), "{error}");
    assert!(error.to_string().contains("429"), "{error}");
}

#[test]
fn a_wrong_hash_is_fetched_again_and_then_refused() {
    let file = "media/x/big.bin".to_owned();
    let faults = |times| Faults { corrupt: Some((file.clone(), times)), ..Faults::default() };
    // The middle byte of the file lies in one of its ranges; every range's reply changes it.
    let many = TestHub::start(&contents(), faults(10_000));
    let root = tempfile::tempdir().unwrap();
    let error = run(&many, root.path()).result.unwrap_err();
    assert!(matches!(&error, FetchError::Hash { file, .. } if file.ends_with(".bin")), "{error}");
    assert!(!snapshot(root.path()).join(&file).exists());
    // Right in the end.
    many.faults(|faults| faults.corrupt = None);
    run(&many, root.path()).result.unwrap();
    check_whole(root.path());
    assert!(arrives(faults(13)).0.lock().unwrap().contains(&Event::Discarded(1_234_567)));
}

#[test]
fn a_file_of_another_size_than_listed_is_refused() {
    let short = Some(("media/x/big.bin".into(), 7));
    let error = fails(Faults { short, ..Faults::default() }).to_string();
    assert!(error.contains("1234560") && error.contains("1234567"), "{error}");
}

#[test]
fn replies_that_are_not_of_a_hub_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let refused = |faults: Faults| {
        let hub = TestHub::start(&contents(), faults);
        run(&hub, root.path()).result.unwrap_err().to_string()
    };
    let error = refused(Faults { web_page: true, ..Faults::default() });
    assert!(error.contains("web page") && error.contains("HF_ENDPOINT"), "{error}");
    // Sizes whose sum overflows, and sizes larger than any disk.
    for listed in [u64::MAX, 1 << 63, 1 << 50] {
        let error = refused(Faults { listed: Some(listed), ..Faults::default() });
        assert!(error.contains("64 PiB") || error.contains("too little space"), "{listed}: {error}");
    }
    assert!(!root.path().join("hub").exists(), "nothing was begun");
}

#[test]
fn a_list_of_files_that_does_not_end_is_refused() {
    // Pages before the first comes again, and the kind of the entry that each of them has.
    for (endless, words, most) in [
        ((1, ""), "a page of the list follows itself", 5),
        ((2, ""), "a page of the list follows itself", 6),
        ((7, "directory"), "a page of the list follows itself", 11),
        ((usize::MAX, ""), "pages in a row without a file", 60),
        ((usize::MAX, "directory"), "pages in a row without a file", 60),
        ((usize::MAX, "file"), "is listed twice", 6),
    ] {
        let hub = TestHub::start(&contents(), Faults { endless: Some(endless), ..Faults::default() });
        let root = tempfile::tempdir().unwrap();
        let error = run(&hub, root.path()).result.unwrap_err().to_string();
        assert!(error.contains(words), "{endless:?}: {error}");
        let asked = hub.served.asked.load(Ordering::SeqCst);
        assert!(asked <= most, "{endless:?}: {asked}");
    }
}

#[test]
fn a_server_without_ranges_serves_too() {
    arrives(Faults { no_ranges: true, ..Faults::default() });
    arrives(Faults { no_ranges: true, drop_after: Some(400_000), drops: 3, ..Faults::default() });
}

#[test]
fn gated_repositories_are_explained_and_tokens_stay_on_the_hub() {
    let hub = TestHub::start(&contents(), Faults { gated: true, ..Faults::default() });
    let root = tempfile::tempdir().unwrap();
    let tried = |token| run_with(&hub, &source(), root.path(), token, &options()).result;
    let anonymous = tried(None).unwrap_err().to_string();
    assert!(anonymous.contains("/datasets/tiny/bench") && anonymous.contains("HF_TOKEN"), "{anonymous}");
    let refused = tried(Some(TOKEN)).unwrap_err().to_string();
    assert!(refused.contains("no access yet") && refused.contains("/datasets/tiny/bench"), "{refused}");
    assert!(!refused.contains(TOKEN) && !refused.contains("Signature"), "{refused}");
    hub.faults(|faults| faults.accepted = true);
    tried(Some(TOKEN)).unwrap();
    check_whole(root.path());
    assert_eq!(hub.served.leaked.load(Ordering::SeqCst), 0, "the storage server saw no token");
}

#[test]
fn access_is_asked_without_a_byte() {
    let hub = TestHub::start(&contents(), Faults { gated: true, ..Faults::default() });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let retries = Retries { tries: 1, ..Retries::default() };
    let asked = |repo: &str, file: &str, token: Option<&str>| {
        let client =
            Hub::new(&hub.endpoint, token.and_then(|token| Token::new("HF_TOKEN", token).unwrap()), retries)
                .unwrap();
        runtime.block_on(client.access(RepoType::Dataset, repo, "main", file, &Silent))
    };
    let file = contents()[0].0;
    let anonymous = asked("tiny/bench", file, None).unwrap_err().to_string();
    assert!(anonymous.contains("gated") && anonymous.contains("HF_TOKEN"), "{anonymous}");
    let refused = asked("tiny/bench", file, Some(TOKEN)).unwrap_err().to_string();
    assert!(refused.contains("no access yet") && !refused.contains(TOKEN), "{refused}");
    hub.faults(|faults| faults.accepted = true);
    asked("tiny/bench", file, Some(TOKEN)).unwrap();
    asked("tiny/bench", "no/such.file", Some(TOKEN)).unwrap();
    let missing = asked("tiny/none", file, Some(TOKEN)).unwrap_err();
    assert!(matches!(missing, FetchError::NotFound { .. }), "{missing}");
    assert_eq!(hub.served.leaked.load(Ordering::SeqCst), 0);
}

#[test]
fn what_does_not_exist_is_named() {
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    let tried = |change: &dyn Fn(&mut Source)| {
        let mut source = source();
        change(&mut source);
        run_with(&hub, &source, root.path(), None, &options()).result.unwrap_err()
    };
    let error = tried(&|source| source.repos = vec!["tiny/none".into(), "tiny/moved".into()]);
    assert!(matches!(&error, FetchError::NotFound { repo, .. } if repo == "tiny/none"), "{error}");
    let error = tried(&|source| source.revision = "v9".into());
    assert!(error.to_string().contains("no such revision"), "{error}");
    let error = tried(&|source| source.repos = vec!["tiny/private".into()]);
    assert!(matches!(&error, FetchError::Access { .. }), "{error}");
    let error = tried(&|source| source.loose = vec!["videos/*.mp4".into()]);
    assert!(matches!(&error, FetchError::NoMatch { pattern, .. } if pattern == "videos/*.mp4"), "{error}");
}

#[test]
fn signed_addresses_that_run_out_are_asked_for_again() {
    arrives(Faults { address_uses: Some(3), ..Faults::default() });
}

#[test]
fn a_new_address_is_asked_for_after_any_refusal_of_the_storage() {
    const OVER: &str = "<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>";
    for (status, said, storage_here) in [
        (403, OVER, false),
        (403, OVER, true),
        (403, "Auth failed: invalid range", true),
        (401, "", true),
        (400, "<Error><Code>ExpiredToken</Code><Message>The token has expired</Message></Error>", false),
        (404, "<Error><Code>NoSuchKey</Code></Error>", true),
        (416, "", false),
        (416, "", true),
    ] {
        arrives(Faults { refused: Some((status, said, 1)), storage_here, ..Faults::default() });
    }
    let error = fails(Faults { refused: Some((403, OVER, 10_000)), storage_here: true, ..Faults::default() });
    assert!(matches!(error, FetchError::Network { tries: 6, .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("AccessDenied: Request has expired") && !error.contains("HF_TOKEN"), "{error}");
    assert!(!error.contains("Signature"), "{error}");
}

#[test]
fn deleted_archives_are_not_fetched_again() {
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    let options = FetchOptions { delete_archives: true, ..options() };
    let tried = || run_with(&hub, &source(), root.path(), None, &options);
    tried().result.unwrap();
    for part in ["part_1.zip", "part_2.zip"] {
        assert!(snapshot(root.path()).join(part).symlink_metadata().is_err(), "{part}");
    }
    let reads = hub.served.reads.load(Ordering::SeqCst);
    assert_eq!(tried().result.unwrap().members, 3);
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), reads);
    // A video that was lost since brings its archive back, not the other one.
    std::fs::remove_file(root.path().join("bench/videos/c.mp4")).unwrap();
    tried().result.unwrap();
    let asked = hub.served.ranges.lock().unwrap()[reads..].to_vec();
    assert!(!asked.is_empty() && asked.iter().all(|(file, _)| file == "part_2.zip"), "{asked:?}");
    assert_eq!(files_below(&root.path().join("bench/videos")).len(), 3);
}

#[test]
fn annotations_alone_and_videos_alone() {
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    let tried = |only| run_with(&hub, &source(), root.path(), None, &FetchOptions { only, ..options() });
    tried(Only::Annotations).result.unwrap();
    assert_eq!(files_below(&snapshot(root.path())).len(), 1);
    tried(Only::Videos).result.unwrap();
    check_whole(root.path());
}

#[test]
fn models_have_their_own_folders() {
    let files = [
        ("config.json", b"{}".to_vec()),
        ("model.safetensors", noise(5000, 5)),
        ("a.bin", noise(5000, 6)),
        ("checkpoint-500/model.safetensors", noise(5000, 7)),
        ("checkpoint-500/optimizer.pt", noise(5000, 8)),
    ];
    let hub = TestHub::start(&files, Faults::default());
    let root = tempfile::tempdir().unwrap();
    let source = Source::model("tiny/bench", "v1").unwrap();
    let fetched = run_with(&hub, &source, root.path(), None, &options()).result.unwrap();
    let names: Vec<String> = files_below(&fetched.snapshot).into_keys().collect();
    assert_eq!(names, ["config.json", "model.safetensors"]);
    assert!(root.path().join("hub/models--tiny--bench/refs/v1").is_file());
}

#[test]
fn a_disk_without_room_is_refused_before_the_first_byte() {
    let hub = TestHub::start(&contents(), Faults::default());
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(async {
        let client = hub.client(None);
        let observer: Arc<dyn Observer> = Arc::new(Events::default());
        let mut plan = plan(&client, &source(), root.path(), &options(), &*observer).await.unwrap();
        let archives: usize = contents()[..2].iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(plan.needed, plan.missing + archives as u64);
        plan.needed = u64::MAX / 2;
        fetch(&client, &source(), &plan, root.path(), &options(), &observer).await.unwrap_err()
    });
    assert!(matches!(error, FetchError::Space { .. }), "{error}");
    assert_eq!(hub.served.reads.load(Ordering::SeqCst), 0);
}
