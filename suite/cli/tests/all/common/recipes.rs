//! Small recipes that the tests of `reproduce` share, and where their stages are.

use std::path::{Path, PathBuf};

/// An embedded recipe: trainings of a few steps, two evaluations of two splits.
pub(crate) const EMBEDDED: &str = r#"
extends = "embedded"
title = "small"
comparisons = [{ title = "Tools?", a = "no-tool", b = "with-tool", paper = "+3", at_least = 15.0 }]

[world]
videos = 1
questions = 2
seed = 1

[data]
videos = 2
rows = 8
prompts = 4

[sft]
steps = 3
pack_tokens = 1024
packs_per_step = 1
save_every = 2

[rl]
steps = 2
prompts_per_step = 2
micro_batch_tokens = 1024
save_every = 1

[rl.rollout]
semantics = "paper"
group_size = 2
max_new_tokens = 96
frame_budgets = [4]

[evaluate]
profile = "strict"
nframes = 4
max_turns = 2
max_parallel = 5
max_tokens = 96
splits = ["lvbench", "charades"]

[[stages]]
name = "with-tool"
does = "evaluate"
matrix = ["seed"]
model = "{rl}/final"
mode = "native"

[[stages]]
name = "no-tool"
does = "evaluate"
matrix = ["seed"]
model = "{rl}/final"
mode = "direct"
"#;

/// A served recipe: two evaluations of two splits. `serve` are lines of its table `[serve]`.
pub(crate) fn served(model: &str, serve: &str) -> String {
    format!(
        r#"extends = "served"
name = "small"
title = "small"
model = {model:?}
paper_row = "ParaVT-8B"

[serve]
{serve}

[evaluate]
profile = "strict"
mode = "native"
nframes = 4
max_turns = 1
max_tokens = 12

[matrix]
run = ["with-tool", {{ name = "no-tool", mode = "direct", published = false }}]
split = ["mlvu", "charades"]
"#
    )
}

/// The folder of a stage below the recipe's `out`: its name, a hyphen and twelve hexadecimal digits.
pub(crate) fn stage(out: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(out.join("stages")).ok()?.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let found = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.strip_prefix(name).is_some_and(|rest| rest.len() == 13 && rest.starts_with('-'))
    };
    entries.into_iter().find(is_it)
}
