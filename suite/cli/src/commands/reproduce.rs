//! `paravt-bench reproduce`: runs a recipe.

use std::path::PathBuf;
use std::sync::Arc;

use paravt_reports::{Format as _, Report, Terminal, find_runs};
use paravt_reproduce::{Recipe, Step};

use crate::commands::protocol::{ProtocolChoice, choose};
use crate::commands::run::{DispatchArgs, execute};
use crate::exit::Exit;
use crate::launch::Launch;
use crate::registry::{self, BackendArgs, DataArgs};

/// Flags of `reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Recipe: a name (paravt-8b) or a TOML file.
    recipe: String,
    /// Print the steps of the recipe and run none.
    #[arg(long)]
    plan: bool,
    /// Only these splits of the recipe, separated by commas [default: all].
    #[arg(long, value_delimiter = ',', value_name = "TASK")]
    only: Vec<String>,
    /// Where the prompt texts come from; with native, nothing is comparable to the paper.
    #[arg(long, default_value = "paravt")]
    protocol: ProtocolChoice,
    /// Folder for the run directories, DIR/TASK for each split.
    #[arg(long, value_name = "DIR", default_value = "runs/reproduce")]
    out: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    backend: BackendArgs,
    #[command(flatten)]
    dispatch: DispatchArgs,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let recipe = Recipe::load(&args.recipe)?;
    let steps = recipe.steps();
    if args.plan {
        println!("{}", recipe.title);
        for (number, step) in steps.iter().enumerate() {
            println!("{:>3}. {step}", number + 1);
        }
        return Ok(Exit::Ok);
    }
    let all = registry::tasks();
    let mut launches = Vec::new();
    for step in steps {
        let Step::Evaluate { task, plan } = step else { continue };
        if !args.only.is_empty() && !args.only.contains(&task) {
            continue;
        }
        let protocol = choose(args.protocol, Some(plan.mode))?;
        launches.push(Launch {
            dir: args.out.join(&task),
            task: registry::select_tasks(&all, std::slice::from_ref(&task))?[0],
            plan: *plan,
            protocol: Arc::clone(&protocol),
            paper_row: Some(recipe.paper_row.clone()),
        });
    }
    anyhow::ensure!(!launches.is_empty(), "--only: the recipe has none of these splits");
    let exit = execute(&launches, &args.data, &args.backend, &args.dispatch)?;
    if matches!(exit, Exit::Ok | Exit::Incomplete) && !args.dispatch.is_dry_run() {
        let report = Report::build(&find_runs(std::slice::from_ref(&args.out))?, None)?;
        print!("{}", Terminal.render(&report));
    }
    Ok(exit)
}
