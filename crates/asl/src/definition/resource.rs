//! What a Task runs, as its ARN says it.

/// A Task's resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    pub text: String,
    pub integration: Integration,
}

/// How the task's answer comes.
#[derive(Debug, Clone, PartialEq)]
pub enum Integration {
    /// A function by its own ARN, or `function:NAME`: input and answer are the payload itself.
    Function { name: String },
    /// `arn:aws:states:::service:action`.
    Service { service: String, action: String, pattern: Pattern },
    /// A worker that asks for tasks.
    Activity,
    /// Known only to whoever runs it.
    Other,
}

/// When an optimised integration is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    RequestResponse,
    /// `.sync` and `.sync:2`; the answer's texts are decoded in the second.
    Sync {
        decoded: bool,
    },
    WaitForTaskToken,
}

impl Resource {
    pub fn parse(text: &str) -> Result<Self, String> {
        let integration = if let Some(name) = text.strip_prefix("function:") {
            Integration::Function { name: name.to_owned() }
        } else if !text.starts_with("arn:") {
            // A name that a deployment fills in.
            Integration::Other
        } else {
            Self::arn(text)?
        };
        Ok(Self { text: text.to_owned(), integration })
    }

    fn arn(text: &str) -> Result<Integration, String> {
        let parts: Vec<&str> = text.split(':').collect();
        let refused = || format!("Value is not a valid resource ARN: {text}");
        match parts[..] {
            [_, _, "lambda", _, _, "function", name] => function(name, None).ok_or_else(refused),
            [_, _, "lambda", _, _, "function", name, alias] => {
                function(name, Some(alias)).ok_or_else(refused)
            }
            [_, _, "lambda", ..] => Err(refused()),
            [_, _, "states", _, _, "activity", _] => Ok(Integration::Activity),
            [_, _, "states", _, _, service, ref rest @ ..] if !rest.is_empty() => {
                let whole = rest.join(":");
                let (action, pattern) = match whole.strip_suffix(".waitForTaskToken") {
                    Some(action) => (action, Pattern::WaitForTaskToken),
                    None => match (whole.strip_suffix(".sync:2"), whole.strip_suffix(".sync")) {
                        (Some(action), _) => (action, Pattern::Sync { decoded: true }),
                        (_, Some(action)) => (action, Pattern::Sync { decoded: false }),
                        _ => (whole.as_str(), Pattern::RequestResponse),
                    },
                };
                Ok(Integration::Service { service: service.to_owned(), action: action.to_owned(), pattern })
            }
            [_, _, service, ..] if parts.len() >= 6 && !service.is_empty() => Ok(Integration::Other),
            _ => Err(refused()),
        }
    }

    pub fn is_activity(&self) -> bool {
        self.integration == Integration::Activity
    }

    /// `.sync` and `.waitForTaskToken` need a durable run.
    pub fn unsupported_in_express(&self) -> Option<&'static str> {
        match &self.integration {
            Integration::Service { pattern: Pattern::WaitForTaskToken, .. } => Some(".waitForTaskToken"),
            Integration::Service { pattern: Pattern::Sync { .. }, .. } => Some(".sync"),
            _ => None,
        }
    }

    pub fn is_aws_integration(&self) -> bool {
        matches!(self.integration, Integration::Service { .. })
    }

    /// The pattern of a service integration.
    pub fn pattern(&self) -> Pattern {
        match self.integration {
            Integration::Service { pattern, .. } => pattern,
            _ => Pattern::RequestResponse,
        }
    }

    /// True when history tells of it as of a function.
    pub fn is_function(&self) -> bool {
        matches!(self.integration, Integration::Function { .. })
    }

    /// True for `lambda:invoke`, whose answer holds the payload among other things.
    pub fn is_lambda_invoke(&self) -> bool {
        matches!(&self.integration, Integration::Service { service, action, .. } if service == "lambda" && action == "invoke")
    }
}

fn function(name: &str, alias: Option<&str>) -> Option<Integration> {
    let plain = |text: &str, more: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c) || more.contains(c))
    };
    let template = |text: &str| text.contains("${");
    let name_fits = plain(name, "") || template(name);
    let alias_fits = alias.is_none_or(|alias| alias == "$LATEST" || plain(alias, "") || template(alias));
    (name_fits && alias_fits).then(|| Integration::Function { name: name.to_owned() })
}
