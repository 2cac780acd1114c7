//! What Gateways and their sets are told.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Plan, key_of};

use super::gateway::Observed;
use super::infrastructure::{is_of, wanted_address};
use super::nodes::Nodes;
use crate::clients;
use crate::compile::Compiled;
use crate::condition::{Problem, Writer};
use crate::kinds::{
    GROUP, Gateway, GatewayAddress, GatewayStatus, ListenerSet, ListenerSetStatus, ListenerStatus,
    RouteGroupKind,
};
use crate::listeners::Judged;

/// As the Gateway API calls it.
const INSECURE: &str = "InsecureFrontendValidationMode";

pub fn write(
    seen: &Observed,
    compiled: &Compiled<'_>,
    failure: Option<&str>,
    now: Timestamp,
    plan: &mut Plan,
) {
    let gateway = &*seen.gateway;
    let known = gateway.status.clone().unwrap_or_default();
    let writer = Writer { known: &known.conditions, generation: gateway.metadata.generation, now };
    let address = address(seen);
    let accepted = accepted(gateway, compiled);
    let programming = Programming {
        own: programmed(compiled, &accepted, address.is_some(), failure, gateway),
        nodes: Nodes::of(seen, &compiled.spec),
        compiled,
    };
    let programmed = programming.whole();
    let mut conditions = vec![match &accepted {
        Ok("") => writer.condition("Accepted", true, "Accepted", ""),
        Ok(text) => writer.condition("Accepted", true, "ListenersNotValid", text),
        Err(problem) => writer.condition("Accepted", false, problem.reason, &problem.message),
    }];
    conditions.push(writer.outcome("Programmed", &programmed));
    if let Some(resolved) = &compiled.backend_certificate {
        conditions.push(writer.outcome("ResolvedRefs", resolved));
    }
    if clients::is_insecure(gateway) {
        let text = "clients without a good certificate are let in: tls.frontend says AllowInsecureFallback";
        conditions.push(writer.condition(INSECURE, true, "ConfigurationChanged", text));
    }
    let own = compiled.listeners.iter().zip(&compiled.attached).filter(|(judged, _)| judged.set.is_none());
    // One without a listener that is served is not attached.
    let sets: BTreeSet<_> = compiled
        .listeners
        .iter()
        .filter(|judged| judged.is_served())
        .filter_map(|judged| judged.set.map(key_of))
        .collect();
    let has_sets = gateway.spec.allowed_listeners.is_some();
    let status = GatewayStatus {
        addresses: address.into_iter().collect(),
        conditions,
        listeners: own
            .map(|(judged, count)| {
                listener(judged, *count, &known.listeners, writer.generation, &programming, now)
            })
            .collect(),
        attached_listener_sets: has_sets.then(|| i32::try_from(sets.len()).unwrap_or(i32::MAX)),
    };
    plan.status(gateway, Gateway { status: Some(status), ..gateway.clone() });
    for set in seen.view.sets_of(gateway) {
        let is_refused = compiled.refused.iter().any(|refused| key_of(*refused) == key_of(set));
        let status = set_status(set, &programming, is_refused, accepted.is_ok(), now);
        plan.status(set, ListenerSet { status: Some(status), ..set.clone() });
    }
}

/// What stands between a Gateway and its being answered for.
struct Programming<'a> {
    /// But for the nodes.
    own: Result<(), Problem>,
    nodes: Nodes,
    compiled: &'a Compiled<'a>,
}

impl Programming<'_> {
    fn whole(&self) -> Result<(), Problem> {
        self.own.clone().and_then(|()| self.nodes.whole())
    }

    /// Of one listener: what others' ports have does not matter.
    fn listener(&self, judged: &Judged<'_>) -> Result<(), Problem> {
        if let Some(conflict) = &judged.conflict {
            return Err(conflict.clone());
        }
        if !judged.is_served() {
            return Err(Problem::new("Invalid", "see the other conditions"));
        }
        if self.own.is_err() {
            return Err(Problem::new("Pending", "the Gateway is not programmed"));
        }
        let is_udp = judged.listener.protocol == "UDP";
        let mut ports = self.compiled.spec.ports.iter();
        let port = ports.find(|port| port.port == judged.listener.port && (port.protocol == "UDP") == is_udp);
        self.nodes.port(port.map(|port| port.router_port).unwrap_or_default())
    }
}

/// That of its Service.
fn address(seen: &Observed) -> Option<GatewayAddress> {
    let service = seen.service.as_ref().filter(|service| is_of(&service.metadata, &seen.gateway))?;
    let value = service.spec.as_ref()?.cluster_ip.clone().filter(|ip| !ip.is_empty() && ip != "None")?;
    if wanted_address(&seen.gateway).is_some_and(|wanted| wanted != value) {
        return None;
    }
    Some(GatewayAddress { type_: Some("IPAddress".to_owned()), value })
}

