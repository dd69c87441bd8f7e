//! Environments made by uv, from wheels that are generated here.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use paravt_reproduce::environments::{Built, Environment, Error, Layout, Release, Setup};

/// The uv of the Python environment that `ci/setup` makes, or the one on PATH.
fn uv() -> String {
    let beside = std::env::var_os("PARAVT_PYTHON").map(|python| Path::new(&python).with_file_name("uv"));
    beside.filter(|uv| uv.is_file()).map_or_else(|| "uv".to_owned(), |uv| uv.display().to_string())
}

/// Writes a wheel of one module `NAME.py`, with a console script of that name.
fn wheel(folder: &Path, name: &str, version: &str, code: &str, requires: &[&str]) {
    let info = format!("{name}-{version}.dist-info");
    let requires: String = requires.iter().map(|line| format!("Requires-Dist: {line}\n")).collect();
    let files = [
        (format!("{name}.py"), code.to_owned()),
        (
            format!("{info}/METADATA"),
            format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"),
        ),
        (
            format!("{info}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n".to_owned(),
        ),
        (format!("{info}/entry_points.txt"), format!("[console_scripts]\n{name} = {name}:main\n")),
    ];
    let file = std::fs::File::create(folder.join(format!("{name}-{version}-py3-none-any.whl"))).unwrap();
    let mut archive = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let mut record = String::new();
    for (path, text) in &files {
        archive.start_file(path, options).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
        record += &format!("{path},,\n");
    }
    archive.start_file(format!("{info}/RECORD"), options).unwrap();
    archive.write_all(format!("{record}{info}/RECORD,,\n").as_bytes()).unwrap();
    archive.finish().unwrap();
}

/// As torch describes itself.
const TORCH: &str = "
__version__ = '2.9.1+cu126'
class version: cuda = '12.6'
class cuda:
    @staticmethod
    def device_count(): return 8
class backends:
    class cudnn:
        @staticmethod
        def version():
            import nvidia_cudnn_cu12
            return nvidia_cudnn_cu12.number
def main(): print('torch runs')
";

/// As a module that links NVIDIA's driver, until a file beside it says that there is one.
const KERNELS: &str = "
import pathlib
if not pathlib.Path(__file__).with_name('driver').exists():
    raise ImportError('libcuda.so.1: cannot open shared object file: No such file or directory')
";

/// A checkout with two lock files, and the wheels of their packages.
struct World {
    folder: tempfile::TempDir,
    release: Release,
    setup: Setup,
}

impl World {
    fn new(uv: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let wheels = folder.path().join("wheels");
        std::fs::create_dir(&wheels).unwrap();
        let cudnn = |number: u32| format!("number = {number}\n");
        wheel(&wheels, "torch", "2.9.1+cu126", TORCH, &["nvidia-cudnn-cu12==9.10.2.21"]);
        wheel(&wheels, "nvidia_cudnn_cu12", "9.10.2.21", &cudnn(91_002), &[]);
        wheel(&wheels, "nvidia_cudnn_cu12", "9.16.0.29", &cudnn(91_600), &[]);
        for version in ["1.0", "2.0"] {
            wheel(&wheels, "helper", version, "", &[]);
        }
        wheel(&wheels, "engine", "0.5", "import helper\n", &["helper"]);
        wheel(&wheels, "broken", "1.0", "raise ImportError('libbroken.so: not found')\n", &[]);
        wheel(&wheels, "kernels", "1.0", KERNELS, &[]);
        wheel(&wheels, "setuptools", "80.0", "", &[]);
        let setup = Setup {
            uv: Some(uv.to_owned()),
            python: Some(std::env::var("PARAVT_PYTHON").unwrap_or_else(|_| "python3".to_owned())),
            arguments: ["--no-index", "--find-links", &wheels.display().to_string()]
                .map(str::to_owned)
                .to_vec(),
            ..Setup::default()
        };
        let mut release = Release::of(&setup).unwrap();
        let layout = Layout::new(&folder.path().join("out"));
        let [_, rl, eval, ..] = &mut release.environments[..] else { panic!("three of the release") };
        write_lock(&layout, rl, "torch==2.9.1+cu126\nnvidia-cudnn-cu12==9.10.2.21\nhelper==1.0\n");
        rl.tools = vec!["setuptools".to_owned()];
        rl.imports = vec!["torch".to_owned(), "helper".to_owned()];
        rl.located.remove("paravt");
        write_lock(&layout, eval, "engine==0.5\nhelper==1.0\nbroken==1.0\n");
        (eval.packages, eval.imports) = (vec!["engine".to_owned()], vec!["engine".to_owned()]);
        eval.cuda = None;
        for environment in [rl, eval] {
            environment.arguments.clone_from(&setup.arguments);
        }
        std::fs::create_dir_all(layout.engines().join("areal")).unwrap();
        std::fs::write(layout.engines().join("areal/__init__.py"), "").unwrap();
        Self { folder, release, setup }
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.folder.path().join("out"))
    }

    fn environment(&mut self, name: &str) -> &mut Environment {
        self.release.environments.iter_mut().find(|environment| environment.name == name).unwrap()
    }

    fn install(&self, name: &str) -> Result<Built, Error> {
        self.release.install(name, &self.layout(), &self.setup, &mut |_| ())
    }

    /// Why an environment is not made; nothing of it is left.
    fn refusal(&self, name: &str) -> String {
        let error = self.install(name).unwrap_err().to_string();
        for left in [name.to_owned(), format!("{name}.part")] {
            assert!(!self.layout().environment(&left).exists(), "{left}: {error}");
        }
        error
    }
}

