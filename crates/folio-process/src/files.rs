//! Files that a process writes.

use nix::sys::stat::{Mode, umask};

/// From here on every file and folder that this process makes is its owner's alone, whatever the shell's mask was. To be
/// called before threads are started.
pub fn private() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}
