//! `paravt-bench reproduce`: runs a recipe.

mod base;
mod nano;
mod served;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use paravt_reproduce::AnyRecipe;
use paravt_reproduce::stage::{Lock, lock};

use crate::commands::protocol::ProtocolChoice;
use crate::commands::run::DispatchArgs;
use crate::exit::Exit;
use crate::registry::{BackendArgs, DataArgs};

/// Flags of `reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Recipe: paravt-nano (generate, train and evaluate here, without network or GPU), paravt-nano-base
    /// (its base checkpoint), paravt-8b, or a TOML file.
    recipe: String,
    /// The recipe, read once: threads are settled by its kind before the command runs.
    #[arg(skip)]
    read: OnceLock<AnyRecipe>,
    /// Print the steps of the recipe and run none.
    #[arg(long)]
    plan: bool,
    /// Folder for everything that is made [default: runs/RECIPE].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    nano: NanoArgs,
    /// Only these splits of the recipe, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "TASK")]
    only: Vec<String>,
    /// Where the prompt texts of a served recipe come from; with native, nothing is comparable to the
    /// paper.
    #[arg(long, default_value = "paravt")]
    protocol: ProtocolChoice,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    dispatch: DispatchArgs,
}

/// Flags of the embedded recipes.
#[derive(clap::Args)]
#[command(next_help_heading = "Embedded recipe (paravt-nano)")]
pub struct NanoArgs {
    /// Seed of data and training.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// All comparisons of the recipe: variants of the training and further runs, for this seed and the two
    /// after it; takes an hour or two.
    #[arg(long)]
    full: bool,
    /// Build on stages that another version of the code made, instead of redoing them.
    #[arg(long)]
    keep_stages: bool,
}

impl Args {
    /// Whether a model is trained in this process. A recipe that cannot be read is none of these; running it says
    /// why.
    pub fn trains(&self) -> bool {
        !self.plan && self.recipe().is_ok_and(AnyRecipe::trains)
    }

    fn recipe(&self) -> anyhow::Result<&AnyRecipe> {
        if let Some(recipe) = self.read.get() {
            return Ok(recipe);
        }
        let recipe = AnyRecipe::load(&self.recipe)?;
        Ok(self.read.get_or_init(|| recipe))
    }

    /// The right to write below a folder, unless nothing is written.
    fn lock(&self, out: &Path) -> anyhow::Result<Option<Lock>> {
        if self.plan { Ok(None) } else { Ok(Some(lock(out)?)) }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let recipe = args.recipe()?;
    let name = Path::new(&args.recipe).file_stem().unwrap_or_default();
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    match recipe {
        AnyRecipe::Embedded(recipe) => nano::run(args, recipe, &out),
        AnyRecipe::Base(config) => base::run(args, config, &out),
        AnyRecipe::Served(recipe) => served::run(args, recipe, &out),
    }
}
