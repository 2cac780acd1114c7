//! `minik8s function dev`: a function's code behind HTTP on this machine, as its runtime would run it, started anew whenever
//! a file changes. It listens on the loopback address alone, and needs no cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use minik8s_kubelet::image::runtime_program;
use minik8s_meta::function::{Runtime, runtime, runtime_names};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::{DevFlags, code};

/// An editor writes a file in several steps.
const SETTLE: Duration = Duration::from_millis(200);

pub async fn run(flags: &DevFlags) -> anyhow::Result<()> {
    let place = Place::new(flags)?;
    let (sender, mut changes) = mpsc::channel(1);
    let folders = folders(&place.watched)?;
    std::thread::spawn(move || watch(&folders, &sender));
    // From here on neither ends anything by itself, and one that comes between two waits is kept.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut stop = std::pin::pin!(async move {
        tokio::select! { _ = interrupt.recv() => (), _ = terminate.recv() => () }
    });
    eprintln!("http://127.0.0.1:{} runs {}, and anew whenever it changes", flags.port, flags.from.display());
    loop {
        place.copy(flags)?;
        let mut child = place.start(flags)?;
        tokio::select! {
            () = &mut stop => {
                child.kill().await.ok();
                return Ok(());
            }
            changed = changes.recv() => if changed.is_none() { bail!("the files cannot be watched any more") },
            ended = child.wait() => {
                eprintln!("it has ended ({}); waiting for a change", ended?);
                tokio::select! {
                    () = &mut stop => return Ok(()),
                    changed = changes.recv() => {
                        if changed.is_none() {
                            bail!("the files cannot be watched any more");
                        }
                    }
                }
            }
        }
        child.kill().await.ok();
        tokio::time::sleep(SETTLE).await;
        while changes.try_recv().is_ok() {}
        eprintln!("changed: starting anew");
    }
}

/// A folder with the runtime's program, and the code where it is one file.
struct Place {
    dir: TempDir,
    runtime: &'static Runtime,
    /// The folder that the runtime looks at.
    code: PathBuf,
    /// The folder whose changes matter.
    watched: PathBuf,
}

impl Place {
    fn new(flags: &DevFlags) -> anyhow::Result<Place> {
        let (read, language) = code::read(&flags.from)?;
        let from = fs::canonicalize(&flags.from)?;
        if read.zip.is_some() && !from.is_dir() {
            bail!("{} is an archive: unpack it, and give the folder", flags.from.display());
        }
        let name = flags.runtime.as_deref().or(language);
        let unclear = || {
            let names = runtime_names().join(", ");
            format!("the language is not clear from the files: give --runtime, one of {names}")
        };
        let runtime = runtime(name.with_context(unclear)?).with_context(unclear)?;
        let dir = tempfile::Builder::new().prefix("minik8s-dev-").tempdir()?;
        let (code, watched) = match from.is_dir() {
            true => (from.clone(), from),
            false => (dir.path().join("code"), from.parent().unwrap_or(Path::new("/")).to_owned()),
        };
        fs::create_dir_all(&code)?;
        let program = local(runtime_program(runtime), &code, &dir.path().join("unpacked"));
        fs::write(dir.path().join(runtime.file), program)?;
        Ok(Place { dir, runtime, code, watched })
    }

    /// One file is what inline source becomes on a cluster.
    fn copy(&self, flags: &DevFlags) -> anyhow::Result<()> {
        if flags.from.is_file() {
            fs::copy(&flags.from, self.code.join(self.runtime.file))?;
        }
        Ok(())
    }

