//! OpenAPI v2 of extension API servers: what this server's own document has of theirs.
//!
//! Their documents are fetched when somebody asks for ours, and what is taken of them is kept for a minute: the paths below
//! their group and version, and the definitions that those lead to. Never more, so that none can redefine another's kinds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_api::openapi::Published;
use serde_json::Value;

use super::availability::{TIMEOUT, fetch};
use super::backend::Backend;
use super::discovery::by_group;
use crate::api::Api;
use crate::catalog::Snapshot;

const KEPT: Duration = Duration::from_secs(60);
const REFERENCE: &str = "#/definitions/";

/// Of all servers that are available. Of two definitions of one name the first counts, as they are of one Go type.
pub async fn published(api: &Api, snapshot: &Snapshot) -> Published {
    let backends = by_group(&api.aggregator, snapshot).into_iter().flat_map(|(_, backends)| backends);
    let available = backends.filter(|backend| backend.known.read().is_available);
    let asked = available.map(|backend| async move { of_backend(api, &backend).await });
    let mut all = Published::default();
    for one in futures::future::join_all(asked).await {
        for (name, definition) in &one.definitions {
            all.definitions.entry(name).or_insert_with(|| definition.clone());
        }
        all.paths.extend(one.paths.iter().map(|(path, item)| (path.clone(), item.clone())));
    }
    all
}

/// One that does not answer is not asked again for as long as an answer would be kept.
async fn of_backend(api: &Api, backend: &Backend) -> Arc<Published> {
    let mut kept = backend.published.lock().await;
    if let Some((since, published)) = &*kept
        && since.elapsed() < KEPT
    {
        return published.clone();
    }
    let fetched = async {
        let address = backend.endpoint(&api.registry).await?;
        fetch(backend, address, "/openapi/v2").await
    };
    let fetched = tokio::time::timeout(TIMEOUT, fetched).await;
    let published = match fetched.unwrap_or_else(|_| Err("no answer".to_owned())) {
        Ok(document) => part_of(&document, &backend.api_version()),
        Err(why) => {
            tracing::debug!(
                name = backend.name,
                why,
                "the OpenAPI v2 of an extension server could not be read"
            );
            Published::default()
        }
    };
    let published = Arc::new(published);
    *kept = Some((Instant::now(), published.clone()));
    published
}

/// What a document says of one group and version.
fn part_of(document: &Value, api_version: &str) -> Published {
    let root = format!("/apis/{api_version}/");
    let mut part = Published::default();
    let mut wanted = Vec::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        if path.starts_with(&root) {
            references(item, &mut wanted);
            part.paths.insert(path.clone(), item.clone());
        }
    }
    while let Some(name) = wanted.pop() {
        let Some(definition) = document["definitions"].get(&name) else { continue };
        if !part.definitions.contains_key(&name) {
            references(definition, &mut wanted);
            part.definitions.insert(name, definition.clone());
        }
    }
    part
}

/// The names of the definitions that are named somewhere in it.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::String(text) if name == "$ref" => {
                found.extend(text.strip_prefix(REFERENCE).map(str::to_owned));
            }
            value => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_of_the_group_and_version_is_taken() {
        let to = |name: &str| json!({"$ref": format!("{REFERENCE}{name}")});
        let get = |name: &str| json!({"get": {"responses": {"200": {"schema": to(name)}}}});
        let document = json!({
            "paths": {
                "/apis/a.com/v1/things": get("Thing"),
                "/apis/a.com/v11/things": get("Other"),
                "/apis/apps/v1/deployments": get("Deployment"),
                "/version/": get("Info"),
            },
            "definitions": {
                "Thing": {"properties": {"spec": to("Spec"), "again": to("Thing"), "lost": to("Lost")}},
                "Spec": {"properties": {"items": {"type": "array", "items": to("Item")}, "$ref": {"type": "string"}}},
                "Item": {"type": "string"},
                "Other": {}, "Deployment": {}, "Info": {}, "Unused": {},
            },
        });
        let part = part_of(&document, "a.com/v1");
        assert_eq!(part.paths.keys().collect::<Vec<_>>(), ["/apis/a.com/v1/things"]);
        let mut definitions: Vec<_> = part.definitions.keys().collect();
        definitions.sort();
        assert_eq!(definitions, ["Item", "Spec", "Thing"]);
        assert_eq!(part.definitions["Spec"], document["definitions"]["Spec"]);
        for broken in [json!(null), json!([]), json!({"paths": 1, "definitions": []})] {
            assert!(part_of(&broken, "a.com/v1").paths.is_empty());
        }
    }
}
