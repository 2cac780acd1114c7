//! Who may do what: access reviews, impersonation, tokens, certificates.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::case;
use crate::harness::Kubectl;

case![reviews_and_roles, nobody_grants_more_than_he_has, reconciling_roles, identities, certificates];

fn reviews_and_roles(k: &Kubectl) {
    k.run("auth can-i create pods").is("yes");
    let denied = k.fail("auth can-i create pods --as=bob");
    assert_eq!((denied.code, denied.stdout.trim()), (1, "no"));
    k.run("auth can-i get /healthz --as=bob").is("yes");
    k.run("auth can-i --list --as=bob")
        .says("selfsubjectaccessreviews.authorization.k8s.io")
        .says("/version");
    k.fail("get pods --as=bob").says(&format!(
        r#"Error from server (Forbidden): pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "{}""#,
        k.namespace
    ));
    k.fail("get nodes --as=bob").says(
        r#"nodes is forbidden: User "bob" cannot list resource "nodes" in API group "" at the cluster scope"#,
    );
    k.run("create role reader --verb=get,list --resource=pods,pods/log");
    k.run("create rolebinding readers --role=reader --user=bob --group=devs");
    // Rules hold a moment after they are written.
    k.until("get pods --as=bob");
    k.run("auth can-i get pods --subresource=log --as=bob").is("yes");
    k.fail("auth can-i get pods --subresource=exec --as=bob").is("no");
    k.run("auth can-i list pods --as=eve --as-group=devs").is("yes");
    k.fail("auth can-i list pods --as=eve").is("no");
    k.fail("delete pod one --as=bob")
        .says(r#"pods "one" is forbidden: User "bob" cannot delete resource "pods""#);
}

fn nobody_grants_more_than_he_has(k: &Kubectl) {
    k.run("create role binder --verb=create,get,update,patch --resource=roles,rolebindings");
    k.run("create rolebinding binder --role=binder --user=bob");
    k.until("auth can-i create roles --as=bob");
    k.fail("create role more --verb=get --resource=secrets --as=bob")
        .says(r#"user "bob" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held"#)
        .says(r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#);
    k.fail("create rolebinding more --clusterrole=cluster-admin --user=bob --as=bob")
        .says("attempting to grant RBAC permissions not currently held");
    k.run("create role same --verb=get --resource=roles --as=bob");
}

fn reconciling_roles(k: &Kubectl) {
    let roles = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: wanted, namespace: {0}}}\n\
         rules: [{{apiGroups: [''], resources: [configmaps], verbs: [get]}}]\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: wanted, namespace: {0}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: wanted}}\n\
         subjects: [{{kind: User, name: amy, apiGroup: rbac.authorization.k8s.io}}]\n",
        k.namespace
    );
    k.run_with(&roles, "auth reconcile -f -").says("role.rbac.authorization.k8s.io/wanted reconciled");
    k.until("auth can-i get configmaps --as=amy").is("yes");
    k.run_with(&roles.replace("[get]", "[list]"), "auth reconcile -f -").says("reconciled");
    k.run("get role wanted -o jsonpath='{.rules[*].verbs}'").says("get").says("list");
    k.fail(r#"patch rolebinding wanted --type=merge -p '{"roleRef":{"name":"other"}}'"#)
        .says("cannot change roleRef");
}

fn identities(k: &Kubectl) {
    // kubectl 1.27 asks only for preview versions of the API, which Kubernetes serves no more.
    let knows_whoami = k.minor > 27;
    if knows_whoami {
        k.run("auth whoami").says("kubernetes-admin").says("system:masters");
        k.run("auth whoami --as=bob --as-group=devs --as-uid=7").says("bob").says("devs").says("7");
    }
    k.run("create serviceaccount robot");
    let token = k.run("create token robot --duration=20m").stdout;
    // A client without the administrator's certificate.
    let config = k.dir().join("robot.kubeconfig");
    let server = k.run("config view --raw -o jsonpath='{.clusters[0].cluster.server}'").stdout;
    let authority =
        k.run("config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}'").stdout;
    let text = |token: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}', certificate-authority-data: {authority}}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{token: {token}}}}}]\n"
        )
    };
    let robot = format!("--kubeconfig {}", config.display());
    std::fs::write(&config, text(token.trim())).expect("a kubeconfig");
    if knows_whoami {
        k.run(&format!("{robot} auth whoami")).says(&format!("system:serviceaccount:{}:robot", k.namespace));
    }
    k.fail(&format!("{robot} get secrets")).says("Forbidden");
    std::fs::write(&config, text("nonsense")).expect("a kubeconfig");
    k.fail(&format!("{robot} get secrets")).says("You must be logged in to the server");
    std::fs::write(&config, text(token.trim())).expect("a kubeconfig");
    k.run("delete serviceaccount robot");
    k.fail(&format!("{robot} get secrets")).says("Unauthorized");
}

fn certificates(k: &Kubectl) {
    let name = k.unique("carl");
    let request = format!(
        "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\nspec:\n  \
         request: {}\n  signerName: example.com/signer\n  usages: [client auth]\n",
        BASE64_STANDARD.encode(signing_request())
    );
    k.run_with(&request, "create -f -").says("created");
    k.run(&format!("get csr {name}")).says("Pending").says("kubernetes-admin").says("example.com/signer");
    k.run(&format!("certificate approve {name}")).says("approved");
    k.run(&format!("get csr {name}")).says("Approved");
    k.run(&format!("get csr {name} -o jsonpath='{{.status.conditions[0].reason}}'")).is("KubectlApprove");
    k.run(&format!("describe csr {name}")).says("Common Name:    carl");
    k.run(&format!("delete csr {name}"));
    k.run_with(&request, "create -f -");
    k.run(&format!("certificate deny {name}")).says("denied");
    k.run(&format!("get csr {name}")).says("Denied");
    k.fail_with(&request.replace(&name, "broken").replace("request: ", "request: AAAA"), "create -f -")
        .says("spec.request");
}

/// A PKCS#10 request for "carl", made once: its key does not matter.
pub fn signing_request() -> String {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "carl");
    params.serialize_request(&key).and_then(|request| request.pem()).expect("a request")
}
