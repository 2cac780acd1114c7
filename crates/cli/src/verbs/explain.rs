//! `explain`: what the fields of a kind mean, from the server's own schemas.

mod schema;

use clap::Args;
use serde_json::Value;

use crate::discovery::Kind;
use crate::error::{Error, Result};
use crate::output;
use crate::session::Session;
use schema::Schemas;

/// Explain the fields of a kind
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s explain pod.spec.containers
  minik8s explain deployment --recursive
  minik8s explain hpa.spec --api-version=autoscaling/v1")]
pub struct Explain {
    /// TYPE or TYPE.FIELD.FIELD
    #[arg(value_name = "TYPE[.FIELD]")]
    what: String,
    /// Show the fields of fields, without their descriptions
    #[arg(long)]
    recursive: bool,
    /// Of this version: GROUP/VERSION
    #[arg(long, value_name = "GROUP/VERSION")]
    api_version: Option<String>,
    /// Accepted for compatibility with kubectl
    #[arg(long, short, hide = true)]
    output: Option<String>,
}

pub async fn run(session: &Session, verb: Explain) -> Result<()> {
    let (kind, fields) = resolve(session, &verb).await?;
    let schemas = load(session, &kind).await?;
    let root = schemas.of_kind(&kind).ok_or_else(|| {
        Error::plain(format!(
            "couldn't find resource for {:?}: the server describes no {}",
            kind.api_version(),
            kind.kind
        ))
    })?;
    output::text(text(&kind, &schemas, root, &fields, verb.recursive)?);
    Ok(())
}

/// The kind, and the way to the field. Names of groups have dots too.
async fn resolve(session: &Session, verb: &Explain) -> Result<(Kind, Vec<String>)> {
    let discovery = session.discovery().await?;
    let parts: Vec<&str> = verb.what.trim_end_matches('.').split('.').collect();
    // The longest beginning that names a kind: `deployments.apps.spec`.
    let found = (1..=parts.len()).rev().find_map(|end| {
        let kind = discovery.find(&parts[..end].join(".")).ok()?;
        // A group may be cut short; a field must not be taken for one.
        let named = end == 1 || kind.plural_qualified().ends_with(parts[1..end].join(".").as_str());
        named.then(|| (kind.clone(), parts[end..].iter().map(ToString::to_string).collect::<Vec<_>>()))
    });
    let (mut kind, fields) = match found {
        Some(found) => found,
        None => (discovery.find(parts[0])?.clone(), Vec::new()),
    };
    if let Some(version) = &verb.api_version {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let same =
            |other: &&Kind| other.plural == kind.plural && other.group == group && other.version == version;
        kind = discovery.kinds.iter().find(same).cloned().ok_or_else(|| {
            Error::plain(format!(
                "couldn't find resource for {:?}",
                verb.api_version.as_deref().unwrap_or_default()
            ))
        })?;
    }
    Ok((kind, fields))
}

async fn load(session: &Session, kind: &Kind) -> Result<Schemas> {
    let client = session.client().await?;
    let index = client.get("/openapi/v3").await?;
    let path = match kind.group.as_str() {
        "" => format!("api/{}", kind.version),
        group => format!("apis/{group}/{}", kind.version),
    };
    let url = index["paths"][&path]["serverRelativeURL"].as_str();
    let url = url.ok_or_else(|| Error::plain(format!("the server has no schemas for {path}")))?.to_owned();
    Ok(Schemas::new(client.get(url).await?))
}

/// The whole page. Pure.
fn text(kind: &Kind, schemas: &Schemas, root: &Value, fields: &[String], recursive: bool) -> Result<String> {
    let mut page = String::new();
    if !kind.group.is_empty() {
        page.push_str(&format!("GROUP:      {}\n", kind.group));
    }
    page.push_str(&format!("KIND:       {}\nVERSION:    {}\n\n", kind.kind, kind.version));
    let mut schema = root;
    let mut name = None;
    for field in fields {
        let below = schemas.fields(schema).and_then(|fields| fields.get(field));
        schema = below.ok_or_else(|| Error::plain(format!("field {field:?} does not exist")))?;
        name = Some(field);
    }
    if let Some(name) = name {
        page.push_str(&format!("FIELD: {name} <{}>\n\n\n", schemas.type_name(schema)));
    }
    page.push_str("DESCRIPTION:\n");
    let mut descriptions = schemas.descriptions(schema);
    if descriptions.is_empty() {
        descriptions.push("<empty>".to_owned());
    }
    for paragraph in descriptions {
        page.push_str(&wrapped(&paragraph, 4));
    }
    page.push_str("    \n");
    match schemas.fields(schema) {
        Some(fields) if !fields.is_empty() => {
            page.push_str("FIELDS:\n");
            let mut open = Vec::new();
            list(schemas, schema, 1, recursive, &mut open, &mut page);
        }
        _ => {}
    }
    page.push('\n');
    Ok(page)
}

