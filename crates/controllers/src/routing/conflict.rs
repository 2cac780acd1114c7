//! Who was first where two objects claim one host and path.

use minik8s_meta::routing::{Claim, HostOwners, Owner};

/// Whoever has the claim's host, if that is another namespace's, or else its place, and is older than its object.
pub(super) fn owner_before<'a>(
    claim: &Claim<'a>,
    others: impl Iterator<Item = Claim<'a>>,
) -> Option<Owner<'a>> {
    let rivals: Vec<Claim<'a>> = others.filter(|other| other.host == claim.host).collect();
    let hosts = HostOwners::of(rivals.iter().chain([claim]));
    if let Some(owner) = hosts.other_than(claim.owner.namespace, claim.host) {
        return Some(owner.clone());
    }
    let counts = |other: &&Claim<'a>| hosts.other_than(other.owner.namespace, other.host).is_none();
    let same = rivals.iter().filter(counts).filter(|other| other.place() == claim.place());
    same.map(|other| &other.owner).filter(|owner| **owner < claim.owner).min().cloned()
}

/// Which places belong to others, in one sentence.
pub(super) fn accepted(claims: &[Claim<'_>], conflicts: &[Option<Owner<'_>>]) -> Result<(), String> {
    let taken = claims.iter().zip(conflicts).filter_map(|(claim, owner)| Some((claim, owner.as_ref()?)));
    let mut said: Vec<String> = Vec::new();
    for (claim, owner) in taken {
        let text = match claim.host {
            "" => format!("*{} belongs to the older {}", claim.path, shown(owner)),
            host if owner.namespace != claim.owner.namespace => {
                format!("{host} belongs to namespace {} by the older {}", owner.namespace, shown(owner))
            }
            host => format!("{host}{} belongs to the older {}", claim.path, shown(owner)),
        };
        if !said.contains(&text) {
            said.push(text);
        }
    }
    if said.is_empty() { Ok(()) } else { Err(said.join("; ")) }
}

pub(super) fn shown(owner: &Owner<'_>) -> String {
    format!("{} {}/{}", owner.kind, owner.namespace, owner.name)
}
