//! Function signatures: `<s-n?:s>`. Arguments are matched as a text of type letters against a pattern made of the
//! signature, as the reference does it, so that optional and repeated parameters are matched alike.

use regex::Regex;

use crate::error::Error;
use crate::value::Value;

#[derive(Debug)]
pub struct Signature {
    parameters: Vec<Parameter>,
    whole: Regex,
}

#[derive(Debug)]
struct Parameter {
    kind: char,
    pattern: String,
    /// Types of the context that may stand for it.
    context: Option<String>,
    subtype: Option<char>,
}

impl Signature {
    pub fn parse(text: &str, position: usize) -> Result<Self, Error> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let characters: Vec<char> = text.chars().collect();
        let mut at = 1;
        while at < characters.len() {
            let symbol = characters[at];
            if symbol == ':' {
                break;
            }
            let mut add = |kind: char, pattern: String| {
                parameters.push(Parameter { kind, pattern, context: None, subtype: None });
            };
            match symbol {
                's' | 'n' | 'b' | 'l' | 'o' => add(symbol, format!("[{symbol}m]")),
                'a' | 'x' => add(symbol, "[asnblfom]".into()),
                'f' => add('f', "f".into()),
                'j' => add('j', "[asnblom]".into()),
                '-' => {
                    if let Some(last) = parameters.last_mut() {
                        last.context = Some(last.pattern.clone());
                        last.pattern.push('?');
                    }
                }
                '?' | '+' => {
                    if let Some(last) = parameters.last_mut() {
                        last.pattern.push(symbol);
                    }
                }
                '(' => {
                    let end = matching(&characters, at, '(', ')');
                    let choice: String = characters[at + 1..end].iter().collect();
                    if choice.contains('<') {
                        return Err(Error::at(
                            "S0402",
                            position,
                            "Choice groups containing parameterized types are not supported",
                        ));
                    }
                    add('(', format!("[{choice}m]"));
                    at = end;
                }
                '<' => {
                    let end = matching(&characters, at, '<', '>');
                    match parameters.last_mut() {
                        Some(last) if matches!(last.kind, 'a' | 'f') => {
                            last.subtype = characters.get(at + 1).copied()
                        }
                        _ => {
                            return Err(Error::at(
                                "S0401",
                                position,
                                "Type parameters can only be applied to functions and arrays",
                            ));
                        }
                    }
                    at = end;
                }
                _ => {}
            }
            at += 1;
        }
        let whole: String = parameters.iter().map(|parameter| format!("({})", parameter.pattern)).collect();
        let whole = Regex::new(&format!("^{whole}$"))
            .map_err(|_| Error::at("S0401", position, format!("The signature {text} cannot be read")))?;
        Ok(Self { parameters, whole })
    }

    /// The arguments as the function takes them: missing ones from the context, single values as arrays.
    pub fn validate(&self, arguments: &[Value], context: &Value, name: &str) -> Result<Vec<Value>, Error> {
        let supplied: String = arguments.iter().map(symbol).collect();
        let refused = |at: usize| {
            Error::new(
                "T0410",
                format!("Argument {at} of function \"{name}\" does not match function signature"),
            )
        };
        let Some(found) = self.whole.captures(&supplied) else {
            return Err(refused(self.good_to(&supplied) + 1));
        };
        let mut validated = Vec::new();
        let mut at = 0;
        for (index, parameter) in self.parameters.iter().enumerate() {
            let matched = found.get(index + 1).map_or("", |group| group.as_str());
            if matched.is_empty() {
                match &parameter.context {
                    Some(types) => {
                        if !types.contains(symbol(context)) {
                            return Err(Error::new(
                                "T0411",
                                format!(
                                    "Context value is not a compatible type with argument {} of function \"{name}\"",
                                    at + 1
                                ),
                            ));
                        }
                        validated.push(context.clone());
                    }
                    None => {
                        validated.push(arguments.get(at).cloned().unwrap_or(Value::Undefined));
                        at += 1;
                    }
                }
                continue;
            }
            for single in matched.chars() {
                let argument = arguments.get(at).cloned().unwrap_or(Value::Undefined);
                at += 1;
                if parameter.kind != 'a' || single == 'm' {
                    validated.push(argument);
                    continue;
                }
                if let Some(subtype) = parameter.subtype
                    && !array_of(&argument, single, subtype, matched)
                {
                    let wanted = plural(subtype);
                    return Err(Error::new(
                        "T0412",
                        format!("Argument {at} of function \"{name}\" must be an array of \"{wanted}\""),
                    ));
                }
                validated.push(if single == 'a' { argument } else { Value::array(vec![argument]) });
            }
        }
        Ok(validated)
    }

    fn good_to(&self, supplied: &str) -> usize {
        let (mut pattern, mut good) = (String::from("^"), 0);
        for parameter in &self.parameters {
            pattern.push_str(&parameter.pattern);
            match Regex::new(&pattern).ok().and_then(|regex| regex.find(supplied).map(|found| found.len())) {
                Some(length) => good = length,
                None => break,
            }
        }
        good
    }
}

fn array_of(argument: &Value, single: char, subtype: char, matched: &str) -> bool {
    match argument {
        Value::Array(array) if single == 'a' => array.items.iter().all(|item| symbol(item) == subtype),
        _ => matched.len() == 1 && matched.starts_with(subtype),
    }
}

/// What a list of a type is called.
fn plural(subtype: char) -> &'static str {
    match subtype {
        'a' => "arrays",
        'b' => "booleans",
        'f' => "functions",
        'n' => "numbers",
        'o' => "objects",
        's' => "strings",
        _ => "values",
    }
}

fn matching(characters: &[char], from: usize, open: char, close: char) -> usize {
    let mut depth = 0;
    for (at, character) in characters.iter().enumerate().skip(from) {
        if *character == open {
            depth += 1;
        } else if *character == close {
            depth -= 1;
            if depth == 0 {
                return at;
            }
        }
    }
    characters.len() - 1
}

/// The letter of a value's type.
pub fn symbol(value: &Value) -> char {
    match value {
        Value::Undefined | Value::Tail(_) => 'm',
        Value::Null => 'l',
        Value::Boolean(_) => 'b',
        Value::Number(_) => 'n',
        Value::String(_) => 's',
        Value::Array(_) => 'a',
        Value::Object(_) => 'o',
        Value::Function(_) => 'f',
    }
}
