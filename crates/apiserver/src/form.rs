//! The shape of an answer: whole objects, tables for `kubectl get`, or metadata alone.

use jiff::Timestamp;
use minik8s_api::Column;
use serde_json::{Value, json};

use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::registry::{cells_of, columns_of};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Object,
    /// `as=Table` with its API version and what each row carries.
    Table {
        api_version: String,
        include: Include,
    },
    /// `as=PartialObjectMetadata` or its list.
    Metadata {
        api_version: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Include {
    None,
    Metadata,
    Object,
}

/// What the client accepts: a form, and how it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    pub form: Form,
    pub encoding: Encoding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Yaml,
    /// For kinds that have such a form; others are answered in JSON, which clients that ask for it accept.
    Protobuf,
}

impl Accepted {
    /// For answers that come in no other form than whole.
    pub fn parse_whole(accept: &str) -> Result<Self> {
        let whole: Vec<&str> = accept.split(',').filter(|clause| !clause.contains("as=")).collect();
        if whole.is_empty() {
            return Err(ApiError::not_acceptable(accept));
        }
        Accepted::parse(&whole.join(","), "")
    }

    /// Takes the first media type of the `Accept` header that can be answered.
    pub fn parse(accept: &str, include_object: &str) -> Result<Self> {
        if accept.trim().is_empty() {
            return Ok(Accepted { form: Form::Object, encoding: Encoding::Json });
        }
        let mut binary_only = true;
        for clause in accept.split(',') {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let encoding = match media {
                "application/json" | "*/*" | "application/*" | "text/json" => Encoding::Json,
                "application/yaml" | "text/yaml" => Encoding::Yaml,
                minik8s_protobuf::MEDIA_TYPE => Encoding::Protobuf,
                // Go clients list it first and take what they get.
                "application/cbor" | "application/cbor-seq" => continue,
                _ => {
                    binary_only = false;
                    continue;
                }
            };
            let (mut shape, mut group, mut version) = ("", "", "");
            for parameter in parts {
                match parameter.split_once('=') {
                    Some(("as", value)) => shape = value,
                    Some(("g", value)) => group = value,
                    Some(("v", value)) => version = value,
                    _ => {}
                }
            }
            let meta = group == "meta.k8s.io" && matches!(version, "v1" | "v1beta1");
            let api_version = format!("meta.k8s.io/{version}");
            let form = match shape {
                "" => Form::Object,
                "Table" if meta && encoding != Encoding::Protobuf => {
                    Form::Table { api_version, include: Include::parse(include_object)? }
                }
                "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => {
                    Form::Metadata { api_version }
                }
                _ => {
                    binary_only = false;
                    continue;
                }
            };
            return Ok(Accepted { form, encoding });
        }
        if binary_only {
            return Ok(Accepted { form: Form::Object, encoding: Encoding::Json });
        }
        Err(ApiError::not_acceptable(accept))
    }
}

impl Include {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "Metadata" => Ok(Include::Metadata),
            "None" => Ok(Include::None),
            "Object" => Ok(Include::Object),
            other => Err(ApiError::bad_request(format!("includeObject: unsupported value {other:?}"))),
        }
    }

    pub fn row(self, cells: Vec<Value>, object: Value) -> Value {
        match self {
            Include::None => json!({"cells": cells}),
            Include::Object => json!({"cells": cells, "object": object}),
            Include::Metadata => json!({"cells": cells, "object": partial("meta.k8s.io/v1", object)}),
        }
    }
}

impl Form {
    /// One object; `described` leaves the table's column definitions out.
    pub fn shape_one(&self, served: &Served, object: Value, described: bool) -> Value {
        match self {
            Form::Object => object,
            Form::Metadata { api_version } => partial(api_version, object),
            Form::Table { api_version, include } => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let columns = if described { Vec::new() } else { columns_of(served) };
                table(api_version, metadata, &columns, vec![row(served, *include, object)])
            }
        }
    }

    /// One object whose row is not its resource's own: what a subresource shows.
    pub fn shape_row(&self, columns: &[Column], cells: Vec<Value>, object: Value) -> Value {
        match self {
            Form::Object => object,
            Form::Metadata { api_version } => partial(api_version, object),
            Form::Table { api_version, include } => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table(api_version, metadata, columns, vec![include.row(cells, object)])
            }
        }
    }

    pub fn shape_list(&self, served: &Served, metadata: Value, objects: Vec<Value>) -> Value {
        match self {
            Form::Object => json!({
                "kind": format!("{}List", served.kind), "apiVersion": served.api_version,
                "metadata": metadata, "items": objects,
            }),
            Form::Metadata { api_version } => {
                let items: Vec<Value> =
                    objects.into_iter().map(|object| partial(api_version, object)).collect();
                json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": api_version,
                    "metadata": metadata, "items": items,
                })
            }
            Form::Table { api_version, include } => {
                let rows = objects.into_iter().map(|object| row(served, *include, object)).collect();
                table(api_version, metadata, &columns_of(served), rows)
            }
        }
    }

    pub fn shape_bookmark(&self, object: Value) -> Value {
        match self {
            Form::Object => object,
            Form::Metadata { api_version } => partial(api_version, object),
            Form::Table { api_version, .. } => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                table(api_version, metadata, &[], vec![json!({"cells": [], "object": object})])
            }
        }
    }
}

fn table(api_version: &str, metadata: Value, columns: &[Column], rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table", "apiVersion": api_version, "metadata": metadata,
        "columnDefinitions": column_definitions(columns), "rows": rows,
    })
}

pub fn column_definitions(columns: &[Column]) -> Value {
    let definition = |c: &Column| {
        json!({
            "name": c.name, "type": c.ty, "format": c.format, "description": c.description,
            "priority": c.priority,
        })
    };
    columns.iter().map(definition).collect()
}

fn row(served: &Served, include: Include, object: Value) -> Value {
    include.row(cells_of(served, &object, Timestamp::now()), object)
}

fn partial(api_version: &str, mut object: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": object["metadata"].take()})
}

#[cfg(test)]
mod tests {
    use super::Encoding::*;
    use super::*;

    fn check(accept: &str, expected: Option<(&str, Encoding)>) {
        let got = Accepted::parse(accept, "").ok().map(|a| {
            let name = match a.form {
                Form::Object => "object",
                Form::Table { .. } => "table",
                Form::Metadata { .. } => "metadata",
            };
            (name, a.encoding)
        });
        assert_eq!(got, expected, "{accept}");
    }

    #[test]
    fn accept_headers() {
        check("", Some(("object", Json)));
        check("*/*", Some(("object", Json)));
        check("application/yaml", Some(("object", Yaml)));
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Some(("table", Json)));
        check("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Some(("object", Json)));
        check("application/vnd.kubernetes.protobuf,application/json", Some(("object", Protobuf)));
        check("application/json,application/vnd.kubernetes.protobuf", Some(("object", Json)));
        check("application/vnd.kubernetes.protobuf;stream=watch", Some(("object", Protobuf)));
        let tables = "as=Table;v=v1;g=meta.k8s.io";
        let both = format!("application/vnd.kubernetes.protobuf;{tables},application/json;{tables}");
        check(&both, Some(("table", Json)));
        check("application/cbor", Some(("object", Json)));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Some(("metadata", Json)));
        check("text/html", None);
        check("application/json;as=Table;v=v9;g=meta.k8s.io", None);
    }
}
