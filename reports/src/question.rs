//! In what two runs differ, and which of them is B.

use paravt_suite::run::{Difference, Manifest};

use crate::models;

/// Settings of which the larger value is B, with the words for a value.
const MORE: [(&str, &str); 4] = [
    ("nframes", "frames"),
    ("max_turns", "tool turns"),
    ("max_parallel", "calls a turn"),
    ("max_tokens", "tokens a reply"),
];
/// Fields that only the tool loop reads.
const OF_TOOL: [&str; 5] = ["mode", "max_turns", "max_parallel", "crop", "dialect"];
/// Fields that say which samples were asked, and how often: never what a comparison is about.
const OF_SAMPLES: [&str; 5] = ["task", "samples", "repeat", "data.", "selection."];
/// Details of a backend that go with the model's name.
const OF_MODEL: [&str; 3] = ["model", "weights", "files_sha256"];

/// What a comparison of two runs is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Factor {
    /// The mode of B offers the tool, that of A does not.
    Tool,
    /// B shows the subtitles of the same rows, A does not.
    Subtitles,
    /// The same setting, more of it in B; its name.
    More(&'static str),
    Protocol,
    Model,
    /// What the model runs on.
    Backend,
    /// Another setting; its name.
    Setting(String),
    /// Nothing that the manifests know.
    Nothing,
}

impl Factor {
    /// Its name in files.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Tool => "tool",
            Self::Subtitles => "subtitles",
            Self::Protocol => "protocol",
            Self::Model => "model",
            Self::Backend => "backend",
            Self::Nothing => "nothing",
            Self::More(name) => name,
            Self::Setting(name) => name,
        }
    }

    /// Whether the manifests say which run is B.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::Tool | Self::Subtitles | Self::More(_))
    }

    /// The field of a run's manifest that it is about.
    pub(crate) fn field(&self) -> Option<&str> {
        match self {
            Self::Tool => Some("mode"),
            Self::Subtitles | Self::Nothing => None,
            factor => Some(factor.name()),
        }
    }

    /// Whether a field differs because of it.
    fn explains(&self, field: &str, of_backend: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Tool => OF_TOOL.contains(&field),
            Self::Subtitles => ["task", "samples"].contains(&field) || field.starts_with("data."),
            Self::Protocol => field == "protocol" || field.starts_with("constants."),
            Self::Model => OF_MODEL.iter().any(|of| field.starts_with(of)),
            Self::Backend => field == "backend" || of_backend(field),
            Self::More(name) => field == *name,
            Self::Setting(name) => field == name,
            Self::Nothing => false,
        }
    }
}

/// What a run has of a setting of [`MORE`].
fn amount(manifest: &Manifest, name: &str) -> usize {
    let plan = &manifest.plan;
    match name {
        "nframes" => plan.nframes,
        "max_turns" => plan.max_turns,
        // No limit.
        "max_parallel" if plan.max_parallel == 0 => usize::MAX,
        "max_parallel" => plan.max_parallel,
        _ => plan.max_tokens as usize,
    }
}

/// A comparison of two runs: what it is about, and what else differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub factor: Factor,
    /// A is the run that was given second.
    pub is_swapped: bool,
    /// What else differs, from A to B.
    pub also: Vec<Difference>,
}

impl Question {
    /// Of two runs, in the order in which they were given: that decides only where the manifests do not. `subtitles` says
    /// which of them show subtitles.
    pub(crate) fn of([first, second]: [&Manifest; 2], subtitles: [bool; 2]) -> Self {
        let mut found = first.differing(second);
        if models::are_same(&first.backend.model, &second.backend.model) {
            found.retain(|one| one.name != "model");
        }
        if [first, second].iter().all(|run| !run.offers_tool) {
            found.retain(|one| one.name == "mode" || !OF_TOOL.contains(&one.name.as_str()));
        }
        let factor = factor([first, second], subtitles, &found);
        let is_swapped = match &factor {
            Factor::Tool => first.offers_tool,
            Factor::Subtitles => subtitles[0],
            Factor::More(name) => amount(first, name) > amount(second, name),
            _ => false,
        };
        let details = [first, second].map(|run| run.backend.identity());
        let of_backend = |field: &str| details.iter().any(|details| details.contains_key(field));
        found.retain(|one| !factor.explains(&one.name, of_backend));
        if is_swapped {
            found.iter_mut().for_each(|one| std::mem::swap(&mut one.was, &mut one.now));
        }
        Self { factor, is_swapped, also: found }
    }

    /// The fields in which the runs of this comparison differ.
    pub(crate) fn fields(&self) -> impl Iterator<Item = &str> {
        let also = self.also.iter().map(|one| one.name.as_str()).filter(|name| !is_of_samples(name));
        self.factor.field().into_iter().chain(also)
    }

    /// The comparison in words, B first; `names` are those of A and B.
    pub(crate) fn title(&self, [a, b]: [&Manifest; 2], names: [&str; 2]) -> String {
        match &self.factor {
            Factor::Tool => "With the tool against without it".to_owned(),
            Factor::Subtitles => "With subtitles against without".to_owned(),
            Factor::More(name) => {
                let words = MORE.iter().find(|(known, _)| known == name).map_or("", |(_, words)| *words);
                let [a, b] = [a, b].map(|run| match amount(run, name) {
                    usize::MAX => "any number of".to_owned(),
                    amount => amount.to_string(),
                });
                format!("{b} {words} against {a}")
            }
            _ if names[0] != names[1] => format!("{} − {}", names[1], names[0]),
            Factor::Model => {
                format!("{} − {}", models::short(&b.backend.model), models::short(&a.backend.model))
            }
            _ => "B − A".to_owned(),
        }
    }
}

fn is_of_samples(field: &str) -> bool {
    OF_SAMPLES.iter().any(|of| if of.ends_with('.') { field.starts_with(of) } else { field == *of })
}

/// The first that applies of: what has an order, then what is not a setting, then the first setting.
fn factor([first, second]: [&Manifest; 2], subtitles: [bool; 2], found: &[Difference]) -> Factor {
    let differs = |name: &str| found.iter().any(|one| one.name == name);
    if first.offers_tool != second.offers_tool {
        return Factor::Tool;
    }
    if first.task.name != second.task.name && subtitles[0] != subtitles[1] {
        return Factor::Subtitles;
    }
    if let Some(&(name, _)) = MORE.iter().find(|(name, _)| differs(name)) {
        return Factor::More(name);
    }
    let model = |one: &Difference| OF_MODEL.iter().any(|of| one.name.starts_with(of));
    match found.iter().find(|one| !is_of_samples(&one.name)) {
        None => Factor::Nothing,
        Some(_) if differs("protocol") => Factor::Protocol,
        // Another engine reads the weights in its own way.
        Some(_) if differs("backend") && !differs("model") => Factor::Backend,
        Some(_) if found.iter().any(model) => Factor::Model,
        Some(one) => Factor::Setting(one.name.clone()),
    }
}
