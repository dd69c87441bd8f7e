//! What the reference does with one benchmark that its paper does not say, and the profiles that keep it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::profile::Profile;

/// The quirks of a benchmark: the table `quirks` of its description, each with the profiles that keep it.
/// `suite/docs/quirks.md` describes them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Quirks(BTreeMap<String, Vec<Profile>>);

impl Quirks {
    /// Name and profiles of each quirk.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Profile])> {
        self.0.iter().map(|(name, profiles)| (name.as_str(), profiles.as_slice()))
    }

    /// Those that a profile keeps.
    pub fn under(&self, profile: Profile) -> KeptQuirks<'_> {
        KeptQuirks { quirks: self, profile }
    }
}

/// The quirks that a profile keeps.
#[derive(Debug, Clone, Copy)]
pub struct KeptQuirks<'a> {
    quirks: &'a Quirks,
    profile: Profile,
}

impl KeptQuirks<'_> {
    /// Whether the profile keeps the quirk.
    ///
    /// # Panics
    /// The description has no such quirk: names are literals of the code beside it.
    pub fn has(&self, name: &str) -> bool {
        let profiles = self.quirks.0.get(name);
        profiles.unwrap_or_else(|| panic!("benchmark.toml: no quirk `{name}`")).contains(&self.profile)
    }
}
