//! Code that wants out, or all of the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use paravt_jail::{Limits, Outcome};

use crate::{FOLDER, ended, episode, jail, limits, namespace, residents, stdout, video};

/// `go(what, function, …)` prints what went through.
const GO: &str = r"
import os, ctypes, socket, subprocess, signal, stat, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def go(what, function, *given):
    try:
        found = function(*given)
    except (OSError, ValueError) as error:
        return
    print('through:', what, repr(found)[:200])
";

/// Nothing of `code` goes through.
fn holds(code: &str) {
    let mut episode = episode();
    assert_eq!(stdout(&mut episode, GO), "");
    let seen = stdout(&mut episode, "go('own file', lambda: open('/video/0.mp4', 'rb').read(4))");
    assert!(seen.starts_with("through: own file"), "{seen}");
    assert_eq!(stdout(&mut episode, code), "", "{code}");
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn files_outside_are_not_there() {
    let folder = FOLDER.display();
    let video = video();
    holds(&format!(
        r#"
for path in ('/etc/passwd', '/etc/shadow', '/etc/hostname', {folder:?} + '/answers.json', {video:?}, '/proc/1/environ',
             '/proc/self/environ', '/proc/self/root/etc/passwd', '/proc/1/root/etc/passwd', '/proc/self/fd/0',
             '/dev/mem', '/dev/kmsg', '/dev/sda', '/dev/vda', '/dev/nvidia0', '/dev/fuse', '/dev/tty', '/dev/ptmx',
             '/sys/kernel', '/run/docker.sock', '/var/run/secrets', '/root/.bashrc', '/root/.ssh', '/home',
             '../etc/passwd', '/video/../etc/passwd', '/video/../../etc/passwd'):
    go('read ' + path, lambda: open(path, 'rb').read(64))
    go('list ' + path, os.listdir, path)
os.symlink('/etc/passwd', '/tmp/link'); go('link', lambda: open('/tmp/link').read())
os.symlink('/proc/self/root', '/tmp/root'); go('link to root', os.listdir, '/tmp/root/etc')
os.symlink({folder:?}, '/tmp/folder'); go('link to folder', os.listdir, '/tmp/folder')
if os.listdir('/video') != ['0.mp4']: print('through: video', os.listdir('/video'))
if set(os.listdir('/')) - {{'dev', 'etc', 'lib', 'lib32', 'lib64', 'root', 'home', 'opt', 'tmp', 'usr', 'video'}}:
    print('through: root', os.listdir('/'))
if os.listdir('/etc') not in ([], ['ld.so.cache']): print('through: etc', os.listdir('/etc'))
if set(os.environ) - {{'HOME', 'PATH', 'PWD', 'MPLCONFIGDIR', 'LC_CTYPE', 'MALLOC_ARENA_MAX', 'OMP_NUM_THREADS',
                      'OPENBLAS_NUM_THREADS', 'KMP_DUPLICATE_LIB_OK', 'KMP_INIT_AT_FORK'}}: print('through:', os.environ)
"#
    ));
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn nothing_is_writable_but_the_temporary_folder() {
    holds(
        r"
import sys
for folder in ['/', '/dev', '/dev/shm', '/etc', '/usr', '/usr/lib', '/usr/share/fonts', '/video', '/root', '/home', '/lib', *sys.path[1:]]:
    go('write ' + folder, lambda: open(folder + '/x', 'w'))
    go('folder ' + folder, os.mkdir, folder + '/y')
go('write video', lambda: open('/video/0.mp4', 'r+b'))
go('remove video', os.remove, '/video/0.mp4')
go('rename video', os.rename, '/video/0.mp4', '/tmp/0.mp4')
go('chmod video', os.chmod, '/video/0.mp4', 0o777)
go('truncate video', os.truncate, '/video/0.mp4', 0)
go('hard link', os.link, '/video/0.mp4', '/tmp/v')
go('device', os.mknod, '/tmp/d', 0o600 | stat.S_IFBLK, os.makedev(8, 0))
go('pipe', os.mkfifo, '/tmp/f')
",
    );
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn there_is_no_network() {
    // A server that anything on this machine could reach.
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    holds(&format!(
        r"
go('connect', socket.create_connection, ('127.0.0.1', {port}))
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_ALG, socket.AF_VSOCK):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        go(f'socket {{family}} {{kind}}', socket.socket, family, kind)
go('pair', socket.socketpair)
go('name', socket.getaddrinfo, 'example.org', 80)
# The one socket that is there passes no files on.
for number in range(256):
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode): break
    except OSError: pass
inherited = lambda: socket.socket(fileno=number)
go('send files', lambda: inherited().sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, bytes(4))]))
"
    ));
    server.set_nonblocking(true).unwrap();
    server.accept().unwrap();
    assert!(server.accept().is_err(), "nobody but this test has connected");
}

