//! The checkout, from a repository that is generated here and, where `PARAVT_RELEASE` names a repository of ParaVT,
//! from that.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use paravt_reproduce::environments::{Error, Layout, Release, Setup};

fn git(folder: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"])
        .arg("-C")
        .arg(folder)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with the folders of the release, its pinned commit, and a later one on its branch.
struct Upstream {
    folder: tempfile::TempDir,
    release: Release,
}

impl Upstream {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("upstream");
        for (path, text) in [
            ("paravt/__init__.py", ""),
            ("paravt/rl/areal/__init__.py", "version = 1\n"),
            ("paravt/rl/areal/api/cli.py", "lines\r\nof\r\nwindows\r\n"),
            ("paravt/rl/train.py", "import areal\n"),
            ("paravt/eval/driver.py", "not needed\n"),
            ("requirements/sft.lock", "tqdm==4.67.1\n"),
            ("pyproject.toml", "[project]\n"),
            (".gitignore", "__pycache__/\n*.pyc\n"),
        ] {
            let path = at.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        git(&at, &["init", "-q", "-b", "main"]);
        git(&at, &["add", "-A"]);
        git(&at, &["commit", "-q", "-m", "release"]);
        let mut release = Release::built_in().unwrap();
        release.commit = git(&at, &["rev-parse", "HEAD"]);
        release.tree = git(&at, &["rev-parse", "HEAD^{tree}"]);
        release.url = at.display().to_string();
        release.folders = ["paravt/rl", "requirements"].map(str::to_owned).to_vec();
        std::fs::write(at.join("paravt/rl/train.py"), "import later\n").unwrap();
        git(&at, &["commit", "-q", "-a", "-m", "later"]);
        Self { folder, release }
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.folder.path().join("out"))
    }

    fn check_out(&self) -> Result<Vec<String>, Error> {
        check_out(&self.release, &self.layout())
    }
}

fn check_out(release: &Release, layout: &Layout) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    release.check_out(layout, &mut |note| notes.push(note.to_owned()))?;
    Ok(notes)
}

fn refusal(upstream: &Upstream) -> String {
    upstream.check_out().unwrap_err().to_string()
}

#[test]
fn the_pinned_commit_is_checked_out_once_and_copied_as_a_folder() {
    let upstream = Upstream::new();
    let layout = upstream.layout();
    assert_eq!(upstream.check_out().unwrap(), ["fetching the release", "copying paravt/rl/areal"]);
    let text = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(text(layout.checkout().join("paravt/rl/train.py")), "import areal\n");
    assert!(layout.checkout().join("pyproject.toml").is_file(), "beside the folders");
    assert!(!layout.checkout().join("paravt/eval").exists(), "not asked for");
    let copy = layout.engines().join("areal");
    assert!(!copy.is_symlink());
    assert_eq!(text(copy.join("api/cli.py")), "lines\r\nof\r\nwindows\r\n");
    assert_eq!(upstream.check_out().unwrap(), Vec::<String>::new(), "kept");

    // A copy that was changed is made again, one with another file too.
    std::fs::write(copy.join("__init__.py"), "version = 2\n").unwrap();
    assert_eq!(upstream.check_out().unwrap(), ["copying paravt/rl/areal"]);
    std::fs::write(copy.join("more.py"), "").unwrap();
    assert_eq!(upstream.check_out().unwrap(), ["copying paravt/rl/areal"]);
    assert!(!copy.join("more.py").exists());
    assert_eq!(std::fs::read_dir(layout.engines()).unwrap().count(), 1, "nothing is left behind");
    // As Python leaves it.
    std::fs::create_dir(layout.checkout().join("paravt/__pycache__")).unwrap();
    std::fs::write(layout.checkout().join("paravt/__pycache__/a.pyc"), "").unwrap();
    assert!(upstream.check_out().unwrap().is_empty());
}

#[test]
fn a_bare_repository_will_do() {
    let mut upstream = Upstream::new();
    let bare = upstream.folder.path().join("bare.git");
    git(
        upstream.folder.path(),
        &["clone", "-q", "--bare", &upstream.release.url, &bare.display().to_string()],
    );
    upstream.release.url = bare.display().to_string();
    upstream.check_out().unwrap();
    let file = upstream.folder.path().join("release.toml");
    assert!(Release::of(&Setup { release: Some(file.display().to_string()), ..Setup::default() }).is_err());
    let own = Release::of(&Setup { url: Some("elsewhere".to_owned()), ..Setup::default() }).unwrap();
    assert_eq!(own.url, "elsewhere");
}

#[test]
fn another_commit_or_tree_is_refused_and_nothing_has_the_name() {
    let mut upstream = Upstream::new();
    let (commit, tree) = (upstream.release.commit.clone(), upstream.release.tree.clone());
    upstream.release.tree = "0".repeat(40);
    let error = refusal(&upstream);
    assert!(error.contains(&format!("tree {tree} instead of 000")), "{error}");
    upstream.release.tree = tree;
    upstream.release.commit = "1".repeat(40);
    let error = refusal(&upstream);
    assert!(error.contains("git fetch failed") && error.contains(&"1".repeat(40)), "{error}");
    assert!(!upstream.layout().checkout().exists());

    // A checkout that moved on.
    upstream.release.commit = commit;
    upstream.check_out().unwrap();
    let folder = upstream.layout().checkout();
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "mine"]);
    let error = refusal(&upstream);
    assert!(error.contains("commit ") && error.contains("remove the folder"), "{error}");
}

