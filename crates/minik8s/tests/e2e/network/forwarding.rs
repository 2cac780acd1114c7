//! Host names and paths on port 80 of every node: from pods, from nodes, from outside.

use super::world::World;

const OBJECTS: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: one}, spec: {selector: {name: web-1}, ports: [{name: http, port: 80, targetPort: 8080}]}}
- {apiVersion: v1, kind: Service, metadata: {name: two}, spec: {selector: {name: web-2}, ports: [{name: http, port: 80, targetPort: 8080}]}}
- {apiVersion: minik8s.io/v1, kind: DNS, metadata: {name: shop}, spec: {rules: [{host: shop.test, paths: [{path: /one, backend: {service: {name: one, port: 80}}}, {path: /two, backend: {service: {name: two, port: http}}}]}]}}
- {apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: site}, spec: {ingressClassName: minik8s, rules: [{host: "*.site.test", http: {paths: [{path: /cgi-bin, pathType: Prefix, backend: {service: {name: two, port: {name: http}}}}]}}]}}
"#;

const PATHS: [(&str, &str); 2] = [("/one/cgi-bin/who", "web-1 "), ("/two/cgi-bin/who", "web-2 ")];

pub fn hosts_and_paths(world: &mut World) {
    world.apply(OBJECTS);
    for (path, expected) in PATHS {
        let url = format!("http://shop.test{path}");
        let wget = ["timeout", "9", "wget", "-qO-", &url];
        for pod in ["client-1", "client-2"] {
            let answer = || world.exec(pod, &wget).unwrap_or_else(|error| error);
            world.settles(&format!("{pod} → {url}"), answer, |text| text.starts_with(expected));
        }
        for node in ["node1", "node2"] {
            let on_node = [&["exec", node, "busybox"], &wget[2..]].concat();
            let answer = world.lab.run(&on_node);
            assert!(answer.starts_with(expected), "{node} → {url}: {answer}");
        }
    }
    let shown = world.kubectl(&["get", "dns", "shop", "--no-headers"]);
    assert!(shown.contains("/one,/two   one:80,two:http   True,True"), "{shown}");
    let outside = world.outside();
    for node in [1, 2] {
        let get = |host: &str, path: &str| outside.get(&world.lab.address(node), 80, host, path).unwrap();
        let (code, body) = get("www.site.test", "/cgi-bin/who");
        assert!(code == 200 && body.starts_with("web-2 "), "node{node}: {code} {body}");
        assert_eq!(get("www.site.test", "/other").0, 404);
    }
    let ingress =
        |world: &World| world.json(&["get", "ingress", "site"])["status"]["loadBalancer"].to_string();
    world.until("the Ingress has the nodes' addresses", || {
        [1, 2].iter().all(|node| ingress(world).contains(&world.lab.address(*node)))
    });
    metrics_and_log(world);
}

fn metrics_and_log(world: &World) {
    for node in ["node1", "node2"] {
        let page = world.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{node}/proxy/metrics")]);
        for sample in [
            "minik8s_router_requests_total{host=\"shop.test\",code=\"200\"} ",
            "minik8s_router_requests_total{host=\"*.site.test\",code=\"200\"} ",
            "minik8s_router_request_duration_seconds_count{host=\"shop.test\"} ",
            "kubelet_running_pods ",
            // The node's resolver and its rules, as users of CoreDNS and kube-proxy know them.
            "coredns_dns_requests_total{server=\"dns://:53\",zone=\"cluster.local.\",proto=\"udp\",family=\"1\",type=\"A\"} ",
            "coredns_dns_responses_total{server=\"dns://:53\",zone=\"cluster.local.\",rcode=\"NOERROR\"} ",
            "coredns_dns_request_duration_seconds_count{server=\"dns://:53\",zone=\"cluster.local.\"} ",
            "kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} ",
            "kubeproxy_network_programming_duration_seconds_count{ip_family=\"IPv4\"} ",
            "kubeproxy_sync_proxy_rules_endpoint_changes_total{ip_family=\"IPv4\"} ",
            "minik8s_proxy_services ",
            "minik8s_proxy_endpoints ",
        ] {
            let line = page.lines().find(|line| line.starts_with(sample));
            let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            assert!(value > Some(0.0), "{node}: {sample} in\n{page}");
        }
        let log = world.lab.log(node);
        let access = log.lines().find(|line| line.contains("/one/cgi-bin/who") && line.contains("code=200"));
        assert!(
            access.is_some_and(|line| line.contains("client=") && line.contains("GET")),
            "{node}:\n{log}"
        );
    }
}
