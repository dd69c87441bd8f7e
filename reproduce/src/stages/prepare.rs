//! The stages `checkout` and `environments`: the release's files and Python environments, from which its programs run.

use std::path::Path;

use serde_json::json;

use crate::environments::{Environment, Layout, Record, Release, Setup};
use crate::error::Error;
use crate::host::{Event, Outcome};
use crate::slot::Key;
use crate::work::{Role, StageContext, Work};

/// A checkout, or environments of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepare {
    pub release: Release,
    /// What the user chose.
    pub setup: Setup,
    /// Names of the environments; empty for the checkout.
    pub environments: Vec<String>,
}

impl Prepare {
    pub(crate) fn checkout(setup: &Setup) -> Result<Self, Error> {
        let (release, setup) = (Release::of(setup)?, setup.clone());
        Ok(Self { release, setup, environments: Vec::new() })
    }

    pub(crate) fn environments(setup: &Setup, names: &[String]) -> Result<Self, Error> {
        let checkout = Self::checkout(setup)?;
        for name in names {
            checkout.release.environment(name)?;
        }
        Ok(Self { environments: names.to_vec(), ..checkout })
    }

    fn chosen(&self) -> impl Iterator<Item = &Environment> {
        let is_chosen = |name: &String| self.environments.contains(name);
        self.release.environments.iter().filter(move |environment| is_chosen(&environment.name))
    }

    /// Makes what is not there below `out`, and describes it in `folder`.
    fn make(&self, out: &Path, folder: &Path, note: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let layout = Layout::new(out);
        let (name, record) = if self.environments.is_empty() {
            self.release.check_out(&layout, note)?;
            ("checkout.json", json!({ "commit": self.release.commit, "tree": self.release.tree }))
        } else {
            let mut records: Vec<Record> = Vec::new();
            for name in &self.environments {
                let built = self.release.install(name, &layout, &self.setup, note)?;
                if built.kept {
                    note(&format!("{name}: kept, verified"));
                }
                for module in &built.record.unverified {
                    note(&format!(
                        "{name}: import {module} not verified: no NVIDIA driver (libcuda.so.1) here"
                    ));
                }
                records.push(built.record);
            }
            ("environments.json", json!(records))
        };
        let path = folder.join(name);
        let written = paravt_files::write_atomic(&path, format!("{record:#}\n").as_bytes());
        written.map_err(|source| Error::Write { path, source })
    }
}

impl Work for Prepare {
    fn role(&self) -> Role {
        Role::Install
    }

    fn title(&self) -> String {
        let commit = &self.release.commit[..7];
        if self.environments.is_empty() {
            return format!("{} at {commit}, each file compared with the commit's tree", self.release.url);
        }
        let locks: Vec<&str> = self.chosen().map(|environment| environment.lock.as_str()).collect();
        format!("uv environments of {} at {commit}", locks.join(", "))
    }

    /// The record of what was made; that is verified by itself.
    fn key(&self) -> Option<Key> {
        let Release { commit, tree, folders, copies, .. } = &self.release;
        let settings = if self.environments.is_empty() {
            json!({ "commit": commit, "tree": tree, "folders": folders, "copies": copies })
        } else {
            json!({ "commit": commit, "environments": self.environments })
        };
        Some(Key::new("release", settings))
    }

    fn run(&self, context: &mut StageContext<'_>) -> Result<Outcome, Error> {
        let (out, folder) = (context.out, context.folder);
        self.make(out, folder, &mut |note| (context.event)(Event::Note(note)))?;
        Ok(Outcome::Complete)
    }

    fn details(&self, out: &Path, _: &Path) -> Vec<(&'static str, String)> {
        let layout = Layout::new(out);
        let commands: Vec<String> = if self.environments.is_empty() {
            self.release.checkout_commands(&layout)
        } else {
            self.chosen().flat_map(|environment| environment.commands(&layout, &self.setup)).collect()
        };
        commands.into_iter().map(|line| ("command", line)).collect()
    }

    /// Those of its environments.
    fn deviations(&self) -> Vec<String> {
        let of = |environment: &Environment| -> Vec<String> {
            environment.deviates.iter().map(|text| format!("{}: {text}", environment.name)).collect()
        };
        self.chosen().flat_map(of).collect()
    }

    /// About the size of its environments.
    fn gb(&self) -> Option<f64> {
        let size: u32 = self.chosen().map(|environment| environment.gigabytes).sum();
        (size > 0).then(|| f64::from(size))
    }

    fn damage(&self, out: &Path) -> Option<String> {
        let layout = Layout::new(out);
        if self.environments.is_empty() {
            return self.release.is_checked_out(&layout).err().map(|error| error.to_string());
        }
        self.environments.iter().find_map(|name| match self.release.installed(name, &layout) {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("environment {name} is missing or was changed")),
            Err(error) => Some(error.to_string()),
        })
    }
}
