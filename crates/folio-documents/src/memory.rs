//! The memory of a process and its child processes.
//!
//! Each concurrently read document has at most one child process, whose address space is limited. The limits of all of
//! them must fit into their budget. The budget and the bounded parts of the process must fit into the memory limit of the
//! container. A machine has swap and other processes, so its memory bounds the budget only.

use std::path::Path;

use folio_types::settings::Problems;

use crate::options::Options;

const MIB: u64 = 1024 * 1024;
/// Maximum memory of a child process, unless the settings state it.
const CHILD_MAX: u64 = 1536 * MIB;
/// Minimum memory of a child process that is calculated from the budget. Tesseract needs about 130 MiB for a page of A4.
const CHILD_MIN: u64 = 160 * MIB;
/// Maximum memory of the server for the text of a document of maximum length.
const TEXT_BYTES: u64 = 150 * MIB;

/// A bounded part of the memory of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPart {
    /// The purpose, with the setting that bounds the part.
    pub name: &'static str,
    pub bytes: u64,
}

/// The memory limit of this process and its children, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Unknown,
    /// The memory of the machine. No control group has a smaller limit.
    Machine(u64),
    /// The smallest limit of the control groups of the process.
    Container(u64),
}

impl Limit {
    fn bytes(self) -> Option<u64> {
        match self {
            Self::Unknown => None,
            Self::Machine(bytes) | Self::Container(bytes) => Some(bytes),
        }
    }
}

