//! The cluster under test: a server with its node in one process, and what the measurement does with it.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use minik8s_kubelet::image::Recipe;
use serde_json::Value;

use crate::{TIMEOUT, serve, succeed};

/// The same program under two names, so that one can be rolled to the other.
pub const IMAGES: [&str; 2] = ["bench.example/web:1", "bench.example/web:2"];

pub struct Cluster {
    binary: PathBuf,
    dir: tempfile::TempDir,
    arguments: Vec<String>,
    server: Child,
}

impl Cluster {
    /// Ready, and with its images.
    pub fn start(binary: &Path) -> Result<Cluster> {
        let dir = tempfile::tempdir_in(std::env::current_dir()?)?;
        let port =
            || -> Result<String> { Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string()) };
        let hosts = dir.path().join("hosts");
        std::fs::write(&hosts, "")?;
        let (api, node) = (port()?, port()?);
        let text = |path: &Path| path.display().to_string();
        let mut arguments: Vec<String> =
            ["server", "--mesh", "--bind", "127.0.0.1", "--port", &api, "--node-port", &node]
                .map(str::to_owned)
                .into();
        arguments.extend(
            ["--http-port", "0", "--https-port", "0", "--node-name", "bench-node"].map(str::to_owned),
        );
        arguments.extend(
            [
                "--cluster-cidr",
                "10.152.0.0/16",
                "--service-cidr",
                "10.153.0.0/16",
                "--hosts-file",
                &text(&hosts),
            ]
            .map(str::to_owned),
        );
        arguments.extend(["--data-dir".to_owned(), text(&dir.path().join("data"))]);
        let binary = binary.canonicalize()?;
        let server = start(&binary, &arguments, dir.path())?;
        let mut cluster = Cluster { binary, dir, arguments, server };
        if let Err(error) = cluster.ready().and_then(|()| cluster.load_images()) {
            cluster.tear_down();
            return Err(error);
        }
        Ok(cluster)
    }

    fn ready(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.run(&["wait", "node/bench-node", "--for=condition=Ready", "--timeout=5s"]).is_err() {
            if begun.elapsed() > TIMEOUT || self.server.try_wait()?.is_some() {
                let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
                bail!("{} did not become ready:\n{log}", self.binary.display());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    fn load_images(&self) -> Result<()> {
        let itself = std::env::current_exe()?;
        // Without what is there for debuggers.
        let program = self.dir.path().join("bench");
        succeed(Command::new("strip").arg("-o").args([&program, &itself]))?;
        let listed = succeed(Command::new("ldd").arg(&program))?;
        let libraries = listed.split_whitespace().filter(|word| word.starts_with('/'));
        let mut recipe = Recipe::new(IMAGES[0])
            .file("bench", 0o755, std::fs::read(&program)?)
            .entrypoint(&["/bench", "serve"]);
        for library in libraries {
            recipe = recipe.file(library.trim_start_matches('/'), 0o755, std::fs::read(library)?);
        }
        for name in IMAGES {
            recipe = recipe.named(name);
            let archive = self.dir.path().join("image.tar");
            recipe.write(std::fs::File::create(&archive)?)?;
            let mut load = Command::new(&self.binary);
            succeed(
                load.args(["image", "load", "--data-dir"]).arg(self.dir.path().join("data")).arg(&archive),
            )?;
        }
        Ok(())
    }

    /// As a user types it.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        succeed(self.command().args(words))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.arg("--kubeconfig").arg(self.dir.path().join("data/admin.kubeconfig"));
        command
    }

    pub fn apply(&self, object: &Value) -> Result<()> {
        let mut child =
            self.command().args(["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        child.stdin.take().context("its input")?.write_all(object.to_string().as_bytes())?;
        ensure!(child.wait()?.success(), "{object}");
        Ok(())
    }

    /// Of a Service, with its port.
    pub fn address(&self, service: &str) -> Result<String> {
        let ip = self.run(&["get", "service", service, "-o", "jsonpath={.spec.clusterIP}"])?;
        Ok(format!("{}:{}", ip.trim(), serve::PORT))
    }

    /// This program, in the network of a pod: its connections are the pod's.
    pub fn beside(&self, pod: &str, words: &[&str]) -> Result<Command> {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.process(pod, "main")?));
        command.arg(std::env::current_exe()?).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    /// The first process of a pod's container.
    fn process(&self, pod: &str, container: &str) -> Result<u32> {
        self.processes(pod, container)?.first().copied().with_context(|| format!("no process of {pod}"))
    }

    /// By its cgroup, in the order of their ids.
    fn processes(&self, pod: &str, container: &str) -> Result<Vec<u32>> {
        let object: Value = serde_json::from_str(&self.run(&["get", "pod", pod, "-o", "json"])?)?;
        let lists = ["containerStatuses", "initContainerStatuses"];
        let mut statuses =
            lists.iter().flat_map(|list| object["status"][*list].as_array().into_iter().flatten());
        let status = statuses.find(|status| status["name"] == container).context("no such container")?;
        let id = status["containerID"].as_str().and_then(|id| id.split("//").nth(1)).context("no id")?;
        let entries = std::fs::read_dir("/proc")?.flatten();
        let mut found: Vec<u32> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(id))
            })
            .collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Megabytes of a pod's proxy that are resident, and those of them that it shares with nobody.
    pub fn memory(&self, pod: &str) -> Result<(f64, f64)> {
        let (mut resident, mut own) = (0.0, 0.0);
        for pid in self.processes(pod, "minik8s-proxy")? {
            let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
            for line in text.lines() {
                let megabytes = || line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kb| kb / 1024.0);
                match line.split(':').next() {
                    Some("Rss") => resident += megabytes().unwrap_or_default(),
                    Some("Private_Clean" | "Private_Dirty") => own += megabytes().unwrap_or_default(),
                    _ => {}
                }
            }
        }
        Ok((resident, own))
    }

    /// kill -9, and a copy of the program in its place, as an upgrade does.
    pub fn replace_program(&mut self) -> Result<()> {
        let copy = self.dir.path().join("minik8s-new");
        std::fs::copy(&self.binary, &copy)?;
        self.server.kill()?;
        self.server.wait()?;
        self.binary = copy;
        self.server = start(&self.binary, &self.arguments, self.dir.path())?;
        self.ready()
    }

    /// Until every pod has a proxy of the program.
    pub fn wait_for_proxies(&self) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(&self.binary)?.ino();
        let runs_new =
            |pid: &u32| std::fs::metadata(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.ino() == inode);
        let names = self.run(&["get", "pods", "-o", "name"])?;
        let begun = Instant::now();
        for pod in names.lines().filter_map(|name| name.strip_prefix("pod/")) {
            while !self.processes(pod, "minik8s-proxy")?.iter().any(runs_new) {
                ensure!(begun.elapsed() < TIMEOUT, "the proxy of {pod} is of the former program");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        Ok(())
    }

    pub fn tear_down(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let data = self.dir.path().join("data");
        let _ = Command::new(&self.binary).args(["teardown", "--data-dir"]).arg(data).status();
    }
}

fn start(binary: &Path, arguments: &[String], dir: &Path) -> Result<Child> {
    let log = std::fs::File::options().create(true).append(true).open(dir.join("log"))?;
    let mut command = Command::new(binary);
    Ok(command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()?)
}
