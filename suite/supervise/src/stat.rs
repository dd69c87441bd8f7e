//! What the system says of a process: `/proc/PID/stat`, proc_pid_stat(5).

/// Group and start of a living process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    /// Number of its process group, field 5.
    pub(crate) group: u32,
    /// When it was started, in clock ticks since the system's start, field 22.
    pub(crate) started: u64,
}

/// A process that lives. Dead ones that nobody has waited for (zombies) do not count: in a container whose first
/// process waits for none, they stay for ever.
pub(crate) fn living(pid: u32) -> Option<Stat> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(&String::from_utf8_lossy(&stat))
}

fn parse(stat: &str) -> Option<Stat> {
    // The name, field 2, is in brackets and may hold anything. Field 3 comes next.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied();
    // A first thread that has ended is shown like a zombie while others go on (field 20).
    let is_dead = matches!(field(3)?, "Z" | "X") && field(20)?.parse::<u32>().ok()? <= 1;
    (!is_dead).then_some(Stat { group: field(5)?.parse().ok()?, started: field(22)?.parse().ok()? })
}

/// Numbers of the processes that the system shows, dead ones included; none without `/proc`.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a group has a living process; `None` where the system shows no processes.
pub(crate) fn group_lives(group: u32) -> Option<bool> {
    let mut groups = processes().filter_map(living).map(|stat| stat.group).peekable();
    groups.peek()?;
    Some(groups.any(|found| found == group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zombies_do_not_live_and_names_may_hold_brackets() {
        let line = |state: &str, threads: u32| {
            format!("12 (a) Z (b) {state} 1 77 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 {threads} 0 421 0 0")
        };
        let stat = parse(&line("S", 1)).unwrap();
        assert_eq!((stat.group, stat.started), (77, 421));
        assert!(parse(&line("Z", 1)).is_none());
        assert!(parse(&line("Z", 3)).is_some(), "its first thread has ended");
        let own = living(std::process::id()).unwrap();
        assert_eq!(group_lives(own.group), Some(true));
    }
}
