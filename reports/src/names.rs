//! Names of runs by what differs between them.

use std::collections::{BTreeMap, BTreeSet};

use paravt_suite::profile::Profile;
use paravt_suite::run::Manifest;
use serde_json::Value;

use crate::models;
use crate::question::Question;
use crate::terminal::counted;

/// The order in which fields stand in a name; all others follow.
const ORDER: [&str; 8] =
    ["mode", "model", "protocol", "backend", "nframes", "max_turns", "max_parallel", "max_tokens"];
/// Runs of a split up to which each is compared with each; of more, every one with the first.
pub(crate) const MANY: usize = 12;
/// Characters of a value in a name.
const LONGEST: usize = 40;

/// Fields in which the runs of a split differ from one another, over all splits.
#[derive(Debug, Default)]
pub(crate) struct Varying {
    fields: BTreeSet<String>,
    /// Modes that differ in offering the tool, one of each kind in a split: they are called by that.
    by_tool: bool,
}

impl Varying {
    /// Of runs, each compared with those of its split and profile.
    pub(crate) fn of(runs: &[&Manifest]) -> Self {
        let mut groups: BTreeMap<(&str, Profile), Vec<&Manifest>> = BTreeMap::new();
        for run in runs {
            groups.entry((&run.task.name, run.plan.profile())).or_default().push(run);
        }
        let mut fields = BTreeSet::new();
        let mut by_tool = true;
        for group in groups.values() {
            // Of many, what differs from the first.
            let firsts = if group.len() > MANY { 1 } else { group.len() };
            for (number, first) in group[..firsts].iter().enumerate() {
                for second in &group[number + 1..] {
                    fields.extend(Question::of([first, second], [false; 2]).fields().map(str::to_owned));
                }
            }
            let modes = |offers: bool| {
                let of_kind = group.iter().filter(|run| run.offers_tool == offers);
                of_kind.map(|run| run.plan.mode.as_str()).collect::<BTreeSet<_>>().len()
            };
            by_tool &= modes(true) <= 1 && modes(false) <= 1;
        }
        Self { fields, by_tool }
    }

    /// Name of a run by these fields but those `without`; `None` where no field is left that has a word for it.
    pub(crate) fn name(&self, manifest: &Manifest, without: &[&str]) -> Option<String> {
        let order: [&str; 8] = ORDER;
        let rest = self.fields.iter().map(String::as_str).filter(|name| !ORDER.contains(name));
        let known = order.into_iter().filter(|name| self.fields.contains(*name));
        let words = known.chain(rest).filter(|name| !without.contains(name));
        let words: Vec<String> = words.filter_map(|name| self.word(manifest, name)).collect();
        (!words.is_empty()).then(|| words.join(" · "))
    }

    /// Words for a field of a run; `None` for what would only be a hash.
    fn word(&self, manifest: &Manifest, field: &str) -> Option<String> {
        let plan = &manifest.plan;
        let word = match field {
            "mode" if self.by_tool => {
                if manifest.offers_tool { "with tool" } else { "without tool" }.to_owned()
            }
            "mode" => plan.mode.to_string(),
            "model" => models::short(&manifest.backend.model).to_owned(),
            "protocol" => format!("protocol {}", manifest.protocol),
            "backend" => manifest.backend.name.clone(),
            "nframes" => counted(plan.nframes, "frame"),
            "max_turns" => counted(plan.max_turns, "turn"),
            "max_parallel" if plan.max_parallel == 0 => "any calls a turn".to_owned(),
            "max_parallel" => counted(plan.max_parallel, "call") + " a turn",
            "max_tokens" => counted(plan.max_tokens as usize, "token"),
            // The probe stands behind every name.
            "probe" => return None,
            _ if field.contains("sha256") || field.starts_with("constants.") => return None,
            _ => setting(manifest, field),
        };
        Some(word.chars().take(LONGEST).collect())
    }
}

/// A setting with its value, e.g. `temperature 0.7`.
fn setting(manifest: &Manifest, field: &str) -> String {
    let plan = serde_json::to_value(&manifest.plan).unwrap_or_default();
    let in_plan = plan.pointer(&format!("/{}", field.replace('.', "/"))).filter(|value| !value.is_null());
    let value = match in_plan {
        Some(Value::String(text)) => Some(text.clone()),
        Some(value) => Some(value.to_string()),
        None => manifest.backend.details.get(field).cloned(),
    };
    let name = field.rsplit('.').next().unwrap_or(field).replace('_', " ");
    value.map_or_else(|| format!("no {name}"), |value| format!("{name} {value}"))
}
