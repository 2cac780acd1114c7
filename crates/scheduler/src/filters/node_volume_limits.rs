//! A CSI driver can have only so many volumes on a node, and none where it does not run.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Filter, Refusal};
use crate::snapshot::{NodeInfo, PodInfo, Snapshot};
use crate::waking::Waking;

const TOO_MANY: &str = "node(s) exceed max volume count";

pub struct NodeVolumeLimits;

impl Filter for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn prepare<'a>(&self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> Option<Check<'a>> {
        let wanted = snapshot.volumes.csi_volumes(pod);
        if wanted.is_empty() {
            return None;
        }
        Some(Box::new(move |node| {
            if let Some(driver) = missing(&wanted, node, snapshot) {
                return Err(Refusal::fixed(format!("{driver} CSI driver is not installed on the node")));
            }
            match exceeded(&wanted, node, snapshot) {
                Some(_) => Err(Refusal::by_pods(TOO_MANY)),
                None => Ok(()),
            }
        }))
    }

    fn helped_by(&self) -> Waking {
        Waking::NODE | Waking::VOLUME | Waking::POD_GONE
    }

    fn remedy(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> String {
        let wanted = snapshot.volumes.csi_volumes(pod);
        if let Some(driver) = missing(&wanted, node, snapshot) {
            return format!("install the CSI driver {driver} on this node");
        }
        match exceeded(&wanted, node, snapshot) {
            Some((driver, limit)) => {
                format!("free one of the {limit} volumes that {driver} can have on this node")
            }
            None => String::new(),
        }
    }
}

/// The first driver that is not there and says that it must be.
fn missing<'a>(
    wanted: &'a BTreeMap<String, BTreeSet<String>>,
    node: &NodeInfo,
    snapshot: &Snapshot,
) -> Option<&'a str> {
    wanted.keys().map(String::as_str).find(|driver| snapshot.volumes.csi.is_missing(driver, &node.name))
}

/// The first driver that could not have all of its volumes there, with its limit.
fn exceeded(
    wanted: &BTreeMap<String, BTreeSet<String>>,
    node: &NodeInfo,
    snapshot: &Snapshot,
) -> Option<(String, i64)> {
    wanted.iter().find_map(|(driver, volumes)| {
        let limit = snapshot.volumes.limit(&node.name, driver)?;
        let mut all = volumes.clone();
        for other in node.pods() {
            all.extend(snapshot.volumes.csi_volumes(other).remove(driver).unwrap_or_default());
        }
        (i64::try_from(all.len()).unwrap_or(i64::MAX) > limit).then(|| (driver.clone(), limit))
    })
}
