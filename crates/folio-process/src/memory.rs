//! Protection of the memory of the process.

use nix::sys::prctl::set_dumpable;

/// Hides the memory, the environment and the open files of this process (`/proc/PID/mem`, `environ`, `fd`) from all
/// other processes except those with `CAP_SYS_PTRACE`, and disables core dumps. `execve` ends the effect in children.
pub fn forbid_inspection() {
    // The kernel accepts this value always.
    let _ = set_dumpable(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_not_dumpable() {
        forbid_inspection();
        assert_eq!(nix::sys::prctl::get_dumpable(), Ok(false));
    }
}
