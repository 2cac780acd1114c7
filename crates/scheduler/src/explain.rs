//! Why a pod waits, in upstream's words.

use std::collections::BTreeMap;

use crate::decide::Refused;

/// `0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.`
pub fn explain(refused: &Refused) -> String {
    if refused.nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let refusals = || refused.by_node.values().map(|(_, refusal)| refusal);
    // What holds everywhere is said once.
    if let Some(general) = refusals().find(|refusal| refusal.everywhere) {
        return format!("0/{} nodes are available: {}.", refused.nodes, general.reasons.join(", "));
    }
    count(refused.nodes, refusals().flat_map(|refusal| refusal.reasons.iter().map(AsRef::as_ref)))
}

/// `0/3 nodes are available: ` with every reason and how often it was given.
pub fn count<'a>(nodes: usize, reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut parts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    format!("0/{nodes} nodes are available: {}.", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::Refusal;

    #[test]
    fn reasons_are_counted() {
        let mut refused = Refused { nodes: 3, ..Refused::default() };
        assert_eq!(explain(&Refused::default()), "no nodes available to schedule pods");
        let both = Refusal {
            reasons: vec!["Insufficient cpu".into(), "Insufficient memory".into()],
            ..Refusal::by_pods("")
        };
        refused.by_node.insert("a".into(), ("x", both));
        refused.by_node.insert("b".into(), ("x", Refusal::by_pods("Insufficient cpu")));
        refused.by_node.insert("c".into(), ("x", Refusal::fixed("node(s) were unschedulable")));
        assert_eq!(
            explain(&refused),
            "0/3 nodes are available: 1 Insufficient memory, 1 node(s) were unschedulable, 2 Insufficient cpu."
        );
        refused.by_node.insert("c".into(), ("x", Refusal::everywhere("claim \"data\" not found")));
        assert_eq!(explain(&refused), "0/3 nodes are available: claim \"data\" not found.");
    }
}
