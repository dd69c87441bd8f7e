//! Sets of flags that are put together at run time.

use std::any::TypeId;

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// A command and the sets of flags that were added to it.
#[derive(Debug)]
pub struct FlagSets {
    command: Command,
    added: Vec<TypeId>,
}

impl FlagSets {
    /// No sets yet.
    pub fn new(command: Command) -> Self {
        Self { command, added: Vec::new() }
    }

    /// Adds the flags of a struct, which opens a heading of its own, unless they were added before.
    #[must_use]
    pub fn with<A: Args + 'static>(mut self) -> Self {
        let set = TypeId::of::<A>();
        if !self.added.contains(&set) {
            self.added.push(set);
            self.command = A::augment_args(self.command);
        }
        self
    }

    /// The command with all sets.
    pub fn into_command(self) -> Command {
        self.command
    }
}

/// Flags that another part of the same command declares, read once more.
#[derive(Debug, Clone)]
pub struct DeclaredElsewhere<A>(pub A);

impl<A: FromArgMatches> FromArgMatches for DeclaredElsewhere<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        A::from_arg_matches(matches).map(Self)
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        // Without taking the values away: their owner reads them too.
        Self::from_arg_matches(matches)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<A: FromArgMatches> Args for DeclaredElsewhere<A> {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Args)]
    struct Shared {
        #[arg(long, default_value_t = 3)]
        number: u32,
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        elsewhere: DeclaredElsewhere<Shared>,
        #[command(flatten)]
        owned: Shared,
    }

    #[test]
    fn a_set_is_added_once_and_can_be_read_twice() {
        let sets = FlagSets::new(Command::new("t")).with::<Shared>().with::<Shared>();
        assert_eq!(sets.into_command().get_arguments().count(), 1);
        let line = <Line as clap::Parser>::parse_from(["t", "--number", "5"]);
        assert_eq!((line.elsewhere.0.number, line.owned.number), (5, 5));
    }
}
