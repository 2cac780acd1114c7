//! CustomResourceDefinitions: kinds that users bring, through the same commands.

use super::{case, until_fails, until_succeeds};
use crate::harness::Kubectl;

case![objects, schemas, subresources, definitions_go_with_their_objects];

/// A definition with every feature of the case; each kubectl has a group of its own.
fn definition(group: &str) -> String {
    format!(
        r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: widgets.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {{}}
      scale: {{specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}}
    additionalPrinterColumns:
    - {{name: Size, type: string, jsonPath: .spec.size}}
    - {{name: Phase, type: string, jsonPath: .status.phase, priority: 1}}
    - {{name: Age, type: date, jsonPath: .metadata.creationTimestamp}}
    schema: &schema
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            description: What the widget should be.
            required: [size]
            properties:
              size: {{type: string, enum: [small, large], description: How big it is.}}
              replicas: {{type: integer, minimum: 0, maximum: 10, default: 1}}
              parts: {{type: array, items: {{type: object, properties: {{name: {{type: string, maxLength: 5}}}}}}}}
          status:
            type: object
            properties: {{phase: {{type: string}}, replicas: {{type: integer}}, selector: {{type: string}}}}
  - {{name: v1beta1, served: true, storage: false, schema: *schema}}
"#
    )
}

fn widget(group: &str, spec: &str) -> String {
    format!("apiVersion: {group}/v1\nkind: Widget\nmetadata: {{name: one}}\nspec: {{{spec}}}\n")
}

/// The group of this kubectl, its definition established.
fn define(k: &Kubectl) -> String {
    let group = format!("{}.example.com", k.namespace);
    k.run_with(&definition(&group), "apply -f -")
        .says(&format!("customresourcedefinition.apiextensions.k8s.io/widgets.{group} created"));
    k.run(&format!("wait crd/widgets.{group} --for=condition=Established --timeout=120s"));
    group
}

fn objects(k: &Kubectl) {
    let group = define(k);
    k.run(&format!("api-resources --api-group={group}")).says("widgets").says("wd").says("Widget");
    k.run_with(&widget(&group, "size: small"), "apply -f -").says(&format!("widget.{group}/one created"));
    k.run_with(&widget(&group, "size: small"), "apply -f -").says("unchanged");
    k.run_with(&widget(&group, "size: large, parts: [{name: a}]"), "apply -f -").says("configured");
    let wide = k.run(&format!("get wd.{group} -o wide"));
    assert_eq!(wide.header(), ["NAME", "SIZE", "PHASE", "AGE"]);
    wide.says("one    large");
    let one = format!("widget.{group} one");
    k.run(&format!("get {one} -o jsonpath='{{.spec}} {{.metadata.generation}}'"))
        .is(r#"{"parts":[{"name":"a"}],"replicas":1,"size":"large"} 2"#);
    k.run(&format!("get widgets.v1beta1.{group} one -o jsonpath='{{.apiVersion}} {{.spec.size}}'"))
        .is(&format!("{group}/v1beta1 large"));
    k.run(&format!("label {one} a=b")).says("labeled");
    k.run(&format!("get wd.{group} -l a=b --field-selector metadata.name=one -o name"))
        .is(&format!("widget.{group}/one"));
    k.run(&format!("describe {one}")).says("Size:      large");
    k.run("get all").says(&format!("widget.{group}/one"));
    k.run_with(&widget(&group, "size: large"), "apply --server-side --force-conflicts -f -")
        .says("serverside-applied");
    k.fail(&format!("patch {one} -p '{{}}'")).says("strategic");
    k.run(&format!("delete {one}")).says("deleted");
}

fn schemas(k: &Kubectl) {
    let group = define(k);
    k.fail_with(&widget(&group, "size: huge"), "create -f -")
        .says(r#"spec.size: Unsupported value: "huge": supported values: "small", "large""#);
    k.fail_with(&widget(&group, "replicas: 2"), "create -f - --validate=false")
        .says("spec.size: Required value");
    k.fail_with(&widget(&group, "size: small, replicas: 11"), "create -f -")
        .says("spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10");
    k.fail_with(&widget(&group, "size: small, replicas: many"), "create -f - --validate=false").says(
        "spec.replicas: Invalid value: \"string\": spec.replicas in body must be of type integer: \"string\"",
    );
    k.fail_with(&widget(&group, "size: small, parts: [{name: toolong}]"), "create -f -")
        .says("spec.parts[0].name: Too long: may not be more than 5 bytes");
    k.fail_with(&widget(&group, "size: small, sise: 1"), "create -f -").says("sise");
    k.run_with(&widget(&group, "size: small, sise: 1"), "create -f - --validate=warn")
        .says(r#"unknown field "spec.sise", did you mean "spec.size"?"#);
    k.run(&format!("get widget.{group} one -o jsonpath='{{.spec}}'")).is(r#"{"replicas":1,"size":"small"}"#);
    k.run(&format!("explain widget.spec --api-version={group}/v1"))
        .says("What the widget should be.")
        .says("size")
        .says("How big it is.");
    k.run(&format!("explain widget --recursive --api-version={group}/v1")).says("replicas").says("parts");
    let broken = definition(&format!("broken.{group}"))
        .replace("type: object\n        required", "type: objekt\n        required");
    k.fail_with(&broken, "create -f -").says("openAPIV3Schema.type: ").says("objekt");
}

fn subresources(k: &Kubectl) {
    let group = define(k);
    let one = format!("widget.{group} one");
    k.run_with(&widget(&group, "size: small"), "create -f -");
    k.run(&format!("scale {one} --replicas=3")).says("scaled");
    k.run(&format!("get {one} -o jsonpath='{{.spec.replicas}}'")).is("3");
    k.fail(&format!("scale {one} --replicas=30")).says("spec.replicas");
    k.run(&format!(r#"patch {one} --subresource=status --type=merge -p '{{"status":{{"phase":"Ready"}},"spec":{{"size":"large"}}}}'"#));
    k.run(&format!(r#"patch {one} --type=merge -p '{{"status":{{"phase":"Lost"}}}}'"#));
    k.run(&format!("get {one} -o jsonpath='{{.status.phase}} {{.spec.size}} {{.metadata.generation}}'"))
        .is("Ready small 2");
    k.run(&format!("wait {one} --for=jsonpath='{{.status.phase}}'=Ready --timeout=60s"))
        .says("condition met");
    k.run(&format!("get {one} --subresource=scale -o jsonpath='{{.kind}} {{.spec.replicas}}'")).is("Scale 3");
}

fn definitions_go_with_their_objects(k: &Kubectl) {
    let group = define(k);
    k.run_with(&widget(&group, "size: small"), "create -f -");
    let more = definition(&group).replace("enum: [small, large]", "enum: [small, large, huge]");
    k.run_with(&more, "apply -f -").says("configured");
    // The new schema holds a moment after it is written.
    until_succeeds(k, &widget(&group, "size: huge"), "apply -f -");
    k.run(&format!("delete crd widgets.{group} --timeout=120s")).says("deleted");
    let widgets = format!("get --raw /apis/{group}/v1/namespaces/{}/widgets", k.namespace);
    until_fails(k, &widgets).says("NotFound");
    k.run_with(&definition(&group), "create -f -");
    k.run(&format!("wait crd/widgets.{group} --for=condition=Established --timeout=120s"));
    k.run(&widgets).says(r#""items":[]"#);
}
