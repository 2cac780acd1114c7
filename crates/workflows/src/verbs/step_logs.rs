//! What functions wrote during each step of a run: from the logs of their pods, with the user's own rights.
//!
//! Lines belong to a step by their time. An instance that carries out several calls at once (`concurrency` above one)
//! shows the lines of all of them.

use std::fmt::Write;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};

use super::steps::Step;

/// Of one step.
const MOST_LINES: usize = 1000;

/// A paragraph for each step that a function carried out.
pub async fn of(client: &Client, namespace: &str, steps: &[Step]) -> String {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut told = String::new();
    for step in steps.iter().filter(|step| !step.pod.is_empty()) {
        let _ = writeln!(told, "\n{} (pod {}):", step.state, step.pod);
        let parameters = LogParams {
            timestamps: true,
            since_time: Timestamp::from_millisecond(step.entered).ok(),
            ..LogParams::default()
        };
        match pods.logs(&step.pod, &parameters).await {
            Ok(log) => told += &within(&log, step),
            Err(kube::Error::Api(refused)) if refused.code == 404 => {
                let _ = writeln!(
                    told,
                    "  the pod is gone; nodes that keep logs (--log-retention) may have its: minik8s logs {} --ended",
                    step.pod
                );
            }
            Err(error) => {
                let _ = writeln!(told, "  no log: {error}");
            }
        }
    }
    told
}

/// The lines of a log with timestamps that fall into a step. Pure.
fn within(log: &str, step: &Step) -> String {
    // Times of a run have milliseconds, those of lines more.
    let end = step.took.map_or(i64::MAX, |took| step.entered + took + 1);
    let mut lines = log.lines().filter_map(|line| {
        let (time, text) = line.split_once(' ')?;
        let at = time.parse::<Timestamp>().ok()?.as_millisecond();
        (at >= step.entered && at < end).then_some(text)
    });
    let mut told: String = lines.by_ref().take(MOST_LINES).map(|line| format!("  {line}\n")).collect();
    let left = lines.count();
    if left > 0 {
        let _ = writeln!(told, "  … and {left} lines more");
    }
    if told.is_empty() { "  nothing was written\n".to_owned() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_steps_by_their_time() {
        let log = "2026-01-01T00:00:00.999999999Z before\n2026-01-01T00:00:01.000000001Z first\n\
                   2026-01-01T00:00:02.000900000Z last\n2026-01-01T00:00:02.001000000Z after\nno time\n";
        let mut step = Step { entered: 1_767_225_601_000, took: Some(1000), ..Step::default() };
        assert_eq!(within(log, &step), "  first\n  last\n");
        step.took = None;
        assert_eq!(within(log, &step), "  first\n  last\n  after\n");
        step.entered += 60_000;
        assert_eq!(within(log, &step), "  nothing was written\n");
    }
}
