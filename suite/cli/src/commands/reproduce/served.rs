//! Recipes that evaluate a served model.

use std::path::Path;

use paravt_reports::{Format as _, Report, Terminal, find_runs};
use paravt_reproduce::{Recipe, Step};
use paravt_suite::evaluate::Evaluation;

use super::Args;
use crate::commands::protocol::choose;
use crate::commands::run::execute;
use crate::exit::Exit;
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
    let mut runs = Vec::new();
    for step in steps {
        let Step::Evaluate { task, config } = step else { continue };
        if !args.only.is_empty() && !args.only.contains(&task) {
            continue;
        }
        let protocol = choose(args.protocol, config.mode)?;
        let reference = paravt_upstream::reference(&protocol)?;
        let dir = out.join(&task);
        let task = registry::select_tasks(std::slice::from_ref(&task))?[0];
        runs.push(Evaluation::new(task, args.dispatch.applied_to(*config), protocol, reference, dir));
    }
    anyhow::ensure!(!runs.is_empty(), "--only: the recipe has none of these splits");
    let exit = execute(&runs, &args.data, &args.backend, &args.dispatch)?;
    if matches!(exit, Exit::Ok | Exit::Incomplete) && !args.dispatch.is_dry_run() {
        let report = Report::build(&find_runs(&[out.to_owned()])?, None)?;
        print!("{}", Terminal.render(&report));
    }
    Ok(exit)
}
