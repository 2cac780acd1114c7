//! `$formatNumber`: pictures of numbers as XPath has them.

use crate::builtins::round_to;
use crate::error::Error;
use crate::integer_picture::regular;
use crate::value::Value;

struct Symbols {
    decimal: char,
    grouping: char,
    exponent: char,
    minus: String,
    percent: String,
    per_mille: String,
    zero: char,
    digit: char,
    pattern: char,
}

impl Symbols {
    fn new(options: &Value) -> Self {
        let text = |name: &str, default: &str| match options.field(name) {
            Value::String(text) => text.to_string(),
            _ => default.to_owned(),
        };
        let character = |name: &str, default: char| text(name, "").chars().next().unwrap_or(default);
        Self {
            decimal: character("decimal-separator", '.'),
            grouping: character("grouping-separator", ','),
            exponent: character("exponent-separator", 'e'),
            minus: text("minus-sign", "-"),
            percent: text("percent", "%"),
            per_mille: text("per-mille", "\u{2030}"),
            zero: character("zero-digit", '0'),
            digit: character("digit", '#'),
            pattern: character("pattern-separator", ';'),
        }
    }

    fn is_digit(&self, character: char) -> bool {
        let zero = u32::from(self.zero);
        (zero..=zero + 9).contains(&u32::from(character))
    }

    fn is_active(&self, character: char) -> bool {
        self.is_digit(character)
            || [self.decimal, self.exponent, self.grouping, self.digit, self.pattern].contains(&character)
    }
}

struct Parts {
    prefix: String,
    suffix: String,
    active: Vec<char>,
    mantissa: Vec<char>,
    exponent: Option<Vec<char>>,
    integer: Vec<char>,
    fraction: Vec<char>,
    whole: Vec<char>,
}

struct Picture {
    integer_groups: Vec<usize>,
    regular: usize,
    least_integer: usize,
    scaling: usize,
    prefix: String,
    fraction_groups: Vec<usize>,
    least_fraction: usize,
    most_fraction: usize,
    least_exponent: usize,
    suffix: String,
    text: String,
}

pub fn format(number: f64, picture: &str, options: &Value) -> Result<String, Error> {
    let symbols = Symbols::new(options);
    let pictures: Vec<&str> = picture.split(symbols.pattern).collect();
    if pictures.len() > 2 {
        return Err(refused("D3080"));
    }
    let mut parsed = Vec::new();
    for picture in pictures {
        let parts = split(picture, &symbols)?;
        validate(&parts, &symbols)?;
        parsed.push(analyse(parts, &symbols));
    }
    let negative = number < 0.0;
    let single = parsed.len() == 1;
    let mut chosen = parsed.swap_remove(if negative && !single { 1 } else { 0 });
    if negative && single {
        chosen.prefix = format!("{}{}", symbols.minus, chosen.prefix);
    }
    Ok(render(number, &chosen, &symbols))
}

fn refused(code: &str) -> Error {
    let what = match code {
        "D3080" => "The picture string must only contain a maximum of two sub-pictures",
        "D3081" => {
            "The sub-picture must not contain more than one instance of the 'decimal-separator' character"
        }
        "D3082" => "The sub-picture must not contain more than one instance of the 'percent' character",
        "D3083" => "The sub-picture must not contain more than one instance of the 'per-mille' character",
        "D3084" => "The sub-picture must not contain both a 'percent' and a 'per-mille' character",
        "D3085" => {
            "The mantissa part of a sub-picture must contain at least one character that is either an 'optional digit character' or a member of the 'decimal digit family'"
        }
        "D3086" => {
            "The sub-picture must not contain a passive character that is preceded by an active character and that is followed by another active character"
        }
        "D3087" => {
            "The sub-picture must not contain a 'grouping-separator' character that appears adjacent to a 'decimal-separator' character"
        }
        "D3088" => "The sub-picture must not contain a 'grouping-separator' at the end of the integer part",
        "D3089" => {
            "The sub-picture must not contain two adjacent instances of the 'grouping-separator' character"
        }
        "D3090" => {
            "The integer part of the sub-picture must not contain a member of the 'decimal digit family' that is followed by an instance of the 'optional digit character'"
        }
        "D3091" => {
            "The fractional part of the sub-picture must not contain an instance of the 'optional digit character' that is followed by a member of the 'decimal digit family'"
        }
        "D3092" => {
            "A sub-picture that contains a 'percent' or 'per-mille' character must not contain a character treated as an 'exponent-separator'"
        }
        "D3093" => {
            "The exponent part of the sub-picture must comprise only of one or more characters that are members of the 'decimal digit family'"
        }
        _ => "The picture string cannot be read",
    };
    Error::new(code, what)
}