/// Calls that have nothing to do in an interpreter, with arguments that would be taken.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn system_calls_of_attacks_are_refused() {
    let calls = [
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_readv", libc::SYS_process_vm_readv),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("kcmp", libc::SYS_kcmp),
        ("pidfd_open", libc::SYS_pidfd_open),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("kill", libc::SYS_kill),
        ("tkill", libc::SYS_tkill),
        ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("bpf", libc::SYS_bpf),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("io_uring_setup", libc::SYS_io_uring_setup),
        ("io_uring_enter", libc::SYS_io_uring_enter),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("mount", libc::SYS_mount),
        ("umount2", libc::SYS_umount2),
        ("pivot_root", libc::SYS_pivot_root),
        ("chroot", libc::SYS_chroot),
        ("open_tree", libc::SYS_open_tree),
        ("move_mount", libc::SYS_move_mount),
        ("fsopen", libc::SYS_fsopen),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("unshare", libc::SYS_unshare),
        ("setns", libc::SYS_setns),
        ("clone3", libc::SYS_clone3),
        ("memfd_create", libc::SYS_memfd_create),
        ("memfd_secret", 447),
        ("shmget", libc::SYS_shmget),
        ("semget", libc::SYS_semget),
        ("msgget", libc::SYS_msgget),
        ("mq_open", libc::SYS_mq_open),
        ("mknodat", libc::SYS_mknodat),
        ("linkat", libc::SYS_linkat),
        ("name_to_handle_at", libc::SYS_name_to_handle_at),
        ("open_by_handle_at", libc::SYS_open_by_handle_at),
        ("setuid", libc::SYS_setuid),
        ("setresuid", libc::SYS_setresuid),
        ("capset", libc::SYS_capset),
        ("seccomp", libc::SYS_seccomp),
        ("personality", libc::SYS_personality),
        ("execveat", libc::SYS_execveat),
        ("socket", libc::SYS_socket),
        ("sendmsg", libc::SYS_sendmsg),
        ("recvmsg", libc::SYS_recvmsg),
        ("init_module", libc::SYS_init_module),
        ("kexec_load", libc::SYS_kexec_load),
        ("reboot", libc::SYS_reboot),
        ("syslog", libc::SYS_syslog),
        ("settimeofday", libc::SYS_settimeofday),
        ("sethostname", libc::SYS_sethostname),
        ("setpriority", libc::SYS_setpriority),
        ("sched_setscheduler", libc::SYS_sched_setscheduler),
        ("ioprio_set", libc::SYS_ioprio_set),
        ("mlockall", libc::SYS_mlockall),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("inotify_init1", libc::SYS_inotify_init1),
        ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset),
        ("flock", libc::SYS_flock),
        ("fadvise64", libc::SYS_fadvise64),
        ("readahead", libc::SYS_readahead),
        ("mlock", libc::SYS_mlock),
        ("mlock2", libc::SYS_mlock2),
        ("sync", libc::SYS_sync),
        ("syncfs", libc::SYS_syncfs),
        ("quotactl", libc::SYS_quotactl),
        ("fsetxattr", libc::SYS_fsetxattr),
        ("setxattr", libc::SYS_setxattr),
        ("unknown", 9999),
        // The same machine's other tables of calls: x32.
        ("x32 ptrace", 0x4000_0000 + 521),
        ("x32 getpid", 0x4000_0000 + 39),
    ];
    let calls: Vec<String> = calls.iter().map(|(name, number)| format!("('{name}', {number})")).collect();
    holds(&format!(
        r"
for name, number in [{}]:
    ctypes.set_errno(0)
    found = libc.syscall(number, 0, 0, 0, 0, 0, 0)
    if found != -1 or ctypes.get_errno() != 38: print('through:', name, found, ctypes.get_errno())
if libc.prctl(1, 0, 0, 0, 0) != -1: print('through: parent death signal')
if libc.prctl(38, 0, 0, 0, 0) != -1 or libc.prctl(4, 1, 0, 0, 0) != -1: print('through: prctl')
for flags in (0, 17, 0x10000000, 0x20000000, 0x40000000, 0x00020000, 0x10000000 | 0x10000):
    if libc.syscall({}, flags, 0, 0, 0, 0) != -1: print('through: clone', flags)
if libc.ioctl(0, 0x5412, b'x') != -1: print('through: TIOCSTI')
",
        calls.join(", "),
        libc::SYS_clone
    ));
}

