//! The system calls that the interpreter may make, as a program for the kernel.

use std::collections::BTreeMap;
use std::io::{PipeReader, Write};

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use crate::Error;

/// Calls with any arguments. All others fail as on a kernel that lacks them (`ENOSYS`), for which libraries have
/// fallbacks: sockets, processes, signals to others, mounts, namespaces, tracing, keys, bpf, io_uring, userfaultfd,
/// memory that no limit counts (memfd, System V), setting of users and of what happens when the parent ends, and whatever
/// holds a file of the machine or drops it from memory: locks, leases, notices, advice.
const FREE: &[c_long] = &[
    // Files: those that the mounts show.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_symlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_getdents64,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    // Waiting.
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    libc::SYS_restart_syscall,
    libc::SYS_wait4,
    // Memory, under the limit of the address space.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads and signals of its own.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // What it may know: numbers of this namespace, clocks, limits, which it can only lower.
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_getrusage,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_prlimit64,
    // bubblewrap's last one. Another program is under the same filter.
    libc::SYS_execve,
];

/// Older calls, which later machines never had.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_symlink,
    libc::SYS_chmod,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_getdents,
    libc::SYS_utimes,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_getpgrp,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Flags of `clone` that decide: a thread, in the namespaces that are there.
const THREAD: u64 = libc::CLONE_THREAD as u64;
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u64;

/// Calls with one argument among some values: number of the argument, values.
const CHOSEN: &[(c_long, u8, &[u64])] = &[
    // Whether a file is a terminal, whether `exec` closes it, what can be read of it.
    (libc::SYS_ioctl, 1, &[0x5401, 0x5413, 0x541b, 0x5421, 0x5450, 0x5451]),
    // Copies and flags of a descriptor, and nothing of its file.
    (
        libc::SYS_fcntl,
        1,
        &[
            libc::F_DUPFD as u64,
            libc::F_DUPFD_CLOEXEC as u64,
            libc::F_GETFD as u64,
            libc::F_SETFD as u64,
            libc::F_GETFL as u64,
            libc::F_SETFL as u64,
        ],
    ),
    // What allocators say of their own memory.
    (
        libc::SYS_madvise,
        2,
        &[
            libc::MADV_NORMAL as u64,
            libc::MADV_RANDOM as u64,
            libc::MADV_SEQUENTIAL as u64,
            libc::MADV_WILLNEED as u64,
            libc::MADV_DONTNEED as u64,
            libc::MADV_FREE as u64,
            libc::MADV_HUGEPAGE as u64,
            libc::MADV_NOHUGEPAGE as u64,
            libc::MADV_DONTDUMP as u64,
            libc::MADV_DODUMP as u64,
        ],
    ),
    // Names of threads and of anonymous memory.
    (libc::SYS_prctl, 0, &[libc::PR_SET_NAME as u64, libc::PR_GET_NAME as u64, libc::PR_SET_VMA as u64]),
];

/// A pipe from which bubblewrap reads the filter.
pub(crate) fn pipe() -> Result<PipeReader, Error> {
    let refused = |message| Error::Refused { message };
    let failed = |error: std::io::Error| refused(format!("no pipe for the seccomp filter: {error}"));
    let (reader, mut writer) = std::io::pipe().map_err(failed)?;
    // Some kilobytes: the pipe holds them.
    writer.write_all(&filter().map_err(refused)?).map_err(failed)?;
    Ok(reader)
}

fn filter() -> Result<Vec<u8>, String> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        FREE.iter().chain(OLD).map(|call| (*call, Vec::new())).collect();
    let rule = |argument, test, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, test, value)?;
        SeccompRule::new(vec![condition])
    };
    let failed = |error: seccompiler::BackendError| error.to_string();
    let thread = rule(0, SeccompCmpOp::MaskedEq(THREAD | NAMESPACES), THREAD).map_err(failed)?;
    rules.insert(libc::SYS_clone, vec![thread]);
    for (call, argument, values) in CHOSEN {
        let values = values.iter().map(|value| rule(*argument, SeccompCmpOp::Eq, *value));
        rules.insert(*call, values.collect::<Result<_, _>>().map_err(failed)?);
    }
    let architecture = std::env::consts::ARCH.try_into().map_err(failed)?;
    let refused = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, refused, SeccompAction::Allow, architecture).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    let bytes = |line: seccompiler::sock_filter| {
        let [code, k] = [line.code.to_ne_bytes().to_vec(), line.k.to_ne_bytes().to_vec()];
        [code, vec![line.jt, line.jf], k].concat()
    };
    Ok(program.into_iter().flat_map(bytes).collect())
}
