//! What the pages of a node with 100 pods cost to write; what they cost to read from the kernel is measured by the example
//! `sampling_bench`. To be run alone:
//! `cargo test --release -p minik8s-kubelet scrape_bench -- --ignored --nocapture`.

use super::resource::tests::node;
use super::*;

const PODS: usize = 100;
const ROUNDS: u32 = 100;

fn cpu() -> f64 {
    let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
    let times = [used.user_time(), used.system_time()];
    times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum()
}

#[test]
#[ignore = "a benchmark"]
fn pages_of_a_node_with_100_pods() {
    let mut sample = node();
    let pod = sample.pods[0].clone();
    sample.pods =
        (0..PODS).map(|number| PodSample { name: format!("web-{number}"), ..pod.clone() }).collect();
    let operations = Operations::default();
    let mut bytes = 0;
    let begun = cpu();
    for _ in 0..ROUNDS {
        let own = own(&sample, &operations, Process::measure());
        bytes = own.len() + cadvisor(&sample).len() + resource(&sample).len();
    }
    println!("{bytes} bytes in {:.2} ms of CPU", (cpu() - begun) * 1000.0 / f64::from(ROUNDS));
    assert!(bytes > 100_000, "{bytes}");
}
