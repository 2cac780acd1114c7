//! The configuration of MooseFS' servers and clients on one node. Pure.

use std::path::{Path, PathBuf};

use super::{CHUNKSERVER, MASTER, METALOGGER};
use crate::engine::Daemon;
use crate::part::Part;

/// With the password of clients.
pub fn client_file(part: &Part) -> PathBuf {
    part.dir.join("client/mfsmount.cfg")
}

/// The file's text: options of `mfsmount`, one on a line.
pub fn client(part: &Part) -> String {
    let caches = "mfswritecachesize=64\nmfsreadaheadsize=64\nmfslimitarenas=1\n";
    format!("mfsmaster={}\nmfspassword={}\n{caches}", part.setup.master.address, part.setup.password)
}

pub fn daemons(part: &Part) -> Vec<Daemon> {
    let mut all = Vec::new();
    if part.is_master() {
        all.push(master(part));
    }
    if let Some(address) = part.serves() {
        all.push(chunkserver(part, address));
    }
    if part.logs_metadata() {
        all.push(metalogger(part));
    }
    all
}

fn master(part: &Part) -> Daemon {
    let dir = part.dir.join("master");
    let address = &part.setup.master.address;
    let exports = dir.join("mfsexports.cfg");
    let topology = dir.join("mfstopology.cfg");
    let config = text(&[
        ("WORKING_USER", "root"),
        ("WORKING_GROUP", "root"),
        ("DATA_PATH", &shown(&dir.join("data"))),
        ("EXPORTS_FILENAME", &shown(&exports)),
        ("TOPOLOGY_FILENAME", &shown(&topology)),
        ("MATOML_LISTEN_HOST", address),
        ("MATOCS_LISTEN_HOST", address),
        ("MATOCL_LISTEN_HOST", address),
        ("AUTH_CODE", &part.setup.auth_code),
        // What is acknowledged has left the process.
        ("CHANGELOG_SAVE_MODE", "1"),
        // Its own defaults leave data that has too few copies alone for a minute after a start, and then look for such
        // data once in five: those who have thousands of servers can wait.
        ("REPLICATIONS_DELAY_INIT", "15"),
        ("CHUNKS_LOOP_MIN_TIME", "60"),
        // Ten times as many, its own default, take 50 MB more.
        ("PRIORITY_QUEUES_LENGTH", "100000"),
        ("LIMIT_GLIBC_MALLOC_ARENAS", "1"),
        ("DISABLE_OOM_KILLER", "0"),
    ]);
    // `admin` is what allows quotas; nobody without the password is let in.
    let rule = format!("* / rw,alldirs,admin,maproot=0:0,password={}\n", part.setup.password);
    let files = vec![(dir.join("mfsmaster.cfg"), config), (exports, rule), (topology, String::new())];
    // `-a`: whatever was not written out when it ended is repeated from its logs.
    daemon("mfsmaster", MASTER, &dir, files, Vec::new(), &["-a"])
}

fn chunkserver(part: &Part, address: &str) -> Daemon {
    let dir = part.dir.join("chunkserver");
    let disks = dir.join("mfshdd.cfg");
    let chunks = part.dir.join("chunks");
    let config = text(&[
        ("WORKING_USER", "root"),
        ("WORKING_GROUP", "root"),
        ("DATA_PATH", &shown(&dir.join("data"))),
        ("HDD_CONF_FILENAME", &shown(&disks)),
        ("HDD_LEAVE_SPACE_DEFAULT", "1GiB"),
        ("HDD_FSYNC_BEFORE_CLOSE", "1"),
        ("BIND_HOST", address),
        ("MASTER_HOST", &part.setup.master.address),
        ("CSSERV_LISTEN_HOST", address),
        ("AUTH_CODE", &part.setup.auth_code),
        ("LIMIT_GLIBC_MALLOC_ARENAS", "1"),
        ("DISABLE_OOM_KILLER", "0"),
    ]);
    let files = vec![(dir.join("mfschunkserver.cfg"), config), (disks, format!("{}\n", shown(&chunks)))];
    daemon("mfschunkserver", CHUNKSERVER, &dir, files, vec![chunks], &[])
}

fn metalogger(part: &Part) -> Daemon {
    let dir = part.dir.join("metalogger");
    let config = text(&[
        ("WORKING_USER", "root"),
        ("WORKING_GROUP", "root"),
        ("DATA_PATH", &shown(&dir.join("data"))),
        ("META_DOWNLOAD_FREQ", "1"),
        ("MASTER_HOST", &part.setup.master.address),
        ("DISABLE_OOM_KILLER", "0"),
    ]);
    daemon("mfsmetalogger", METALOGGER, &dir, vec![(dir.join("mfsmetalogger.cfg"), config)], Vec::new(), &[])
}

fn daemon(
    name: &'static str,
    package: &'static str,
    dir: &Path,
    files: Vec<(PathBuf, String)>,
    more: Vec<PathBuf>,
    flags: &[&str],
) -> Daemon {
    let data = dir.join("data");
    let config = files.first().map(|(path, _)| shown(path)).unwrap_or_default();
    let command = |verb: &str, flags: &[&str]| {
        let mut all = vec![name.to_owned()];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        all.extend(["-t", "20", "-c", &config, verb].map(str::to_owned));
        all
    };
    Daemon {
        name,
        package,
        start: command("start", flags),
        stop: command("stop", &[]),
        pid_file: data.join(format!(".{name}.lock")),
        directories: [vec![dir.to_owned(), data], more].concat(),
        files,
    }
}

fn text(settings: &[(&str, &str)]) -> String {
    settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::part;

    #[test]
    fn nodes_run_the_servers_of_their_part() {
        let check = |node: &str, expected: &[&str]| {
            let names: Vec<&str> = daemons(&part(node, "/d")).iter().map(|daemon| daemon.name).collect();
            assert_eq!(names, expected, "{node}");
        };
        check("a", &["mfsmaster", "mfschunkserver"]);
        check("b", &["mfschunkserver", "mfsmetalogger"]);
        check("c", &[]);
    }

    #[test]
    fn servers_listen_on_their_own_address_and_ask_for_passwords() {
        let all = daemons(&part("a", "/d"));
        let (path, config) = &all[0].files[0];
        assert_eq!(path, Path::new("/d/master/mfsmaster.cfg"));
        for line in ["MATOCL_LISTEN_HOST = 10.0.0.1", "MATOCS_LISTEN_HOST = 10.0.0.1", "AUTH_CODE = c0de"] {
            assert!(config.contains(line), "{line} in\n{config}");
        }
        assert_eq!(all[0].files[1].1, "* / rw,alldirs,admin,maproot=0:0,password=p4ss\n");
        assert_eq!(all[0].start, ["mfsmaster", "-a", "-t", "20", "-c", "/d/master/mfsmaster.cfg", "start"]);
        assert!(all[1].files[0].1.contains("CSSERV_LISTEN_HOST = 10.0.0.1\nAUTH_CODE = c0de"));
        assert!(client(&part("c", "/d")).starts_with("mfsmaster=10.0.0.1\nmfspassword=p4ss\n"));
    }
}
