//! Recipes that evaluate a served model.

use std::path::Path;
use std::sync::Arc;

use paravt_reports::{Format as _, Report, Terminal, find_runs};
use paravt_reproduce::{Recipe, Step};

use super::Args;
use crate::commands::protocol::choose;
use crate::commands::run::execute;
use crate::exit::Exit;
use crate::launch::Launch;
use crate::registry;

/// Runs the command.
pub fn run(args: &Args, recipe: &Recipe, out: &Path) -> anyhow::Result<Exit> {
    let steps = recipe.steps();
    if args.plan {
        println!("{}", recipe.title);
        for (number, step) in steps.iter().enumerate() {
            println!("{:>3}. {step}", number + 1);
        }
        return Ok(Exit::Ok);
    }
    let mut launches = Vec::new();
    for step in steps {
        let Step::Evaluate { task, plan } = step else { continue };
        if !args.only.is_empty() && !args.only.contains(&task) {
            continue;
        }
        let protocol = choose(args.protocol, Some(plan.mode))?;
        launches.push(Launch {
            dir: out.join(&task),
            task: registry::select_tasks(std::slice::from_ref(&task))?[0],
            plan: *plan,
            protocol: Arc::clone(&protocol),
            label: None,
            paper_row: Some(recipe.paper_row.clone()),
        });
    }
    anyhow::ensure!(!launches.is_empty(), "--only: the recipe has none of these splits");
    let exit = execute(&launches, &args.data, &args.backend, &args.dispatch)?;
    if matches!(exit, Exit::Ok | Exit::Incomplete) && !args.dispatch.is_dry_run() {
        let report = Report::build(&find_runs(&[out.to_owned()])?, None)?;
        print!("{}", Terminal.render(&report));
    }
    Ok(exit)
}
