//! The real kubectl, in every version that this machine has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Server;
use super::words::words;

/// Every kubectl of this machine: the one on the PATH, and `kubectl.1.NN` files beside it. Where there are
/// such files the plain one only picks among them, so it is left out.
pub fn installed() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("kubectl")).find(|file| file.is_file());
    let Some(found) = found else {
        panic!(
            "no kubectl on the PATH: install one (on Debian: apt-get install kubernetes-client), or run scripts/setup"
        );
    };
    let found = found.canonicalize().expect("the real path of kubectl");
    let beside = found.parent().into_iter().flat_map(|dir| dir.read_dir().expect("the directory of kubectl"));
    let mut versions: Vec<PathBuf> = beside
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| minor_version(file).is_some())
        .collect();
    versions.sort_by_key(|file| minor_version(file));
    if versions.is_empty() { vec![found] } else { versions }
}

/// Our own program, through a link named kubectl.
pub fn ours(server: &Server) -> PathBuf {
    let directory = server.scratch().join("ours");
    let link = directory.join("kubectl");
    std::fs::create_dir_all(&directory).expect("a directory");
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_minik8s"), &link).expect("a link");
    }
    link
}

/// 33 of `kubectl.1.33`.
fn minor_version(file: &Path) -> Option<u32> {
    file.file_name()?.to_str()?.strip_prefix("kubectl.1.")?.parse().ok()
}

/// One kubectl, working in a namespace of its own.
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Holds its caches, so that versions do not read each other's.
    home: PathBuf,
    pub namespace: String,
    /// 33 of 1.33: what a test needs where versions differ.
    pub minor: u32,
}

impl Kubectl {
    /// A kubectl that works in a new namespace, named after what is tested and the version.
    pub fn new(server: &Server, program: &Path, case: &str) -> Kubectl {
        let minor = minor_version(program).unwrap_or_else(|| ask_version(program));
        let home = server.scratch().join(format!("home-{minor}"));
        std::fs::create_dir_all(&home).expect("a home directory");
        let namespace = format!("{}-v{minor}", case.replace('_', "-"));
        let kubectl =
            Kubectl { program: program.to_owned(), kubeconfig: server.kubeconfig(), home, namespace, minor };
        kubectl.make_namespace();
        kubectl
    }

    /// With the service account that pods run as, which a controller makes where there is one.
    fn make_namespace(&self) {
        self.run(&format!("create namespace {}", self.namespace));
        let made = self.output("create serviceaccount default", "");
        assert!(made.code == 0 || made.stderr.contains("already exists"), "{made:?}");
    }

    /// A name that no other version uses, for objects outside of namespaces.
    pub fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for files of the test.
    pub fn dir(&self) -> &Path {
        &self.home
    }

    /// Runs a command that must succeed. Words are split as a shell does, with quotes.
    #[track_caller]
    pub fn run(&self, command: &str) -> Output {
        self.run_with("", command)
    }

    /// The same with a text on standard input, for `-f -`.
    #[track_caller]
    pub fn run_with(&self, input: &str, command: &str) -> Output {
        let output = self.output(command, input);
        assert_eq!(output.code, 0, "{output:#?}");
        output
    }

    /// Runs a command again and again until it succeeds.
    #[track_caller]
    pub fn until(&self, command: &str) -> Output {
        let begun = Instant::now();
        loop {
            let output = self.output(command, "");
            if output.code == 0 {
                return output;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "{output:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Runs a command that must fail.
    #[track_caller]
    pub fn fail(&self, command: &str) -> Output {
        self.fail_with("", command)
    }

    #[track_caller]
    pub fn fail_with(&self, input: &str, command: &str) -> Output {
        let output = self.output(command, input);
        assert_ne!(output.code, 0, "{output:#?}");
        output
    }

    /// Runs a command, however it ends.
    pub fn output(&self, command: &str, input: &str) -> Output {
        run_to_end(self.command(), command, input)
    }

    /// For tests that start it in their own way.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("HOME", &self.home)
            .env_remove("KUBE_EDITOR")
            .env("EDITOR", "sed -i 's/a: .*/a: edited/'")
            .env_remove("KUBECONFIG")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--namespace")
            .arg(&self.namespace);
        command
    }
}

/// Runs a program with the words of a command, however it ends.
pub fn run_to_end(mut program: Command, command: &str, input: &str) -> Output {
    program.args(words(command)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A command that reads no input closes the pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the program ends");
    Output {
        command: format!("{} {command}", program.get_program().display()),
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn ask_version(program: &Path) -> u32 {
    let output =
        Command::new(program).args(["version", "--client", "-o", "json"]).output().expect("kubectl starts");
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).expect("kubectl's version");
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().expect("a minor version")
}

/// What a command printed.
#[derive(Debug)]
pub struct Output {
    pub command: String,
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Output {
    /// Either stream has this text. How wide kubectl makes its columns does not matter.
    #[track_caller]
    pub fn says(&self, text: &str) -> &Self {
        let text = squeezed(text);
        let there = squeezed(&self.stdout).contains(&text) || squeezed(&self.stderr).contains(&text);
        assert!(there, "not there: {text}\n{self:#?}");
        self
    }

    #[track_caller]
    pub fn silent_on(&self, text: &str) -> &Self {
        assert!(!self.stdout.contains(text) && !self.stderr.contains(text), "there: {text}\n{self:#?}");
        self
    }

    /// Standard output is exactly this, but for white space at the ends.
    #[track_caller]
    pub fn is(&self, text: &str) -> &Self {
        assert_eq!(self.stdout.trim(), text, "{self:#?}");
        self
    }

    /// The columns of the first line, as `kubectl get` heads its table.
    pub fn header(&self) -> Vec<&str> {
        let line = self.stdout.lines().next().unwrap_or_default();
        line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect()
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// One blank in place of many.
fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for c in text.chars() {
        if c != ' ' || !squeezed.ends_with(' ') {
            squeezed.push(c);
        }
    }
    squeezed
}
