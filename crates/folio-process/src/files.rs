//! File permissions.

use nix::sys::stat::{Mode, umask};

/// Sets the umask so that every file and folder that the process creates after the call is accessible to its owner
/// only. Call it before any thread starts.
pub fn restrict_umask() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}
