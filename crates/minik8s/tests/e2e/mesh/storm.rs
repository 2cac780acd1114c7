//! Many connections in one moment, and proxies whose memory is bounded.

use serde_json::json;

use super::shop::Shop;

/// At once, through the proxies of two pods. Of those that are not looked into each has a handshake, and a thread of the
/// program that answers.
const LOOKED_INTO: usize = 2000;
const OPAQUE: usize = 400;
/// What a proxy may have grown to with them, in KB: a container has 128 MB.
const MEMORY: u64 = 48 << 10;

/// All connect, then all ask; none is closed before all were answered. The number that was.
const STORM: &str = r#"
import asyncio, resource, socket, sys
files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
address, number, open_ones = socket.gethostbyname(sys.argv[1]), int(sys.argv[2]), []
async def ask():
    try:
        reader, writer = await asyncio.open_connection(address, 9080)
        open_ones.append(writer)
        writer.write(b"GET /reviews/1 HTTP/1.1\r\nhost: reviews\r\n\r\n")
        status = (await reader.readline()).split()[1]
        return status == b"200"
    except Exception as error:
        print(repr(error), file=sys.stderr)
        return False
async def main():
    return sum(await asyncio.wait_for(asyncio.gather(*[ask() for _ in range(number)]), 150))
print(asyncio.run(main()))
"#;

/// None is refused, all are answered, by request and as plain connections, and no proxy is ended for want of memory.
pub fn storm_is_answered(shop: &Shop) {
    shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "opaque"},
        "spec": {"selector": {"app": "reviews"}, "ports": [{"name": "tcp-opaque", "port": 9080}]}}));
    for (service, count) in [("reviews", LOOKED_INTO), ("opaque", OPAQUE)] {
        assert_eq!(shop.run("client", STORM, &[service, &count.to_string()]), count.to_string(), "{service}");
    }
    shop.kubectl(&["delete", "service", "opaque"]);
    for pod in ["client".to_owned(), shop.pod_of("reviews-v1"), shop.pod_of("reviews-v2")] {
        let status = &shop.get("pod", &pod)["status"]["initContainerStatuses"][0];
        assert_eq!(status["restartCount"], json!(0), "{status}");
        let anonymous = shop.largest(&pod);
        assert!(anonymous < MEMORY, "the proxy of {pod} has had {anonymous} KB");
    }
}

impl Shop {
    /// The most that a pod's proxy has had of its own, in KB.
    fn largest(&self, pod: &str) -> u64 {
        let pid = *self.pids(pod, "minik8s-proxy").first().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
        };
        number("VmHWM") - number("RssFile")
    }
}
