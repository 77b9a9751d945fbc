//! The memory budget of all child processes together.
//!
//! Each concurrently read document has at most one child process, whose address space is limited. The limits of all of
//! them must fit into the budget, and the budget into the memory limit of the container or of the machine.

use std::path::Path;

use folio_types::settings::Problems;

use crate::options::Options;

const MIB: u64 = 1024 * 1024;
/// Maximum memory of a child process, unless the settings state it.
const CHILD_MAX: u64 = 1536 * MIB;
/// Minimum memory of a child process that is calculated from the budget. Tesseract needs about 130 MiB for a page of A4.
const CHILD_MIN: u64 = 160 * MIB;

/// Returns the memory limit of this process and its children in bytes: the smallest limit of its control groups, or the
/// memory of the machine. None: unknown.
pub(crate) fn limit() -> Option<u64> {
    limit_of(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn limit_of(processes: &Path, groups: &Path) -> Option<u64> {
    let memory = std::fs::read_to_string(processes.join("meminfo")).unwrap_or_default();
    let machine = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let machine = machine.and_then(|kib| kib.trim().parse::<u64>().ok()?.checked_mul(1024));
    let own = std::fs::read_to_string(processes.join("self/cgroup")).unwrap_or_default();
    own.lines().flat_map(|line| limits_of_group(line, groups)).chain(machine).min()
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

/// Returns the budget of all child processes. None: it is unknown.
fn budget(options: &Options, limit: Option<u64>) -> Option<u64> {
    match options.memory_bytes {
        0 => limit.map(|limit| limit / 2),
        bytes => Some(bytes),
    }
}

/// Maximum number of concurrent child processes.
fn children(options: &Options) -> u64 {
    let Options { concurrency, slow_concurrency, page_images, protected_uploads, .. } = options;
    [concurrency, slow_concurrency, page_images, protected_uploads]
        .into_iter()
        .fold(0, |sum, children| sum + *children as u64)
}

/// Returns the maximum address space of a child process in bytes.
pub(crate) fn child_bytes(options: &Options, limit: Option<u64>) -> u64 {
    match options.child_memory_bytes {
        0 => budget(options, limit).map_or(CHILD_MAX, |budget| (budget / children(options).max(1)).min(CHILD_MAX)),
        bytes => bytes,
    }
}

pub(crate) fn check(options: &Options, limit: Option<u64>, problems: &mut Problems) {
    let Some(budget) = budget(options, limit) else { return };
    let (children, child) = (children(options), child_bytes(options, limit));
    let mib = |bytes: u64| bytes / MIB;
    if let Some(limit) = limit.filter(|limit| *limit < budget) {
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
        problems.add("memory_bytes", format_args!("{problem}; {remedy}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1024 * MIB;

    fn problems(options: &Options, limit: u64) -> String {
        let mut problems = Problems::of("documents");
        check(options, Some(limit), &mut problems);
        problems.into_result().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn the_limits_of_all_children_fit_into_half_of_the_container() {
        for (limit, child) in [(64 * GIB, CHILD_MAX), (6 * GIB, 512 * MIB), (2 * GIB, GIB / 6)] {
            let options = Options::default();
            assert_eq!(child_bytes(&options, Some(limit)), child);
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
        let found = problems(&Options { memory_bytes: 3 * GIB, ..Options::default() }, 2 * GIB);
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
        assert_eq!(limit(), None);
        write("proc/meminfo", "MemTotal:       24684100 kB\nMemFree: 1 kB\n");
        assert_eq!(limit(), Some(24_684_100 * 1024));
        write("proc/self/cgroup", "0::/system.slice/folio.service\n");
        write("groups/system.slice/folio.service/memory.max", "max\n");
        assert_eq!(limit(), Some(24_684_100 * 1024));
        write("groups/system.slice/memory.max", "4294967296\n");
        assert_eq!(limit(), Some(4 * GIB));
        // A container of version 1 that does not see the path of the host.
        write("proc/self/cgroup", "4:cpu,memory:/kubepods/pod1\n0::/\n");
        write("groups/memory/memory.limit_in_bytes", "2147483648\n");
        assert_eq!(limit(), Some(2 * GIB));
        assert!(super::limit().is_some(), "the memory of this machine is known");
    }
}
