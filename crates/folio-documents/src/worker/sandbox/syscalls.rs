//! The system calls that the child process may make. All others fail with `ENOSYS`, so that programs use an older call
//! where one exists (`clone` instead of `clone3`).

use std::collections::BTreeMap;

use nix::libc::{self, c_int, c_long};
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// Calls that are permitted with any arguments: memory, reading and writing open files, opening files within the rules
/// of Landlock, threads, and the state of this process.
const PERMITTED: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getcpu,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getgroups,
    libc::SYS_getpgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getresgid,
    libc::SYS_getresuid,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_nanosleep,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_umask,
    libc::SYS_uname,
    libc::SYS_wait4,
];

/// Older forms of the same calls.
#[cfg(target_arch = "x86_64")]
const PERMITTED_LEGACY: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_dup2,
    libc::SYS_getdents,
    libc::SYS_getpgrp,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const PERMITTED_LEGACY: &[c_long] = &[];

/// Calls that a program needs which creates files within the rules of Landlock, and which has a local socket to which nothing
/// connects: LibreOffice does not start without one. No call connects to a socket, of this or of another process.
const WRITER: &[c_long] = &[
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_shutdown,
];

/// Older forms of the same calls.
#[cfg(target_arch = "x86_64")]
const WRITER_LEGACY: &[c_long] =
    &[libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_pipe];
#[cfg(target_arch = "aarch64")]
const WRITER_LEGACY: &[c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const WRITER_LEGACY: &[c_long] = &[];

/// Calls that check a permission, with the position of the argument that names it.
#[cfg(target_arch = "x86_64")]
const PERMISSION_CHECKS: &[(c_long, u8)] =
    &[(libc::SYS_access, 1), (libc::SYS_faccessat, 2), (libc::SYS_faccessat2, 2)];
#[cfg(not(target_arch = "x86_64"))]
const PERMISSION_CHECKS: &[(c_long, u8)] = &[(libc::SYS_faccessat, 2), (libc::SYS_faccessat2, 2)];

/// Permissions that a program which creates files may check. Checks of the permission to write fail, so that LibreOffice creates its
/// socket in the folder that its arguments name, and not in `/tmp`.
const CHECKED: &[c_int] = &[libc::F_OK, libc::R_OK, libc::X_OK, libc::R_OK | libc::X_OK];

/// Commands of `fcntl` that neither send signals nor change files.
const FCNTL: &[c_int] = &[libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL];

/// Returns the filter. `is_program`: `execve` is permitted, within the rules of Landlock. `is_writer`: the calls of [`WRITER`] are.
pub(super) fn filter(is_program: bool, is_writer: bool) -> Result<BpfProgram, Error> {
    let is = |argument, value: u64| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
    let own = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let is_thread = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(thread), thread);

    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        PERMITTED.iter().chain(PERMITTED_LEGACY).map(|call| (*call, Vec::new())).collect();
    if is_program {
        rules.insert(libc::SYS_execve, Vec::new());
    }
    let mut conditional = Vec::new();
    if is_writer {
        rules.extend(WRITER.iter().chain(WRITER_LEGACY).map(|call| (*call, Vec::new())));
        let local = u64::from(libc::AF_UNIX.cast_unsigned());
        conditional.extend([(libc::SYS_socket, is(0, local)?), (libc::SYS_socketpair, is(0, local)?)]);
        conditional.push((libc::SYS_fcntl, is(1, u64::from(libc::F_SETFL.cast_unsigned()))?));
        for (call, argument) in PERMISSION_CHECKS {
            rules.remove(call);
            for mode in CHECKED {
                conditional.push((*call, is(*argument, u64::from(mode.cast_unsigned()))?));
            }
        }
    }
    // A further process would have its own limit of memory, and could leave the process group that the parent kills.
    conditional.push((libc::SYS_clone, is_thread?));
    // The parent and the other children belong to the same user.
    conditional.extend([(libc::SYS_kill, is(0, own)?), (libc::SYS_tgkill, is(0, own)?)]);
    conditional.push((libc::SYS_prlimit64, is(0, 0)?));
    conditional.push((libc::SYS_ioctl, is(1, libc::TCGETS)?));
    for command in FCNTL {
        conditional.push((libc::SYS_fcntl, is(1, u64::from(command.cast_unsigned()))?));
    }
    for (call, condition) in conditional {
        rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    }
    let refusal = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules, refusal, SeccompAction::Allow, arch)?.try_into()?)
}