/// Locks, leases and notices would be on the file of the machine, for others who open it; dropped pages are everybody's.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn no_file_of_the_machine_is_held() {
    holds(
        r"
import fcntl, mmap
commands = [getattr(fcntl, name) for name in dir(fcntl) if name.startswith('F_')]
harmless = {fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL}
# And those that Python does not name.
commands = (set(commands) | set(range(5, 41)) | set(range(1024, 1045))) - harmless
for path in ('/video/0.mp4', os.__file__, '/tmp', '/tmp/own'):
    file = os.open(path, os.O_RDONLY | (os.O_CREAT if path == '/tmp/own' else 0))
    for command in sorted(commands):
        for value in (0, 1, 2, os.getpid(), bytes(64)):
            go(f'fcntl {command} {path}', fcntl.fcntl, file, command, value)
    for how in (fcntl.LOCK_SH, fcntl.LOCK_EX):
        go(f'flock {path}', fcntl.flock, file, how | fcntl.LOCK_NB)
        go(f'lockf {path}', fcntl.lockf, file, how | fcntl.LOCK_NB)
    go(f'advice {path}', os.posix_fadvise, file, 0, 0, os.POSIX_FADV_DONTNEED)
    if not path.startswith('/tmp'): go(f'time {path}', os.utime, path)
with open('/video/0.mp4', 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
    for advice in (20, 21): go(f'pages {advice}', pages.madvise, advice)
",
    );
    // What an interpreter needs.
    let works = r"
import fcntl, os, mmap
ends = os.pipe()
os.set_blocking(ends[0], False); os.set_inheritable(ends[1], True)
copy = fcntl.fcntl(ends[1], fcntl.F_DUPFD_CLOEXEC, 0)
os.write(os.dup(copy), b'x')
pages = mmap.mmap(-1, 1 << 20); pages.madvise(mmap.MADV_DONTNEED)
print(os.read(ends[0], 9), fcntl.fcntl(ends[0], fcntl.F_GETFL) & os.O_NONBLOCK > 0)
";
    assert_eq!(stdout(&mut episode(), works), "b'x' True");
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn neither_processes_nor_signals_to_others() {
    holds(
        r"
go('fork', os.fork); go('subprocess', subprocess.run, ['/usr/bin/env']); 
if os.system('true') == 0: print('through: system')
go('popen', lambda: os.popen('id').read()); go('spawn', os.posix_spawn, '/usr/bin/env', ['env'], {})
for number in (0, 1, -1, os.getpid(), os.getppid(), 2, 4242):
    go(f'kill {number}', os.kill, number, 9)
import multiprocessing
go('multiprocessing', lambda: multiprocessing.get_context('fork').Process(target=print).start())
if (os.getpid(), os.getppid()) != (1, 0): print('through: numbers', os.getpid(), os.getppid())
",
    );
}

/// Programs of the system keep the user, the filter and the namespaces.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn setuid_programs_gain_nothing() {
    for program in ["/usr/bin/mount", "/usr/bin/su", "/usr/bin/unshare", "/usr/bin/bwrap"] {
        let mut episode = episode();
        let inside = namespace_after_video(&mut episode);
        let code = format!("import os; os.execv({program:?}, [{program:?}, '--bind', '/', '/tmp', 'true'])");
        let output = episode.run(&code).unwrap();
        assert!(matches!(output.outcome, Outcome::Ended(_) | Outcome::Raised(_)), "{output:?}");
        drop(episode);
        assert_eq!(residents(&inside), Vec::<std::path::PathBuf>::new());
    }
}

fn namespace_after_video(episode: &mut paravt_jail::Episode) -> std::path::PathBuf {
    episode.opened().unwrap();
    namespace(episode)
}

