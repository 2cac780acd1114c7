import json
import os
import urllib.request


def call(name, payload):
    host = f"{name}.{os.environ['FN_NAMESPACE']}.fn.cluster.local:{os.environ.get('ROUTER_PORT', '80')}"
    request = urllib.request.Request(f"http://{host}/", json.dumps(payload).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main(params):
    about = call("describe", params)
    small = call("thumbnail", params)
    marked = call("watermark", small)
    return {"original": about, "thumbnail": call("describe", marked), "image": marked["image"]}
