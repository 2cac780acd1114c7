//! A control plane without a node: data dir and port of its own, nodes simulated where they are wanted, ended when dropped.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::program::{Program, free_port};

const READY: &str = "minik8s is ready at ";

pub struct Server {
    pub program: Program,
    nodes: Option<Program>,
    port: u16,
    dir: TempDir,
    pub url: String,
}

impl Server {
    /// Ready for requests.
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Server {
        let dir = TempDir::with_prefix("minik8s-test-").expect("a temporary directory");
        let port = free_port();
        let program = Program::control_plane(&dir.path().join("data"), &dir.path().join("log"), port, flags);
        program.start();
        let url = program.until_said(READY);
        Server { program, nodes: None, port, dir, url }
    }

    /// The same with so many nodes, which a process of their own simulates. They are not waited for.
    pub fn start_with_nodes(count: usize) -> Server {
        let mut server = Server::start();
        let nodes =
            Program::simulated_nodes(count, &server.kubeconfig(), &server.dir.path().join("nodes.log"));
        nodes.start();
        server.nodes = Some(nodes);
        server
    }

    /// Ends the server by SIGKILL and starts another one on the same data.
    pub fn crash_and_restart(&mut self) {
        self.program.crash();
        std::fs::remove_file(self.dir.path().join("log")).expect("the log of the first one");
        self.program.start();
        self.url = self.program.until_said(READY);
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// A directory that lives as long as the server.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    pub fn log(&self) -> String {
        self.program.log()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.program.crash();
        if std::thread::panicking() {
            eprintln!("--- log of the server at {}\n{}", self.url, self.log());
        }
    }
}