/// Gives an environment another lock file.
fn write_lock(layout: &Layout, environment: &mut Environment, text: &str) {
    let path = layout.checkout().join(&environment.lock);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    environment.sha256 = paravt_files::sha256(text);
}

#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn an_environment_is_installed_verified_and_kept() {
    let uv = uv();
    let mut world = World::new(&uv);
    let built = world.install("rl").unwrap();
    assert!(!built.kept);
    let record = &built.record;
    let versions =
        ["torch", "nvidia_cudnn_cu12", "helper"].map(|name| record.version(name).unwrap().to_owned());
    assert_eq!(versions, ["2.9.1+cu126", "9.16.0.29", "1.0"]);
    assert_eq!(record.torch.as_ref().map(|torch| (torch.cudnn, torch.gpus)), Some((Some(91_600), 8)));
    // The order of the passes, and no path of the machine but that of the wheels, which the user gave.
    let commands = record.commands.join("\n");
    let passes =
        ["venv --clear --relocatable", "--constraints", "--no-build-isolation", "--reinstall-package"];
    let places: Vec<usize> = passes.iter().map(|pass| commands.find(pass).unwrap()).collect();
    assert!(places.is_sorted(), "{commands}");
    let out = world.layout().environments().display().to_string();
    assert!(commands.contains("{out}/env/rl.part") && !commands.contains(&out), "{commands}");
    let first = std::fs::read_to_string(world.layout().environments().join("rl.first.txt")).unwrap();
    assert_eq!(first, "torch==2.9.1+cu126\nnvidia-cudnn-cu12==9.10.2.21\nsetuptools\n");

    // Its scripts start after the folder was renamed.
    let script = world.layout().environment("rl").join("bin/torch");
    let output = Command::new(script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "torch runs\n", "{output:?}");

    assert!(world.install("rl").unwrap().kept);
    // A later installation took cuDNN back: as `pip install` of any package with torch among its requirements does.
    let python = world.layout().environment("rl").join("bin/python");
    let mut pip = Command::new(&uv);
    pip.args(["pip", "install", "--quiet", "--python"]).arg(&python).args(&world.setup.arguments);
    assert!(pip.arg("nvidia-cudnn-cu12==9.10.2.21").status().unwrap().success());
    assert!(!world.install("rl").unwrap().kept, "made again");
    // Another setting makes another one; what is said of it does not.
    world.environment("rl").deviates.clear();
    assert!(world.install("rl").unwrap().kept);
    world.environment("rl").last.clear();
    world.environment("rl").cudnn = None;
    assert_eq!(world.install("rl").unwrap().record.version("nvidia-cudnn-cu12"), Some("9.10.2.21"));
    // A Python that is gone.
    std::fs::remove_file(&python).unwrap();
    assert!(!world.install("rl").unwrap().kept);
}

