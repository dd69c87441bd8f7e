//! What a recipe needs from outside: a machine, programs, and repositories of the hub.

use paravt_preflight::{Bound, Needs, Tool};
use serde::{Deserialize, Serialize};

/// Upper bound of the size of a published archive.
const LARGEST_ARCHIVE_GB: u64 = 30;

/// What a recipe needs before anything else is done.
#[derive(Debug, Clone, PartialEq)]
pub struct Preflight {
    /// Name of the recipe.
    pub recipe: String,
    /// What it needs of the machine.
    pub needs: Needs,
    /// What it reads from the hub.
    pub fetch: Fetch,
    /// Whether the recipe downloads what is missing of that.
    pub is_fetched: bool,
    /// Whether archives are deleted once they are unpacked.
    pub deletes: bool,
}

/// Repositories that a recipe reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Fetch {
    /// In order.
    pub items: Vec<Item>,
}

/// One thing to fetch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// What it is.
    pub target: Target,
    /// Its published size in GB, for the plan and the disk.
    pub gb: u64,
}

/// Something that can be fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Rows and videos of a split.
    Task(String),
    /// Rows and media of the training.
    Training,
    /// A model by its id on the hub.
    Model(String),
}

impl Fetch {
    /// The published size of everything, in GB.
    pub fn gb(&self) -> u64 {
        self.items.iter().map(|item| item.gb).sum()
    }

    /// The command that fetches the same.
    pub fn command(&self) -> String {
        let names: Vec<String> = self.items.iter().map(|item| item.target.name()).collect();
        format!("paravt-bench data fetch {}", names.join(" "))
    }
}

impl Target {
    /// As `data fetch` takes it.
    pub fn name(&self) -> String {
        match self {
            Self::Task(name) => name.clone(),
            Self::Training => "training".to_owned(),
            Self::Model(id) => format!("model:{id}"),
        }
    }

    /// The target of a name of `data fetch`.
    pub fn named(name: &str) -> Self {
        match name.strip_prefix("model:") {
            Some(id) => Self::Model(id.to_owned()),
            None if name == "training" => Self::Training,
            None => Self::Task(name.to_owned()),
        }
    }

    /// Bytes on the disk for each byte that is published: archives lie beside their members until they are deleted.
    pub fn copies(&self) -> u64 {
        match self {
            Self::Task(_) | Self::Training => 2,
            Self::Model(_) => 1,
        }
    }
}

impl Preflight {
    /// The needs on a machine that lacks these items: the space for them is added.
    pub fn needs_for(&self, missing: &[Item]) -> Needs {
        let mut needs = self.needs.clone();
        let copies = |item: &Item| if self.deletes { 1 } else { item.target.copies() };
        let gb: u64 = missing.iter().map(|item| item.gb * copies(item)).sum();
        // One archive is downloaded while the one before is unpacked.
        let gb = if self.deletes && gb > 0 { gb + 2 * LARGEST_ARCHIVE_GB } else { gb };
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
