//! Programs that are measured: started, ended by their id, and what they use.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// Ended when dropped.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Result<Self> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Process(quiet.spawn().with_context(|| format!("{command:?}"))?))
    }

    #[allow(dead_code, reason = "not all measurements ask")]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// User and system time so far, as precisely as the kernel counts it for each thread.
    pub fn cpu(&self) -> Result<Duration> {
        let mut total = 0;
        for task in std::fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
            total += text.split(' ').next().context("a time")?.trim().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(total))
    }

    /// The most megabytes that it has had.
    #[allow(dead_code, reason = "not all measurements ask")]
    pub fn peak(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a peak")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
    }

    /// Megabytes that are resident, and those of them that it shares with nobody.
    pub fn memory(&self) -> Result<(f64, f64)> {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.0.id()))?;
        let sum = |names: &[&str]| -> f64 {
            let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
            lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).sum::<f64>() / 1024.0
        };
        Ok((sum(&["Rss:"]), sum(&["Private_Clean:", "Private_Dirty:"])))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn is_installed(program: &str, version_flag: &str) -> bool {
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    quiet(Command::new(program).arg(version_flag))
}

pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One line of a report: what was measured, what it may be at most, and whether it is.
pub fn verdict(what: &str, figure: f64, unit: &str, most: f64) {
    let ratio = figure / most;
    let word = if ratio <= 1.0 { "ok" } else { "short" };
    println!("{what:<52} {figure:>9.2} {unit:<5} target ≤ {most:<7} {ratio:>5.2} of it   {word}");
}
