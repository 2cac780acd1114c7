//! The job's output as it grows on the cluster, printed here, so that the pod's log is the job's output. However many
//! tasks a job has, one command asks for what is new in all of their files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::results::input;
use crate::remote::{Failure, Ssh, TAIL};

const LIMIT: Duration = Duration::from_secs(30);
/// One command brings about as much, shared by the files; of each at least the second.
const AT_ONCE: usize = 4 << 20;
const LEAST: usize = 4096;

/// How much of each file was printed.
#[derive(Default)]
pub struct Output {
    printed: BTreeMap<String, u64>,
}

impl Output {
    /// Prints what is new; says whether anything was.
    pub async fn follow(&mut self, ssh: &Ssh, dir: &str, files: &[String]) -> Result<bool, Failure> {
        let mut grew = false;
        let mut once = BTreeSet::new();
        let mut files: Vec<&str> =
            files.iter().map(String::as_str).filter(|file| once.insert(*file)).collect();
        while !files.is_empty() {
            let most = share(files.len());
            let question = input(&self.question(&files))?;
            let said = ssh.run_with(TAIL, &[dir, &most.to_string()], question, LIMIT).await?;
            let mut unfinished = Vec::new();
            for (file, text) in tails(&said, &files) {
                *self.printed.entry(file.to_owned()).or_default() += text.len() as u64;
                grew |= !text.is_empty();
                Self::print(&text);
                if text.len() >= most {
                    unfinished.push(file);
                }
            }
            files = unfinished;
        }
        Ok(grew)
    }

    /// A log that nobody can take is no reason to leave the job alone.
    pub fn print(text: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text).and_then(|()| out.flush());
    }

    /// What [`TAIL`] reads.
    fn question(&self, files: &[&str]) -> Vec<u8> {
        let offset = |file: &str| self.printed.get(file).copied().unwrap_or_default();
        let each = files.iter().enumerate();
        each.map(|(number, file)| format!("{number}\0{file}\0{}\0", offset(file)))
            .collect::<String>()
            .into_bytes()
    }
}

fn share(files: usize) -> usize {
    (AT_ONCE / files.max(1)).max(LEAST)
}

/// What [`TAIL`] printed. Foreign bytes: a line that cannot be read is left out, and asked for again with the next look.
fn tails<'a>(said: &[u8], files: &[&'a str]) -> Vec<(&'a str, Vec<u8>)> {
    let lines = said.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
    let tail = |line: &str| {
        let (number, text) = line.split_once(' ')?;
        Some((*files.get(number.parse::<usize>().ok()?)?, STANDARD.decode(text).ok()?))
    };
    lines.filter_map(tail).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::quote;

    #[test]
    fn all_files_are_asked_for_by_one_command() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        let names: Vec<String> = (0..200).map(|task| format!("out '{task}\n$(x)")).collect();
        for (task, name) in names.iter().enumerate().skip(1) {
            let text = format!("{task}\0\n\u{e9}").repeat(if task == 7 { 5000 } else { 1 });
            std::fs::write(dir.path().join("work").join(name), text).unwrap();
        }
        let files: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut output = Output::default();
        output.printed.insert(names[9].clone(), 1);
        let ask = |output: &Output, files: &[&str]| {
            let script =
                quote::script(TAIL, &[dir.path().to_str().unwrap(), &share(files.len()).to_string()]);
            let question = input(&output.question(files)).unwrap();
            let command =
                Command::new("sh").args(["-c", &script]).stdin(Stdio::from(question)).output().unwrap();
            assert!(command.status.success(), "{command:?}");
            command.stdout
        };
        let said = ask(&output, &files);
        let found = tails(&said, &files);
        assert_eq!(found.len(), 199, "the file that is not there yet is left out");
        let text = |name: &str| &found.iter().find(|(file, _)| *file == name).unwrap().1;
        assert_eq!(text(&names[1]), "1\0\n\u{e9}".as_bytes());
        assert_eq!(text(&names[9]), "\0\n\u{e9}".as_bytes(), "only what is new");
        assert_eq!(text(&names[7]).len(), share(200), "the rest is asked for again");
        assert_eq!(tails(&ask(&output, &files[7..8]), &files[7..8])[0].1.len(), 25_000);
    }

    #[test]
    fn tails_leave_out_what_cannot_be_read() {
        assert!(tails(b"x\n9 aGk=\n0 ***\n\xff\xfe\n0", &["a"]).is_empty());
        assert_eq!(tails(b"0 aGk=\n", &["a"]), [("a", b"hi".to_vec())]);
    }
}
