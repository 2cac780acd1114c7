//! `kubectl create`, `run` and `expose`: objects that kubectl makes itself, which newer versions send as
//! protobuf.

use super::case;
use crate::harness::Kubectl;

case![workloads, configuration, services, identities];

fn workloads(k: &Kubectl) {
    k.run("create deployment web --image=nginx --replicas=3 --port=80").says("deployment.apps/web created");
    k.run("get deployment web -o jsonpath='{.spec.replicas} {.spec.strategy.type} {.spec.template.spec.containers[0].ports}'")
        .is(r#"3 RollingUpdate [{"containerPort":80,"protocol":"TCP"}]"#);
    k.run("create job once --image=busybox -- echo hi").says("job.batch/once created");
    k.run("get job once -o jsonpath='{.spec.template.spec.containers[0].command} {.spec.backoffLimit}'")
        .is(r#"["echo","hi"] 6"#);
    k.run("create cronjob often --image=busybox --schedule='*/5 * * * *' -- date")
        .says("cronjob.batch/often created");
    k.run("create job now --from=cronjob/often").says("job.batch/now created");
    k.run(
        "get job now -o jsonpath='{.metadata.ownerReferences[0].kind} {.metadata.ownerReferences[0].name}'",
    )
    .is("CronJob often");
    k.run("run one --image=nginx --env=A=b --port=80 --labels=app=one").says("pod/one created");
    k.run("get pod one -o jsonpath='{.spec.containers[0].env[0].value} {.status.phase} {.spec.serviceAccountName}'")
        .is("b Pending default");
    k.run("create poddisruptionbudget guard --selector=app=web --min-available=1")
        .says("poddisruptionbudget.policy/guard created");
    k.fail("create deployment web --image=nginx").says(r#"deployments.apps "web" already exists"#);
    k.fail("create cronjob bad --image=busybox --schedule='61 * * * *'").says("spec.schedule: Invalid value");
}

fn configuration(k: &Kubectl) {
    k.run("create configmap settings --from-literal=a=1 --from-literal=b=2")
        .says("configmap/settings created");
    let file = k.dir().join("motd");
    std::fs::write(&file, "hello\n").expect("a file");
    k.run(&format!("create configmap files --from-file={}", file.display()));
    k.run("get configmap files -o jsonpath='{.data.motd}'").is("hello");
    std::fs::write(&file, [0xff, 0xfe]).expect("a file");
    k.run(&format!("create configmap bytes --from-file={}", file.display()));
    k.run("get configmap bytes -o jsonpath='{.binaryData.motd}'").is("//4=");
    k.run("create secret generic login --from-literal=user=me --from-literal=password=x")
        .says("secret/login created");
    k.run("get secret login -o jsonpath='{.data.user} {.type}'").is("bWU= Opaque");
    k.run("create secret docker-registry pull --docker-server=r.example --docker-username=u --docker-password=p");
    k.run("get secret pull -o jsonpath='{.type}'").is("kubernetes.io/dockerconfigjson");
    k.run("create quota few --hard=pods=10,requests.cpu=2").says("resourcequota/few created");
    k.run("get quota few -o jsonpath='{.spec.hard}'").is(r#"{"pods":"10","requests.cpu":"2"}"#);
    let class = k.unique("important");
    k.run(&format!("create priorityclass {class} --value=1000 --description=x"))
        .says(&format!("priorityclass.scheduling.k8s.io/{class} created"));
    k.run(&format!("get priorityclass {class}")).says("1000").says("PreemptLowerPriority");
    let namespace = k.unique("more");
    k.run(&format!("create namespace {namespace}")).says(&format!("namespace/{namespace} created"));
    k.run(&format!("get namespace {namespace} -o jsonpath='{{.status.phase}} {{.metadata.labels}}'"))
        .is(&format!(r#"Active {{"kubernetes.io/metadata.name":"{namespace}"}}"#));
}

fn services(k: &Kubectl) {
    k.run("create service clusterip inside --tcp=80:8080").says("service/inside created");
    k.run("create service nodeport outside --tcp=80:8080").says("service/outside created");
    k.run("create service loadbalancer balanced --tcp=80").says("service/balanced created");
    k.run("create service externalname elsewhere --external-name=example.com")
        .says("service/elsewhere created");
    k.run("create service clusterip headless --clusterip=None").says("service/headless created");
    let services = k.run("get services");
    assert_eq!(services.header(), ["NAME", "TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)", "AGE"]);
    services.says("<pending>").says("example.com").says("80:3").says("None");
    k.run("get service inside -o jsonpath='{.spec.ports[0].targetPort} {.spec.ipFamilies[0]} {.spec.sessionAffinity}'")
        .is("8080 IPv4 None");
    k.run("create deployment web --image=nginx --replicas=0 --port=80");
    k.run("expose deployment web --name=front --port=8080 --target-port=80").says("service/front exposed");
    k.run("get service front -o jsonpath='{.spec.selector} {.spec.ports[0].port}'")
        .is(r#"{"app":"web"} 8080"#);
    k.run("create ingress hosts --rule='foo.example/bar=front:8080,tls=cert'")
        .says("ingress.networking.k8s.io/hosts created");
    let ingress = k.run("get ingress hosts");
    assert_eq!(ingress.header(), ["NAME", "CLASS", "HOSTS", "ADDRESS", "PORTS", "AGE"]);
    ingress.says("foo.example").says("80, 443");
}

fn identities(k: &Kubectl) {
    k.run("create serviceaccount robot").says("serviceaccount/robot created");
    k.run("create role reader --verb=get,list --resource=pods,deployments.apps")
        .says("role.rbac.authorization.k8s.io/reader created");
    k.run("get role reader -o jsonpath='{.rules[*].apiGroups} {.rules[*].resources}'")
        .is(r#"[""] ["apps"] ["pods"] ["deployments"]"#);
    let binding = format!("create rolebinding readers --role=reader --serviceaccount={}:robot", k.namespace);
    k.run(&binding).says("rolebinding.rbac.authorization.k8s.io/readers created");
    k.run("get rolebinding readers -o wide").says("Role/reader").says(&format!("{}/robot", k.namespace));
    let name = k.unique("all");
    k.run(&format!("create clusterrole {name} --verb='*' --resource=nodes"));
    k.run(&format!("create clusterrolebinding {name} --clusterrole={name} --user=jane"));
    k.run(&format!("get clusterrolebinding {name} -o wide")).says("jane");
    k.run("create token robot --duration=20m").says("ey");
    k.fail("create token nobody").says(r#"serviceaccounts "nobody" not found"#);
}