#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn packages_of_a_constraint_lock_need_not_be_installed() {
    let built = World::new(&uv()).install("eval").unwrap();
    let names: Vec<&str> = built.record.packages.keys().map(String::as_str).collect();
    assert_eq!(names, ["engine", "helper"]);
    assert_eq!(built.record.version("helper"), Some("1.0"));
    assert_eq!(built.record.not_installed, ["broken==1.0"]);
}

/// The wheel with a local version is where the first pass looks, and nowhere else; the index of the other passes has the
/// public version of it.
#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn the_first_pass_has_an_index_of_its_own() {
    let mut world = World::new(&uv());
    let (wheels, other) = (world.folder.path().join("wheels"), world.folder.path().join("other"));
    std::fs::create_dir(&other).unwrap();
    let local = "torch-2.9.1+cu126-py3-none-any.whl";
    paravt_files::rename(&wheels.join(local), &other.join(local)).unwrap();
    wheel(&wheels, "torch", "2.9.1", "raise ImportError('another build')\n", &[]);
    let error = world.refusal("rl");
    assert!(error.contains("torch==2.9.1+cu126"), "{error}");
    let find = ["--no-deps", "--find-links", &other.display().to_string()].map(str::to_owned);
    world.environment("rl").first_arguments = find.to_vec();
    let record = world.install("rl").unwrap().record;
    assert_eq!(record.version("torch"), Some("2.9.1+cu126"));
    assert_eq!(record.version("helper"), Some("1.0"));
}

#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn an_import_that_needs_the_driver_is_verified_once_there_is_one() {
    let mut world = World::new(&uv());
    let layout = world.layout();
    write_lock(&layout, world.environment("eval"), "kernels==1.0\n");
    world.environment("eval").packages = vec!["kernels".to_owned()];
    world.environment("eval").imports = vec!["kernels".to_owned()];
    let probe = "import ctypes; ctypes.CDLL('libcuda.so.1')";
    let python = world.setup.python.clone().unwrap();
    let driver = Command::new(python).args(["-c", probe]).stderr(Stdio::null()).status().unwrap().success();
    if driver {
        assert!(world.refusal("eval").contains("import kernels: ImportError: libcuda.so.1"));
        return;
    }
    assert_eq!(world.install("eval").unwrap().record.unverified, ["kernels"]);
    let again = world.install("eval").unwrap();
    assert!(again.kept && again.record.unverified == ["kernels"]);
    let folder = layout.environment("eval");
    let version = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(version.join("site-packages/driver"), "").unwrap();
    let now = world.install("eval").unwrap();
    assert!(now.kept && now.record.unverified.is_empty());
    let module = version.join("site-packages/kernels.py");
    let record = world.release.installed("eval", &layout).unwrap().unwrap();
    assert_eq!(record, now.record);
    assert!(module.is_file());
}

