//! `paravt-bench reproduce`: runs a recipe.

mod base;
mod nano;
mod served;

use std::path::{Path, PathBuf};

use paravt_reproduce::nano::NanoRecipe;

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
}

impl Args {
    /// Whether a model is trained in this process.
    pub fn trains(&self) -> bool {
        !self.plan && self.recipe != "paravt-8b"
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let name = Path::new(&args.recipe).file_stem().unwrap_or_default();
    let out = args.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
    match args.recipe.as_str() {
        "paravt-nano" => nano::run(args, &NanoRecipe::built_in()?, &out),
        "paravt-nano-base" => base::run(args, &out),
        file => match NanoRecipe::read(Path::new(file))? {
            Some(recipe) => nano::run(args, &recipe, &out),
            None => served::run(args, &out),
        },
    }
}