fn list<'a>(
    schemas: &'a Schemas,
    schema: &'a Value,
    level: usize,
    recursive: bool,
    open: &mut Vec<&'a Value>,
    page: &mut String,
) {
    let Some(fields) = schemas.fields(schema) else { return };
    let inner = schemas.inner(schema);
    // A schema may contain itself; its fields are listed once.
    if open.iter().any(|above| std::ptr::eq(*above, inner)) {
        return;
    }
    open.push(inner);
    let mut names: Vec<&String> = fields.keys().collect();
    names.sort();
    let indent = "  ".repeat(level);
    for name in names {
        let below = &fields[name];
        let required = inner["required"].as_array().into_iter().flatten().any(|field| field == name);
        let required = if required { " -required-" } else { "" };
        page.push_str(&format!("{indent}{name}\t<{}>{required}\n", schemas.type_name(below)));
        if let Some(values) = schemas.inner(below)["enum"].as_array() {
            let values: Vec<String> = values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
            page.push_str(&format!("{indent}enum: {}\n", values.join(", ")));
        }
        if recursive {
            list(schemas, below, level + 1, recursive, open, page);
            continue;
        }
        let own = below["description"].as_str().map(str::to_owned);
        let description = own
            .or_else(|| schemas.descriptions(below).into_iter().next())
            .unwrap_or_else(|| "<no description>".to_owned());
        page.push_str(&wrapped(&description, 4));
        page.push('\n');
    }
    open.pop();
}

/// Lines of at most 80 columns; words are never cut. Blanks stay as they are, but for those where a line is broken.
fn wrapped(text: &str, indent: usize) -> String {
    let (mut out, most) = (String::new(), 80 - indent);
    let length = |text: &str| text.chars().count();
    for paragraph in text.split('\n') {
        let (mut line, mut rest) = (String::new(), paragraph.trim_end());
        while !rest.is_empty() {
            let blanks = rest.len() - rest.trim_start().len();
            let end = rest[blanks..].find(char::is_whitespace).map_or(rest.len(), |end| blanks + end);
            if !line.is_empty() && length(&line) + length(&rest[..end]) > most {
                out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
                line.clear();
                rest = &rest[blanks..];
                continue;
            }
            line.push_str(&rest[..end]);
            rest = &rest[end..];
        }
        out.push_str(&format!("{}{line}\n", " ".repeat(indent)));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn page(fields: &[&str], recursive: bool) -> String {
        let document = json!({"components": {"schemas": {
            "io.k8s.Thing": {
                "description": "Thing is a thing.", "type": "object", "required": ["spec"],
                "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Thing"}],
                "properties": {
                    "spec": {"description": "What is wanted.", "allOf": [{"$ref": "#/components/schemas/io.k8s.ThingSpec"}]},
                    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            },
            "io.k8s.ThingSpec": {
                "description": "ThingSpec tells it.", "type": "object",
                "properties": {
                    "inner": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.ThingSpec"}},
                    "size": {"type": "integer", "description": "How large."},
                },
            },
        }}});
        let schemas = Schemas::new(document);
        let kind = Kind { group: "x".into(), version: "v1".into(), kind: "Thing".into(), ..Kind::default() };
        let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
        let root = schemas.of_kind(&kind).unwrap();
        text(&kind, &schemas, root, &fields, recursive).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn pages() {
        let head = "GROUP:      x\nKIND:       Thing\nVERSION:    v1\n\n";
        assert_eq!(
            page(&[], false),
            format!(
                "{head}DESCRIPTION:\n    Thing is a thing.\n    \nFIELDS:\n  spec\t<ThingSpec> -required-\n    What is wanted.\n\n  \
                 tags\t<map[string]string>\n    <no description>\n\n\n"
            )
        );
        assert_eq!(
            page(&["spec"], true),
            format!(
                "{head}FIELD: spec <ThingSpec>\n\n\nDESCRIPTION:\n    What is wanted.\n    ThingSpec tells it.\n    \nFIELDS:\n  \
                 inner\t<[]ThingSpec>\n  size\t<integer>\n\n"
            )
        );
        assert_eq!(page(&["spec", "nonsense"], false), "error: field \"nonsense\" does not exist");
    }
}
