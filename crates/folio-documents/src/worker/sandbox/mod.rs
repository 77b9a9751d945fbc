//! Confines the child process before it reads a file.
//!
//! | layer | effect |
//! |---|---|
//! | [`Layer::Namespaces`] | own user, network and IPC namespaces: no network interface, no rights outside |
//! | [`Layer::Capabilities`] | no capabilities, even if the process is root in a container |
//! | [`Layer::NoNewPrivileges`] | `execve` grants no privileges |
//! | [`Layer::Landlock`] | a job that runs a program can read programs, libraries, fonts and the scratch folder of the file; other jobs can read no file. Only `/dev/null` is writable, and for LibreOffice the scratch folder. No TCP, no signals and no abstract sockets to other processes |
//! | [`Layer::Seccomp`] | only the system calls in [`syscalls`]: no sockets (for LibreOffice: only local ones), no further processes, no signals to other processes, no changes of file modes or owners |
//!
//! The layers overlap: without namespaces, the system calls for the network are still refused.

mod syscalls;

use std::io;
use std::path::Path;

use caps::CapSet;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
    path_beneath_rules,
};
use nix::sched::CloneFlags;
use serde::{Deserialize, Serialize};

use super::Job;

/// The version of Landlock whose restrictions are requested. An older kernel enforces those that it supports.
const LANDLOCK: ABI = ABI::V6;
/// Folders of programs and libraries, which jobs that run a program may read and execute.
const EXECUTABLE: &[&str] = &["/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"];
/// Configuration of the dynamic linker and of fonts, caches, and devices, which jobs that run a program may read.
const READABLE: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/fonts",
    "/etc/localtime",
    "/var/cache/fontconfig",
    "/sys/devices/system/cpu",
    "/dev/zero",
    "/dev/random",
    "/dev/urandom",
];
const NULL: &str = "/dev/null";

/// A protection of the child process, which the kernel may refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Namespaces,
    Capabilities,
    NoNewPrivileges,
    Landlock,
    Seccomp,
}

impl Layer {
    pub const ALL: [Self; 5] =
        [Self::Namespaces, Self::Capabilities, Self::NoNewPrivileges, Self::Landlock, Self::Seccomp];

    /// Returns true if `documents.isolation = "required"` requires the layer. Containers refuse namespaces by default,
    /// and the other layers have the same effects.
    pub const fn is_required(self) -> bool {
        !matches!(self, Self::Namespaces)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Namespaces => "user and network namespaces",
            Self::Capabilities => "dropping capabilities",
            Self::NoNewPrivileges => "no_new_privs",
            Self::Landlock => "Landlock",
            Self::Seccomp => "seccomp filters",
        }
    }
}

/// A layer that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedLayer {
    pub layer: Layer,
    pub reason: String,
}

/// Adds the layer to `refused` if its result is an error.
fn note<E: ToString>(refused: &mut Vec<RefusedLayer>, layer: Layer, result: Result<(), E>) {
    if let Err(error) = result {
        refused.push(RefusedLayer { layer, reason: error.to_string() });
    }
}

/// Applies every layer except [`Layer::Seccomp`], whose filter would refuse the calls that set limits afterwards. Returns the refused
/// layers.
pub(super) fn confine(job: &Job) -> Vec<RefusedLayer> {
    let mut refused = Vec::new();
    // If memory runs out, the kernel kills this process and not its parent.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let namespaces = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC;
    note(&mut refused, Layer::Namespaces, nix::sched::unshare(namespaces));
    note(&mut refused, Layer::Capabilities, drop_capabilities());
    note(&mut refused, Layer::NoNewPrivileges, nix::sys::prctl::set_no_new_privs());
    note(&mut refused, Layer::Landlock, restrict_files(job));
    refused
}

/// Returns true if the job runs a program that creates files in the scratch folder.
fn is_writer(job: &Job) -> bool {
    matches!(job, Job::Program { is_writer: true, .. })
}

fn drop_capabilities() -> Result<(), caps::errors::CapsError> {
    [CapSet::Ambient, CapSet::Effective, CapSet::Permitted, CapSet::Inheritable]
        .into_iter()
        .try_for_each(|set| caps::clear(None, set))
}

fn restrict_files(job: &Job) -> Result<(), String> {
    let read_file = AccessFs::ReadFile | AccessFs::ReadDir;
    let scratch = if is_writer(job) { vec![Path::new(".")] } else { Vec::new() };
    let (programs, files): (Vec<&Path>, Vec<&Path>) = match job {
        Job::Program { path, readable, .. } => (
            EXECUTABLE
                .iter()
                .map(Path::new)
                .chain([path.as_path()])
                .chain(readable.iter().map(AsRef::as_ref))
                .collect(),
            // The working directory is the scratch folder of the file.
            READABLE.iter().map(Path::new).chain([Path::new(".")]).collect(),
        ),
        _ => Default::default(),
    };
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(LANDLOCK)))
        .and_then(|rules| rules.scope(Scope::from_all(LANDLOCK)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(programs, read_file | AccessFs::Execute)))
        .and_then(|rules| rules.add_rules(path_beneath_rules(files, read_file)))
        .and_then(|rules| rules.add_rules(path_beneath_rules([NULL], AccessFs::ReadFile | AccessFs::WriteFile)))
        .and_then(|rules| {
            rules.add_rules(path_beneath_rules(scratch, AccessFs::from_all(LANDLOCK) & !AccessFs::Execute))
        })
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| error.to_string())?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce Landlock".to_owned()),
        _ => Ok(()),
    }
}

/// Applies [`Layer::Seccomp`]: refuses every system call that the job does not need. Returns the layer if the kernel refused it.
pub(super) fn filter(job: &Job) -> Option<RefusedLayer> {
    let mut refused = Vec::new();
    let is_program = matches!(job, Job::Program { .. });
    let filtered = syscalls::filter(is_program, is_writer(job)).and_then(|filter| seccompiler::apply_filter(&filter));
    note(&mut refused, Layer::Seccomp, filtered.map_err(io::Error::other));
    refused.pop()
}
