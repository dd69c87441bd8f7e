//! What a recipe needs of a machine: space, programs, and what it reads from the hub.

use crate::preflight::{Bound, Needs, Tool};
use serde::Deserialize;

use crate::target::{Fetch, Item};

/// What a recipe needs before anything else is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Preflight {
    pub recipe: String,
    /// What it needs of the machine.
    pub needs: Needs,
    /// What it reads from the hub.
    pub fetch: Fetch,
    /// Whether the recipe downloads what is missing of that.
    pub is_fetched: bool,
}

impl Preflight {
    /// The needs on a machine that lacks these items: the space for them is added.
    pub fn needs_for(&self, missing: &[Item]) -> Needs {
        let mut needs = self.needs.clone();
        let gb = Fetch { items: missing.to_vec(), ..self.fetch.clone() }.disk_gb();
        if gb > 0 {
            let gib = (gb * 1_000_000_000).div_ceil(1 << 30);
            let data = needs.disk_gib.entry("data".to_owned()).or_default();
            *data = *data + Bound { refuse: Some(gib), warn: None };
        }
        needs
    }
}

/// The program that serves a model, as a need.
pub(crate) fn program(name: &str, engine: &str) -> Tool {
    let remedy = format!(
        "install {engine} and put its folder of programs on PATH, name the program with `command` in [serve], or give \
         --base-url of a server that runs"
    );
    Tool { name: name.to_owned(), major: None, optional: false, remedy }
}

/// The programs that make the release's environments, as needs.
pub(crate) fn installers() -> [Tool; 2] {
    let tool = |name: &str, remedy: &str| Tool {
        name: name.to_owned(),
        major: None,
        optional: false,
        remedy: format!("{remedy}, or serve with an engine of your own and --own-engine"),
    };
    [
        tool("git", "install git, which fetches the release"),
        tool("uv", "pip install uv, which builds its environment"),
    ]
}

/// Size and time of a stage as far as they are known beforehand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// GB that it writes.
    pub gb: Option<f64>,
    /// Hours on the machine that the recipe names.
    pub hours: Option<f64>,
}

impl Estimate {
    /// In words; `None` where nothing is known.
    pub fn words(&self) -> Option<String> {
        let gb = self.gb.map(|gb| format!("{gb} GB"));
        let hours = self.hours.map(|hours| format!("{hours} h"));
        let words: Vec<String> = gb.into_iter().chain(hours).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
