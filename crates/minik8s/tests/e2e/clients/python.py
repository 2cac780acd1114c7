"""What the Python `kubernetes` package does: create, read, change, watch and delete over TLS."""

import sys
import threading
import time

from kubernetes import client, config, dynamic, watch
from kubernetes.client.rest import ApiException

config.load_kube_config(config_file=sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()
namespace = "default"


def config_map(name, value):
    meta = client.V1ObjectMeta(name=name, labels={"app": "x"})
    return client.V1ConfigMap(metadata=meta, data={"key": value})


def refused(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == code, error
        return
    raise AssertionError(f"{call.__name__} should have failed with {code}")


# Create, read, change, delete.
made = core.create_namespaced_config_map(namespace, config_map("one", "1"))
assert made.metadata.uid and made.data == {"key": "1"}
refused(409, core.create_namespaced_config_map, namespace, config_map("one", "1"))
core.patch_namespaced_config_map("one", namespace, {"data": {"key": "2", "more": "x"}})
read = core.read_namespaced_config_map("one", namespace)
assert read.data == {"key": "2", "more": "x"}, read.data
refused(409, core.replace_namespaced_config_map, "one", namespace, made)
read.data = {"key": "3"}
assert core.replace_namespaced_config_map("one", namespace, read).data == {"key": "3"}
core.create_namespaced_config_map(namespace, config_map("two", "1"))
first = core.list_namespaced_config_map(namespace, label_selector="app=x", limit=1)
rest = core.list_namespaced_config_map(namespace, label_selector="app=x", _continue=first.metadata._continue)
assert [o.metadata.name for o in first.items + rest.items] == ["one", "two"]
core.delete_namespaced_config_map("two", namespace)
refused(404, core.read_namespaced_config_map, "two", namespace)
refused(404, core.read_namespaced_config_map, "nope", namespace)

# Typed objects with times, quantities and the scale subresource.
deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="web"),
    spec=client.V1DeploymentSpec(
        replicas=0,
        selector=client.V1LabelSelector(match_labels={"app": "web"}),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels={"app": "web"}),
            spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]),
        ),
    ),
)
web = apps.create_namespaced_deployment(namespace, deployment)
assert web.metadata.creation_timestamp.year >= 2024 and web.spec.strategy.type == "RollingUpdate"
assert apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 2}}).spec.replicas == 2
deployment.spec.replicas = -1
deployment.metadata.name = "bad"
refused(422, apps.create_namespaced_deployment, namespace, deployment)

# Watch from a list's version.
version = core.list_namespaced_config_map(namespace).metadata.resource_version


def change():
    time.sleep(0.2)
    core.create_namespaced_config_map(namespace, config_map("three", "1"))
    core.patch_namespaced_config_map("three", namespace, {"data": {"key": "2"}})
    core.delete_namespaced_config_map("three", namespace)


threading.Thread(target=change).start()
seen = []
events = watch.Watch()
for event in events.stream(
    core.list_namespaced_config_map, namespace, label_selector="app=x", resource_version=version, timeout_seconds=20
):
    seen.append((event["type"], event["object"].data["key"]))
    if event["type"] == "DELETED":
        events.stop()
assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")], seen

# The dynamic client finds resources by discovery, and applies on the server.
resources = dynamic.DynamicClient(client.ApiClient()).resources
maps = resources.get(api_version="v1", kind="ConfigMap")
body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
assert maps.server_side_apply(body=body, namespace=namespace, field_manager="python").data.a == "b"
assert [v for v in client.VersionApi().get_code().git_version] and client.ApisApi().get_api_versions().groups
print("all good")
