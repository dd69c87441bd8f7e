//! Names out of files as names of files and folders.

/// Bytes of a name that leave room for what is added to it; a file system allows 255.
const LONGEST: usize = 180;

/// A text as one part of a path: letters, digits, `.`, `-`, `_`; no leading dot. The end of a long one is its hash.
pub(crate) fn file_name(text: &str) -> String {
    let portable = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.chars().map(portable).collect();
    let name = name.trim_start_matches('.');
    match name.len() {
        0 => "_".to_owned(),
        1..=LONGEST => name.to_owned(),
        _ => {
            let hash = paravt_files::sha256(text.as_bytes());
            format!("{}-{}", &name[..name.floor_char_boundary(LONGEST - 17)], &hash[..16])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, file_name};

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
        let long = |end| file_name(&format!("{}{end}", "视".repeat(100)));
        assert!(long("a").len() <= LONGEST && long("a") != long("b"), "{}", long("a"));
    }
}