#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn an_environment_that_differs_from_the_release_is_refused() {
    let uv = uv();
    let mut world = World::new(&uv);

    // The last pass is missing: torch's own cuDNN, too old.
    let last = std::mem::take(&mut world.environment("rl").last);
    assert!(world.refusal("rl").contains("torch loads cuDNN 91002; at least 91500 is needed"));
    world.environment("rl").last = last;

    // The last pass replaces what the lock has.
    world.environment("rl").last.insert("helper".to_owned(), "2.0".to_owned());
    world.install("rl").unwrap();
    world.environment("rl").last.remove("helper");
    std::fs::remove_dir_all(world.layout().environment("rl")).unwrap();

    world.environment("rl").cuda = Some("12.8".to_owned());
    assert!(world.refusal("rl").contains("torch is built for CUDA 12.6 instead of 12.8"));
    world.environment("rl").cuda = None;

    let layout = world.layout();
    world.environment("rl").located = [("helper".to_owned(), "{engines}/areal".to_owned())].into();
    assert!(world.refusal("rl").contains("module helper is "));
    world.environment("rl").located.clear();

    // An import that fails, and one that ends its process.
    world.environment("eval").packages.push("broken".to_owned());
    world.environment("eval").imports.push("broken".to_owned());
    let error = world.refusal("eval");
    assert!(error.contains("import broken: ImportError: libbroken.so: not found"), "{error}");
    wheel(&world.folder.path().join("wheels"), "crash", "1.0", "import os; os.abort()\n", &[]);
    write_lock(&layout, world.environment("eval"), "crash==1.0\n");
    world.environment("eval").packages = vec!["crash".to_owned()];
    world.environment("eval").imports = vec!["crash".to_owned()];
    let error = world.refusal("eval");
    assert!(
        error.contains("the probe of environment eval failed") && error.contains("importing crash"),
        "{error}"
    );

    // A version that nobody has, a lock that is not the release's, a line that is not a pin.
    write_lock(&layout, world.environment("eval"), "crash==7.0\n");
    let error = world.refusal("eval");
    assert!(error.contains("crash==7.0") && error.contains("env/eval.log"), "{error}");
    std::fs::write(layout.checkout().join("requirements/eval.lock"), "crash==1.0\n").unwrap();
    assert!(world.refusal("eval").contains("requirements/eval.lock: SHA-256 is "));
    write_lock(&layout, world.environment("eval"), "crash==1.0\ncrash>=1\n");
    assert!(
        world.refusal("eval").contains("requirements/eval.lock, line 2: `crash>=1` is not NAME==VERSION")
    );
}

#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn without_uv_or_a_network_the_error_names_the_remedy() {
    let mut world = World::new("paravt-no-uv");
    assert!(world.refusal("eval").contains("pip install uv"));
    let old = world.folder.path().join("uv");
    std::fs::write(&old, "#!/bin/sh\necho uv 0.4.30\n").unwrap();
    std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.setup.uv = Some(old.display().to_string());
    assert!(world.refusal("eval").contains("uv 0.7 or newer"), "{}", world.refusal("eval"));
    world.setup.uv = Some(uv());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    world.environment("eval").arguments =
        vec!["--default-index".to_owned(), format!("http://127.0.0.1:{port}/simple")];
    world.environment("eval").variables.insert("UV_HTTP_RETRIES".to_owned(), "0".to_owned());
    let error = world.refusal("eval");
    assert!(error.contains("the network does not answer"), "{error}");
}

/// What a child of a test does: installs `rl` below the folder that is named, and prints why it could not. False in
/// the test itself.
fn is_child() -> bool {
    let Some(at) = std::env::var_os("PARAVT_TEST_WORLD").map(PathBuf::from) else { return false };
    let read = |name: &str| std::fs::read_to_string(at.join(name)).unwrap();
    let setup: Setup = serde_json::from_str(&read("setup.json")).unwrap();
    let release: Release = serde_json::from_str(&read("release.json")).unwrap();
    if let Err(error) = release.install("rl", &Layout::new(&at.join("out")), &setup, &mut |_| ()) {
        println!("{error}");
    }
    true
}

/// Writes what the child of a test reads.
fn for_child(world: &World) {
    let write = |name: &str, text: String| std::fs::write(world.folder.path().join(name), text).unwrap();
    write("release.json", serde_json::to_string(&world.release).unwrap());
    write("setup.json", serde_json::to_string(&world.setup).unwrap());
}

