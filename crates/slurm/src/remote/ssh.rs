//! One connection to a login node, by the system's `ssh`.
//!
//! It trusts the host key of the SlurmCluster and no other, reads no configuration of anybody's, and keeps its files in a
//! directory of its own.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::kinds::SlurmClusterSpec;
use crate::kinds::host_key;
use crate::quote;
use crate::remote::{Failure, PRELUDE};

/// The name under which the host's key is known, whatever the host is called.
const ALIAS: &str = "slurm-login";
/// ssh's own code for "could not connect".
const NO_CONNECTION: i32 = 255;

/// What opens the door: files of a mounted Secret.
pub struct Credentials {
    pub key: Option<PathBuf>,
    pub password: Option<PathBuf>,
}

impl Credentials {
    /// The keys of the Secret that are known.
    pub fn in_directory(dir: &Path) -> Result<Self, String> {
        let file = |name: &str| Some(dir.join(name)).filter(|path| path.is_file());
        let found = Credentials { key: file("ssh-privatekey"), password: file("password") };
        match (&found.key, &found.password) {
            (None, None) => Err("the Secret has neither ssh-privatekey nor password".to_owned()),
            _ => Ok(found),
        }
    }
}

/// A login node and how to reach it.
pub struct Ssh {
    options: Vec<String>,
    host: String,
    askpass: Option<PathBuf>,
}

impl Ssh {
    /// Writes what ssh needs into `state`, a directory that nobody else can read.
    pub fn new(spec: &SlurmClusterSpec, credentials: &Credentials, state: &Path) -> std::io::Result<Self> {
        let known_hosts = state.join("known_hosts");
        write(&known_hosts, 0o600, known(&spec.host_key).as_bytes())?;
        let mut options = vec![
            ("HostKeyAlias", ALIAS.to_owned()),
            ("UserKnownHostsFile", shown(&known_hosts)),
            ("GlobalKnownHostsFile", "/dev/null".to_owned()),
            ("StrictHostKeyChecking", "yes".to_owned()),
            ("UpdateHostKeys", "no".to_owned()),
            ("IdentitiesOnly", "yes".to_owned()),
            ("IdentityAgent", "none".to_owned()),
            ("ConnectTimeout", "10".to_owned()),
            ("ServerAliveInterval", "5".to_owned()),
            ("ServerAliveCountMax", "3".to_owned()),
            ("ControlMaster", "auto".to_owned()),
            ("ControlPath", shown(&state.join("connection"))),
            ("ControlPersist", "150".to_owned()),
            ("ForwardAgent", "no".to_owned()),
            ("ForwardX11", "no".to_owned()),
            ("ClearAllForwardings", "yes".to_owned()),
            ("PermitLocalCommand", "no".to_owned()),
            ("RequestTTY", "no".to_owned()),
            ("LogLevel", "ERROR".to_owned()),
            ("Port", spec.port.unwrap_or(22).to_string()),
            ("User", spec.user.clone()),
        ];
        let mut askpass = None;
        match (&credentials.key, &credentials.password) {
            (Some(key), _) => {
                // ssh refuses keys that others may read or that end without a line's end.
                let mut content = std::fs::read(key)?;
                if !content.ends_with(b"\n") {
                    content.push(b'\n');
                }
                let own = state.join("identity");
                write(&own, 0o600, &content)?;
                options.push(("BatchMode", "yes".to_owned()));
                options.push(("IdentityFile", shown(&own)));
            }
            (None, Some(password)) => {
                let program = state.join("askpass");
                let script = format!("#!/bin/sh\nexec cat {}\n", quote::word(&shown(password)));
                write(&program, 0o700, script.as_bytes())?;
                options.push(("NumberOfPasswordPrompts", "1".to_owned()));
                options.push(("PubkeyAuthentication", "no".to_owned()));
                askpass = Some(program);
            }
            (None, None) => {}
        }
        let options = options.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Ssh { options, host: spec.host.clone(), askpass })
    }

    /// Runs a script there; what it prints.
    pub async fn run(&self, script: &str, arguments: &[&str], limit: Duration) -> Result<Vec<u8>, Failure> {
        self.run_with(script, arguments, Stdio::null(), limit).await
    }

    /// The same with something on its standard input.
    pub async fn run_with(
        &self,
        script: &str,
        arguments: &[&str],
        input: impl Into<Stdio>,
        limit: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let mut command = self.command(script, arguments);
        let child = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = tokio::time::timeout(limit, child.wait_with_output()).await;
        let output = output.map_err(|_| Failure::TimedOut(limit))??;
        judge(output.status.code(), &output.stderr)?;
        Ok(output.stdout)
    }

    /// Runs a script whose output goes into a file.
    pub async fn run_into(
        &self,
        script: &str,
        arguments: &[&str],
        input: File,
        output: File,
        limit: Duration,
    ) -> Result<(), Failure> {
        let mut command = self.command(script, arguments);
        let child = command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn()?;
        let ended = tokio::time::timeout(limit, child.wait_with_output()).await;
        let ended = ended.map_err(|_| Failure::TimedOut(limit))??;
        judge(ended.status.code(), &ended.stderr)
    }

    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-F", "/dev/null", "-T"]).kill_on_drop(true);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command.arg("--").arg(&self.host).arg(quote::script(&format!("{PRELUDE}{script}"), arguments));
        if let Some(program) = &self.askpass {
            command.env("SSH_ASKPASS", program).env("SSH_ASKPASS_REQUIRE", "force").env("DISPLAY", "none");
        }
        command
    }
}

