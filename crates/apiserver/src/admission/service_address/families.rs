//! Which address families a Service has, from what its author says, what it had before and what the cluster has. Pure.
//!
//! A Service changes between one family and two only if its policy says so: never because the cluster has gained or lost
//! one. What is malformed in itself is left to validation.

use minik8s_api::{FieldErrors, Path};
use minik8s_meta::{Cidrs, IpFamily};
use serde_json::{Value, json};

use super::addresses::texts;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const HEADLESS: &str = "None";

/// Fills in `ipFamilyPolicy` and `ipFamilies` of a Service's spec and says which families it needs addresses of; `None` if
/// validation will refuse it. `old` is the spec before a change.
pub(super) fn settle(
    spec: &mut Value,
    old: Option<&Value>,
    cluster: &Cidrs,
) -> Result<Option<Vec<IpFamily>>, FieldErrors> {
    if old.is_none() {
        fill_cluster_ips(spec);
    }
    let Some(mut fields) = Fields::read(spec) else { return Ok(None) };
    let before = old.map(|old| Fields::read(old).unwrap_or_default());
    let is_same_type = old.is_some_and(|old| old["type"] == spec["type"]);
    // It stays as it is, even if the cluster has other families now.
    if is_same_type && before.as_ref() == Some(&fields) && fields.policy.as_deref() == Some(PREFER) {
        return Ok(Some(fields.families));
    }
    let unselected = spec["selector"].as_object().is_none_or(|selector| selector.is_empty());
    let by_hand = fields.is_headless() && unselected;
    let kept = fields.policy.clone().or_else(|| before.as_ref()?.policy.clone());
    let policy = kept.unwrap_or_else(|| if by_hand { REQUIRE } else { SINGLE }.to_owned());
    let mut errors = FieldErrors::default();
    if let Some(before) = &before {
        fields.follow(before, &policy, &mut errors);
    }
    fields.check_policy(&policy, &mut errors);
    fields.infer(cluster, &mut errors);
    if errors.is_empty() && !by_hand {
        fields.check_cluster(&policy, cluster, &mut errors);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if fields.families.is_empty() {
        fields.families.push(IpFamily::of(cluster.primary().addr()));
    }
    // Whoever writes endpoints by hand may write those of both families, whatever pods have.
    if policy != SINGLE && fields.families.len() == 1 && (by_hand || cluster.is_dual_stack()) {
        fields.families.push(fields.families[0].other());
    }
    fields.policy = Some(policy);
    fields.write(spec);
    Ok(Some(fields.families))
}

/// Who gives the one field alone gets both.
fn fill_cluster_ips(spec: &mut Value) {
    let single = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if !single.is_empty() && texts(&spec["clusterIPs"]).is_empty() {
        spec["clusterIPs"] = json!([single]);
    }
}

/// What a Service says about its addresses.
#[derive(Debug, Clone, Default, PartialEq)]
struct Fields {
    policy: Option<String>,
    families: Vec<IpFamily>,
    ips: Vec<String>,
}

impl Fields {
    /// `None` if it makes no sense in itself.
    fn read(spec: &Value) -> Option<Fields> {
        let policy = spec["ipFamilyPolicy"].as_str().map(str::to_owned);
        let families: Vec<IpFamily> =
            texts(&spec["ipFamilies"]).iter().map(|name| IpFamily::from_name(name)).collect::<Option<_>>()?;
        let ips = texts(&spec["clusterIPs"]);
        let known = policy.as_deref().is_none_or(|policy| [SINGLE, PREFER, REQUIRE].contains(&policy));
        let once = families.len() < 2 || families.len() == 2 && families[0] != families[1];
        let single = spec["clusterIP"].as_str().unwrap_or_default();
        let agrees = ips.first().map_or("", String::as_str) == single;
        let fields = Fields { policy, families, ips };
        (known && once && agrees && (fields.is_headless() || fields.have_addresses())).then_some(fields)
    }

    fn write(&self, spec: &mut Value) {
        spec["ipFamilyPolicy"] = json!(self.policy);
        spec["ipFamilies"] = self.families.iter().map(|family| family.name()).collect();
        if !self.ips.is_empty() {
            spec["clusterIPs"] = json!(self.ips);
        }
    }

    fn is_headless(&self) -> bool {
        self.ips == [HEADLESS]
    }

    /// Well-formed ones, at most one of each family, in the order of the families.
    fn have_addresses(&self) -> bool {
        let parsed = self.ips.iter().map(|ip| ip.parse().ok().map(IpFamily::of));
        let Some(found) = parsed.collect::<Option<Vec<IpFamily>>>() else { return false };
        let once = found.len() < 2 || found.len() == 2 && found[0] != found[1];
        once && found.iter().zip(&self.families).all(|(found, family)| found == family)
    }

    /// What a changed Service keeps or gives up.
    fn follow(&mut self, before: &Fields, policy: &str, errors: &mut FieldErrors) {
        if policy == SINGLE {
            // Nothing but the policy was changed: that is meaning enough.
            if self.ips == before.ips {
                self.ips.truncate(1);
            }
            if self.families == before.families {
                self.families.truncate(1);
            }
            return;
        }
        let is_less = |now: usize, before: usize| now > 0 && now < before;
        if is_less(self.ips.len(), before.ips.len()) {
            errors.invalid(
                policy_path(),
                policy,
                "must be 'SingleStack' to release the secondary cluster IP",
            );
        }
        if is_less(self.families.len(), before.families.len()) {
            errors.invalid(policy_path(), policy, "must be 'SingleStack' to release the secondary IP family");
        }
    }

    fn check_policy(&self, policy: &str, errors: &mut FieldErrors) {
        for (count, what) in [(self.ips.len(), "cluster IPs"), (self.families.len(), "IP families")] {
            if policy == SINGLE && count == 2 {
                let why = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                errors.invalid(policy_path(), policy, why);
            }
        }
    }

    /// Families that addresses were given of, but not named.
    fn infer(&mut self, cluster: &Cidrs, errors: &mut FieldErrors) {
        for (i, ip) in self.ips.iter().enumerate().skip(self.families.len()) {
            let Ok(address) = ip.parse() else { return };
            let family = IpFamily::of(address);
            match cluster.of_family(family) {
                Some(_) => self.families.push(family),
                None => {
                    let path = Path::new("spec").field("clusterIPs").index(i);
                    errors.invalid(
                        path,
                        json!(self.ips),
                        format!("{family} is not configured on this cluster"),
                    );
                }
            }
        }
    }

    fn check_cluster(&self, policy: &str, cluster: &Cidrs, errors: &mut FieldErrors) {
        if policy == REQUIRE && !cluster.is_dual_stack() {
            errors.invalid(policy_path(), policy, "this cluster is not configured for dual-stack services");
        }
        for (i, family) in self.families.iter().enumerate() {
            if cluster.of_family(*family).is_none() {
                let path = Path::new("spec").field("ipFamilies").index(i);
                errors.invalid(path, family.name(), "not configured on this cluster");
            }
        }
    }
}

fn policy_path() -> Path {
    Path::new("spec").field("ipFamilyPolicy")
}

#[cfg(test)]
#[path = "families_tests.rs"]
mod tests;
