//! `port-forward`: local ports that lead to a pod's.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;
use futures::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;

use super::pod_target;
use crate::client::Call;
use crate::error::{Error, Result};
use crate::flags::duration;
use crate::output;
use crate::select::Target;
use crate::session::Session;

/// How long an end that has stopped sending waits for more from the pod.
const FINAL_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Make a port of a pod reachable here
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  minik8s port-forward pod/web 8080:80
  minik8s port-forward svc/web :80
  minik8s port-forward deploy/db 5432 --address 127.0.0.1,192.0.2.7")]
pub struct PortForward {
    /// POD or TYPE/NAME
    #[arg(value_name = "POD")]
    what: String,
    /// PORT, LOCAL:PORT or :PORT
    #[arg(value_name = "[LOCAL:]PORT", required = true)]
    ports: Vec<String>,
    /// Addresses to listen on
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', default_value = "localhost")]
    address: Vec<String>,
    /// How long to wait for a running pod
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pod_running_timeout: Duration,
}

pub async fn run(session: &Session, verb: PortForward) -> Result<()> {
    let target = pod_target::named(session, &verb.what).await?;
    let pod = pod_target::one_pod(session, &target, verb.pod_running_timeout).await?;
    let mut listeners = Vec::new();
    for text in &verb.ports {
        let (local, remote) = parse(text)?;
        let remote = resolve(&target, &pod, &remote)?;
        for address in addresses(&verb.address)? {
            let listener = TcpListener::bind((address, local))
                .await
                .map_err(|error| Error::plain(format!("unable to listen on port {local}: {error}")))?;
            output::line(format_args!("Forwarding from {} -> {remote}", listener.local_addr()?));
            listeners.push((listener, remote));
        }
    }
    let waiting = listeners.iter().map(|(listener, remote)| accept(session, &pod, listener, *remote));
    futures::future::try_join_all(waiting).await.map(|_| ())
}

fn addresses(names: &[String]) -> Result<Vec<IpAddr>> {
    let mut all = Vec::new();
    for name in names {
        match name.as_str() {
            "localhost" => all.push(IpAddr::from([127, 0, 0, 1])),
            other => all.push(other.parse().map_err(|_| Error::plain(format!("{other} is not a valid IP")))?),
        }
    }
    Ok(all)
}

/// Local port (0 for any) and the name or number of the remote one.
fn parse(text: &str) -> Result<(u16, String)> {
    let wrong = || Error::plain(format!("invalid port format {text:?}: use PORT, LOCAL:PORT or :PORT"));
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let local = match local {
        "" => 0,
        number => match (number.parse(), text.contains(':')) {
            (Ok(port), _) => port,
            // A name alone: any local port will do.
            (Err(_), false) => 0,
            (Err(_), true) => return Err(wrong()),
        },
    };
    if remote.is_empty() {
        return Err(wrong());
    }
    Ok((local, remote.to_owned()))
}

/// The container's port behind a Service's port or a name.
fn resolve(target: &Target, pod: &Value, remote: &str) -> Result<u16> {
    let number = remote.parse::<u16>().ok();
    if target.kind.plural == "services" {
        let ports = target.object["spec"]["ports"].as_array().cloned().unwrap_or_default();
        let port = ports
            .iter()
            .find(|port| number.is_some_and(|number| port["port"] == number) || port["name"] == remote);
        let port = port.ok_or_else(|| {
            Error::plain(format!("Service {} does not have a service port {remote}", target.name))
        })?;
        return match &port["targetPort"] {
            Value::String(name) => by_name(pod, name),
            Value::Number(_) => as_port(&port["targetPort"]),
            _ => as_port(&port["port"]),
        };
    }
    number.map_or_else(|| by_name(pod, remote), Ok)
}

fn as_port(value: &Value) -> Result<u16> {
    let port = value.as_u64().and_then(|port| u16::try_from(port).ok());
    port.ok_or_else(|| Error::plain(format!("{value} is no port")))
}

fn by_name(pod: &Value, name: &str) -> Result<u16> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array().into_iter().flatten());
    match ports.find(|port| port["name"] == name) {
        Some(port) => as_port(&port["containerPort"]),
        None => Err(Error::plain(format!("the pod has no port named {name:?}"))),
    }
}

async fn accept(session: &Session, pod: &Value, listener: &TcpListener, remote: u16) -> Result<()> {
    let mut open = futures::stream::FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (socket, _) = accepted?;
                output::line(format_args!("Handling connection for {}", listener.local_addr()?.port()));
                open.push(forward(session, pod, socket, remote));
            }
            Some(ended) = open.next(), if !open.is_empty() => {
                if let Err(error) = ended {
                    eprintln!("an error occurred forwarding {} -> {remote}: {error}", listener.local_addr()?.port());
                }
            }
        }
    }
}

/// One connection: channel 0 carries data, channel 1 errors; each begins with the port in two bytes.
async fn forward(session: &Session, pod: &Value, mut socket: TcpStream, remote: u16) -> Result<()> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let path = format!("/api/v1/namespaces/{}/pods/{}/portforward", text("namespace"), text("name"));
    let connection =
        session.client().await?.connect(Call::get(path).query("ports", remote.to_string())).await?;
    let (mut sink, mut source) = connection.into_stream().split();
    let broken =
        |error: tokio_tungstenite::tungstenite::Error| Error::plain(format!("the connection broke: {error}"));
    let (mut reader, mut writer) = socket.split();
    let mut buffer = vec![0u8; 32 * 1024];
    buffer[0] = 0;
    let mut heard = [false; 2];
    let mut reading = true;
    loop {
        tokio::select! {
            read = reader.read(&mut buffer[1..]), if reading => match read? {
                // The other side may still have something to say.
                0 => reading = false,
                length => {
                    let frame = Message::Binary(buffer[..=length].to_vec().into());
                    sink.send(frame).await.map_err(broken)?;
                }
            },
            () = tokio::time::sleep(FINAL_READ_TIMEOUT), if !reading => return Ok(()),
            message = source.next() => match message {
                None | Some(Ok(Message::Close(_)) | Err(_)) => return Ok(()),
                Some(Ok(Message::Binary(data))) => {
                    let Some((channel, data)) = data.split_first() else { continue };
                    let Some(begun) = heard.get_mut(usize::from(*channel)) else { continue };
                    let data = if *begun { data } else { data.get(2..).unwrap_or_default() };
                    *begun = true;
                    match channel {
                        0 => writer.write_all(data).await?,
                        _ if !data.is_empty() => return Err(Error::plain(String::from_utf8_lossy(data).into_owned())),
                        _ => {}
                    }
                }
                Some(Ok(_)) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports() {
        let check = |text: &str, expected: Option<(u16, &str)>| {
            assert_eq!(
                parse(text).ok(),
                expected.map(|(local, remote)| (local, remote.to_owned())),
                "{text}"
            );
        };
        check("80", Some((80, "80")));
        check("8080:80", Some((8080, "80")));
        check(":80", Some((0, "80")));
        check("8080:http", Some((8080, "http")));
        check("http", Some((0, "http")));
        check("x:80", None);
        check("80:", None);
    }
}
