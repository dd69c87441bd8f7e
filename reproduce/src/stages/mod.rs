//! The kinds of stages; a recipe's graph is made of them.

mod check;
mod evaluate;
mod generated;
mod hosted;
mod launch;
mod prepare;
mod rl;
mod serve;
mod sft;
mod training_record;

pub use generated::Generated;
pub use hosted::{Exam, Materialize, examine};
pub use launch::Launch;
pub use prepare::Prepare;
pub use rl::{Measurement, Reinforcement, prompts};
pub use sft::Sft;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use crate::{GraphOptions, Recipe};

    /// A setting that is added or removed names another folder; one that means something else needs another version.
    #[test]
    fn what_the_results_of_stages_are_kept_under() {
        let mut lines = BTreeSet::new();
        for name in ["paravt-nano", "paravt-nano-base", "paravt-8b-train"] {
            let graph = Recipe::load(name).unwrap().graph(&GraphOptions::new("out")).unwrap();
            let kept = graph.stages().iter().filter_map(|stage| Some((stage.name(), stage.work().key()?)));
            for (stage, key) in kept {
                let fields = match &key.settings {
                    Value::Object(fields) => fields.keys().cloned().collect::<Vec<_>>().join(", "),
                    other => other.to_string(),
                };
                lines.insert(format!("{}: {}: {fields}\n", key.version, stage.split('-').next().unwrap()));
            }
        }
        insta::assert_snapshot!(lines.into_iter().collect::<String>());
    }
}
