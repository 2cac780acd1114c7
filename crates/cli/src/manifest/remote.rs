//! Manifests behind a URL. Nobody's credentials are sent there.

use http::header::LOCATION;
use http::{Request, Uri};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;

use crate::error::{Error, Result};

const MOST_REDIRECTS: usize = 10;
/// No honest manifest is larger.
const LARGEST: usize = 32 << 20;

pub fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

pub async fn fetch(url: &str) -> Result<String> {
    let mut place = url.to_owned();
    for _ in 0..=MOST_REDIRECTS {
        match ask(&place).await? {
            Answer::Text(text) => return Ok(text),
            Answer::Elsewhere(next) if place.starts_with("https://") && !next.starts_with("https://") => {
                return Err(unreadable(url, &format!("it leads from https to {next}")));
            }
            Answer::Elsewhere(next) => place = next,
        }
    }
    Err(unreadable(url, &format!("it leads elsewhere more than {MOST_REDIRECTS} times")))
}

enum Answer {
    Text(String),
    Elsewhere(String),
}

async fn ask(url: &str) -> Result<Answer> {
    let uri: Uri = url.parse().map_err(|error| unreadable(url, &error))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let (scheme, authority) =
        (uri.scheme_str().unwrap_or("https"), uri.authority().map_or("", |a| a.as_str()));
    let base = format!("{scheme}://{authority}");
    let config = kube::Config::new(base.parse().map_err(|error| unreadable(url, &error))?);
    let client = kube::Client::try_from(config).map_err(|error| unreadable(url, &error))?;
    let request = Request::get(path).body(Body::empty()).map_err(|error| unreadable(url, &error))?;
    let answer = client.send(request).await.map_err(|error| unreadable(url, &error))?;
    let status = answer.status();
    if status.is_redirection() {
        let next = answer.headers().get(LOCATION).and_then(|next| next.to_str().ok()).unwrap_or_default();
        return Ok(Answer::Elsewhere(match next {
            "" => return Err(unreadable(url, &"it leads elsewhere without saying where")),
            next if next.starts_with('/') => format!("{base}{next}"),
            next => next.to_owned(),
        }));
    }
    if !status.is_success() {
        return Err(unreadable(url, &format!("the server answers {status}")));
    }
    let body = Limited::new(answer.into_body(), LARGEST).collect().await;
    let body = body.map_err(|error| unreadable(url, &error))?.to_bytes();
    String::from_utf8(body.to_vec()).map(Answer::Text).map_err(|_| unreadable(url, &"it is not UTF-8 text"))
}

fn unreadable(url: &str, error: &dyn std::fmt::Display) -> Error {
    Error::plain(format!("unable to read URL {url:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that knows three paths.
    async fn server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let answer = match head.split(' ').nth(1).unwrap_or_default() {
                    "/a.yaml" => "200 OK\r\ncontent-length: 8\r\n\r\nkind: A\n",
                    "/old" => "302 Found\r\nlocation: /a.yaml\r\ncontent-length: 0\r\n\r\n",
                    "/loop" => "302 Found\r\nlocation: /loop\r\ncontent-length: 0\r\n\r\n",
                    _ => "404 Not Found\r\ncontent-length: 0\r\n\r\n",
                };
                let answer = format!("HTTP/1.1 {}", answer.replacen("\r\n", "\r\nconnection: close\r\n", 1));
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        base
    }

    #[tokio::test]
    async fn urls_are_read_and_followed() {
        let base = server().await;
        for path in ["/a.yaml", "/old"] {
            assert_eq!(fetch(&format!("{base}{path}")).await.unwrap(), "kind: A\n");
        }
        for (path, expected) in [("/none", "404"), ("/loop", "more than 10 times")] {
            let told = fetch(&format!("{base}{path}")).await.unwrap_err().to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
