//! Who was first where two objects claim one host and path.

use minik8s_api::routing::{Claim, Owner};

/// Whoever has the claim's place and is older than its object.
pub(super) fn owner_before<'a>(
    claim: &Claim<'_>,
    others: impl Iterator<Item = Claim<'a>>,
) -> Option<Owner<'a>> {
    let same = others.filter(|other| other.place() == claim.place());
    same.map(|other| other.owner).filter(|owner| *owner < claim.owner).min()
}

/// Which places belong to others, in one sentence.
pub(super) fn accepted(claims: &[Claim<'_>], conflicts: &[Option<Owner<'_>>]) -> Result<(), String> {
    let taken = claims.iter().zip(conflicts).filter_map(|(claim, owner)| Some((claim, owner.as_ref()?)));
    let said: Vec<String> = taken
        .map(|(claim, owner)| {
            let host = if claim.host.is_empty() { "*" } else { claim.host };
            format!("{host}{} belongs to the older {}", claim.path, shown(owner))
        })
        .collect();
    if said.is_empty() { Ok(()) } else { Err(said.join("; ")) }
}

pub(super) fn shown(owner: &Owner<'_>) -> String {
    format!("{} {}/{}", owner.kind, owner.namespace, owner.name)
}
