//! An environment: installed with uv under a temporary name, verified, renamed.

use std::collections::BTreeMap;
use std::path::Path;

use paravt_files::write_atomic;
use serde::{Deserialize, Serialize};

use crate::environments::pins::{self, Pin, normalised};
use crate::environments::probe::{self, Torch};
use crate::environments::program::{self, Program};
use crate::environments::release::{Environment, Release, Setup};
use crate::environments::{Error, Layout, io, lock, remove, replace};

/// File in the environment's folder that describes it.
const RECORD: &str = "environment.json";
/// The oldest uv that knows all flags used here.
const OLDEST_UV: [u32; 2] = [0, 7];
const UV_REMEDY: &str =
    "install it, for example with `pip install uv`, or name it with `uv` in [environments]";

/// What an environment holds, and how it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    pub environment: String,
    /// Hash of everything that it was made from.
    pub key: String,
    pub commit: String,
    pub lock: String,
    /// The lock file's SHA-256.
    pub lock_sha256: String,
    /// Version of Python.
    pub python: String,
    /// Version of uv.
    pub uv: String,
    /// Commands that made it; `{out}` in them is the folder of the recipe.
    pub commands: Vec<String>,
    /// Packages and versions.
    pub packages: BTreeMap<String, String>,
    /// Lines of the lock that only limited the versions of what is installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_installed: Vec<String>,
    /// What torch said of itself.
    pub torch: Option<Torch>,
    /// Imports that need NVIDIA's driver, where there was none; they are tried again once there is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
}

/// An environment that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    pub record: Record,
    /// Whether it was there before.
    pub kept: bool,
}

impl Environment {
    /// The commands that make it, as a shell takes them.
    pub fn commands(&self, layout: &Layout, setup: &Setup) -> Vec<String> {
        self.steps(layout, setup).iter().map(|(_, program)| program.line()).collect()
    }

    /// The steps of its installation in words, and their commands.
    fn steps(&self, layout: &Layout, setup: &Setup) -> Vec<(&'static str, Program)> {
        let uv = setup.uv.as_deref().unwrap_or("uv");
        let part = layout.environment(&self.name).with_added_extension("part").display().to_string();
        let lock = self.lock_file(layout).display().to_string();
        let install = || {
            let mut program = Program::new([uv, "pip", "install", "--python"]);
            program = program.args([format!("{part}/bin/python")]).args(&self.arguments);
            program.env.clone_from(&self.variables);
            program
        };
        // Relocatable: the scripts of a folder that is renamed would otherwise name a Python that is gone.
        let venv = ["venv", "--clear", "--relocatable", "--no-project", "--python", &self.python, &part];
        let mut steps = vec![("uv venv", Program::new([uv]).args(venv))];
        if self.packages.is_empty() {
            if !self.first.is_empty() {
                let first = self.first_pass(layout).display().to_string();
                let first = install()
                    .args(&self.first_arguments)
                    .args(["--constraints", &lock, "--requirements", &first]);
                steps.push(("uv pip install, first pass", first));
            }
            let all = install().args(["--no-build-isolation", "--requirements", &lock]);
            steps.push(("uv pip install of the lock", all));
        } else {
            let some = install().args(["--constraints", &lock]).args(&self.packages);
            steps.push(("uv pip install", some));
        }
        if !self.last.is_empty() {
            let names = self.last.keys().flat_map(|name| ["--reinstall-package", name.as_str()]);
            let pins = self.last.iter().map(|(name, version)| format!("{name}=={version}"));
            steps.push(("uv pip install, last pass", install().args(["--no-deps"]).args(names).args(pins)));
        }
        steps
    }

    /// File of the requirements of the first pass.
    fn first_pass(&self, layout: &Layout) -> std::path::PathBuf {
        layout.environments().join(format!("{}.first.txt", self.name))
    }

