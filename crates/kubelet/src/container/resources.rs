//! Requests and limits as the kernel wants them. Pure.

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;

use crate::pod::QosClass;
use crate::quantity;

const PERIOD: i64 = 100_000;
const SMALLEST_QUOTA: i64 = 1_000;
const SMALLEST_SHARES: i64 = 2;
const LARGEST_SHARES: i64 = 262_144;

/// cpu shares of a request in thousandths of a core.
pub fn cpu_shares(milli: i64) -> i64 {
    match milli {
        ..=0 => SMALLEST_SHARES,
        milli => (milli.saturating_mul(1024) / 1000).clamp(SMALLEST_SHARES, LARGEST_SHARES),
    }
}

/// cpu quota per period of a limit in thousandths of a core; 0 is no limit.
pub fn cpu_quota(milli: i64) -> i64 {
    match milli {
        ..=0 => 0,
        milli => (milli.saturating_mul(PERIOD) / 1000).max(SMALLEST_QUOTA),
    }
}

pub fn linux_resources(
    resources: &core::ResourceRequirements,
    qos: QosClass,
    node_memory: i64,
) -> cri::LinuxContainerResources {
    let limit = |name: &str| resources.limits.as_ref().and_then(|l| l.get(name)).map(|q| q.0.as_str());
    let request = |name: &str| {
        let own = resources.requests.as_ref().and_then(|r| r.get(name)).map(|q| q.0.as_str());
        own.or_else(|| limit(name))
    };
    let cpu_request = request("cpu").and_then(quantity::milli).unwrap_or(0);
    let cpu_limit = limit("cpu").and_then(quantity::milli).unwrap_or(0);
    let memory_limit = limit("memory").and_then(quantity::value).unwrap_or(0).max(0);
    let memory_request = request("memory").and_then(quantity::value).unwrap_or(0);
    cri::LinuxContainerResources {
        cpu_shares: cpu_shares(cpu_request),
        cpu_period: PERIOD,
        cpu_quota: cpu_quota(cpu_limit),
        memory_limit_in_bytes: memory_limit,
        // Containers with a limit get no swap beyond it.
        memory_swap_limit_in_bytes: memory_limit,
        oom_score_adj: oom_score(qos, memory_request, node_memory),
        ..Default::default()
    }
}

/// The more of its node's memory a burstable container asked for, the later it is killed.
fn oom_score(qos: QosClass, memory_request: i64, node_memory: i64) -> i64 {
    match qos {
        QosClass::Guaranteed => -997,
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let share = memory_request.max(0).saturating_mul(1000) / node_memory.max(1);
            (1000 - share).clamp(3, 999)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_quotas() {
        let check = |milli: i64, shares: i64, quota: i64| {
            assert_eq!((cpu_shares(milli), cpu_quota(milli)), (shares, quota), "{milli}");
        };
        check(0, 2, 0);
        check(1, 2, 1_000);
        check(500, 512, 50_000);
        check(2_000, 2_048, 200_000);
        check(i64::MAX, 262_144, i64::MAX / 1000);
    }

    #[test]
    fn oom_scores() {
        use QosClass::*;
        let check = |qos, request, want| assert_eq!(oom_score(qos, request, 1000), want);
        check(Guaranteed, 10, -997);
        check(BestEffort, 0, 1000);
        check(Burstable, 0, 999);
        check(Burstable, 250, 750);
        check(Burstable, 1000, 3);
    }
}
