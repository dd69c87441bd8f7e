//! Names out of files as names of files and folders.

/// A text as one part of a path: letters, digits, `.`, `-`, `_`; no leading dot.
pub(crate) fn file_name(text: &str) -> String {
    let portable = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.chars().map(portable).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "_".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn file_names_stay_in_their_folder() {
        for (text, name) in [
            ("../../etc/passwd", "_.._etc_passwd"),
            ("Qwen/Qwen3-VL-8B", "Qwen_Qwen3-VL-8B"),
            ("..", "_"),
            ("", "_"),
            ("a\nb\\c", "a_b_c"),
            // Two tasks of one length are not one.
            ("视频", "视频"),
        ] {
            assert_eq!(file_name(text), name);
        }
    }
}
