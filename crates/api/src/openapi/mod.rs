//! Schemas of all kinds: compiled for the server, published as OpenAPI v2 and v3 for clients.
//!
//! Built-in kinds get theirs from the `k8s-openapi` types and from [`facts`], custom kinds from their
//! CustomResourceDefinition. Compiled schemas are small, shared and kept; documents are large, rarely asked
//! for, written on demand and kept by nobody here.

mod compiled;
mod custom;
mod definitions;
mod facts;
mod fingerprint;
mod operations;
mod parameters;
mod special;
mod v2;
mod v2_protobuf;
mod v3;
mod wire;

pub use compiled::{schema_for, schema_of};
pub use fingerprint::fingerprint;
pub use v2::{Published, v2_json};
pub use v2_protobuf::{V2_PROTOBUF, V2_PROTOBUF_REQUEST, v2_protobuf};
pub use v3::{v3_document, v3_index};

#[cfg(test)]
mod tests;
