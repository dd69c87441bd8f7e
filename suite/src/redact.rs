//! Texts without secrets: URLs lose what may carry a key.

/// Masks user information, query and fragment of every URL in a text, also of URLs that no parser
/// would take and of several in one comma-separated list.
///
/// ```
/// use paravt_suite::redact::urls;
/// assert_eq!(urls("http://me:key@a/v1,https://b/v1?token=key"), "http://…@a/v1,https://b/v1?…");
/// ```
pub fn urls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let (url, next) = after.split_at(end_of_url(after));
        shown.push_str(&masked(url));
        rest = next;
    }
    shown + rest
}

/// Where the URL whose scheme was read ends: at a space, or at a comma before the next URL. Quotes and
/// brackets may be part of a password.
fn end_of_url(after: &str) -> usize {
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    let next = after[..end].find("://").and_then(|next| after[..next].rfind([',', ';']));
    next.unwrap_or(end)
}

/// What follows `scheme://`, without its secrets. Everything before the last `@` goes: a password
/// may hold a slash or a question mark.
fn masked(url: &str) -> String {
    let (user, place) = match url.rsplit_once('@') {
        Some((_, place)) => ("…@", place),
        None => ("", url),
    };
    match place.find(['?', '#']) {
        Some(at) => format!("{user}{}{}…", &place[..at], &place[at..=at]),
        None => format!("{user}{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::urls;

    #[test]
    fn no_part_of_a_url_that_may_carry_a_key_is_shown() {
        for (given, shown) in [
            ("http://me:key@host:1/v1", "http://…@host:1/v1"),
            ("--base-url=https://key@host", "--base-url=https://…@host"),
            ("http://a:K1@h1/v1,http://b:K2@h2/v1", "http://…@h1/v1,http://…@h2/v1"),
            ("http://h1/v1,http://b:K2@h2/v1", "http://h1/v1,http://…@h2/v1"),
            ("http://a:K,1@h1/v1,http://h2/v1?key=K2", "http://…@h1/v1,http://h2/v1?…"),
            ("http://h1/v1?key=K1#K2", "http://h1/v1?…"),
            ("http://h1/v1#K2", "http://h1/v1#…"),
            ("http://a:K/1@h1/v1", "http://…@h1/v1"),
            ("http://a:K?1@h1/v1", "http://…@h1/v1"),
            ("`http://a:K@h1:x/v1` is not a URL", "`http://…@h1:x/v1` is not a URL"),
            ("(http://a:K@h/v1) http://b:K@h/v1: gone", "(http://…@h/v1) http://…@h/v1: gone"),
            ("http://a:K)\"1@h/v1", "http://…@h/v1"),
            ("http://me:K@[::1]:8000/v1", "http://…@[::1]:8000/v1"),
            ("http://host/v1 said me@x", "http://host/v1 said me@x"),
            ("a@b, no URL?", "a@b, no URL?"),
            ("://", "://"),
        ] {
            assert_eq!(urls(given), shown);
        }
    }
}
