//! minik8s as a process of its own, which can be started again and again: the one place where tests start the binary for
//! longer than a command. It is killed when nobody holds it any more.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ranges::Number;

pub const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");
/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Below those for whoever connects somewhere, and below NodePorts and listeners of Gateways.
const FIRST_PORT: u16 = 19_000;
const PORTS: u32 = 6000;

/// The ports of this process.
static CLAIMED: Mutex<Vec<Number>> = Mutex::new(Vec::new());

#[derive(Clone)]
pub struct Program {
    pub role: &'static str,
    pub arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    /// What it is started from the next time.
    binary: Arc<Mutex<PathBuf>>,
    process: Arc<Mutex<Process>>,
}

/// What is killed with the last who knows of it.
#[derive(Default)]
struct Process(Option<Child>);

impl Program {
    /// Nothing runs until [`Program::start`]. What it says is appended to `log`.
    pub fn new(role: &'static str, log: &Path, arguments: Vec<String>) -> Program {
        let (environment, binary) = (Vec::new(), Arc::new(Mutex::new(BINARY.into())));
        Program { role, arguments, environment, log: log.to_owned(), binary, process: Arc::default() }
    }

    /// A control plane without a node, on loopback.
    pub fn control_plane(data_dir: &Path, log: &Path, port: u16, flags: &[&str]) -> Program {
        let port = port.to_string();
        let data_dir = data_dir.to_str().expect("a path in UTF-8");
        let fixed = ["--no-agent", "--bind", "127.0.0.1", "--port", &port, "--data-dir", data_dir];
        Program::new("server", log, owned(&[&fixed, flags].concat()))
    }

    /// Nodes that only say that they run pods.
    pub fn simulated_nodes(count: usize, kubeconfig: &Path, log: &Path) -> Program {
        let (count, kubeconfig) = (count.to_string(), kubeconfig.to_str().expect("a path in UTF-8"));
        Program::new("simulate", log, owned(&["--nodes", &count, "--kubeconfig", kubeconfig]))
    }

    /// Another program for every process from now on, as after an upgrade.
    pub fn set_binary(&self, binary: &Path) {
        *self.binary.lock().unwrap() = binary.to_owned();
    }

    /// Variables for every process from now on.
    pub fn set_environment(&mut self, variables: Vec<(String, String)>) {
        self.environment = variables;
    }

    pub fn start(&self) {
        self.start_with(&[]);
    }

    /// With these flags besides, this once.
    pub fn start_with(&self, flags: &[&str]) {
        let log = File::options().create(true).append(true).open(&self.log).expect("a log");
        let mut command = Command::new(&*self.binary.lock().unwrap());
        command.arg(self.role).args(&self.arguments).args(flags).env_remove("NO_COLOR");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.process.lock().unwrap().0 = Some(command.spawn().expect("the binary starts"));
    }

    pub fn has_ended(&self) -> bool {
        self.process.lock().unwrap().0.as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    pub fn pid(&self) -> u32 {
        self.process.lock().unwrap().0.as_ref().expect("it runs").id()
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.process.lock().unwrap().0 {
            let _ = kill(Pid::from_raw(i32::try_from(child.id()).expect("a pid")), signal);
        }
    }

    /// kill -9.
    pub fn crash(&self) {
        self.process.lock().unwrap().kill();
    }

    /// SIGTERM: how long it took, and how it ended; nothing if it did not run.
    pub fn stop(&self) -> Option<(Duration, ExitStatus)> {
        let asked = Instant::now();
        self.signal(Signal::SIGTERM);
        let mut child = self.process.lock().unwrap().0.take()?;
        loop {
            if let Some(status) = child.try_wait().expect("a child") {
                return Some((asked.elapsed(), status));
            }
            assert!(asked.elapsed() < TIMEOUT, "the {} does not stop:\n{}", self.role, self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until its log has a line that begins so; the rest of the line.
    pub fn until_said(&self, beginning: &str) -> String {
        let begun = Instant::now();
        loop {
            let (ended, log) = (self.has_ended(), self.log());
            if let Some(rest) = log.lines().rev().find_map(|line| line.strip_prefix(beginning)) {
                return rest.trim().to_owned();
            }
            assert!(!ended, "the {} has ended:\n{log}", self.role);
            assert!(begun.elapsed() < TIMEOUT, "the {} does not say {beginning:?}:\n{log}", self.role);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Process {
    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

/// No other test has it while this process lives, and the kernel gives it to nobody who asks for any port: so it is free
/// whenever a program takes it, or takes it again.
pub fn free_port() -> u16 {
    loop {
        let number = Number::claim("port", PORTS);
        let port = FIRST_PORT + u16::try_from(number.value).expect("a small number");
        CLAIMED.lock().unwrap().push(number);
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}
