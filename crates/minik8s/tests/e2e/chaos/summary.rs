//! The table at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::faults::Done;

pub struct Summary {
    title: String,
    rows: Vec<(String, String)>,
    /// What must be empty.
    checks: Vec<(String, Vec<String>)>,
}

impl Summary {
    pub fn new(seed: u64, time: Duration, done: &[Done]) -> Summary {
        let title = format!("chaos: seed {seed}, {} s of faults, {} of them", time.as_secs(), done.len());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for done in done {
            *counts.entry(done.step.fault.kind()).or_default() += 1;
        }
        let rows = counts.into_iter().map(|(kind, count)| (kind.to_owned(), count.to_string())).collect();
        Summary { title, rows, checks: Vec::new() }
    }

    pub fn settled(&mut self, after: Duration) {
        self.row("after the last fault all was as desired in", format!("{:.1} s", after.as_secs_f64()));
    }

    pub fn row(&mut self, what: &str, figure: String) {
        self.rows.push((what.to_owned(), figure));
    }

    /// Something that must not be; each that is found is told.
    pub fn check(&mut self, what: &str, found: Vec<String>) {
        self.checks.push((what.to_owned(), found));
    }

    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|(_, found)| found.is_empty())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.rows.iter().map(|(what, _)| what).chain(self.checks.iter().map(|(what, _)| what));
        let width = widest.map(|what| what.chars().count()).max().unwrap_or(0);
        writeln!(f, "\n{}", self.title)?;
        for (what, figure) in &self.rows {
            writeln!(f, "  {what:<width$}  {figure:>8}")?;
        }
        writeln!(f, "  {}", "-".repeat(width + 10))?;
        for (what, found) in &self.checks {
            let verdict = if found.is_empty() { "none" } else { "BAD" };
            writeln!(f, "  {what:<width$}  {verdict:>8}")?;
            // A broken promise is often broken a thousand times.
            for one in found.iter().take(20) {
                writeln!(f, "      {one}")?;
            }
        }
        Ok(())
    }
}
