//! Records the changes that a process makes to the files of a folder, with ptrace.
//!
//! The recorder stops each thread of the process before and after each system call. It therefore sees all changes in one
//! order, except writes to mapped memory, which it refuses like every other call that it does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Text of a write to the standard output that acknowledges a number of steps.
pub(super) const ACKNOWLEDGED: &str = "acknowledged ";

/// A completed change. Paths are relative to the folder.
#[derive(Debug, Clone)]
pub(super) enum Change {
    CreateFile(PathBuf),
    CreateFolder(PathBuf),
    Write {
        path: PathBuf,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        path: PathBuf,
        length: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove(PathBuf),
    /// The sync of a file or folder, which started after this number of changes.
    Sync {
        path: PathBuf,
        began: usize,
    },
    /// The process reported that this number of steps is durable.
    Acknowledged(usize),
}

/// A system call in progress.
struct Call {
    number: i64,
    arguments: [u64; 6],
    /// Paths of the arguments, resolved when the call started.
    paths: Vec<PathBuf>,
    /// True if the first path existed.
    existed: bool,
    began: usize,
}

struct Registers {
    number: i64,
    arguments: [u64; 6],
    result: i64,
}

#[cfg(target_arch = "x86_64")]
fn registers(thread: Pid) -> nix::Result<Registers> {
    let found = ptrace::getregs(thread)?;
    Ok(Registers {
        number: found.orig_rax.cast_signed(),
        arguments: [found.rdi, found.rsi, found.rdx, found.r10, found.r8, found.r9],
        result: found.rax.cast_signed(),
    })
}

#[cfg(target_arch = "aarch64")]
fn registers(thread: Pid) -> nix::Result<Registers> {
    let [first, second, third, fourth, fifth, sixth, _, _, number, ..] = ptrace::getregs(thread)?.regs;
    let arguments = [first, second, third, fourth, fifth, sixth];
    Ok(Registers { number: number.cast_signed(), arguments, result: first.cast_signed() })
}

struct Recorder {
    folder: PathBuf,
    calls: BTreeMap<Pid, Call>,
    changes: Vec<Change>,
}

/// Runs a command, which must wait for a line on its standard input before it changes files of `folder`. Returns the
/// changes until the command ended.
#[expect(clippy::zombie_processes, reason = "waitpid waits for all threads of the process")]
pub(super) fn record(command: &mut Command, folder: &Path) -> Vec<Change> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0).spawn().unwrap();
    let leader = Pid::from_raw(child.id().cast_signed());
    let mut stdin = child.stdin.take();
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    // A thread that a traced thread starts is traced from its start.
    let mut seized = BTreeSet::new();
    while let Some(thread) = threads(leader).into_iter().find(|thread| !seized.contains(thread)) {
        match ptrace::seize(thread, options) {
            Ok(()) => ptrace::interrupt(thread).unwrap(),
            Err(Errno::EPERM | Errno::ESRCH) => {}
            Err(error) => panic!("thread {thread} cannot be traced: {error}"),
        }
        seized.insert(thread);
    }
    let mut recorder = Recorder { folder: folder.canonicalize().unwrap(), calls: BTreeMap::new(), changes: Vec::new() };
    let mut running = BTreeSet::new();
    loop {
        // Only the threads of this process group, because the test has other child processes.
        let status = waitpid(Pid::from_raw(-leader.as_raw()), Some(WaitPidFlag::__WALL)).unwrap();
        let (thread, signal) = match status {
            WaitStatus::Exited(ended, code) if ended == leader => {
                assert_eq!(code, 0, "the recorded process failed");
                return recorder.changes;
            }
            WaitStatus::Signaled(ended, signal, _) if ended == leader => panic!("{signal} ended the recorded process"),
            WaitStatus::PtraceSyscall(thread) => {
                recorder.stopped(thread).unwrap();
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            _ => continue,
        };
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("thread {thread} cannot be continued: {error}"),
        }
        running.insert(thread);
        if seized.is_subset(&running)
            && let Some(mut stdin) = stdin.take()
        {
            stdin.write_all(b"start\n").unwrap();
        }
    }
}

