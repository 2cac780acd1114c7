//! The way by which a slot's program is told what it is to run: a named pipe that only the agent can write.
//!
//! The program reads it to its end. A pipe that somebody reads is a program that waits: nothing else need be asked.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

/// In the container.
pub const MOUNTED_AT: &str = "/fn/slot";
/// The variable that tells the program where to wait.
pub const VARIABLE: &str = "FN_SLOT";
const PIPE: &str = "start";

/// The directory that becomes [`MOUNTED_AT`].
pub fn dir(slot: &Path) -> PathBuf {
    slot.join("door")
}

pub fn path_in_container() -> String {
    format!("{MOUNTED_AT}/{PIPE}")
}

pub fn make(slot: &Path) -> io::Result<()> {
    let dir = dir(slot);
    fs::create_dir_all(&dir)?;
    fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
    mkfifo(&dir.join(PIPE), Mode::from_bits_truncate(0o600))?;
    // Whatever the process' mask is: the program is another user.
    fs::set_permissions(dir.join(PIPE), Permissions::from_mode(0o444))
}

/// Fails if nobody waits at the other end.
pub fn open(slot: &Path) -> io::Result<File> {
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    OpenOptions::new().write(true).custom_flags(flags.bits()).open(dir(slot).join(PIPE))
}

/// Whether somebody waits there still.
pub fn is_watched(slot: &Path) -> bool {
    open(slot).is_ok()
}

/// Says it all and closes. Blocks while the other end reads.
pub fn tell(mut door: File, message: &[u8]) -> io::Result<()> {
    fcntl(&door, FcntlArg::F_SETFL(OFlag::empty()))?;
    door.write_all(message)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn who_waits_is_told_the_whole_message() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path()).unwrap();
        assert!(!is_watched(dir.path()), "nobody waits yet");
        let path = super::dir(dir.path()).join(PIPE);
        let reader = std::thread::spawn(move || {
            let mut text = Vec::new();
            while text.is_empty() {
                File::open(&path).unwrap().read_to_end(&mut text).unwrap();
            }
            text
        });
        let door = loop {
            match open(dir.path()) {
                Ok(door) => break door,
                Err(_) => std::thread::yield_now(),
            }
        };
        assert!(is_watched(dir.path()));
        // More than a pipe holds.
        let message = vec![b'x'; 1 << 20];
        tell(door, &message).unwrap();
        assert_eq!(reader.join().unwrap(), message);
        assert!(!is_watched(dir.path()));
    }
}
