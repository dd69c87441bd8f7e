//! Limits of this process and of the programs that it starts.

/// Raises the number of files that may be open to what the system allows (the hard limit). Programs that are started
/// inherit it: a serving engine or a training needs thousands, and shells give 1,024.
///
/// A limit that cannot be raised stays as it is: the preflight says what a recipe needs.
pub(crate) fn raise_open_files() {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a valid pointer to a limit that outlives them.
        #[allow(unsafe_code)]
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::Command;

    #[test]
    fn a_started_program_may_open_as_many_files_as_the_system_allows() {
        super::raise_open_files();
        let output = Command::new("sh").args(["-c", "ulimit -Sn; ulimit -Hn"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let limits: Vec<&str> = text.lines().collect();
        assert!(limits.len() == 2 && limits[0] == limits[1], "{limits:?}");
    }
}
