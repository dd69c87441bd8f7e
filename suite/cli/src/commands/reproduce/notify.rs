//! `--notify`: a command of the user's that is run when a stage fails and when the recipe ends.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use paravt_suite::redact;

/// Time that the command gets.
const PATIENCE: Duration = Duration::from_secs(60);
/// Characters of a message that it gets.
const LONGEST: usize = 2000;

/// The command, and what its variables are set from.
pub(super) struct Notify {
    pub(super) command: String,
    pub(super) recipe: String,
    pub(super) out: PathBuf,
    /// The stage that is being done.
    pub(super) stage: Mutex<String>,
}

impl Notify {
    /// Notes the stage that is being done; an empty name where none is.
    pub(super) fn is_at(&self, stage: &str) {
        if let Ok(mut now) = self.stage.lock() {
            stage.clone_into(&mut now);
        }
    }

    /// Runs it. One that fails is a warning: the recipe goes on.
    pub(super) fn tell(&self, outcome: &str, message: &str) {
        let message: String = redact::urls(message).chars().take(LONGEST).collect();
        let stage = self.stage.lock().map(|stage| stage.clone()).unwrap_or_default();
        let told = [
            ("PARAVT_RECIPE", self.recipe.as_str()),
            ("PARAVT_OUTCOME", outcome),
            ("PARAVT_STAGE", &stage),
            ("PARAVT_MESSAGE", &message),
        ];
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &self.command]).envs(told).env("PARAVT_OUT", &self.out);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Err(why) = within(PATIENCE, &mut command) {
            eprintln!("warning: --notify: {why}");
        }
    }
}

/// Runs a command that has to end with 0 in time.
fn within(patience: Duration, command: &mut Command) -> Result<(), String> {
    let ended = command.spawn().and_then(|mut child| paravt_supervise::wait(&mut child, patience, &|| false));
    match ended.map_err(|error| error.to_string())? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(format!("the command ended with {status}")),
        None => Err(format!("the command did not end in {} s and was killed", patience.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_told_what_ended_and_how() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("told");
        let words = "$PARAVT_RECIPE $PARAVT_OUTCOME $PARAVT_STAGE $PARAVT_MESSAGE $PARAVT_OUT";
        let command = format!("echo \"{words}\" > {}", file.display());
        let (recipe, stage) = ("small".to_owned(), Mutex::default());
        let notify = Notify { command, recipe, out: "runs/small".into(), stage };
        notify.is_at("sft");
        notify.tell("failed", "out of 'memory'");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "small failed sft out of 'memory' runs/small\n");
    }

    #[test]
    fn a_command_that_fails_or_hangs_is_a_reason() {
        let run = |text: &str| within(Duration::from_millis(300), Command::new("/bin/sh").args(["-c", text]));
        assert!(run("exit 3").unwrap_err().contains("exit status: 3"));
        assert!(run("exec sleep 60").unwrap_err().contains("was killed"));
    }
}
