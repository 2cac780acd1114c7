//! How claims become a user: by their names, or by expressions. Pure: claims in, a user or the reason out.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use minik8s_api::TokenUser;
use minik8s_cel::{Bindings, Budget, Declaration, Environment, Program, Type, Value};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::configuration::{ConfigurationError, invalid};

/// Names of the cluster's own parts begin so, and nobody from outside is one of them.
const RESERVED: &str = "system:";
/// Expressions may not be longer, in bytes.
const LONGEST_EXPRESSION: usize = 10 * 1024;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MappingConfiguration {
    #[serde(default)]
    pub claim_validation_rules: Vec<ClaimRule>,
    pub claim_mappings: ClaimMappings,
    #[serde(default)]
    pub user_validation_rules: Vec<UserRule>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClaimMappings {
    pub username: PrefixedClaim,
    pub groups: Option<PrefixedClaim>,
    pub uid: Option<Uid>,
    #[serde(default)]
    pub extra: Vec<Extra>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PrefixedClaim {
    #[serde(default)]
    pub claim: String,
    pub prefix: Option<String>,
    #[serde(default)]
    pub expression: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Uid {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Extra {
    key: String,
    value_expression: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClaimRule {
    #[serde(default)]
    pub claim: String,
    #[serde(default)]
    pub required_value: String,
    #[serde(default)]
    pub expression: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UserRule {
    expression: String,
    #[serde(default)]
    message: String,
}

/// A mapping that can be used.
pub(crate) struct Mapping {
    rules: Vec<Rule>,
    username: Source,
    groups: Option<Source>,
    uid: Option<Source>,
    extra: Vec<(String, Program)>,
    user_rules: Vec<(Program, String)>,
}

enum Rule {
    Claim { name: String, value: String },
    Expression { program: Program, message: String },
}

enum Source {
    Claim { name: String, prefix: String },
    Expression(Program),
}

static CLAIMS: LazyLock<Environment> =
    LazyLock::new(|| Environment::new().with_type("claims", Type::map(Type::String, Type::Dyn)));

static USER_SCHEMA: LazyLock<Option<Declaration>> = LazyLock::new(|| {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {
        "username": {"type": "string"}, "uid": {"type": "string"}, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts},
    }});
    Declaration::of_schema(&schema, "kubernetes.UserInfo", false)
});

static USER: LazyLock<Environment> = LazyLock::new(|| match &*USER_SCHEMA {
    Some(declaration) => Environment::new().with("user", declaration.clone()),
    None => Environment::new().with_type("user", Type::Dyn),
});

impl Mapping {
    pub fn compile(at: &str, from: MappingConfiguration) -> Result<Mapping, ConfigurationError> {
        let ClaimMappings { username, groups, uid, extra } = from.claim_mappings;
        let maps = format!("{at}.claimMappings");
        check_email(&maps, &username.expression, &from.claim_validation_rules)?;
        let uid = uid.map(|uid| PrefixedClaim {
            prefix: (!uid.claim.is_empty()).then(String::new),
            claim: uid.claim,
            expression: uid.expression,
        });
        let several = &[Type::String, Type::list(Type::String)][..];
        let optional = |name: &str, from: Option<PrefixedClaim>, types| {
            from.filter(|from| !from.claim.is_empty() || !from.expression.is_empty() || from.prefix.is_some())
                .map(|from| source(&format!("{maps}.{name}"), from, types))
                .transpose()
        };
        Ok(Mapping {
            username: source(&format!("{maps}.username"), username, &[Type::String])?,
            groups: optional("groups", groups, several)?,
            uid: optional("uid", uid, &[Type::String])?,
            extra: read_extra(&maps, extra, several)?,
            rules: read_rules(at, from.claim_validation_rules)?,
            user_rules: read_user_rules(at, from.user_validation_rules)?,
        })
    }

    /// The user whom these claims, whose signature was checked, speak of.
    pub fn user(&self, claims: &Map<String, Json>) -> Result<TokenUser, String> {
        let whole = Json::Object(claims.clone());
        for rule in &self.rules {
            rule.check(claims, &whole)?;
        }
        let mut user = TokenUser { name: self.name(claims, &whole)?, ..TokenUser::default() };
        if let Some(groups) = &self.groups {
            user.groups = groups.texts(claims, &whole, "groups")?;
        }
        if let Some(uid) = &self.uid {
            user.uid = one(uid.texts(claims, &whole, "uid")?, "uid")?;
        }
        for (key, program) in &self.extra {
            let values = evaluate(program, "claims", &whole, None).and_then(texts);
            let values = values.map_err(|why| format!("extra {key}: {why}"))?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        self.check_reserved(&user)?;
        self.check_user(&user)?;
        Ok(user)
    }

    fn name(&self, claims: &Map<String, Json>, whole: &Json) -> Result<String, String> {
        if let Source::Claim { name, .. } = &self.username
            && name == "email"
            && claims.get("email_verified").is_some_and(|verified| *verified != true)
        {
            return Err("the claim email cannot be the user's name: email_verified is not true".to_owned());
        }
        one(self.username.texts(claims, whole, "username")?, "username")
    }

    /// A name or group of the cluster's own would carry its rights. Only an expression, written for that, gives a group.
    fn check_reserved(&self, user: &TokenUser) -> Result<(), String> {
        if user.name.starts_with(RESERVED) {
            return Err(format!("the user name {:?} is reserved for parts of the cluster", user.name));
        }
        let group = user.groups.iter().find(|group| group.starts_with(RESERVED));
        match (group, &self.groups) {
            (Some(group), Some(Source::Claim { .. })) => Err(format!(
                "the group {group:?} is reserved for parts of the cluster: use a prefix, or an expression that leaves it out"
            )),
            _ => Ok(()),
        }
    }

    fn check_user(&self, user: &TokenUser) -> Result<(), String> {
        if self.user_rules.is_empty() {
            return Ok(());
        }
        let extra: &BTreeMap<String, Vec<String>> = &user.extra;
        let told = json!({"username": user.name, "uid": user.uid, "groups": user.groups, "extra": extra});
        for (program, message) in &self.user_rules {
            match evaluate(program, "user", &told, USER_SCHEMA.as_ref())? {
                Json::Bool(true) => {}
                _ => return Err(format!("the user is not allowed: {message}")),
            }
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self, claims: &Map<String, Json>, whole: &Json) -> Result<(), String> {
        match self {
            Rule::Claim { name, value } => match claims.get(name) {
                Some(Json::String(found)) if found == value => Ok(()),
                Some(_) => Err(format!("the claim {name} is not {value:?}")),
                None => Err(format!("the claim {name} is missing")),
            },
            Rule::Expression { program, message } => match evaluate(program, "claims", whole, None)? {
                Json::Bool(true) => Ok(()),
                _ => Err(format!("the claims are not allowed: {message}")),
            },
        }
    }
}

impl Source {
    fn texts(&self, claims: &Map<String, Json>, whole: &Json, of: &str) -> Result<Vec<String>, String> {
        let (found, prefix) = match self {
            Source::Claim { name, prefix } => {
                let found = claims.get(name).cloned();
                if found.is_none() && of != "groups" {
                    return Err(format!("the claim {name}, of which the {of} is made, is missing"));
                }
                (found.unwrap_or(Json::Null), prefix.as_str())
            }
            Source::Expression(program) => (evaluate(program, "claims", whole, None)?, ""),
        };
        let found = texts(found).map_err(|why| format!("{of}: {why}"))?;
        Ok(found.into_iter().map(|text| format!("{prefix}{text}")).collect())
    }
}

fn one(mut texts: Vec<String>, of: &str) -> Result<String, String> {
    match (texts.pop(), texts.is_empty()) {
        (Some(text), true) if !text.is_empty() => Ok(text),
        _ => Err(format!("the {of} is empty or not one text")),
    }
}

/// A text or several; empty ones are none.
fn texts(value: Json) -> Result<Vec<String>, String> {
    let wrong = |other: &Json| format!("{other} is neither a text nor a list of texts");
    match value {
        Json::Null => Ok(Vec::new()),
        Json::String(text) => Ok(Some(text).filter(|text| !text.is_empty()).into_iter().collect()),
        Json::Array(items) => items
            .into_iter()
            .map(|item| match item {
                Json::String(text) => Ok(text),
                other => Err(wrong(&other)),
            })
            .collect(),
        other => Err(wrong(&other)),
    }
}

fn evaluate(program: &Program, name: &str, value: &Json, of: Option<&Declaration>) -> Result<Json, String> {
    let bindings = Bindings::new().with(name, Value::of_json(value, of));
    let found = program.evaluate(&bindings, &mut Budget::default()).map_err(|error| error.to_string())?;
    found.to_json().ok_or_else(|| format!("it evaluates to {}", found.type_name()))
}

fn compile(
    at: &str,
    environment: &Environment,
    text: &str,
    types: &[Type],
) -> Result<Program, ConfigurationError> {
    if text.len() > LONGEST_EXPRESSION {
        return Err(invalid(at, &format!("it is longer than {LONGEST_EXPRESSION} bytes")));
    }
    let program = Program::compile(environment, text).map_err(|errors| invalid(at, &errors.to_string()))?;
    let found = program.result_type();
    if *found != Type::Dyn && !types.contains(found) && !matches!((found, types.len()), (Type::List(_), 2)) {
        let names: Vec<String> = types.iter().map(ToString::to_string).collect();
        return Err(invalid(at, &format!("must evaluate to {} but got {found}", names.join(" or "))));
    }
    Ok(program)
}

fn source(at: &str, from: PrefixedClaim, types: &[Type]) -> Result<Source, ConfigurationError> {
    match (from.claim.is_empty(), from.expression.is_empty()) {
        (true, true) => Err(invalid(at, "claim or expression must be given")),
        (false, false) => Err(invalid(at, "give a claim or an expression, not both")),
        (true, false) if from.prefix.is_some() => {
            Err(invalid(&format!("{at}.prefix"), "an expression has no prefix: put it into the expression"))
        }
        (true, false) => {
            compile(&format!("{at}.expression"), &CLAIMS, &from.expression, types).map(Source::Expression)
        }
        (false, true) => match from.prefix {
            Some(prefix) => Ok(Source::Claim { name: from.claim, prefix }),
            None => Err(invalid(&format!("{at}.prefix"), "it must be given with a claim; \"\" is none")),
        },
    }
}

/// Whoever takes a mail address for a name must look whether it was verified.
fn check_email(at: &str, expression: &str, rules: &[ClaimRule]) -> Result<(), ConfigurationError> {
    let reads = |text: &str, claim: &str| {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == claim)
    };
    let looks = |text: &str| reads(text, "email_verified");
    if reads(expression, "email") && !looks(expression) && !rules.iter().any(|rule| looks(&rule.expression)) {
        let why = "claims.email_verified must be used here or in claimValidationRules[*].expression where claims.email is";
        return Err(invalid(&format!("{at}.username.expression"), why));
    }
    Ok(())
}

fn read_extra(
    at: &str,
    extra: Vec<Extra>,
    types: &[Type],
) -> Result<Vec<(String, Program)>, ConfigurationError> {
    let mut read: Vec<(String, Program)> = Vec::new();
    for (index, Extra { key, value_expression }) in extra.into_iter().enumerate() {
        let at = format!("{at}.extra[{index}]");
        let domain = key.split_once('/').filter(|(domain, name)| domain.contains('.') && !name.is_empty());
        let is_reserved = |domain: &str| {
            ["kubernetes.io", "k8s.io"]
                .iter()
                .any(|own| domain == *own || domain.ends_with(&format!(".{own}")))
        };
        let why = match domain {
            None => Some("it must be a domain and a path, as example.com/tenant"),
            Some(_) if key.chars().any(|c| c.is_uppercase()) => Some("it must be in lower case"),
            Some((domain, _)) if is_reserved(domain) => Some("kubernetes.io and k8s.io are reserved"),
            Some(_) if read.iter().any(|(known, _)| *known == key) => Some("it is there twice"),
            Some(_) => None,
        };
        if let Some(why) = why {
            return Err(invalid(&format!("{at}.key"), why));
        }
        let program = compile(&format!("{at}.valueExpression"), &CLAIMS, &value_expression, types)?;
        read.push((key, program));
    }
    Ok(read)
}

fn read_rules(at: &str, rules: Vec<ClaimRule>) -> Result<Vec<Rule>, ConfigurationError> {
    let rules = rules.into_iter().enumerate().map(|(index, rule)| {
        let at = format!("{at}.claimValidationRules[{index}]");
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (true, true) => Err(invalid(&at, "claim or expression must be given")),
            (false, false) => Err(invalid(&at, "give a claim or an expression, not both")),
            (false, true) if !rule.message.is_empty() => {
                Err(invalid(&format!("{at}.message"), "it belongs to an expression"))
            }
            (false, true) => Ok(Rule::Claim { name: rule.claim, value: rule.required_value }),
            (true, false) if !rule.required_value.is_empty() => {
                Err(invalid(&format!("{at}.requiredValue"), "it belongs to a claim"))
            }
            (true, false) => {
                let program = compile(&format!("{at}.expression"), &CLAIMS, &rule.expression, &[Type::Bool])?;
                let message = if rule.message.is_empty() { rule.expression } else { rule.message };
                Ok(Rule::Expression { program, message })
            }
        }
    });
    rules.collect()
}

fn read_user_rules(at: &str, rules: Vec<UserRule>) -> Result<Vec<(Program, String)>, ConfigurationError> {
    let rules = rules.into_iter().enumerate().map(|(index, rule)| {
        let at = format!("{at}.userValidationRules[{index}].expression");
        let program = compile(&at, &USER, &rule.expression, &[Type::Bool])?;
        Ok((program, if rule.message.is_empty() { rule.expression } else { rule.message }))
    });
    rules.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mapping: &Json, claims: Json, expected: Result<(&str, &[&str]), &str>) {
        let from: MappingConfiguration = serde_json::from_value(mapping.clone()).unwrap();
        let mapping = Mapping::compile("jwt[0]", from).unwrap_or_else(|error| panic!("{error}"));
        let found = mapping.user(claims.as_object().unwrap());
        match (found, expected) {
            (Ok(user), Ok((name, groups))) => {
                assert_eq!(
                    (user.name.as_str(), user.groups),
                    (name, groups.iter().map(|&g| g.to_owned()).collect())
                );
            }
            (Err(told), Err(expected)) => assert!(told.contains(expected), "{told}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn claims_become_users_by_name() {
        let mapping = json!({"claimMappings": {
            "username": {"claim": "sub", "prefix": "a:"}, "groups": {"claim": "roles", "prefix": "r:"}}});
        check(&mapping, json!({"sub": "x"}), Ok(("a:x", &[])));
        check(&mapping, json!({"sub": "x", "roles": "one"}), Ok(("a:x", &["r:one"])));
        check(&mapping, json!({"sub": "x", "roles": ["one", "two"]}), Ok(("a:x", &["r:one", "r:two"])));
        check(&mapping, json!({"sub": "x", "roles": [1]}), Err("groups: 1 is neither"));
        check(&mapping, json!({"sub": 7}), Err("username: 7 is neither"));
        check(&mapping, json!({"sub": ["a", "b"]}), Err("username is empty or not one"));
        check(&mapping, json!({}), Err("the claim sub, of which the username is made, is missing"));
    }

    #[test]
    fn names_and_groups_of_the_cluster_are_nobodys() {
        let plain = json!({"claimMappings": {
            "username": {"claim": "sub", "prefix": ""}, "groups": {"claim": "roles", "prefix": ""}}});
        check(&plain, json!({"sub": "system:kube-scheduler"}), Err("is reserved"));
        check(&plain, json!({"sub": "system:serviceaccount:kube-system:x"}), Err("is reserved"));
        check(
            &plain,
            json!({"sub": "x", "roles": ["system:masters"]}),
            Err("\"system:masters\" is reserved"),
        );
        // Half a prefix, half a claim: what counts is what comes of both.
        let split = json!({"claimMappings": {"username": {"claim": "sub", "prefix": "sys"}}});
        check(&split, json!({"sub": "tem:admin"}), Err("is reserved"));
        // An expression is somebody's own decision about groups, never about names.
        let made = json!({"claimMappings": {
            "username": {"expression": "claims.sub"}, "groups": {"expression": "claims.admin ? ['system:masters'] : []"}}});
        check(&made, json!({"sub": "x", "admin": true}), Ok(("x", &["system:masters"])));
        check(&made, json!({"sub": "x", "admin": false}), Ok(("x", &[])));
        check(&made, json!({"sub": "system:x", "admin": false}), Err("is reserved"));
    }

    #[test]
    fn rules_decide() {
        let mapping = json!({
            "claimMappings": {"username": {"claim": "email", "prefix": ""}},
            "claimValidationRules": [
                {"claim": "hd", "requiredValue": "example.com"},
                {"expression": "claims.exp - claims.iat <= 3600", "message": "an hour at most"},
            ],
            "userValidationRules": [{"expression": "user.username.endsWith('@example.com')", "message": "ours only"}],
        });
        let claims = |more: Json| {
            let mut all = json!({"email": "a@example.com", "hd": "example.com", "iat": 0, "exp": 60});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        check(&mapping, claims(json!({})), Ok(("a@example.com", &[])));
        check(&mapping, claims(json!({"hd": "other"})), Err("the claim hd is not \"example.com\""));
        check(&mapping, claims(json!({"hd": ["example.com"]})), Err("the claim hd is not"));
        check(&mapping, claims(json!({"exp": 9000})), Err("an hour at most"));
        check(&mapping, claims(json!({"iat": "x"})), Err(""));
        check(&mapping, claims(json!({"email": "a@evil.com"})), Err("ours only"));
        check(&mapping, claims(json!({"email_verified": false})), Err("email_verified is not true"));
        check(&mapping, claims(json!({"email_verified": "true"})), Err("email_verified is not true"));
    }

    #[test]
    fn extra_and_uid_are_expressions_too() {
        let mapping = json!({"claimMappings": {
            "username": {"expression": "claims.name.lowerAscii() + '@corp'"},
            "uid": {"claim": "oid"},
            "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"},
                      {"key": "example.com/none", "valueExpression": "claims.?none.orValue('')"}]}});
        let from: MappingConfiguration = serde_json::from_value(mapping).unwrap();
        let mapping = Mapping::compile("jwt[0]", from).unwrap_or_else(|error| panic!("{error}"));
        let user = mapping
            .user(json!({"name": "Ann", "oid": "7", "tenant": ["a", "b"]}).as_object().unwrap())
            .unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann@corp", "7"));
        let expected = [("example.com/tenant".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        assert_eq!(user.extra, BTreeMap::from(expected));
    }
}
