//! File permissions of a process.

use nix::sys::stat::{Mode, umask};

/// Restricts every file and folder that this process creates from now on to its owner, regardless of the shell's umask.
/// Call it before any thread starts.
pub fn private() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}