    /// Whether the environment in place is the one that would be made, as far as its record and the versions of
    /// its packages say, and the imports that were not verified; its record if so.
    fn present(&self, layout: &Layout, key: &str) -> Result<Option<Record>, Error> {
        let folder = layout.environment(&self.name);
        let Some(mut record) = Record::read(&folder).filter(|record| record.key == key) else {
            return Ok(None);
        };
        let imports = !record.unverified.is_empty();
        let answer = match probe::ask(self, &folder, layout, imports) {
            Ok(answer) => answer,
            // Its Python does not start.
            Err(Error::Failed { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if answer.packages() != record.packages || imports && !answer.import_findings(self).is_empty() {
            return Ok(None);
        }
        let unverified = answer.unverified();
        if imports && unverified != record.unverified {
            record.unverified = unverified;
            record.write(&folder)?;
        }
        Ok(Some(record))
    }
}

impl Release {
    /// Makes an environment, unless it is there. The checkout must be. `note` is given what is being done.
    ///
    /// # Errors
    /// No uv, a lock file that is not the release's, an installation that fails, a version, import or module that
    /// is not what the release has; nothing then has the environment's name.
    pub fn install(
        &self,
        name: &str,
        layout: &Layout,
        setup: &Setup,
        note: &mut dyn FnMut(&str),
    ) -> Result<Built, Error> {
        let environment = self.environment(name)?;
        let folder = layout.environment(name);
        let _lock = lock(&folder)?;
        let pins = pins::read(layout, environment)?;
        let key = self.key(environment);
        if let Some(record) = environment.present(layout, &key)? {
            return Ok(Built { record, kept: true });
        }
        let uv = uv_version(setup)?;
        let part = folder.with_added_extension("part");
        remove(&part)?;
        let made = self.make(environment, layout, setup, &pins, note);
        let answer = match made {
            Ok(answer) => answer,
            Err(error) => {
                // Its place on the disk may be what is missing; the downloads are kept by uv.
                let _ = remove(&part);
                return Err(error);
            }
        };
        let packages = answer.packages();
        let absent = pins.iter().filter(|pin| !packages.contains_key(&pin.name)).map(Pin::line);
        let anywhere = Layout::new(Path::new("{out}"));
        let shown = Setup { uv: None, ..setup.clone() };
        let record = Record {
            environment: name.to_owned(),
            key,
            commit: self.commit.clone(),
            lock: environment.lock.clone(),
            lock_sha256: environment.sha256.clone(),
            python: answer.python.clone(),
            uv,
            commands: environment.commands(&anywhere, &shown),
            not_installed: absent.collect(),
            torch: answer.torch.clone(),
            unverified: answer.unverified(),
            packages,
        };
        record.write(&part)?;
        replace(&part, &folder)?;
        Ok(Built { record, kept: false })
    }

    /// The record of an environment that is in place and holds the packages it was verified with.
    ///
    /// # Errors
    /// No environment of that name in the release, or a Python that cannot be asked.
    pub fn installed(&self, name: &str, layout: &Layout) -> Result<Option<Record>, Error> {
        let environment = self.environment(name)?;
        environment.present(layout, &self.key(environment))
    }

    /// Installs an environment beside its name and verifies it.
    fn make(
        &self,
        environment: &Environment,
        layout: &Layout,
        setup: &Setup,
        pins: &[Pin],
        note: &mut dyn FnMut(&str),
    ) -> Result<probe::Answer, Error> {
        let part = layout.environment(&environment.name).with_added_extension("part");
        if !environment.first.is_empty() {
            let first = pins.iter().filter(|pin| pins::is_one_of(&pin.name, &environment.first));
            let lines = first.map(Pin::line).chain(environment.tools.iter().cloned());
            let path = environment.first_pass(layout);
            let text: String = lines.map(|line| line + "\n").collect();
            write_atomic(&path, text.as_bytes()).map_err(io("write", &path))?;
        }
        for (what, mut program) in environment.steps(layout, setup) {
            note(&format!("{}: {what}", environment.name));
            if std::env::var_os("UV_CACHE_DIR").is_none() {
                // On the disk of the environment, whose files are then links into it.
                let cache = layout.environments().join("cache");
                program.env.insert("UV_CACHE_DIR".to_owned(), cache.display().to_string());
            }
            let what = format!("{what} of environment {}", environment.name);
            program.run(&what, &environment.name, &layout.environments(), None)?;
        }
        note(&format!("{}: verifying versions and imports", environment.name));
        let answer = probe::ask(environment, &part, layout, true)?;
        let mut findings = answer.findings(environment, pins, layout);
        findings.extend(scripts(&part)?);
        if findings.is_empty() {
            return Ok(answer);
        }
        Err(Error::Environment { name: environment.name.clone(), findings })
    }

    /// Hash of everything that an environment is made from.
    fn key(&self, environment: &Environment) -> String {
        // Its deviations are text for reports: a change of them does not need another installation.
        let environment = Environment { gigabytes: 0, deviates: Vec::new(), ..environment.clone() };
        let made_of = serde_json::to_string(&(&self.commit, environment)).expect("plain data");
        paravt_files::sha256(made_of)
    }
}

/// Scripts that name the folder they were installed in, which is renamed.
fn scripts(part: &Path) -> Result<Vec<String>, Error> {
    let bin = part.join("bin");
    let absolute = std::path::absolute(part).map_err(io("read", part))?;
    let needle = absolute.display().to_string().into_bytes();
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(&bin).map_err(io("read", &bin))? {
        let entry = entry.map_err(io("read", &bin))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if !is_file || name.starts_with("activate") {
            continue;
        }
        let bytes = std::fs::read(entry.path()).map_err(io("read", &entry.path()))?;
        let head = &bytes[..bytes.len().min(4096)];
        if head.starts_with(b"#!") && head.windows(needle.len()).any(|window| window == needle) {
            findings.push(format!("bin/{name} names the folder of the installation, which is renamed"));
        }
    }
    findings.sort();
    Ok(findings)
}

/// The version of uv, which must not be too old.
fn uv_version(setup: &Setup) -> Result<String, Error> {
    let uv = setup.uv.as_deref().unwrap_or("uv");
    program::find(uv, UV_REMEDY)?;
    let missing = || Error::NoProgram { program: uv.to_owned(), remedy: UV_REMEDY };
    let answer = Program::new([uv, "--version"]).answer().map_err(|_| missing())?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let version = answer.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    if numbers.len() < 2 || numbers[..2] < OLDEST_UV[..] {
        return Err(Error::NoProgram {
            program: format!("uv {}.{} or newer", OLDEST_UV[0], OLDEST_UV[1]),
            remedy: "the one that is installed is older or is not uv; `pip install --upgrade uv`",
        });
    }
    Ok(version)
}

impl Record {
    /// The record in an environment's folder; `None` where there is none that can be read.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(RECORD)).ok()?).ok()
    }

    /// Writes it into the environment's folder.
    fn write(&self, folder: &Path) -> Result<(), Error> {
        let path = folder.join(RECORD);
        let text = serde_json::to_string_pretty(self).expect("plain data");
        write_atomic(&path, format!("{text}\n").as_bytes()).map_err(io("write", &path))
    }

    /// Version of a package, however its name is written.
    pub fn version(&self, package: &str) -> Option<&str> {
        self.packages.get(&normalised(package)).map(String::as_str)
    }
}
