//! What the server says of itself: resources, versions, health.

use super::case;
use crate::harness::Kubectl;

case![resources, the_server];

fn resources(k: &Kubectl) {
    let resources = k.run("api-resources");
    assert_eq!(resources.header(), ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]);
    for (name, rest) in [
        ("configmaps", "cm v1 true ConfigMap"),
        ("deployments", "deploy apps/v1 true Deployment"),
        ("horizontalpodautoscalers", "hpa autoscaling/v2 true HorizontalPodAutoscaler"),
        ("nodes", "no v1 false Node"),
        ("customresourcedefinitions", "crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition"),
        ("networkpolicies", "netpol networking.k8s.io/v1 true NetworkPolicy"),
    ] {
        let line =
            resources.stdout.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_default();
        assert_eq!(line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "), rest);
    }
    k.run("api-resources --namespaced=false -o name").says("nodes").silent_on("configmaps");
    k.run("api-resources --api-group=batch -o name").is("cronjobs.batch\njobs.batch");
    k.run("api-resources --verbs=create --api-group=authentication.k8s.io -o name")
        .says("tokenreviews.authentication.k8s.io");
    k.run("api-versions").says("apps/v1\n").says("autoscaling/v1\nautoscaling/v2\n").says("\nv1\n");
    k.run("get cm,deploy,hpa,sts,ds,rs,po,svc,ing,pvc,sa,ep,quota,limits,netpol,pdb,cj,rc");
    k.run("get no,pv,sc,pc,ns,csr,crd").says("namespace/default");
}

fn the_server(k: &Kubectl) {
    k.run("version").says("Server Version: ").says("v1.37");
    k.run("version -o json").says("\"minor\": \"37\"");
    k.run("cluster-info").says("is running at").says("https://127.0.0.1:");
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        k.run(&format!("get --raw {path}")).is("ok");
    }
    k.run("get --raw /readyz?verbose").says("[+]ping ok").says("readyz check passed");
    k.run("get --raw /metrics").says("# TYPE apiserver_request");
    k.run("get --raw /api/v1/namespaces/default").says(r#""kind":"Namespace""#);
    k.run("get --raw /apis").says("APIGroupList");
    k.run("get --raw /openapi/v3").says("apis/apps/v1");
    k.run("get --raw /.well-known/openid-configuration").says("jwks_uri");
    k.fail("get --raw /nonsense").says("the server could not find the requested resource");
    let namespaces = k.run("get namespaces -o name").stdout;
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(namespaces.contains(&format!("namespace/{namespace}\n")), "{namespaces}");
    }
    k.run("get service kubernetes -n default -o jsonpath='{.spec.clusterIP}'").is("10.96.0.1");
}