pub(crate) fn limit() -> Limit {
    limit_of(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn limit_of(processes: &Path, groups: &Path) -> Limit {
    let memory = std::fs::read_to_string(processes.join("meminfo")).unwrap_or_default();
    let machine = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let machine = machine.and_then(|kib| kib.trim().parse::<u64>().ok()?.checked_mul(1024));
    let own = std::fs::read_to_string(processes.join("self/cgroup")).unwrap_or_default();
    match (own.lines().flat_map(|line| limits_of_group(line, groups)).min(), machine) {
        (Some(container), Some(machine)) if container >= machine => Limit::Machine(machine),
        (Some(container), _) => Limit::Container(container),
        (None, Some(machine)) => Limit::Machine(machine),
        (None, None) => Limit::Unknown,
    }
}

/// Returns the limits of a group and its parents. `line`: `0::PATH` (version 2) or `ID:CONTROLLERS:PATH` (version 1).
/// The folder of the host may be missing in a container, which sees its own group at the root.
fn limits_of_group(line: &str, groups: &Path) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (root, file) = match controllers {
        "" => (groups.to_owned(), "memory.max"),
        _ if controllers.split(',').any(|name| name == "memory") => (groups.join("memory"), "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let folders = Path::new(group.trim_start_matches('/')).ancestors();
    // The text is `max` without a limit.
    let read = |folder: &Path| std::fs::read_to_string(root.join(folder).join(file)).ok()?.trim().parse().ok();
    folders.filter_map(read).collect()
}

fn total(parts: &[MemoryPart]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes))
}

/// Returns the budget of all child processes. Default: half of the limit, and at most what the parts of the process leave of the
/// limit of a container. None: it is unknown.
fn budget(options: &Options, limit: Limit, parts: &[MemoryPart]) -> Option<u64> {
    match (options.memory_bytes, limit) {
        (0, Limit::Unknown) => None,
        (0, Limit::Machine(limit)) => Some(limit / 2),
        (0, Limit::Container(limit)) => Some((limit / 2).min(limit.saturating_sub(total(parts)))),
        (bytes, _) => Some(bytes),
    }
}

/// Returns the problem of a budget and of parts that exceed the limit together. None: they fit, or the limit is unknown.
pub(crate) fn excess(options: &Options, limit: Limit, parts: &[MemoryPart]) -> Option<String> {
    let (budget, limit) = (budget(options, limit, parts)?, limit.bytes()?);
    let sum = total(parts).saturating_add(budget);
    if sum <= limit {
        return None;
    }
    let mib = |bytes: u64| bytes / MIB;
    Some(format!(
        "this process needs {} MiB, of {} MiB of memory: {}, {} MiB for child processes that read documents \
         (documents.memory_bytes); raise the memory limit or lower these settings",
        mib(sum),
        mib(limit),
        list(parts),
        mib(budget)
    ))
}

/// Names the parts with their sizes.
fn list(parts: &[MemoryPart]) -> String {
    let part = |part: &MemoryPart| format!("{} MiB for {}", part.bytes.div_ceil(MIB), part.name);
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// Maximum number of concurrent child processes.
fn children(options: &Options) -> u64 {
    let Options { concurrency, slow_concurrency, page_images, protected_uploads, .. } = options;
    [concurrency, slow_concurrency, page_images, protected_uploads]
        .into_iter()
        .fold(0, |sum, children| sum + *children as u64)
}

/// Returns the maximum address space of a child process in bytes.
pub(crate) fn child_bytes(options: &Options, limit: Limit, parts: &[MemoryPart]) -> u64 {
    let of_budget = |budget: u64| (budget / children(options).max(1)).min(CHILD_MAX);
    match options.child_memory_bytes {
        0 => budget(options, limit, parts).map_or(CHILD_MAX, of_budget),
        bytes => bytes,
    }
}

impl Options {
    /// Sets the address space of a child process if the settings do not state it. `parts`: the bounded parts of the memory of this
    /// process.
    #[must_use]
    pub fn with_child_memory(self, parts: &[MemoryPart]) -> Self {
        Self { child_memory_bytes: child_bytes(&self, limit(), parts), ..self }
    }

    /// Returns the maximum memory of this process for the texts of documents that are read concurrently.
    pub fn text_bytes(&self) -> u64 {
        let Self { concurrency, slow_concurrency, protected_uploads, .. } = self;
        let texts = concurrency.saturating_add(*slow_concurrency).saturating_add(*protected_uploads);
        TEXT_BYTES.saturating_mul(texts as u64)
    }
}

pub(crate) fn check(options: &Options, limit: Limit, parts: &[MemoryPart], problems: &mut Problems) {
    let Some(budget) = budget(options, limit, parts) else { return };
    let (children, child) = (children(options), child_bytes(options, limit, parts));
    let mib = |bytes: u64| bytes / MIB;
    if let (Limit::Container(_), Some(excess)) = (limit, excess(options, limit, parts)) {
        problems.add("memory_bytes", excess);
        return;
    }
    if let Some(limit) = limit.bytes().filter(|limit| *limit < budget) {
        let problem = format!("{} MiB exceed the memory limit of {} MiB", mib(budget), mib(limit));
        problems.add("memory_bytes", format_args!("{problem} of the container or machine; keep half of it free"));
    }
    let remedy = "raise the memory limit of the container or documents.memory_bytes, or lower documents.concurrency, \
                  documents.slow_concurrency, documents.page_images and documents.protected_uploads";
    let calculation = format!(
        "{children} child processes (documents.concurrency + documents.slow_concurrency + documents.page_images + \
         documents.protected_uploads) with {} MiB each",
        mib(child)
    );
    if child.saturating_mul(children) > budget {
        let exceeds = format!("{calculation} exceed the memory budget of {} MiB", mib(budget));
        problems.add("child_memory_bytes", format_args!("{exceeds}; {remedy}, or lower this setting"));
    } else if options.child_memory_bytes == 0 && child < CHILD_MIN {
        let problem = format!("{calculation} are too small: the minimum is {} MiB", mib(CHILD_MIN));
        let others = match parts.is_empty() {
            true => String::new(),
            false => format!("; the process itself needs {} MiB: {}", mib(total(parts)), list(parts)),
        };
        problems.add("memory_bytes", format_args!("{problem}{others}; {remedy}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * MIB;

    fn problems_with(options: &Options, limit: Limit, parts: &[MemoryPart]) -> String {
        let mut problems = Problems::of("documents");
        check(options, limit, parts, &mut problems);
        problems.into_result().map_or_else(|error| error.to_string(), |()| String::new())
    }

    fn problems(options: &Options, limit: u64) -> String {
        problems_with(options, Limit::Container(limit), &[])
    }

    fn parts() -> [MemoryPart; 2] {
        [("histories", 512), ("vectors", 1_536)].map(|(name, mib)| MemoryPart { name, bytes: mib * MIB })
    }

    #[test]
    fn the_process_and_its_children_fit_into_the_container() {
        let (options, parts) = (Options::default(), parts());
        for (limit, child) in [(64 * GIB, CHILD_MAX), (6 * GIB, 512 * MIB), (4 * GIB, 2 * GIB / 6), (3 * GIB, GIB / 6)]
        {
            let limit = Limit::Container(limit);
            assert_eq!(child_bytes(&options, limit, &parts), child, "{limit:?}");
            assert_eq!(problems_with(&options, limit, &parts), "");
        }
        let found = problems_with(&options, Limit::Container(5 * GIB / 2), &parts);
        assert!(found.contains("85 MiB each are too small: the minimum is 160 MiB"), "{found}");
        assert!(found.contains("needs 2048 MiB: 512 MiB for histories, 1536 MiB for vectors"), "{found}");
        let found = problems_with(&options, Limit::Container(GIB), &parts);
        assert!(
            found.contains("documents.memory_bytes: this process needs 2048 MiB, of 1024 MiB of memory"),
            "{found}"
        );
        let stated = Options { memory_bytes: 2 * GIB, ..Options::default() };
        assert_eq!(problems_with(&stated, Limit::Container(4 * GIB), &parts), "");
        let found = problems_with(&stated, Limit::Container(4 * GIB - MIB), &parts);
        assert!(found.contains("this process needs 4096 MiB, of 4095 MiB of memory: 512 MiB for histories"), "{found}");
    }

    #[test]
    fn the_memory_of_a_machine_bounds_the_children_only() {
        let (options, parts) = (Options::default(), parts());
        for limit in [Limit::Machine(2 * GIB), Limit::Unknown] {
            assert_eq!(problems_with(&options, limit, &parts), "");
        }
        assert_eq!(child_bytes(&options, Limit::Machine(2 * GIB), &parts), GIB / 6);
        assert!(excess(&options, Limit::Machine(2 * GIB), &parts).is_some());
        assert_eq!(excess(&options, Limit::Machine(4 * GIB), &parts), None);
        assert_eq!(excess(&options, Limit::Unknown, &parts), None);
        assert_eq!([options.text_bytes(), options.for_roles(true, false).text_bytes()], [750 * MIB, 150 * MIB]);
    }

    #[test]
    fn the_limits_of_all_children_fit_into_half_of_the_container() {
        for (limit, child) in [(64 * GIB, CHILD_MAX), (6 * GIB, 512 * MIB), (2 * GIB, GIB / 6)] {
            let options = Options::default();
            assert_eq!(child_bytes(&options, Limit::Container(limit), &[]), child);
            assert_eq!(problems(&options, limit), "");
            assert!(child * children(&options) <= limit / 2);
        }
    }

    #[test]
    fn children_that_exceed_the_container_are_refused_with_the_numbers() {
        // The defaults of the chart before the budget existed.
        let options = Options { child_memory_bytes: 1536 * MIB, ..Options::default() };
        let found = problems(&options, 2 * GIB);
        assert!(found.contains("documents.child_memory_bytes: 6 child processes"), "{found}");
        assert!(found.contains("1536 MiB each exceed the memory budget of 1024 MiB"), "{found}");
        let stated = Options { memory_bytes: 3 * GIB, ..Options::default() };
        let found = problems_with(&stated, Limit::Machine(2 * GIB), &[]);
        assert!(found.contains("documents.memory_bytes: 3072 MiB exceed the memory limit of 2048 MiB"), "{found}");
        let found = problems(&Options::default(), GIB);
        assert!(found.contains("85 MiB each are too small: the minimum is 160 MiB"), "{found}");
        let fewer = Options { concurrency: 1, slow_concurrency: 0, ..Options::default() };
        assert_eq!(problems(&fewer, GIB), "");
    }

    #[test]
    fn a_process_counts_the_child_processes_of_its_roles() {
        let children = |is_gateway, is_node| children(&Options::default().for_roles(is_gateway, is_node));
        assert_eq!([children(true, true), children(true, false), children(false, true)], [6, 1, 5]);
        let gateway = Options { child_memory_bytes: 1024 * GIB, ..Options::default() }.for_roles(true, false);
        let found = problems(&gateway, GIB);
        assert!(found.contains("documents.child_memory_bytes: 1 child processes"), "{found}");
        assert_eq!(problems(&Options::default().for_roles(true, false), GIB), "");
    }

    #[test]
    fn the_smallest_limit_of_the_control_groups_counts() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let limit = || limit_of(&folder.path().join("proc"), &folder.path().join("groups"));
        assert_eq!(limit(), Limit::Unknown);
        write("proc/meminfo", "MemTotal:       24684100 kB\nMemFree: 1 kB\n");
        assert_eq!(limit(), Limit::Machine(24_684_100 * 1024));
        write("proc/self/cgroup", "0::/system.slice/folio.service\n");
        write("groups/system.slice/folio.service/memory.max", "max\n");
        assert_eq!(limit(), Limit::Machine(24_684_100 * 1024));
        write("groups/system.slice/memory.max", "4294967296\n");
        assert_eq!(limit(), Limit::Container(4 * GIB));
        // A container of version 1 that does not see the path of the host.
        write("proc/self/cgroup", "4:cpu,memory:/kubepods/pod1\n0::/\n");
        write("groups/memory/memory.limit_in_bytes", "2147483648\n");
        assert_eq!(limit(), Limit::Container(2 * GIB));
        write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(), Limit::Machine(24_684_100 * 1024));
        assert!(super::limit().bytes().is_some(), "the memory of this machine is known");
    }
}
