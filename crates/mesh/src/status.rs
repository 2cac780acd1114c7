//! What a VirtualService says of itself: whether it holds, what is missing, and which proxies route by it. MeshPolicies count
//! proxies the same way.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::mesh::{
    ACCEPTED, MeshAckSpec, NODE_PROXY, PROGRAMMED, ProxyCounts, RESOLVED_REFS, VirtualService,
    VirtualServiceStatus, WaitingProxy,
};
use minik8s_runtime::Plan;

use crate::ack_name;
use crate::compile::{Compiled, Problem};
use crate::controller::Observed;

/// Names in `waitingFor`.
const MOST_NAMES: usize = 10;

pub fn write(seen: &Observed, compiled: &Result<Compiled, Problem>, now: Timestamp, plan: &mut Plan) {
    let virtual_service = &*seen.inputs.virtual_service;
    let proxies = match compiled {
        Ok(compiled) => {
            let acks = seen.acks.iter().filter_map(|ack| Some((ack_name::parts(ack)?.1, &ack.spec)));
            proxies(&seen.proxies, acks, &compiled.route.revision)
        }
        Err(_) => ProxyCounts { total: count(seen.proxies.len()), ..ProxyCounts::default() },
    };
    let generation = virtual_service.metadata.generation;
    let known =
        virtual_service.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let told = |kind: &str, said: (&str, &str, &str)| condition(known, kind, said, generation, now);
    let (accepted, resolved, programmed) = match compiled {
        Err(problem) if matches!(problem.reason, "Conflict" | "NotHTTP") => {
            let no = ("False", problem.reason, problem.message.as_str());
            (no, ("Unknown", problem.reason, ""), ("False", problem.reason, ""))
        }
        Err(problem) => {
            let no = ("False", problem.reason, problem.message.as_str());
            (("True", "Accepted", ""), no, ("False", problem.reason, ""))
        }
        Ok(compiled) => {
            let resolved = match &compiled.missing {
                Some(missing) => ("False", missing.reason, missing.message.as_str()),
                None => ("True", "ResolvedRefs", ""),
            };
            let programmed = match proxies.applied == proxies.total {
                true => ("True", "Programmed", ""),
                false => ("False", "Waiting", "not all proxies route by it yet"),
            };
            (("True", "Accepted", ""), resolved, programmed)
        }
    };
    let status = VirtualServiceStatus {
        observed_generation: generation,
        subsets: compiled.as_ref().map(|compiled| compiled.subsets.clone()).unwrap_or_default(),
        conditions: vec![
            told(ACCEPTED, accepted),
            told(RESOLVED_REFS, resolved),
            told(PROGRAMMED, programmed),
        ],
        proxies,
    };
    plan.status(virtual_service, VirtualService { status: Some(status), ..virtual_service.clone() });
}

/// A node that has acknowledged the revision speaks for all its proxies but those that it names. Its own is counted while it
/// is among these.
pub fn proxies<'a>(
    all: &[(String, String)],
    acks: impl Iterator<Item = (&'a str, &'a MeshAckSpec)>,
    revision: &str,
) -> ProxyCounts {
    let acks: BTreeMap<&str, &MeshAckSpec> = acks.filter(|(_, ack)| ack.revision == revision).collect();
    let has_applied = |(pod, node): &&(String, String)| {
        acks.get(node.as_str()).is_some_and(|ack| !ack.waiting.contains(pod))
    };
    let waiting = all.iter().filter(|proxy| !has_applied(proxy));
    let waiting = waiting.map(|(pod, node)| WaitingProxy { pod: pod.clone(), node: node.clone() });
    let of_nodes = acks.iter().filter(|(_, ack)| ack.waiting.iter().any(|one| one == NODE_PROXY));
    let of_nodes: Vec<WaitingProxy> = of_nodes
        .map(|(node, _)| WaitingProxy { pod: NODE_PROXY.to_owned(), node: (*node).to_owned() })
        .collect();
    let total = all.len() + of_nodes.len();
    let mut waiting: Vec<WaitingProxy> = of_nodes.into_iter().chain(waiting).collect();
    let applied = total - waiting.len();
    waiting.truncate(MOST_NAMES);
    ProxyCounts { total: count(total), applied: count(applied), waiting_for: waiting }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// `known` are the object's conditions as they are; of this one its status, reason and message are said.
pub fn condition(
    known: &[Condition],
    kind: &str,
    (status, reason, message): (&str, &str, &str),
    generation: Option<i64>,
    now: Timestamp,
) -> Condition {
    let same = known.iter().find(|known| known.type_ == kind && known.status == status);
    Condition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: same.map_or(Time(now), |known| known.last_transition_time.clone()),
    }
}
