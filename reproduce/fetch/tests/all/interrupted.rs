//! A fetch that is killed, and a disk that fills up.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{self, COMMIT, Faults, TestHub, ZipMember, files_below, noise, zip};
use paravt_fetch::{FetchError, FetchOptions, Hub, Observer, Retries, Silent, Source, fetch, plan};

const ENDPOINT: &str = "PARAVT_TEST_ENDPOINT";
const ROOT: &str = "PARAVT_TEST_ROOT";

fn source() -> Source {
    common::source("rows.json", "loose.bin")
}

fn member(index: u64) -> Vec<u8> {
    noise(400_000, 10 + index)
}

fn contents() -> Vec<(&'static str, Vec<u8>)> {
    let videos: Vec<(String, Vec<u8>)> =
        (0..6).map(|index| (format!("v/{index}.mp4"), member(index))).collect();
    let archive = |range: std::ops::Range<usize>| {
        zip(&videos[range].iter().map(|(name, bytes)| ZipMember::new(name, bytes)).collect::<Vec<_>>())
    };
    vec![
        ("rows.json", b"[]".to_vec()),
        ("loose.bin", noise(1_500_000, 1)),
        ("part_1.zip", archive(0..3)),
        ("part_2.zip", archive(3..6)),
    ]
}

fn fetch_here(endpoint: &str, root: &Path) -> Result<(), FetchError> {
    let retries = Retries { tries: 3, pause: Duration::from_millis(5), longest: Duration::from_millis(50) };
    let hub = Hub::new(endpoint, None, retries).unwrap();
    let observer: Arc<dyn Observer> = Arc::new(Silent);
    let options = FetchOptions { range: 300_000, jobs: 4, ..FetchOptions::default() };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let plan = plan(&hub, &source(), root, &options, &*observer).await?;
        fetch(&hub, &source(), &plan, root, &options, &observer).await.map(|_| ())
    })
}

/// The test that fetches, and does nothing else, in a process with [`ENDPOINT`] and [`ROOT`].
const CHILD: &str = "interrupted::a_fetch_killed_at_twenty_moments_is_resumed_to_equal_bytes";

/// What a process with [`ENDPOINT`] and [`ROOT`] does: the tests kill it or give it a small disk.
fn child(endpoint: &str, root: &str) {
    if let Err(error) = fetch_here(endpoint, Path::new(root)) {
        eprintln!("failed: {error}");
        std::process::exit(if matches!(&error, FetchError::Io { .. }) { 7 } else { 8 });
    }
}

fn child_command(endpoint: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture"]).env(ENDPOINT, endpoint).env(ROOT, root);
    command
}

fn check_whole(root: &Path) {
    let videos = files_below(&root.join("bench/videos"));
    assert_eq!(videos.len(), 6, "{:?}", videos.keys());
    for index in 0..6 {
        assert!(videos[&format!("{index}.mp4")] == member(index), "{index}");
    }
    let snapshot = root.join("hub/datasets--tiny--bench/snapshots").join(COMMIT);
    for (name, bytes) in contents() {
        assert!(std::fs::read(snapshot.join(name)).unwrap() == bytes, "{name}");
    }
}

#[test]
fn a_fetch_killed_at_twenty_moments_is_resumed_to_equal_bytes() {
    if let [Ok(endpoint), Ok(root)] = [ENDPOINT, ROOT].map(std::env::var) {
        return child(&endpoint, &root);
    }
    let hub =
        TestHub::start(&contents(), Faults { slow: Some(Duration::from_millis(60)), ..Faults::default() });
    let root = tempfile::tempdir().unwrap();
    let mut killed = 0;
    for moment in 0..20_u64 {
        let mut child = child_command(&hub.endpoint, root.path()).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(40 + 17 * moment));
        killed += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(killed >= 10, "only {killed} of 20 were still at work");
    hub.faults(|faults| faults.slow = None);
    fetch_here(&hub.endpoint, root.path()).unwrap();
    check_whole(root.path());
    // Half files that a kill left have been used up or written over.
    let left: Vec<String> =
        files_below(root.path()).into_keys().filter(|name| name.ends_with(".partial")).collect();
    assert!(left.is_empty(), "{left:?}");
    let sizes: usize = contents().iter().map(|(_, bytes)| bytes.len()).sum();
    let asked = hub.served.reads.load(Ordering::SeqCst);
    assert!(asked * 300_000 < 40 * sizes, "{asked} requests for {sizes} bytes");
}

/// Needs a file system of a given size: a tmpfs in a mount namespace of its own (util-linux `unshare`).
#[test]
#[ignore = "needs user namespaces: run by ci/test"]
fn a_full_disk_ends_the_fetch_and_keeps_what_arrived() {
    let hub = TestHub::start(&contents(), Faults::default());
    let dir = tempfile::tempdir().unwrap();
    let (small, kept) = (dir.path().join("small"), dir.path().join("kept"));
    std::fs::create_dir_all(&small).unwrap();
    // Room enough for the check before, less while it runs: another process takes it.
    let script = format!(
        "mount -t tmpfs -o size=27m none {small} || exit 9; \
         (until ls {small}/hub/*/blobs/*.partial; do sleep 0.02; done; head -c 24500000 /dev/zero > {small}/other) & \
         {exe} --exact {CHILD} --nocapture; status=$?; rm -f {small}/other; cp -r {small} {kept}; exit $status",
        small = small.display(),
        kept = kept.display(),
        exe = std::env::current_exe().unwrap().display(),
    );
    hub.faults(|faults| faults.slow = Some(Duration::from_millis(150)));
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    let output = command.env(ENDPOINT, &hub.endpoint).env(ROOT, &small).output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("No space left"), "{said}");
    hub.faults(|faults| faults.slow = None);
    fetch_here(&hub.endpoint, &kept).unwrap();
    check_whole(&kept);
}