/// Killed at any moment, nothing has the environment's name, and the next command makes it.
#[test]
#[ignore = "needs uv and Python: run by ci/test"]
fn a_killed_installation_is_made_by_the_next_command() {
    if is_child() {
        return;
    }
    let world = World::new(&uv());
    for_child(&world);
    let began = Instant::now();
    world.install("rl").unwrap();
    // The shortest installation so far: the first one may be slow.
    let mut whole = began.elapsed();
    let (mut unfinished, kills) = (0, 12);
    for kill in 0..kills {
        std::fs::remove_dir_all(world.layout().environment("rl")).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_installation_is_made_by_the_next_command", "--ignored"])
            .env("PARAVT_TEST_WORLD", world.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep((whole + Duration::from_millis(100)) * kill / kills);
        child.kill().unwrap();
        child.wait().unwrap();
        unfinished += u32::from(!world.layout().environment("rl").exists());
        let began = Instant::now();
        world.install("rl").unwrap();
        whole = whole.min(began.elapsed());
        assert!(!world.layout().environment("rl.part").exists());
    }
    // The first comes at once; how many of the others come in time is the machine's business.
    assert!(unfinished > 1, "{unfinished} of {kills} kills came in time");
}

/// A release whose environment has packages of the default index, with the same steps as that of training.
fn published(layout: &Layout, uv: &str) -> (Release, Setup) {
    let setup = Setup {
        uv: Some(uv.to_owned()),
        python: Some(std::env::var("PARAVT_PYTHON").unwrap_or_else(|_| "python3".to_owned())),
        ..Setup::default()
    };
    let mut release = Release::of(&setup).unwrap();
    let sft = &mut release.environments[0];
    let lock = "antlr4-python3-runtime==4.9.3\nomegaconf==2.3.0\nhydra-core==1.3.2\nPyYAML==6.0.2\npackaging==25.0\n";
    write_lock(layout, sft, lock);
    // The first is a source package: it is built without isolation, with the tools of the first pass.
    sft.first = vec!["packaging".to_owned()];
    (sft.cuda, sft.located) = (None, std::collections::BTreeMap::new());
    sft.imports = ["hydra", "omegaconf", "yaml"].map(str::to_owned).to_vec();
    sft.last = [("PyYAML".to_owned(), "6.0.3".to_owned())].into();
    (release, setup)
}

#[test]
#[ignore = "needs uv, Python and a package index: run by ci/test"]
fn packages_of_the_default_index_are_installed() {
    let uv = uv();
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    let (mut release, setup) = published(&layout, &uv);
    let built = release.install("sft", &layout, &setup, &mut |note| eprintln!("{note}")).unwrap();
    assert_eq!(
        (built.record.version("pyyaml"), built.record.version("omegaconf")),
        (Some("6.0.3"), Some("2.3.0"))
    );
    assert!(release.install("sft", &layout, &setup, &mut |_| ()).unwrap().kept);
    write_lock(&layout, &mut release.environments[0], "PyYAML==6.0.999\n");
    let error = release.install("sft", &layout, &setup, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("6.0.999"), "{error}");
}

/// The disk is a tmpfs in a mount namespace of its own (util-linux `unshare`).
#[test]
#[ignore = "needs uv, Python and user namespaces: run by ci/test"]
fn a_full_disk_is_an_error_with_a_remedy() {
    if is_child() {
        return;
    }
    let world = World::new(&uv());
    for_child(&world);
    let script = "mv out full && mkdir out && mount -t tmpfs -o size=100k none out && cp -r full/. out && \
        \"$0\" --exact a_full_disk_is_an_error_with_a_remedy --ignored --nocapture; ls out/env";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .current_dir(world.folder.path())
        .env("PARAVT_TEST_WORLD", world.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("the disk is full: make room"), "{output:?}");
    let (_, left) = said.rsplit_once("test result").unwrap();
    assert!(left.contains("rl.log") && !left.contains("\nrl\n") && !left.contains("rl.part"), "{left}");
}
