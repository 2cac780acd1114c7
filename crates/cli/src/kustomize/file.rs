//! What a kustomization may say. A field that is none is a mistake, not something to pass over.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

type Pairs = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Kustomization {
    pub api_version: String,
    pub kind: String,
    pub metadata: Value,
    pub resources: Vec<String>,
    pub bases: Vec<String>,
    pub components: Vec<String>,
    pub namespace: String,
    pub name_prefix: String,
    pub name_suffix: String,
    pub labels: Vec<Labels>,
    pub common_labels: Pairs,
    pub common_annotations: Pairs,
    pub config_map_generator: Vec<Generator>,
    pub secret_generator: Vec<Generator>,
    pub generator_options: GeneratorOptions,
    pub patches: Vec<Patch>,
    pub patches_strategic_merge: Vec<String>,
    #[serde(rename = "patchesJson6902")]
    pub patches_json6902: Vec<Patch>,
    pub images: Vec<Image>,
    pub replicas: Vec<Replicas>,
    pub replacements: Vec<ReplacementEntry>,
    pub sort_options: Value,
    pub build_metadata: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Labels {
    pub pairs: Pairs,
    pub include_selectors: bool,
    pub include_templates: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Generator {
    pub name: String,
    pub namespace: String,
    /// `create`, `replace` or `merge`.
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub env: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub options: GeneratorOptions,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct GeneratorOptions {
    pub labels: Pairs,
    pub annotations: Pairs,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Selector>,
    pub options: BTreeMap<String, bool>,
}

/// Which resources. Names and kinds are regular expressions, but where a replacement selects.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Selector {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub label_selector: String,
    pub annotation_selector: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Image {
    pub name: String,
    pub new_name: String,
    pub new_tag: String,
    pub tag_suffix: String,
    pub digest: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Replicas {
    pub name: String,
    pub count: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplacementEntry {
    /// A file with replacements.
    pub path: String,
    pub source: Option<Source>,
    pub targets: Vec<Target>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Source {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub field_path: String,
    pub options: FieldOptions,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Target {
    pub select: Selector,
    pub reject: Vec<Selector>,
    pub field_paths: Vec<String>,
    pub options: FieldOptions,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub create: bool,
}