/// Some listeners may be wrong, which the text says; not all.
pub fn accepted(gateway: &Gateway, compiled: &Compiled<'_>) -> Result<&'static str, Problem> {
    let is_ip = |address: &GatewayAddress| address.type_.as_deref().is_none_or(|kind| kind == "IPAddress");
    if !gateway.spec.addresses.iter().all(is_ip) {
        return Err(Problem::new("UnsupportedAddress", "addresses are of the type IPAddress here"));
    }
    let infrastructure = gateway.spec.infrastructure.as_ref();
    if infrastructure.is_some_and(|wanted| wanted.parameters_ref.is_some()) {
        return Err(Problem::new(
            "InvalidParameters",
            "this controller takes no infrastructure.parametersRef",
        ));
    }
    let is_valid = |judged: &&Judged<'_>| judged.accepted.is_ok() && judged.conflict.is_none();
    // Those of sets are their own business.
    let own: Vec<&Judged<'_>> = compiled.listeners.iter().filter(|judged| judged.set.is_none()).collect();
    let valid = own.iter().copied().filter(is_valid).count();
    match (valid, own.len()) {
        (0, 1..) => {
            Err(Problem::new("ListenersNotValid", "none of the listeners is valid: see their conditions"))
        }
        (valid, all) if valid < all => Ok("some listeners are not valid: see their conditions"),
        _ => Ok(""),
    }
}

fn programmed(
    compiled: &Compiled<'_>,
    accepted: &Result<&str, Problem>,
    has_address: bool,
    failure: Option<&str>,
    gateway: &Gateway,
) -> Result<(), Problem> {
    if accepted.is_err() {
        return Err(Problem::new("Invalid", "it is not accepted"));
    }
    let wanted = gateway.spec.addresses.iter().filter(|address| !address.value.is_empty()).count();
    if wanted > 1 {
        return Err(Problem::new("AddressNotUsable", "a Gateway has one address here"));
    }
    if compiled.spec.ports.is_empty() {
        return Err(Problem::new("Invalid", "no listener can be served: see their conditions"));
    }
    match (has_address, failure) {
        (true, _) => Ok(()),
        (false, Some(error)) if wanted > 0 => Err(Problem::new("AddressNotUsable", error)),
        (false, Some(error)) => Err(Problem::new("AddressNotAssigned", error)),
        (false, None) => Err(Problem::new("AddressNotAssigned", "its Service has no address yet")),
    }
}

fn listener(
    judged: &Judged<'_>,
    count: i32,
    known: &[ListenerStatus],
    generation: Option<i64>,
    programming: &Programming<'_>,
    now: Timestamp,
) -> ListenerStatus {
    let old = known.iter().find(|one| one.name == judged.listener.name);
    let known = old.map(|one| one.conditions.as_slice()).unwrap_or_default();
    let writer = Writer { known, generation, now };
    let (accepted, conflict) = match &judged.conflict {
        Some(problem) => {
            (Err(problem.clone()), writer.condition("Conflicted", true, problem.reason, &problem.message))
        }
        None => (judged.accepted.clone(), writer.condition("Conflicted", false, "NoConflicts", "")),
    };
    let programmed = programming.listener(judged);
    let kind = |name: &str| RouteGroupKind { group: Some(GROUP.to_owned()), kind: name.to_owned() };
    ListenerStatus {
        name: judged.listener.name.clone(),
        supported_kinds: judged.kinds.iter().map(|one| kind(one.name())).collect(),
        attached_routes: count,
        conditions: vec![
            writer.outcome("Accepted", &accepted),
            writer.outcome("Programmed", &programmed),
            writer.outcome("ResolvedRefs", &judged.resolved),
            conflict,
        ],
    }
}

fn set_status(
    set: &ListenerSet,
    programming: &Programming<'_>,
    is_refused: bool,
    parent_accepted: bool,
    now: Timestamp,
) -> ListenerSetStatus {
    let (known, compiled) = (set.status.clone().unwrap_or_default(), programming.compiled);
    let writer = Writer { known: &known.conditions, generation: set.metadata.generation, now };
    if is_refused {
        let problem =
            Err(Problem::new("NotAllowed", "the Gateway does not let it in: see its allowedListeners"));
        let conditions = vec![writer.outcome("Accepted", &problem), writer.outcome("Programmed", &problem)];
        return ListenerSetStatus { conditions, listeners: Vec::new() };
    }
    let is_own = |judged: &Judged<'_>| judged.set.is_some_and(|own| key_of(own) == key_of(set));
    let own: Vec<_> =
        compiled.listeners.iter().zip(&compiled.attached).filter(|(judged, _)| is_own(judged)).collect();
    // One whose certificate may not be named is worth as little as one that is in another's place.
    let valid = own.iter().filter(|(judged, _)| judged.is_served()).count();
    let none = || Problem::new("ListenersNotValid", "none of the listeners is valid: see their conditions");
    let (accepted, programmed) = match (parent_accepted, valid) {
        (false, _) => {
            let problem = Problem::new("ParentNotAccepted", "the Gateway is not accepted");
            (writer.outcome("Accepted", &Err(problem.clone())), Err(problem))
        }
        (true, 0) => (writer.outcome("Accepted", &Err(none())), Err(none())),
        (true, valid) if valid < own.len() => {
            let text = "some listeners are not valid: see their conditions";
            (writer.condition("Accepted", true, "ListenersNotValid", text), Ok(()))
        }
        (true, _) => (writer.outcome("Accepted", &Ok(())), Ok(())),
    };
    let programmed = programmed.and_then(|()| {
        programming.whole().map_err(|_| Problem::new("Pending", "the Gateway is not programmed"))
    });
    let conditions = vec![accepted, writer.outcome("Programmed", &programmed)];
    let each = own.iter().map(|(judged, count)| {
        listener(judged, **count, &known.listeners, writer.generation, programming, now)
    });
    ListenerSetStatus { conditions, listeners: each.collect() }
}