    fn start(&self, flags: &DevFlags) -> anyhow::Result<Child> {
        let programs: &[&str] =
            if self.runtime.file == "main.py" { &["python3.11", "python3"] } else { &["node"] };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        let program = programs.iter().find(is_there);
        let program = program.with_context(|| format!("{} is not on the PATH", programs.join(" or ")))?;
        let mut command = Command::new(program);
        command.arg(self.dir.path().join(self.runtime.file)).stdin(Stdio::null()).kill_on_drop(true);
        for (name, value) in [
            ("PORT", flags.port.to_string()),
            ("FN_NAME", "dev".to_owned()),
            ("FN_NAMESPACE", "default".to_owned()),
            ("FN_HANDLER", flags.handler.clone().unwrap_or_default()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ] {
            command.env(name, value);
        }
        for variable in &flags.env {
            let (name, value) =
                variable.split_once('=').with_context(|| format!("--env {variable}: give NAME=VALUE"))?;
            command.env(name, value);
        }
        command.spawn().with_context(|| format!("cannot start {program}"))
    }
}

/// The runtime's program with the places of this machine instead of an image's, and for this machine alone.
fn local(program: &str, code: &Path, unpacked: &Path) -> String {
    let (code, unpacked) = (code.display().to_string(), unpacked.display().to_string());
    [
        ("/fn/code", code.as_str()),
        ("/tmp/fn", &unpacked),
        ("0.0.0.0", "127.0.0.1"),
        ("/dev/termination-log", "/dev/null"),
    ]
    .iter()
    .fold(program.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The folder and those in it, without those that no code needs.
fn folders(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while at < found.len() && found.len() < 1000 {
        for entry in
            fs::read_dir(&found[at]).with_context(|| format!("cannot read {}", found[at].display()))?
        {
            let entry = entry?;
            let name = entry.file_name();
            let is_code =
                !name.to_string_lossy().starts_with('.') && name != "__pycache__" && name != "node_modules";
            if entry.file_type()?.is_dir() && is_code {
                found.push(entry.path());
            }
        }
        at += 1;
    }
    Ok(found)
}

/// Until nobody wants to know any more.
fn watch(folders: &[PathBuf], changed: &mpsc::Sender<()>) {
    let Ok(inotify) = Inotify::init(InitFlags::IN_CLOEXEC) else { return };
    let flags = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_DELETE;
    for folder in folders {
        if let Err(error) = inotify.add_watch(folder, flags) {
            eprintln!("changes in {} are not seen: {error}", folder.display());
        }
    }
    while inotify.read_events().is_ok() && !changed.is_closed() {
        // One that is not taken yet is enough.
        let _ = changed.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use minik8s_meta::function::RUNTIMES;

    use super::*;

    #[test]
    fn runtimes_run_in_places_of_this_machine() {
        for runtime in RUNTIMES {
            let program = runtime_program(runtime);
            for place in ["/fn/code", "/tmp/fn", "0.0.0.0", "/dev/termination-log"] {
                assert!(program.contains(place), "{}: {place}", runtime.name);
            }
            let local = local(program, Path::new("/home/me"), Path::new("/home/unpacked"));
            assert!(!local.contains("/fn/code") && !local.contains("0.0.0.0"), "{}", runtime.name);
            assert!(local.contains("/home/me") && local.contains("127.0.0.1"), "{}", runtime.name);
        }
    }

    #[test]
    fn files_and_folders_have_a_place_and_archives_have_none() {
        let dir = tempfile::tempdir().unwrap();
        let flags = |from: PathBuf| DevFlags { from, runtime: None, handler: None, env: Vec::new(), port: 0 };
        let file = dir.path().join("hello.py");
        fs::write(&file, "def main(p): return p").unwrap();
        let one = flags(file);
        let place = Place::new(&one).unwrap();
        place.copy(&one).unwrap();
        assert_eq!(fs::read_to_string(place.code.join("main.py")).unwrap(), "def main(p): return p");
        fs::create_dir(dir.path().join("lib")).unwrap();
        assert_eq!(folders(dir.path()).unwrap().len(), 2);
        let zipped = dir.path().join("a.zip");
        fs::write(&zipped, minik8s_functions::zip::pack(&[("main.py".to_owned(), b"x".to_vec())]).unwrap())
            .unwrap();
        assert!(Place::new(&flags(zipped)).err().unwrap().to_string().contains("unpack it"));
        let text = dir.path().join("notes.txt");
        fs::write(&text, "x").unwrap();
        assert!(Place::new(&flags(text)).err().unwrap().to_string().contains("give --runtime"));
    }
}