fn split(picture: &str, symbols: &Symbols) -> Result<Parts, Error> {
    let whole: Vec<char> = picture.chars().collect();
    let bound = |character: &char| symbols.is_active(*character) && *character != symbols.exponent;
    // Nothing but passive characters: validation says what is wrong.
    let (first, end) = match (whole.iter().position(bound), whole.iter().rposition(bound)) {
        (Some(first), Some(last)) => (first, last + 1),
        _ => (0, whole.len()),
    };
    let active: Vec<char> = whole[first..end].to_vec();
    let exponent_at = whole[first..].iter().position(|character| *character == symbols.exponent);
    let (mantissa, exponent) = match exponent_at {
        Some(at) if at <= active.len() => {
            (active[..at].to_vec(), Some(active.get(at + 1..).unwrap_or_default().to_vec()))
        }
        _ => (active.clone(), None),
    };
    let suffix: String = whole[end..].iter().collect();
    let (integer, fraction) = match mantissa.iter().position(|character| *character == symbols.decimal) {
        Some(at) => (mantissa[..at].to_vec(), mantissa[at + 1..].to_vec()),
        None => (mantissa.clone(), suffix.chars().collect()),
    };
    Ok(Parts {
        prefix: whole[..first].iter().collect(),
        suffix,
        active,
        mantissa,
        exponent,
        integer,
        fraction,
        whole,
    })
}

fn validate(parts: &Parts, symbols: &Symbols) -> Result<(), Error> {
    let text: String = parts.whole.iter().collect();
    let times = |part: &str| if part.is_empty() { 0 } else { text.matches(part).count() };
    let decimal = text.matches(symbols.decimal).count();
    let mut error = None;
    if decimal > 1 {
        error = Some("D3081");
    }
    if times(&symbols.percent) > 1 {
        error = Some("D3082");
    }
    if times(&symbols.per_mille) > 1 {
        error = Some("D3083");
    }
    if times(&symbols.percent) > 0 && times(&symbols.per_mille) > 0 {
        error = Some("D3084");
    }
    if !parts.mantissa.iter().any(|c| symbols.is_digit(*c) || *c == symbols.digit) {
        error = Some("D3085");
    }
    if parts.active.iter().any(|c| !symbols.is_active(*c)) {
        error = Some("D3086");
    }
    if let Some(at) = parts.whole.iter().position(|c| *c == symbols.decimal) {
        let before = at.checked_sub(1).and_then(|at| parts.whole.get(at));
        if before == Some(&symbols.grouping) || parts.whole.get(at + 1) == Some(&symbols.grouping) {
            error = Some("D3087");
        }
    } else if parts.integer.last() == Some(&symbols.grouping) {
        error = Some("D3088");
    }
    if parts.whole.windows(2).any(|pair| pair == [symbols.grouping, symbols.grouping]) {
        error = Some("D3089");
    }
    if let Some(at) = parts.integer.iter().position(|c| *c == symbols.digit)
        && parts.integer[..at].iter().any(|c| symbols.is_digit(*c))
    {
        error = Some("D3090");
    }
    if let Some(at) = parts.fraction.iter().rposition(|c| *c == symbols.digit)
        && parts.fraction[at..].iter().any(|c| symbols.is_digit(*c))
    {
        error = Some("D3091");
    }
    if let Some(exponent) = &parts.exponent {
        if !exponent.is_empty() && (times(&symbols.percent) > 0 || times(&symbols.per_mille) > 0) {
            error = Some("D3092");
        }
        if exponent.is_empty() || exponent.iter().any(|c| !symbols.is_digit(*c)) {
            error = Some("D3093");
        }
    }
    error.map_or(Ok(()), |code| Err(refused(code)))
}

