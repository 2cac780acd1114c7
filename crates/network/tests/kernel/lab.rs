//! Machines that are network namespaces, with cables between them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Answers on port 8080, TCP and UDP, with its name and the client's address.
const SERVER: &str = r#"
import socket, sys, threading
def udp(family, any):
    u = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET6: u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    u.bind((any, 8080))
    while True:
        data, peer = u.recvfrom(65535); u.sendto((sys.argv[1] + " " + peer[0]).encode(), peer)
def tcp(family, any):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    s.bind((any, 8080)); s.listen(256)
    while True:
        c, peer = s.accept(); c.sendall((sys.argv[1] + " " + peer[0]).encode()); c.close()
for serve, where in [(udp, (socket.AF_INET, "0.0.0.0")), (udp, (socket.AF_INET6, "::")), (tcp, (socket.AF_INET6, "::"))]:
    threading.Thread(target=serve, args=where, daemon=True).start()
tcp(socket.AF_INET, "0.0.0.0")
"#;

/// Connects N times (or, with 0, until its input ends) and prints every answer, or "refused" and the like.
pub const CLIENT: &str = r#"
import socket, sys, select
host, port, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
n = 0
while (n < times) if times else not select.select([sys.stdin], [], [], 0)[0]:
    n += 1
    try:
        with socket.create_connection((host, port), timeout=3) as c: print(c.recv(99).decode())
    except ConnectionRefusedError: print("refused")
    except Exception as e: print("failed", type(e).__name__)
"#;

/// Sends a datagram of SIZE bytes that must not be cut from a fixed port, N times, and prints the answers.
const DATAGRAMS: &str = r#"
import socket, sys
host, port, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
v6 = ":" in host
s = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("::" if v6 else "0.0.0.0", 5555)); s.settimeout(5)
if not v6: s.setsockopt(socket.IPPROTO_IP, 10, 2)
s.connect((host, port))
for _ in range(times):
    try:
        s.send(b"x" * size); print(s.recv(99).decode())
    # The node's own packets are refused before they leave it.
    except (ConnectionRefusedError, PermissionError): print("refused")
    except OSError as e: print("failed", "too long" if e.errno == 90 else type(e).__name__)
"#;

/// Sends a datagram with any source address out of an interface, past the machine's own routes and rules.
const FORGE: &str = r#"
import socket, struct, sys
device, mac, source, target, port = sys.argv[1:]
def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
udp = struct.pack("!HHHH", 4444, int(port), 14, 0) + b"forged"
head = lambda check: struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, check,
    socket.inet_aton(source), socket.inet_aton(target))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind((device, 0x0800))
s.send(bytes.fromhex(mac.replace(":", "")) + s.getsockname()[4] + b"\x08\x00" + head(checksum(head(0))) + udp)
"#;

/// Waits for one datagram on port 9999, for a second after its input has ended, and prints who sent it.
const HEAR: &str = r#"
import select, socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 9999))
print("ready", flush=True)
heard = select.select([s, sys.stdin], [], [], 60)[0]
if s not in heard: heard = select.select([s], [], [], 1)[0]
print(s.recvfrom(99)[1][0].removeprefix("::ffff:") if s in heard else "nothing")
"#;

pub struct Lab {
    prefix: String,
    machines: Vec<String>,
    children: Vec<Child>,
}

