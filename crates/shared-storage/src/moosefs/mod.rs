//! MooseFS, of Debian's packages: one master with all names, servers with the data, and metaloggers that could become
//! master.
//!
//! Chosen since its clients wait when a server is away (a database goes on when it is back), quotas of directories are
//! enforced, locks hold between nodes, and copies share their data. The master must be started with `-a` after a crash:
//! it then repeats what its logs say.

mod files;
mod metadata;
mod status;

use std::path::{Path, PathBuf};

use minik8s_meta::shared_storage::ClusterStatus;

use self::metadata::Begun;
use crate::SharedError;
use crate::daemon;
use crate::engine::{Daemon, Engine};
use crate::part::Part;
use crate::program::run;

pub const CLIENT: &str = "moosefs-client";
pub const MASTER: &str = "moosefs-master";
pub const CHUNKSERVER: &str = "moosefs-chunkserver";
pub const METALOGGER: &str = "moosefs-metalogger";
pub const CLI: &str = "moosefs-cli";
const PORTS: &[u16] = &[9419, 9420, 9421, 9422];

pub struct MooseFs;

impl Engine for MooseFs {
    fn programs(&self, part: &Part) -> Vec<(&'static str, &'static str)> {
        let mut all = vec![("mfsmount", CLIENT), ("mfscli", CLI)];
        if part.is_master() {
            all.push(("mfsmaster", MASTER));
        }
        if part.serves().is_some() {
            all.push(("mfschunkserver", CHUNKSERVER));
        }
        if part.logs_metadata() {
            all.push(("mfsmetalogger", METALOGGER));
        }
        all
    }

    fn daemons(&self, part: &Part) -> Vec<Daemon> {
        files::daemons(part)
    }

    fn prepare(&self, part: &Part, daemon: &Daemon) -> Result<(), SharedError> {
        if daemon.name != "mfsmaster" || metadata::prepare(part)? != Begun::Anew {
            return Ok(());
        }
        // It writes its metadata when it ends, and else once an hour: until then metaloggers would have nothing to copy, and
        // whoever loses its machine nothing to begin with.
        let (program, arguments) = daemon.start.split_first().ok_or(SharedError::NotSetUp)?;
        run(program, daemon.package, arguments)?;
        daemon::stop(daemon)
    }

    fn set_old_aside(&self, part: &Part) -> Result<(), SharedError> {
        metadata::set_old_aside(part)
    }

    fn mount(&self, part: &Part, directory: &str, at: &Path, options: &[String]) -> Vec<String> {
        let mut command = vec![
            "mfsmount".to_owned(),
            "-c".to_owned(),
            files::client_file(part).to_string_lossy().into_owned(),
            "-S".to_owned(),
            directory.to_owned(),
        ];
        for option in options {
            command.extend(["-o".to_owned(), option.clone()]);
        }
        command.push(at.to_string_lossy().into_owned());
        command
    }

    fn adopt(&self, part: &Part, directory: &Path) -> Result<(), SharedError> {
        let path = directory.as_os_str();
        run("mfssetgoal", CLIENT, [part.setup.copies.to_string().as_ref(), path])?;
        // What is deleted is deleted, and not kept for a day.
        run("mfssettrashtime", CLIENT, ["0".as_ref(), path]).map(drop)
    }

    fn limit(&self, _: &Part, directory: &Path, bytes: u64) -> Result<(), SharedError> {
        let path = directory.as_os_str();
        run("mfssetquota", CLIENT, ["-L".as_ref(), bytes.to_string().as_ref(), path]).map(drop)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<(), SharedError> {
        run("mfsmakesnapshot", CLIENT, [from, to]).map(drop)
    }

    fn forget(&self, part: &Part, volume: &str, address: &str) -> Result<(), SharedError> {
        let host = part.setup.master.address.as_str();
        let listed = run("mfscli", CLI, ["-H", host, "-n", "-s", "|", "-SMS"])?;
        for session in status::left_sessions(&listed, volume, address) {
            run("mfscli", CLI, ["-H", host, &format!("-CRS/{session}")])?;
        }
        Ok(())
    }

    fn status(&self, part: &Part) -> Result<ClusterStatus, SharedError> {
        let host = part.setup.master.address.as_str();
        let arguments = ["-H", host, "-n", "-s", "|", "-SIN", "-SIC", "-SCS"];
        Ok(status::parse(&run("mfscli", CLI, arguments)?))
    }

    fn ports(&self) -> &'static [u16] {
        PORTS
    }
}

/// The file that clients read, with the password.
pub fn client_config(part: &Part) -> (PathBuf, String) {
    (files::client_file(part), files::client(part))
}