fn analyse(parts: Parts, symbols: &Symbols) -> Picture {
    let counts =
        |part: &[char]| part.iter().filter(|c| symbols.is_digit(**c) || **c == symbols.digit).count();
    let digits = |part: &[char]| part.iter().filter(|c| symbols.is_digit(**c)).count();
    let places = |part: &[char], left: bool| {
        let found = part.iter().enumerate().filter(|(_, c)| **c == symbols.grouping);
        found.map(|(at, _)| if left { counts(&part[..at]) } else { counts(&part[at..]) }).collect::<Vec<_>>()
    };
    let integer_groups = places(&parts.integer, false);
    let mut least_integer = digits(&parts.integer);
    let scaling = least_integer;
    let (mut least_fraction, mut most_fraction) = (digits(&parts.fraction), counts(&parts.fraction));
    let exponent = parts.exponent.is_some();
    if least_integer == 0 && most_fraction == 0 {
        if exponent {
            (least_fraction, most_fraction) = (1, 1);
        } else {
            least_integer = 1;
        }
    }
    if exponent && least_integer == 0 && parts.integer.contains(&symbols.digit) {
        least_integer = 1;
    }
    if least_integer == 0 && least_fraction == 0 {
        least_fraction = 1;
    }
    Picture {
        regular: regular(&integer_groups),
        integer_groups,
        least_integer,
        scaling,
        fraction_groups: places(&parts.fraction, true),
        least_fraction,
        most_fraction,
        least_exponent: parts.exponent.as_ref().map_or(0, |exponent| digits(exponent)),
        prefix: parts.prefix,
        suffix: parts.suffix,
        text: parts.whole.iter().collect(),
    }
}

fn render(number: f64, picture: &Picture, symbols: &Symbols) -> String {
    let has = |part: &str| !part.is_empty() && picture.text.contains(part);
    let adjusted = if has(&symbols.percent) {
        number * 100.0
    } else if has(&symbols.per_mille) {
        number * 1000.0
    } else {
        number
    };
    let (mantissa, exponent) = scale(adjusted, picture);
    let native = |text: String| -> Vec<char> {
        let shift = |c: char| {
            c.to_digit(10).and_then(|digit| char::from_u32(u32::from(symbols.zero) + digit)).unwrap_or(c)
        };
        text.chars().map(shift).collect()
    };
    let digits = picture.most_fraction.min(1000);
    let rounded = round_to(mantissa, picture.most_fraction as i32);
    let mut text = native(format!("{:.*}", digits, rounded.abs()));
    match text.iter().position(|c| *c == '.') {
        Some(at) => text[at] = symbols.decimal,
        None => text.push(symbols.decimal),
    }
    while text.first() == Some(&symbols.zero) {
        text.remove(0);
    }
    while text.last() == Some(&symbols.zero) {
        text.pop();
    }
    let point = |text: &[char]| text.iter().position(|c| *c == symbols.decimal).unwrap_or(text.len());
    while point(&text) < picture.least_integer {
        text.insert(0, symbols.zero);
    }
    while text.len() - point(&text) - 1 < picture.least_fraction {
        text.push(symbols.zero);
    }
    let at = point(&text);
    if let Some(groups) = at.saturating_sub(1).checked_div(picture.regular) {
        for group in 1..=groups {
            text.insert(at - group * picture.regular, symbols.grouping);
        }
    } else {
        let mut at = at;
        for position in &picture.integer_groups {
            if *position <= at {
                text.insert(at - position, symbols.grouping);
                at += 1;
            }
        }
    }
    let at = point(&text);
    for position in &picture.fraction_groups {
        if position + at < text.len() {
            text.insert(position + at + 1, symbols.grouping);
        }
    }
    if !picture.text.contains(symbols.decimal) || point(&text) == text.len() - 1 {
        text.pop();
    }
    let mut out: String = format!("{}{}", picture.prefix, text.into_iter().collect::<String>());
    if let Some(exponent) = exponent {
        let mut digits = native(exponent.abs().to_string());
        while digits.len() < picture.least_exponent {
            digits.insert(0, symbols.zero);
        }
        out.push(symbols.exponent);
        if exponent < 0 {
            out.push_str(&symbols.minus);
        }
        out.extend(digits);
    }
    out.push_str(&picture.suffix);
    out
}

/// The mantissa and the power of ten, where the picture has an exponent.
fn scale(number: f64, picture: &Picture) -> (f64, Option<i32>) {
    if picture.least_exponent == 0 {
        return (number, None);
    }
    let most = 10f64.powi(picture.scaling as i32);
    let least = 10f64.powi(picture.scaling as i32 - 1);
    let (mut mantissa, mut power) = (number, 0i32);
    while mantissa != 0.0 && mantissa.abs() < least && power > -400 {
        mantissa *= 10.0;
        power -= 1;
    }
    while mantissa.abs() > most && power < 400 {
        mantissa /= 10.0;
        power += 1;
    }
    (mantissa, Some(power))
}
