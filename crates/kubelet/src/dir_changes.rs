//! Word of changes in a directory.

use std::io;
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::sync::mpsc;

/// A thread that sleeps in the kernel until something changes.
pub fn tell_changes(path: &Path, interesting: AddWatchFlags, sender: mpsc::Sender<()>) -> io::Result<()> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(path, interesting)?;
    std::thread::Builder::new().name("dir-changes".to_owned()).spawn(move || {
        while inotify.read_events().is_ok() && !sender.is_closed() {
            // One that waits to be seen stands for all that follow.
            let _ = sender.try_send(());
        }
    })?;
    Ok(())
}