fn judge(code: Option<i32>, said: &[u8]) -> Result<(), Failure> {
    let said = String::from_utf8_lossy(said).trim().to_owned();
    match code {
        Some(0) => Ok(()),
        Some(NO_CONNECTION) => Err(Failure::Unreachable(explain(&said))),
        Some(code) => Err(Failure::Ended { code, said }),
        None => Err(Failure::Unreachable("ssh was ended by a signal".to_owned())),
    }
}

/// What stands in the way, in words that say what to do.
fn explain(said: &str) -> String {
    let last = said.lines().last().unwrap_or("ssh could not connect");
    if said.contains("Host key verification failed") || said.contains("HOST IDENTIFICATION HAS CHANGED") {
        "the server's host key is not the one in spec.hostKey: compare it with `ssh-keyscan HOST`".to_owned()
    } else if said.contains("Permission denied") {
        format!("the server refuses the user or the key of the Secret: {last}")
    } else if said.contains("invalid format") || said.contains("error in libcrypto") {
        "ssh-privatekey in the Secret is no private key that ssh can read without a passphrase".to_owned()
    } else {
        last.to_owned()
    }
}

/// Lines of known_hosts under our own name for the host.
fn known(keys: &str) -> String {
    let keys = keys.lines().filter_map(host_key);
    keys.map(|(kind, key)| format!("{ALIAS} {kind} {key}\n")).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn write(path: &Path, mode: u32, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> SlurmClusterSpec {
        SlurmClusterSpec {
            host: "login.example".to_owned(),
            user: "me".to_owned(),
            host_key: format!("login.example ssh-ed25519 {}", "A".repeat(68)),
            ..SlurmClusterSpec::default()
        }
    }

    #[test]
    fn nothing_secret_is_an_argument() {
        let dir = tempfile::tempdir().unwrap();
        for (file, content) in [("ssh-privatekey", "SECRET-KEY"), ("password", "SECRET-WORD")] {
            let secrets = tempfile::tempdir().unwrap();
            std::fs::write(secrets.path().join(file), content).unwrap();
            let credentials = Credentials::in_directory(secrets.path()).unwrap();
            let ssh = Ssh::new(&spec(), &credentials, dir.path()).unwrap();
            let command = format!("{:?}", ssh.command("true", &[]));
            assert!(!command.contains("SECRET"), "{command}");
            assert!(command.contains("StrictHostKeyChecking=yes"), "{command}");
        }
        let mode =
            |name: &str| std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("identity"), mode("askpass")), (0o600, 0o700));
        assert_eq!(std::fs::read(dir.path().join("identity")).unwrap(), b"SECRET-KEY\n");
        let known = std::fs::read_to_string(dir.path().join("known_hosts")).unwrap();
        assert!(known.starts_with("slurm-login ssh-ed25519 AAAA"), "{known}");
        assert!(Credentials::in_directory(dir.path()).is_err());
    }

    #[test]
    fn troubles_are_told_in_words_that_help() {
        let check = |said: &str, part: &str| assert!(explain(said).contains(part), "{}", explain(said));
        check("No ED25519 host key is known for x\nHost key verification failed.", "spec.hostKey");
        check("me@h: Permission denied (publickey).", "key of the Secret");
        check("Load key \"/x\": invalid format", "no private key");
        check("ssh: connect to host h port 22: Connection refused", "Connection refused");
    }
}