/// The kernel's own account of the interpreter.
#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn the_kernel_says_so() {
    let mut episode = episode();
    episode.opened().unwrap();
    let process = Path::new("/proc").join(episode.process_id().unwrap().to_string());
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    for line in [
        "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
        "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
    ] {
        assert!(status.contains(line), "{line} in {status}");
    }
    for namespace in ["user", "pid", "net", "ipc", "uts", "mnt", "cgroup"] {
        let of = |process: &Path| process.join("ns").join(namespace).read_link().unwrap();
        assert_ne!(of(&process), of(Path::new("/proc/self")), "{namespace}");
    }
    let files = std::fs::read_dir(process.join("fd"))
        .unwrap()
        .map(|entry| entry.unwrap().path().read_link().unwrap());
    let mut files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    files.retain(|path| path != "/dev/null" && !path.starts_with("socket:") && path != "/video/0.mp4");
    assert_eq!(files, Vec::<String>::new(), "files that were left open for it");
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn bombs_meet_their_limits() {
    let mut episode = episode();
    let output = episode.run("import os\nwhile True: os.fork()").unwrap();
    assert!(matches!(output.outcome, Outcome::Raised(_)), "{output:?}");
    let memory = "kept = []\ntry:\n    while True: kept.append(bytearray(1 << 26))\nexcept MemoryError: print(len(kept)); del kept";
    let blocks: u64 = stdout(&mut episode, memory).parse().unwrap();
    assert!((10..48).contains(&blocks), "{blocks} blocks of 64 MiB, the limit is 48");
    let mapped = "import mmap\nkept = []\ntry:\n    while True: kept.append(mmap.mmap(-1, 1 << 26))\nexcept OSError: print(len(kept)); del kept";
    assert!(stdout(&mut episode, mapped).parse::<u64>().unwrap() < 48);
    let disk = "import os, errno\nsize = 0\ntry:\n    with open('/tmp/big', 'wb', 0) as file:\n        while True: size += file.write(bytes(1 << 16))\nexcept OSError as error:\n    print(size, error.errno == errno.ENOSPC)\nos.remove('/tmp/big')";
    let text = stdout(&mut episode, disk);
    let size: u64 = text.strip_suffix(" True").unwrap().parse().unwrap();
    assert!(size > 1 << 20 && size <= 8 << 20, "{size} bytes");
    let files = "import os\nkept = []\ntry:\n    while True: kept.append(os.pipe())\nexcept OSError: print(len(kept))\n[os.close(end) for pair in kept for end in pair]";
    assert!(stdout(&mut episode, files).parse::<u64>().unwrap() < 128);
    let output = episode.run("line = 'x' * (1 << 20)\nfor _ in range(500): print(line)").unwrap();
    assert_eq!((output.outcome, output.stdout.len()), (Outcome::Done, 1 << 20));
    assert_eq!(output.stdout_bytes, 500 * ((1 << 20) + 1));
    let threads =
        "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()";
    let output = episode.run(threads).unwrap();
    match &output.outcome {
        Outcome::Ended(reason) => assert!(reason.contains("threads"), "{reason}"),
        // The stacks reach the limit of memory between two looks.
        Outcome::Raised(reason) => assert!(reason.contains("start new thread"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn an_endless_call_ends_in_time_with_everything_it_started() {
    for code in [
        "while True: pass",
        "import signal\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
        "import threading\ndef spin():\n    while True: pass\nfor _ in range(8): threading.Thread(target=spin).start()",
        "while True:\n    try:\n        while True: print('x' * 1000)\n    except BaseException: pass",
        "import ctypes; ctypes.CDLL(None).pause()",
        "import time\nclass Long(Exception):\n    def __str__(self):\n        while True: time.sleep(1)\nraise Long",
    ] {
        let limits = Limits { call: Duration::from_secs(2), ..limits() };
        let mut episode = jail(limits).start(&video()).unwrap();
        let inside = namespace_after_video(&mut episode);
        assert_eq!(residents(&inside).len(), 1);
        let began = Instant::now();
        let output = episode.run(code).unwrap();
        if code.contains("spin") {
            // Its main thread ended: the call is over, and its threads are not.
            assert_eq!(output.outcome, Outcome::Done);
            drop(episode);
        } else {
            assert_eq!(output.outcome, Outcome::TimedOut, "{code}");
        }
        assert!(began.elapsed() < Duration::from_secs(15), "{code}");
        assert_eq!(residents(&inside), Vec::<std::path::PathBuf>::new(), "{code}");
    }
}

#[test]
#[ignore = "needs bubblewrap, ffmpeg and the Python of ci/setup"]
fn a_crash_of_the_interpreter_is_an_outcome() {
    for code in [
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
        "import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()",
    ] {
        let output = episode().run(code).unwrap();
        assert!(output.outcome != Outcome::Done, "{code}: {output:?}");
    }
    let output = episode()
        .run("import os\nfor n in range(256):\n    try: os.close(n)\n    except OSError: pass")
        .unwrap();
    assert!(!ended(&output).is_empty());
}
