//! The script of a job that brings its own files: it unpacks them, compiles, runs, and tells the end of what was printed in
//! the job's comment, because nothing else of it can be read from outside. It leaves no directory behind.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::super::{Failure, Place};
use crate::kinds::GpuJob;
use crate::program::Package;
use crate::quote;

/// Slurm takes scripts of 4 MiB; base64 makes a third more of it.
const MOST: u64 = (4 << 20) / 4 * 3 - (64 << 10);

/// `1024` is as long as Slurm lets a comment be. Nothing is made before the trap that removes it: a job may be cancelled as
/// soon as it has begun. What still writes there while it goes is on its way to its end.
const BEGIN: &str = r#"HOME=${HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}; export HOME
umask 077
case $top in /*) ;; *) top=$HOME/$top ;; esac
said=/dev/null what=exit
tell() {
  code=$?
  trap - EXIT; trap '' TERM
  words=$(tail -c 700 -- "$said" 2>/dev/null | LC_ALL=C tr -cd '\11\12\40-\176')
  cd /; tries=0
  until rm -rf -- "$top" 2>/dev/null || [ $((tries += 1)) = 20 ]; do sleep 0.5; done
  scontrol update "jobid=$SLURM_JOB_ID" "comment=$(printf '%s\n%s %s\n%s' "$comment" "$what" "$code" "$words")"
  exit "$code"
}
trap tell EXIT
trap 'exit 143' TERM
mkdir -p -- "$top" && cd -- "$top" || exit 70
"#;

const BUILD: &str = r"said=../build.log what=build
timeout -k 5 1800 bash -l ../meta/build.sh >../build.log 2>&1 </dev/null || exit
";

/// In the background: a shell that waits hears a signal at once.
const RUN: &str = r#"said=../output.log what=exit
MINIK8S_META=$top/meta; export MINIK8S_META
chmod 700 ../meta/batch.sh
../meta/batch.sh >../output.log 2>&1 </dev/null &
wait "$!"
"#;

pub fn of(place: &Place, job: &GpuJob, package: &Package) -> Result<String, Failure> {
    let mut tar = Vec::new();
    package.reader()?.take(MOST + 1).read_to_end(&mut tar)?;
    if tar.len() as u64 > MOST {
        let words =
            "the files are more than the 3 MiB that a job's script can carry: slurmrestd takes no others";
        return Err(Failure::Refused(words.to_owned()));
    }
    let mut text = String::from("#!/bin/bash -l\n");
    text += &format!("comment={}\n", quote::word(&place.comment));
    text += &format!("top={}.$SLURM_JOB_ID\n", quote::word(&place.directory));
    text += BEGIN;
    text += &format!(
        "base64 -d <<'END' | tar -xf - || exit 71\n{}\nEND\ncd work || exit 70\n",
        STANDARD.encode(tar)
    );
    if job.spec.build.is_some() {
        text += BUILD;
    }
    Ok(text + RUN)
}

/// What the script has told in a comment.
#[derive(Debug, PartialEq, Eq)]
pub enum Told<'a> {
    /// How the compiler ended, and its last words.
    Build(i32, &'a str),
    /// How the job ended, and its last words.
    Exit(i32, &'a str),
}

/// The first line is ours from the beginning, the second says what ended and how.
pub fn told(comment: &str) -> Option<Told<'_>> {
    let (_, told) = comment.split_once('\n')?;
    let (head, words) = told.split_once('\n').unwrap_or((told, ""));
    match head.split_once(' ')? {
        ("build", code) => Some(Told::Build(code.parse().ok()?, words)),
        ("exit", code) => Some(Told::Exit(code.parse().ok()?, words)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::kinds::SlurmCluster;
    use crate::program::SubmitFlags;

    /// A job's script as Slurm would run it, with a scontrol that keeps the comment.
    fn script(home: &Path, spec: serde_json::Value) -> Command {
        let bin = home.join("bin");
        std::fs::create_dir(&bin).unwrap();
        let scontrol = "#!/bin/sh\nprintf %s \"${3#comment=}\" >\"$HOME/comment\"\n";
        std::fs::write(bin.join("scontrol"), scontrol).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(bin.join("scontrol"), mode).unwrap();
        let metadata = json!({"name": "it's", "namespace": "ns", "uid": "u-1"});
        let job: GpuJob = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let cluster: SlurmCluster =
            serde_json::from_value(json!({"spec": {"user": "me", "secretRef": {"name": "s"}}})).unwrap();
        let package = Package::make(&job, &cluster, &SubmitFlags::default()).unwrap();
        let script = of(&Place::of(&job, &cluster, ""), &job, &package).unwrap();
        std::fs::write(home.join("script"), script).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.arg(home.join("script")).envs([
            ("HOME", home.as_os_str()),
            ("PATH", path.as_ref()),
            ("SLURM_JOB_ID", "7".as_ref()),
        ]);
        command
    }

    fn left(home: &Path) -> usize {
        std::fs::read_dir(home.join(".minik8s")).map_or(0, Iterator::count)
    }

    /// The code of a job, and what it told.
    fn run(spec: serde_json::Value) -> (i32, String) {
        let home = tempfile::tempdir().unwrap();
        let ended = script(home.path(), spec).output().unwrap();
        assert_eq!(left(home.path()), 0, "{ended:?}");
        (ended.status.code().unwrap(), std::fs::read_to_string(home.path().join("comment")).unwrap())
    }

    #[test]
    fn a_job_tells_its_end_and_leaves_nothing() {
        let (code, comment) =
            run(json!({"source": {"files": {"a b": "hello\n"}}, "run": "cat 'a b'; echo é; exit 3"}));
        assert_eq!((code, comment.lines().next()), (3, Some("minik8s ns/it's u-1")));
        assert_eq!(told(&comment), Some(Told::Exit(3, "hello")));
        let (code, comment) = run(json!({"source": {"files": {"x": ""}}, "run": "seq 10000"}));
        let Some(Told::Exit(0, words)) = told(&comment) else { panic!("{comment}") };
        assert!(code == 0 && words.ends_with("\n10000") && comment.len() < 1024, "{code} {comment}");
    }

    /// As soon as it has begun, and a little later each time, until it runs.
    #[test]
    fn cancelled_job_leaves_nothing() {
        for n in 0..20 {
            let home = tempfile::tempdir().unwrap();
            let spec = json!({"source": {"files": {"x": "y"}}, "run": "sleep 2"});
            let mut job = script(home.path(), spec).stdin(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(2 * n));
            let pid = job.id().to_string();
            assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
            let ended = job.wait().unwrap();
            assert_eq!(left(home.path()), 0, "after {} ms: {ended:?}", 2 * n);
        }
    }

    #[test]
    fn a_compiler_is_quoted() {
        let build = "echo a.cu:1: error >&2; exit 2";
        let (code, comment) = run(json!({"source": {"files": {"x": ""}}, "build": build, "run": "true"}));
        assert_eq!((code, told(&comment)), (2, Some(Told::Build(2, "a.cu:1: error"))));
        assert_eq!(told("minik8s ns/j u"), None);
        assert_eq!(told("somebody's\nown comment"), None);
    }
}
