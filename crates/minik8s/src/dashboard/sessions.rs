//! Links to the API server's own dashboard, and the sessions that are open there.

use anyhow::{Context, bail};
use http::{Method, Request};
use minik8s_cli::GlobalFlags;
use serde::Deserialize;
use serde_json::{Value, json};

use super::DashboardFlags;
use crate::kubeconfig;

const SESSIONS: &str = "/ui/sessions";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    id: String,
    user: String,
    read_only: bool,
    namespace: String,
    age_seconds: i64,
    idle_seconds: i64,
}

pub async fn run(flags: &DashboardFlags, global: &GlobalFlags) -> anyhow::Result<()> {
    let config = kubeconfig::load(global).await?;
    let server = config.cluster_url.to_string();
    let client = kube::Client::try_from(config)?;
    if let Some(id) = &flags.end {
        ask(&client, Method::DELETE, &format!("{SESSIONS}?id={id}"), &Value::Null).await?;
        println!("session {id} has ended");
        return Ok(());
    }
    if flags.sessions {
        let answer = ask(&client, Method::GET, SESSIONS, &Value::Null).await?;
        let sessions: Vec<Session> = serde_json::from_value(answer["items"].clone())?;
        print!("{}", table(&sessions));
        return Ok(());
    }
    let mut wanted = json!({"readOnly": flags.read_only, "namespace": flags.only_namespace});
    if let Some(lasts) = &flags.lasts {
        wanted["for"] = lasts.as_str().into();
    }
    let answer = ask(&client, Method::POST, SESSIONS, &wanted).await?;
    let code = answer["code"].as_str().context("the server answered without a code")?;
    println!("{}/ui/#code={code}", server.trim_end_matches('/'));
    eprintln!("The link works once, within a minute. `minik8s dashboard --sessions` lists what is open.");
    Ok(())
}

async fn ask(client: &kube::Client, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path).header("x-minik8s-ui", "1").body(body)?;
    match client.request(request).await {
        Ok(answer) => Ok(answer),
        Err(kube::Error::Api(refused)) => bail!("{}", refused.message),
        Err(error) => Err(error).context("the API server has no dashboard with sessions, or does not answer"),
    }
}

fn table(sessions: &[Session]) -> String {
    let mut text = format!("{:<10}{:<32}{:<12}{:<20}{:<8}IDLE\n", "ID", "USER", "ACCESS", "NAMESPACE", "AGE");
    for session in sessions {
        let access = if session.read_only { "read only" } else { "full" };
        let namespace = if session.namespace.is_empty() { "all" } else { &session.namespace };
        let (age, idle) = (session.age_seconds, session.idle_seconds);
        text += &format!(
            "{:<10}{:<32}{access:<12}{namespace:<20}{:<8}{}\n",
            session.id,
            session.user,
            minik8s_meta::human_duration(age),
            minik8s_meta::human_duration(idle)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_told_in_columns() {
        let one = Session {
            id: "abc12345".into(),
            user: "ann".into(),
            read_only: true,
            namespace: String::new(),
            age_seconds: 65,
            idle_seconds: 3,
        };
        let told = table(&[one]);
        let words: Vec<&str> = told.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(words, ["abc12345", "ann", "read", "only", "all", "65s", "3s"]);
    }
}
