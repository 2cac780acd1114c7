//! The mount of the whole file system, through which volumes are made: kept for a while after a call, since mounting takes
//! longer than most calls, and let go when none comes, since its process takes memory.
//!
//! It outlives the agent like every mount; the next agent uses it, or lets it go.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::SharedError;
use crate::controller::{RECORDS, SNAPSHOTS, VOLUMES};
use crate::daemon::at;
use crate::engine::Engine;
use crate::mount;
use crate::part::Part;

/// How long nobody needs it before it goes.
const IDLE: Duration = Duration::from_secs(30);

pub struct RootMount {
    used: Instant,
    /// The set-up whose directories were made ready.
    ready: Option<Part>,
}

impl Default for RootMount {
    fn default() -> Self {
        RootMount { used: Instant::now(), ready: None }
    }
}

/// Where it is on a node.
pub fn path(part: &Part) -> PathBuf {
    part.dir.join("root")
}

impl RootMount {
    pub fn bring(&mut self, engine: &dyn Engine, part: &Part) -> Result<PathBuf, SharedError> {
        let path = path(part);
        self.used = Instant::now();
        mount::bring(engine, part, "/", &path, &[])?;
        if self.ready.as_ref() != Some(part) {
            prepare(engine, part, &path)?;
            self.ready = Some(part.clone());
        }
        Ok(path)
    }

    /// Lets it go if nobody has needed it for a while.
    pub fn let_go_if_idle(&mut self, part: &Part) -> Result<(), SharedError> {
        match self.used.elapsed() > IDLE {
            true => mount::let_go(&path(part)),
            false => Ok(()),
        }
    }
}

/// Volumes have as many copies as the directory that they are made in.
fn prepare(engine: &dyn Engine, part: &Part, root: &Path) -> Result<(), SharedError> {
    for name in [VOLUMES, SNAPSHOTS, RECORDS] {
        let directory = root.join(name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(at(&directory)(error)),
            _ => {}
        }
    }
    engine.adopt(part, &root.join(VOLUMES))
}
