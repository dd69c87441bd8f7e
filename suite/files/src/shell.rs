//! Words and paths as a shell takes them, for commands that are printed to be pasted.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

/// A word as a shell takes it: on one line, and without a character that a terminal would obey or hide.
///
/// ```
/// use paravt_files::quote;
/// assert_eq!(quote("--out=a/b"), "--out=a/b");
/// assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
/// assert_eq!(quote("two\nlines"), r"$'two\nlines'");
/// ```
pub fn quote(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_encoded_bytes();
    match str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => text.to_owned(),
        Ok(text) if text.chars().all(is_shown) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escape(bytes),
    }
}

/// A path as an argument of a command: one that begins with a dash is not taken for a flag.
pub fn quote_path(path: &Path) -> String {
    let is_flag = path.as_os_str().as_encoded_bytes().first() == Some(&b'-');
    if is_flag { quote(Path::new(".").join(path)) } else { quote(path) }
}

/// Whether a shell takes a text as it stands. Braces are for what a text leaves open, `{port}`: a shell sees a choice only
/// in those with a comma or two dots.
fn is_plain(text: &str) -> bool {
    let is_choice = text.contains('{') && (text.contains(',') || text.contains(".."));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+{}".contains(c);
    !text.is_empty() && !text.starts_with('=') && !is_choice && text.chars().all(is_plain)
}

/// Whether a terminal shows a character as itself; `…` stands for what is left out.
fn is_shown(c: char) -> bool {
    matches!(c, ' ' | '…') || c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric())
}

/// `$'…'`, which bash, zsh and POSIX 2024 know. No argument holds a zero byte: it is left out.
fn escape(bytes: &[u8]) -> String {
    let mut text = String::from("$'");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars().filter(|c| *c != '\0') {
            // Writing to a string cannot fail.
            let _ = match c {
                '\'' | '\\' => write!(text, "\\{c}"),
                '\n' => write!(text, "\\n"),
                c if is_shown(c) => write!(text, "{c}"),
                c if c.is_ascii() => write!(text, "\\x{:02x}", u32::from(c)),
                c => write!(text, "\\U{:08x}", u32::from(c)),
            };
        }
        chunk.invalid().iter().for_each(|byte| {
            let _ = write!(text, "\\x{byte:02x}");
        });
    }
    text + "'"
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt as _;
    use std::process::Command;

    use super::*;

    /// What bash makes of a quoted word is the word, and the quoted word steers no terminal.
    #[test]
    fn a_shell_reads_the_word_that_was_quoted() {
        let words = [
            "", "plain", "a b", "it's", "\"", "$HOME $(touch x) `id` ${x}", "o/n; touch x", "a\nb\tc",
            "\u{1b}[2Jx", "\u{202e}abc\u{200b}1", "~/x", "{a,b}", "{1..3}", "{port}", "=ls", "a\\b\\n'\n",
            "!!", "#x", "*?[a]", "a&b|c<d>e(f)", "视频 é",
        ];
        let not_text = OsString::from_vec(b"caf\xe9 '1'".to_vec());
        for word in words.map(OsString::from).into_iter().chain([not_text]) {
            let quoted = quote(&word);
            assert!(quoted.chars().all(is_shown), "{quoted:?}");
            let script = format!("printf %s {quoted}");
            let output =
                Command::new("bash").args(["-c", &script]).env("LC_ALL", "C.UTF-8").output().unwrap();
            assert_eq!(OsString::from_vec(output.stdout), word, "{quoted}");
        }
        assert_eq!(quote("a\0b"), "$'ab'");
    }

    #[test]
    fn a_path_is_no_flag() {
        for (path, quoted) in [("-x", "./-x"), ("--out=a b", "'./--out=a b'"), ("a/-x", "a/-x"), ("/-", "/-")]
        {
            assert_eq!(quote_path(Path::new(path)), quoted);
        }
    }
}
