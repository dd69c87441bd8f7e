//! What happens before the first line of the program.

use crate::common::{bench, ends};

/// FFmpeg brings more than a hundred libraries; `paravt_media` loads them with the first video.
#[test]
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn ffmpeg_is_not_among_the_libraries_of_the_program() {
    let output = bench().arg("--version").env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let libraries = String::from_utf8(output.stdout).unwrap();
    assert!(libraries.contains("libc.so"), "{libraries}");
    for library in ["libav", "libsw"] {
        assert!(!libraries.contains(library), "{libraries}");
    }
}

#[test]
fn completions_are_scripts_that_the_shells_read() {
    for (shell, names) in [("bash", "reproduce"), ("zsh", "#compdef paravt-bench"), ("fish", "completions")] {
        ends(0, bench().args(["completions", shell]), &[names, "paravt-bench"]);
    }
}

/// What bash itself completes after it has read the script.
#[test]
fn bash_completes_commands_and_flags() {
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let script = format!(
            "eval \"$(\"$BENCH\" completions bash)\"; COMP_WORDS=({line}); COMP_CWORD={}; \
             _paravt__bench paravt-bench \"{}\" \"{}\"; echo \"${{COMPREPLY[@]}}\"",
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let mut bash = std::process::Command::new("bash");
        let output = bash.args(["-c", &script]).env("BENCH", env!("CARGO_BIN_EXE_paravt-bench")).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("paravt-bench rep"), "reproduce report");
    assert_eq!(complete("paravt-bench data fetch --del"), "--delete-archives");
}