impl Lab {
    /// Fails where namespaces cannot be made: the tests run only as root, who can.
    pub fn new(machines: &[&str]) -> Lab {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("mkn{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut lab = Lab { prefix, machines: Vec::new(), children: Vec::new() };
        for name in machines {
            let made = Command::new("ip").args(["netns", "add", &lab.namespace(name)]).output().unwrap();
            assert!(made.status.success(), "ip netns add: {}", String::from_utf8_lossy(&made.stderr));
            lab.machines.push((*name).to_owned());
            lab.ip(name, "link set lo up");
        }
        lab
    }

    pub fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(name)]).args(args);
        command
    }

    pub fn run(&self, name: &str, args: &[&str]) -> String {
        let output = self.command(name, args).output().unwrap();
        assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Several commands of `ip`, one a line.
    pub fn ip(&self, name: &str, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let args: Vec<&str> = std::iter::once("ip").chain(line.split_whitespace()).collect();
            self.run(name, &args);
        }
    }

    /// A cable between two machines' interfaces, both up.
    pub fn cable(&self, (one, its): (&str, &str), (other, others): (&str, &str)) {
        let peer = self.namespace(other);
        self.ip(one, &format!("link add name {its} type veth peer name {others} netns {peer}"));
        self.ip(one, &format!("link set dev {its} up"));
        self.ip(other, &format!("link set dev {others} up"));
    }

    /// A pod behind the node's bridge, which is made with the first.
    pub fn pod(&mut self, node: &str, pod: &str, gateway: &str, address: &str) {
        if !self.command(node, &["ip", "link", "show", "br0"]).output().unwrap().status.success() {
            self.ip(
                node,
                &format!("link add br0 type bridge\naddr add {gateway}/24 dev br0\nlink set br0 up"),
            );
            let sysctls = "echo 1 > /proc/sys/net/ipv4/ip_forward; \
                           echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables";
            self.run(node, &["sh", "-c", sysctls]);
        }
        self.cable((node, pod), (pod, "eth0"));
        self.ip(node, &format!("link set dev {pod} master br0"));
        // A pod may meet itself behind a Service.
        self.run(node, &["bridge", "link", "set", "dev", pod, "hairpin", "on"]);
        self.ip(pod, &format!("addr add {address}/24 dev eth0\nroute add default via {gateway}"));
        self.serve(pod);
    }

    /// Gives a pod that is there an IPv6 address, and the node's bridge its own. Nobody waits for duplicates of them.
    pub fn pod_v6(&self, node: &str, pod: &str, gateway: &str, address: &str) {
        self.ip(node, &format!("addr replace {gateway}/64 dev br0 nodad"));
        let sysctls = "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding; \
                       echo 1 > /proc/sys/net/bridge/bridge-nf-call-ip6tables";
        self.run(node, &["sh", "-c", sysctls]);
        self.ip(
            pod,
            &format!("addr add {address}/64 dev eth0 nodad\nroute add default via {gateway} dev eth0"),
        );
    }

    /// Starts the server on a machine.
    pub fn serve(&mut self, machine: &str) {
        let server = self.command(machine, &["python3", "-c", SERVER, machine]).spawn().unwrap();
        self.children.push(server);
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.ask(machine, "127.0.0.1", 8080, 1) != [format!("{machine} 127.0.0.1")] {
            assert!(Instant::now() < deadline, "{machine} does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn nft(&self, machine: &str, text: &str) {
        let mut command = self.command(machine, &["nft", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn ask(&self, from: &str, host: &str, port: u16, times: u32) -> Vec<String> {
        self.lines(from, CLIENT, &[host, &port.to_string(), &times.to_string()])
    }

    /// Over UDP, always from the same port.
    pub fn send(&self, from: &str, host: &str, port: u16, size: usize, times: u32) -> Vec<String> {
        self.lines(from, DATAGRAMS, &[host, &port.to_string(), &size.to_string(), &times.to_string()])
    }

    /// From whom `to` hears a datagram that `from` sends to its interface `at` (a cable between them, or a bridge): the
    /// forged source, or `nothing`.
    pub fn forge(&self, from: &str, (to, at): (&str, &str), source: &str, target: &str) -> String {
        let mac = self.run(to, &["cat", &format!("/sys/class/net/{at}/address")]);
        self.heard(to, || {
            self.run(from, &["python3", "-c", FORGE, "eth0", mac.trim(), source, target, "9999"]);
        })
    }

    /// From whom a machine hears a datagram at port 9999 that is sent meanwhile.
    pub fn heard(&self, to: &str, send: impl FnOnce()) -> String {
        self.said_by(to, HEAR, send)
    }

    /// What a script on a machine says of what is done once it is ready. Its input ends when that is done.
    pub fn said_by(&self, machine: &str, script: &str, act: impl FnOnce()) -> String {
        let mut command = self.command(machine, &["python3", "-c", script]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(said.next().as_deref(), Some("ready"));
        act();
        drop(input);
        let answer = said.next().unwrap();
        child.wait().unwrap();
        answer
    }

    fn lines(&self, from: &str, script: &str, args: &[&str]) -> Vec<String> {
        let args = [&["python3", "-c", script], args].concat();
        let output = self.command(from, &args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.machines {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(name)]).output();
        }
    }
}
