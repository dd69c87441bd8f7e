//! `str.format` with named values.

/// Why Python would raise, or a field that is more than a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    #[error("a single `{brace}` at byte {at} of the template")]
    Single { brace: char, at: usize },
    #[error("`{{{name}}}` at byte {at} of the template stands for no value")]
    Unknown { name: String, at: usize },
}

/// `template.format(**values)` where every field is a name: `{{` and `}}` are single braces.
///
/// # Errors
/// A brace without its partner, or a field without a value.
pub fn format_named(template: &str, values: &[(&str, &str)]) -> Result<String, FormatError> {
    let mut formatted = String::with_capacity(template.len());
    let mut at = 0;
    while let Some(found) = template[at..].find(['{', '}']) {
        let brace_at = at + found;
        formatted.push_str(&template[at..brace_at]);
        let rest = &template[brace_at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            formatted.push_str(&rest[..1]);
            at = brace_at + 2;
            continue;
        }
        let brace = if rest.starts_with('{') { '{' } else { '}' };
        let name = rest.strip_prefix('{').and_then(|field| field.split_once('}')).map(|(name, _)| name);
        let name = name.ok_or(FormatError::Single { brace, at: brace_at })?;
        let value = values.iter().find(|(known, _)| *known == name);
        let unknown = || FormatError::Unknown { name: name.to_owned(), at: brace_at };
        formatted.push_str(value.ok_or_else(unknown)?.1);
        at = brace_at + name.len() + 2;
    }
    formatted.push_str(&template[at..]);
    Ok(formatted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_pythons() {
        let format = |template| format_named(template, &[("a", "{x}"), ("b", "2")]);
        assert_eq!(format("\\boxed{{{a}}} {b}").unwrap(), "\\boxed{{x}} 2");
        assert_eq!(format("}}{{").unwrap(), "}{");
        assert_eq!(format("x}").unwrap_err(), FormatError::Single { brace: '}', at: 1 });
        assert_eq!(format("{a").unwrap_err(), FormatError::Single { brace: '{', at: 0 });
        assert_eq!(
            format("{c}").unwrap_err().to_string(),
            "`{c}` at byte 0 of the template stands for no value"
        );
        assert!(format("{}").is_err() && format("{a:>3}").is_err());
    }
}
