//! Asks the Python of an environment for its packages, imports and libraries, and compares them with what the release pins.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::environments::pins::{Pin, normalised};
use crate::environments::program::Program;
use crate::environments::release::Environment;
use crate::environments::{Error, Layout, io};

const SCRIPT: &str = include_str!("probe.py");
/// Time for the imports: those of vLLM and SGLang take a minute on a cold disk.
const LIMIT: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Answer {
    pub(crate) python: String,
    packages: Vec<(Option<String>, Option<String>)>,
    /// Errors of modules that were imported.
    imports: BTreeMap<String, Option<String>>,
    /// Files of modules.
    located: BTreeMap<String, Option<String>>,
    /// Whether NVIDIA's driver can be loaded.
    driver: bool,
    /// What torch says, if it was imported.
    pub(crate) torch: Option<Torch>,
}

/// Versions that torch reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Torch {
    pub version: String,
    /// Its CUDA version; `None` for one without.
    pub cuda: Option<String>,
    pub cudnn: Option<u32>,
    pub gpus: usize,
}

/// Asks the Python of an environment. Without `imports` it only lists the packages, which takes a second.
pub(crate) fn ask(
    environment: &Environment,
    folder: &Path,
    layout: &Layout,
    imports: bool,
) -> Result<Answer, Error> {
    let (imported, located): (&[String], Vec<&String>) = if imports {
        (&environment.imports, environment.located.keys().collect())
    } else {
        (&[], Vec::new())
    };
    let wanted = json!({ "imports": imported, "located": located }).to_string();
    let (logs, name) = (layout.environments(), &environment.name);
    let answer = logs.join(format!("{name}.probe.json"));
    if let Err(error) = std::fs::remove_file(&answer)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(io("remove", &answer)(error));
    }
    let search: Vec<String> =
        environment.search.iter().map(|folder| absolute(&layout.filled(folder))).collect();
    let python = folder.join("bin/python").display().to_string();
    // No user packages, and nothing of the working directory.
    let program = Program::new([&python, "-s", "-P", "-c", SCRIPT, &wanted])
        .args([answer.display().to_string()])
        .env("PYTHONPATH", search.join(":"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    program.run(&format!("the probe of environment {name}"), name, &logs, Some(LIMIT))?;
    let text = std::fs::read(&answer).map_err(io("read", &answer))?;
    let read = serde_json::from_slice(&text);
    let read = read.map_err(|error| Error::Probe { name: name.clone(), message: error.to_string() })?;
    let _ = std::fs::remove_file(&answer);
    Ok(read)
}

impl Answer {
    /// Installed packages by normalised name; one that is installed twice has both versions.
    pub(crate) fn packages(&self) -> BTreeMap<String, String> {
        let mut packages: BTreeMap<String, String> = BTreeMap::new();
        for (name, version) in &self.packages {
            let (Some(name), Some(version)) = (name, version) else { continue };
            let entry = packages.entry(normalised(name)).or_default();
            if !entry.split(" and ").any(|known| known == version) {
                *entry = if entry.is_empty() { version.clone() } else { format!("{entry} and {version}") };
            }
        }
        packages
    }

    /// Differences from what the release pins, a line each.
    pub(crate) fn findings(&self, environment: &Environment, pins: &[Pin], layout: &Layout) -> Vec<String> {
        let mut findings = versions(environment, pins, &self.packages());
        findings.extend(self.import_findings(environment));
        for (module, folder) in &environment.located {
            let folder = layout.filled(folder);
            match self.located.get(module).and_then(Option::as_ref) {
                Some(file) if lies_in(file, &folder) => {}
                Some(file) => {
                    findings.push(format!("module {module} is {file}, which is not below {folder}"))
                }
                None => findings.push(format!("module {module} is not found; it should be below {folder}")),
            }
        }
        findings.extend(self.torch(environment));
        findings
    }

    /// Imports that failed for another reason than the lack of a driver, a line each.
    pub(crate) fn import_findings(&self, environment: &Environment) -> Vec<String> {
        let line = |module: &String| match self.imports.get(module) {
            Some(None) => None,
            Some(Some(error)) if self.lacks_driver(error) => None,
            Some(Some(error)) => Some(format!("import {module}: {error}")),
            None => Some(format!("import {module}: not tried")),
        };
        environment.imports.iter().filter_map(line).collect()
    }

    /// Imports that only a machine with NVIDIA's driver can try.
    pub(crate) fn unverified(&self) -> Vec<String> {
        let failed = self
            .imports
            .iter()
            .filter(|(_, error)| error.as_ref().is_some_and(|error| self.lacks_driver(error)));
        failed.map(|(module, _)| module.clone()).collect()
    }

    /// Whether an import failed because this machine has no driver: it names the driver's library.
    fn lacks_driver(&self, error: &str) -> bool {
        !self.driver && error.contains("libcuda.so")
    }

    fn torch(&self, environment: &Environment) -> Vec<String> {
        let found = self.torch.as_ref();
        let mut findings = Vec::new();
        if let Some(wanted) = &environment.cuda {
            let found = found.and_then(|torch| torch.cuda.as_deref()).unwrap_or("none");
            if found != wanted {
                findings.push(format!("torch is built for CUDA {found} instead of {wanted}"));
            }
        }
        if let Some(wanted) = environment.cudnn {
            match found.and_then(|torch| torch.cudnn) {
                Some(found) if found >= wanted => {}
                Some(found) => {
                    findings.push(format!("torch loads cuDNN {found}; at least {wanted} is needed"))
                }
                None => findings.push(format!("torch loads no cuDNN; at least {wanted} is needed")),
            }
        }
        findings
    }
}

/// Packages whose version is not that of the lock, or that are missing.
pub(crate) fn versions(
    environment: &Environment,
    pins: &[Pin],
    packages: &BTreeMap<String, String>,
) -> Vec<String> {
    let is_needed = |name: &str| {
        environment.packages.is_empty() || environment.packages.iter().any(|root| normalised(root) == name)
    };
    let wanted = |pin: &Pin| {
        let last = environment.last.iter().find(|(name, _)| normalised(name) == pin.name);
        last.map_or_else(|| pin.clone(), |(_, version)| Pin { version: version.clone(), ..pin.clone() })
    };
    let line = |pin: Pin| match packages.get(&pin.name) {
        Some(found) if pin.allows(found) => None,
        Some(found) => Some(format!("{} {found} instead of {}", pin.name, pin.version)),
        None if is_needed(&pin.name) => Some(format!("{} {} is missing", pin.name, pin.version)),
        None => None,
    };
    pins.iter().filter_map(|pin| line(wanted(pin))).collect()
}

/// Whether a file is below a folder, with links followed.
fn lies_in(file: &str, folder: &str) -> bool {
    let (file, folder) = (std::fs::canonicalize(file), std::fs::canonicalize(folder));
    matches!((file, folder), (Ok(file), Ok(folder)) if file.starts_with(&folder))
}

fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::Release;

    #[test]
    fn every_difference_is_a_finding() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        for path in ["engines/areal/__init__.py", "elsewhere/paravt/__init__.py"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::create_dir_all(folder.path().join("checkout/paravt")).unwrap();
        let release = Release::built_in().unwrap();
        let rl = release.environment("rl").unwrap();
        let pin = |name: &str, version: &str| Pin { name: name.to_owned(), version: version.to_owned() };
        let pins = [
            pin("torch", "2.9.1+cu126"),
            pin("nvidia-cudnn-cu12", "9.10.2.21"),
            pin("sglang", "0.5.9"),
            pin("numpy", "2.4.3"),
        ];
        let answer = json!({
            "python": "3.12.1",
            "packages": [["Torch", "2.9.1+cu126"], ["nvidia_cudnn_cu12", "9.16.0.29"], ["sglang", "0.5.9"], ["numpy", "2.4.3"], [null, null]],
            "imports": {"torch": null, "sgl_kernel": null, "flashinfer": null, "sglang": null, "liger_kernel": null},
            "located": {
                "areal": folder.path().join("engines/areal/__init__.py"),
                "paravt": folder.path().join("elsewhere/paravt/__init__.py")
            },
            "torch": {"version": "2.9.1+cu126", "cuda": "12.6", "cudnn": 91600, "gpus": 8},
            "driver": true
        });
        let findings = |answer: &serde_json::Value| {
            let answer: Answer = serde_json::from_value(answer.clone()).unwrap();
            answer.findings(rl, &pins, &layout)
        };
        let found = findings(&answer);
        assert!(found.len() == 1 && found[0].starts_with("module paravt is "), "{found:?}");
        let mut wrong = answer;
        wrong["located"]["paravt"] = serde_json::Value::Null;
        wrong["located"]["areal"] = serde_json::Value::Null;
        wrong["packages"] = json!([
            ["torch", "2.9.1"],
            ["nvidia_cudnn_cu12", "9.10.2.21"],
            ["numpy", "2.4.3"],
            ["numpy", "2.4.2"]
        ]);
        wrong["imports"]["sglang"] = json!("ImportError: libcuda.so.1: wrong ELF class");
        wrong["torch"]["cuda"] = json!("12.8");
        wrong["torch"]["cudnn"] = json!(91002);
        let found = findings(&wrong);
        let expected = [
            "torch 2.9.1 instead of 2.9.1+cu126",
            "nvidia-cudnn-cu12 9.10.2.21 instead of 9.16.0.29",
            "sglang 0.5.9 is missing",
            "numpy 2.4.3 and 2.4.2 instead of 2.4.3",
            "import sglang: ImportError: libcuda.so.1: wrong ELF class",
        ];
        assert_eq!(found[..5], expected);
        assert!(
            found[5].starts_with("module areal is not found")
                && found[6].starts_with("module paravt is not found")
        );
        assert_eq!(
            found[7..],
            [
                "torch is built for CUDA 12.8 instead of 12.6",
                "torch loads cuDNN 91002; at least 91500 is needed"
            ]
        );
    }

    #[test]
    fn only_a_missing_driver_excuses_an_import() {
        let release = Release::built_in().unwrap();
        let eval = release.environment("eval").unwrap();
        let asked = |driver: bool, error: &str| {
            let answer = json!({
                "python": "3.12.1", "packages": [], "located": {}, "torch": null, "driver": driver,
                "imports": {"torch": null, "vllm._C": error}
            });
            let answer: Answer = serde_json::from_value(answer).unwrap();
            (answer.import_findings(eval).len(), answer.unverified())
        };
        let missing = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory";
        assert_eq!(asked(false, missing), (0, vec!["vllm._C".to_owned()]));
        assert_eq!(asked(true, missing), (1, Vec::new()));
        assert_eq!(asked(false, "ImportError: undefined symbol: _ZN3c10"), (1, Vec::new()));
    }

    #[test]
    fn a_constraint_need_not_be_installed() {
        let release = Release::built_in().unwrap();
        let eval = release.environment("eval").unwrap();
        let pin = |name: &str, version: &str| Pin { name: name.to_owned(), version: version.to_owned() };
        let pins = [
            pin("vllm", "0.17.1"),
            pin("transformers", "4.57.6"),
            pin("datasets", "4.7.0"),
            pin("numpy", "2.2.6"),
        ];
        let installed = |list: &[(&str, &str)]| {
            let packages =
                list.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect();
            versions(eval, &pins, &packages)
        };
        assert!(installed(&[("vllm", "0.17.1"), ("transformers", "4.57.6"), ("numpy", "2.2.6")]).is_empty());
        let found = installed(&[("vllm", "0.17.1"), ("numpy", "2.3.0")]);
        assert_eq!(found, ["transformers 4.57.6 is missing", "numpy 2.3.0 instead of 2.2.6"]);
    }
}
