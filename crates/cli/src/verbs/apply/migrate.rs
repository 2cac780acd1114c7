//! From client-side to server-side apply: what kubectl's annotation remembered becomes managed fields.

use serde_json::{Value, json};

use crate::error::Result;
use crate::flags::DryRun;
use crate::select::Target;
use crate::session::{JSON_PATCH, Session, Writing};

const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// Does nothing for objects that were never applied by a client.
pub async fn run(session: &Session, target: &Target, live: &Value, how: &Writing<'_>) -> Result<()> {
    let Some(fields) = migrated(&live["metadata"]["managedFields"], how.manager) else { return Ok(()) };
    if how.dry_run != DryRun::None {
        return Ok(());
    }
    let patch = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": fields},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
    ]);
    session.patch(target.path(), JSON_PATCH, &patch, how).await.map(|_| ())
}

/// The managed fields with the client's part handed to `manager`; None if there is no such part.
fn migrated(entries: &Value, manager: &str) -> Option<Value> {
    let mut entries = entries.as_array()?.clone();
    let is_client_side = |entry: &Value| {
        entry["manager"] == CLIENT_SIDE && entry["operation"] == "Update" && entry["subresource"].is_null()
    };
    let at = entries.iter().position(is_client_side)?;
    let mut moved = entries.remove(at);
    moved["manager"] = manager.into();
    moved["operation"] = "Apply".into();
    let own = |entry: &&mut Value| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry["subresource"].is_null()
    };
    match entries.iter_mut().find(own) {
        Some(own) => union(&mut own["fieldsV1"], &moved["fieldsV1"]),
        None => entries.push(moved),
    }
    Some(Value::Array(entries))
}

/// Field sets are trees of keys: their union has the keys of both.
fn union(into: &mut Value, from: &Value) {
    let (Some(into), Some(from)) = (into.as_object_mut(), from.as_object()) else { return };
    for (key, below) in from {
        union(into.entry(key.clone()).or_insert_with(|| json!({})), below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let client = entry(CLIENT_SIDE, "Update", json!({"f:data": {"f:a": {}}}));
        let other = entry("someone", "Update", json!({}));
        assert_eq!(migrated(&json!([other]), "kubectl"), None);
        assert_eq!(
            migrated(&json!([client, other]), "kubectl"),
            Some(json!([other, entry("kubectl", "Apply", json!({"f:data": {"f:a": {}}}))]))
        );
        let own = entry("kubectl", "Apply", json!({"f:data": {"f:b": {}}}));
        assert_eq!(
            migrated(&json!([client, own]), "kubectl"),
            Some(json!([entry("kubectl", "Apply", json!({"f:data": {"f:b": {}, "f:a": {}}}))]))
        );
    }
}