fn threads(leader: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{leader}/task")).unwrap();
    let number = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    tasks.filter_map(number).map(Pid::from_raw).collect()
}

/// Reads the memory of a stopped thread.
fn memory(thread: Pid, address: u64, length: usize) -> Vec<u8> {
    let (mut bytes, mut read) = (vec![0; length], 0);
    let file = std::fs::File::open(format!("/proc/{thread}/mem")).unwrap();
    while read < length {
        match file.read_at(&mut bytes[read..], address + read as u64) {
            Ok(more) if more > 0 => read += more,
            _ => break,
        }
    }
    bytes.truncate(read);
    bytes
}

/// Reads a path, whose end is a zero byte.
fn path_at(thread: Pid, address: u64) -> PathBuf {
    const PAGE: u64 = 4096;
    let mut path = Vec::new();
    loop {
        let next = address + path.len() as u64;
        let bytes = memory(thread, next, usize::try_from(PAGE - next % PAGE).unwrap());
        assert!(!bytes.is_empty(), "a path cannot be read");
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => {
                path.extend_from_slice(&bytes[..end]);
                return std::ffi::OsString::from_vec(path).into();
            }
            None => path.extend_from_slice(&bytes),
        }
    }
}

impl Recorder {
    /// Handles the stop of a thread before or after a system call.
    fn stopped(&mut self, thread: Pid) -> nix::Result<()> {
        let info = ptrace::syscall_info(thread)?;
        let registers = registers(thread)?;
        if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
            let call = self.call(thread, &registers);
            self.calls.insert(thread, call);
        } else if let Some(call) = self.calls.remove(&thread)
            && registers.result >= 0
        {
            self.returned(thread, &call, registers.result.cast_unsigned());
        }
        Ok(())
    }

    fn call(&self, thread: Pid, registers: &Registers) -> Call {
        let Registers { number, arguments, .. } = registers;
        let at = |folder: usize, path: usize| self.path(thread, Some(arguments[folder]), arguments[path]);
        let plain = |path: usize| self.path(thread, None, arguments[path]);
        let paths = match *number {
            libc::SYS_openat | libc::SYS_mkdirat | libc::SYS_unlinkat => vec![at(0, 1)],
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => vec![at(0, 1), at(2, 3)],
            libc::SYS_truncate => vec![plain(0)],
            libc::SYS_fsync | libc::SYS_fdatasync => vec![self.file(thread, arguments[0])],
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open | libc::SYS_creat | libc::SYS_mkdir | libc::SYS_unlink | libc::SYS_rmdir => vec![plain(0)],
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename | libc::SYS_link => vec![plain(0), plain(1)],
            _ => Vec::new(),
        };
        let paths: Vec<PathBuf> = paths.into_iter().flatten().collect();
        let existed = paths.first().is_some_and(|path| self.folder.join(path).symlink_metadata().is_ok());
        Call { number: *number, arguments: *arguments, paths, existed, began: self.changes.len() }
    }

    /// Returns a path in the folder. None: the path is outside.
    fn path(&self, thread: Pid, folder: Option<u64>, address: u64) -> Option<PathBuf> {
        let path = path_at(thread, address);
        let base = match folder.map(|folder| folder as i32) {
            None | Some(libc::AT_FDCWD) => format!("/proc/{thread}/cwd"),
            Some(folder) => format!("/proc/{thread}/fd/{folder}"),
        };
        let path = if path.is_absolute() { path } else { std::fs::read_link(base).ok()?.join(path) };
        path.strip_prefix(&self.folder).ok().map(Path::to_owned)
    }

    /// Returns the path of an open file in the folder. None: the file is outside or was removed.
    fn file(&self, thread: Pid, descriptor: u64) -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
        let path = path.strip_prefix(&self.folder).ok()?;
        (!path.to_string_lossy().ends_with(" (deleted)")).then(|| path.to_owned())
    }

    /// Records a call that succeeded.
    fn returned(&mut self, thread: Pid, call: &Call, result: u64) {
        let Call { number, arguments, paths, existed, began } = call;
        let first = || paths[0].clone();
        let change = match *number {
            libc::SYS_write | libc::SYS_pwrite64 => self.written(thread, call, result),
            libc::SYS_ftruncate => {
                self.file(thread, arguments[0]).map(|path| Change::Truncate { path, length: arguments[1] })
            }
            _ if paths.is_empty() => self.unknown(thread, call),
            libc::SYS_openat => self.opened(first(), arguments[2], *existed),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.opened(first(), arguments[1], *existed),
            libc::SYS_mkdirat => Some(Change::CreateFolder(first())),
            libc::SYS_unlinkat => Some(Change::Remove(first())),
            libc::SYS_truncate => Some(Change::Truncate { path: first(), length: arguments[1] }),
            libc::SYS_fsync | libc::SYS_fdatasync => Some(Change::Sync { path: first(), began: *began }),
            libc::SYS_renameat | libc::SYS_renameat2 => Some(Change::Rename { from: first(), to: paths[1].clone() }),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => Some(Change::CreateFolder(first())),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => Some(Change::Remove(first())),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Some(Change::Rename { from: first(), to: paths[1].clone() }),
            number => panic!("the recorder does not know call {number} on {}", first().display()),
        };
        self.changes.extend(change);
    }

    fn opened(&self, path: PathBuf, flags: u64, existed: bool) -> Option<Change> {
        let has = |flag: i32| flags & u64::from(flag.cast_unsigned()) == u64::from(flag.cast_unsigned());
        assert!(!has(libc::O_TMPFILE), "a file without a name");
        match (has(libc::O_CREAT) && !existed, has(libc::O_TRUNC)) {
            (true, _) => Some(Change::CreateFile(path)),
            (false, true) => Some(Change::Truncate { path, length: 0 }),
            (false, false) => None,
        }
    }

    fn written(&self, thread: Pid, call: &Call, written: u64) -> Option<Change> {
        let [descriptor, address, _, position, ..] = call.arguments;
        let data = || memory(thread, address, usize::try_from(written).unwrap());
        if descriptor == 1 {
            let text = String::from_utf8_lossy(&data()).into_owned();
            let number = text.split_once(ACKNOWLEDGED)?.1.split_whitespace().next()?.parse().ok()?;
            return Some(Change::Acknowledged(number));
        }
        let path = self.file(thread, descriptor)?;
        let offset = match call.number {
            libc::SYS_pwrite64 => position,
            _ => {
                let info = std::fs::read_to_string(format!("/proc/{thread}/fdinfo/{descriptor}")).unwrap();
                let end: u64 = info.lines().next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
                end - written
            }
        };
        Some(Change::Write { path, offset, data: data() })
    }

    /// Refuses a call that changes a file of the folder in a way that the recorder does not record.
    fn unknown(&self, thread: Pid, call: &Call) -> Option<Change> {
        let changed = match call.number {
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 | libc::SYS_fallocate | libc::SYS_sendfile => {
                Some(call.arguments[0])
            }
            libc::SYS_copy_file_range | libc::SYS_splice => Some(call.arguments[2]),
            libc::SYS_mmap => {
                let shared = call.arguments[3] & u64::from(libc::MAP_SHARED.cast_unsigned()) != 0;
                let writable = call.arguments[2] & u64::from(libc::PROT_WRITE.cast_unsigned()) != 0;
                (shared && writable).then_some(call.arguments[4])
            }
            libc::SYS_io_uring_setup => panic!("the recorder does not know io_uring"),
            _ => None,
        };
        let path = changed.and_then(|descriptor| self.file(thread, descriptor));
        assert!(path.is_none(), "the recorder does not know call {} on {path:?}", call.number);
        None
    }
}
