//! The nearest known name to one that was misspelt.

use crate::settings::RequestSettings;

/// Letters that a name needs to be looked for inside of another.
const FEWEST_SHARED: usize = 3;

/// Jaro-Winkler similarity from which names are near.
const SIMILAR: f64 = 0.9;

/// The known name that is most like `name`; `None` where none is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.into_iter().filter(|known| is_near(name, known));
    near.min_by_key(|known| strsim::damerau_levenshtein(&known.to_lowercase(), &name.to_lowercase()))
}

/// Letters that a misspelt beginning of a longer name needs.
const FEWEST_BEGUN: usize = 5;

/// One name is inside the other, at most a third of the letters of the shorter one (at least one) are wrong,
/// missing, too many or exchanged, both begin alike and share nearly all letters, or the shorter one is the
/// beginning of the other with one wrong letter.
fn is_near(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let shorter = a.chars().count().min(b.chars().count());
    let inside = shorter >= FEWEST_SHARED && (a.contains(&b) || b.contains(&a));
    let misspelt = shorter > 1 && strsim::damerau_levenshtein(&a, &b) <= (shorter / 3).max(1);
    inside || misspelt || strsim::jaro_winkler(&a, &b) >= SIMILAR || begins(&a, &b) || begins(&b, &a)
}

/// Whether a name is the beginning of a longer one but for one letter.
fn begins(name: &str, longer: &str) -> bool {
    let length = name.chars().count();
    let beginning = |letters: usize| longer.chars().take(letters).collect::<String>();
    length >= FEWEST_BEGUN
        && (length - 1..=length + 1)
            .any(|letters| strsim::damerau_levenshtein(name, &beginning(letters)) <= 1)
}

/// For serde's "unknown field `x`, expected one of `a`, `b`": the expected field that is most like it. Of a structure
/// that lists none, settings of requests are expected.
pub fn expected_field(message: &str) -> Option<String> {
    let rest = message.split("unknown field `").nth(1)?;
    let (unknown, expected) = rest.split_once('`')?;
    let listed: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let expected = if listed.is_empty() { &RequestSettings::FIELDS[..] } else { &listed };
    nearest(unknown, expected.iter().copied()).map(str::to_owned)
}

/// A line for the end of a message that suggests a name; empty without one.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("\ndid you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distant_names_suggest_nothing() {
        let splits = ["videomme", "videomme_wsub", "longvideobench", "lvbench", "mlvu", "mmvu", "charades"];
        for name in ["nope", "x", "", "imagenet", "all-of-it"] {
            assert_eq!(nearest(name, splits), None, "{name}");
        }
        for (name, near) in [
            ("VideoMME", "videomme"),
            ("lvb", "lvbench"),
            ("longvideo", "longvideobench"),
            ("charade_sta", "charades"),
            ("mmvv", "mmvu"),
            ("lomgvideo", "longvideobench"),
        ] {
            assert_eq!(nearest(name, splits), Some(near), "{name}");
        }
    }

    #[test]
    fn the_name_that_is_most_alike_is_suggested() {
        assert_eq!(nearest("mvlu", ["lvbench", "mlvu", "mmvu"]), Some("mlvu"));
        assert_eq!(nearest("mvlu", []), None);
        let message = "unknown field `max_turn`, expected one of `nframes`, `max_turns`, `seed` at line 1";
        assert_eq!(expected_field(message).as_deref(), Some("max_turns"));
        assert_eq!(
            expected_field("unknown field `turns`, expected `max_turns`").as_deref(),
            Some("max_turns")
        );
        assert_eq!(expected_field("invalid type: string"), None);
        assert_eq!(hint(Some("a")), "\ndid you mean `a`?");
        assert_eq!(hint(None), "");
    }
}