#[test]
fn a_changed_missing_or_foreign_file_is_refused_by_name() {
    let upstream = Upstream::new();
    upstream.check_out().unwrap();
    let folder = upstream.layout().checkout();
    let train = folder.join("paravt/rl/train.py");
    let whole = std::fs::read_to_string(&train).unwrap();

    // Of the same length and date, and hidden from `git status`.
    let date = train.metadata().unwrap().modified().unwrap();
    git(&folder, &["update-index", "--assume-unchanged", "paravt/rl/train.py"]);
    std::fs::write(&train, "import arael\n").unwrap();
    std::fs::File::options().write(true).open(&train).unwrap().set_modified(date).unwrap();
    assert_eq!(git(&folder, &["status", "--porcelain"]), "");
    let error = refusal(&upstream);
    assert!(
        error.contains("paravt/rl/train.py was changed") && error.contains("move your changes"),
        "{error}"
    );

    std::fs::remove_file(&train).unwrap();
    assert!(refusal(&upstream).contains("paravt/rl/train.py is missing"));
    std::fs::write(&train, whole).unwrap();
    // Ignored by git, and imported by Python.
    std::fs::write(folder.join("paravt/rl/other.pyc"), "").unwrap();
    assert!(refusal(&upstream).contains("paravt/rl/other.pyc is not part of the release"));
    std::fs::remove_file(folder.join("paravt/rl/other.pyc")).unwrap();
    upstream.check_out().unwrap();

    // Inside another repository, and without its own.
    git(upstream.folder.path(), &["init", "-q"]);
    paravt_files::rename(&folder.join(".git"), &folder.join(".git.old")).unwrap();
    assert!(refusal(&upstream).contains("not a git repository"), "{}", refusal(&upstream));
}

#[test]
fn no_network_is_an_error_with_a_remedy() {
    let mut upstream = Upstream::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    upstream.release.url = format!("http://127.0.0.1:{port}/paravt.git");
    let error = refusal(&upstream);
    assert!(error.contains("the network does not answer"), "{error}");
    assert!(!upstream.layout().checkout().exists());
}

/// Killed at any moment, the next command ends with a whole checkout. The child is this test.
#[test]
fn a_killed_checkout_is_made_by_the_next_command() {
    if let Some(out) = std::env::var_os("PARAVT_TEST_OUT") {
        let text = std::env::var("PARAVT_TEST_RELEASE").unwrap();
        let release = Release::of(&Setup { release: Some(text), ..Setup::default() }).unwrap();
        let _ = release.check_out(&Layout::new(Path::new(&out)), &mut |_| ());
        return;
    }
    let upstream = Upstream::new();
    let file = upstream.folder.path().join("release.toml");
    let release = &upstream.release;
    let text = format!(
        "url = {:?}\ncommit = {:?}\ntree = {:?}\nfolders = {:?}\nenvironments = []\n[copies]\n\"paravt/rl/areal\" = \"areal\"\n",
        release.url, release.commit, release.tree, release.folders
    );
    std::fs::write(&file, text).unwrap();
    let mut unfinished = 0;
    for milliseconds in (0..240).step_by(15) {
        let out = upstream.folder.path().join(format!("out-{milliseconds}"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_checkout_is_made_by_the_next_command"])
            .env("PARAVT_TEST_OUT", &out)
            .env("PARAVT_TEST_RELEASE", &file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        child.kill().unwrap();
        child.wait().unwrap();
        let layout = Layout::new(&out);
        unfinished += u32::from(!layout.engines().join("areal").exists());
        check_out(release, &layout).unwrap();
        assert!(check_out(release, &layout).unwrap().is_empty());
    }
    assert!(unfinished > 0, "no kill came in time");
}

#[test]
fn two_processes_do_not_make_one_checkout() {
    let upstream = Upstream::new();
    let results: Vec<Result<Vec<String>, Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(|| upstream.check_out())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // The second is refused, or comes when the first has ended.
    assert!(results.iter().any(Result::is_ok));
    assert!(results.iter().all(|result| matches!(result, Ok(_) | Err(Error::Busy { .. }))), "{results:?}");
}

/// Runs where `PARAVT_RELEASE` names a repository of ParaVT.
#[test]
fn the_published_release_is_checked_out() {
    let Some(url) = std::env::var("PARAVT_RELEASE").ok() else { return };
    let release = Release::of(&Setup { url: Some(url), ..Setup::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    check_out(&release, &layout).unwrap();
    for path in ["checkout/paravt/rl/train.py", "checkout/paravt/__init__.py", "engines/areal/__init__.py"] {
        assert!(folder.path().join(path).is_file(), "{path}");
    }
    assert!(!layout.checkout().join("paravt/eval").exists());
    assert!(check_out(&release, &layout).unwrap().is_empty());
}
