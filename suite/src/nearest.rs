//! The nearest known name to one that was misspelt.

/// The known name that is most like `name`; `None` where none is known.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)))
}

/// For serde's "unknown field `x`, expected one of `a`, `b`": the expected field that is most like it.
pub fn expected_field(message: &str) -> Option<String> {
    let rest = message.split("unknown field `").nth(1)?;
    let (unknown, expected) = rest.split_once('`')?;
    nearest(unknown, expected.split('`').skip(1).step_by(2)).map(str::to_owned)
}

/// A line for the end of a message that suggests a name; empty without one.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("\ndid you mean `{name}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
