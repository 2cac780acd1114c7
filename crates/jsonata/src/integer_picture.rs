//! Pictures of integers: digits with separators, letters, roman numerals, words; as numbers or ordinals; and back.

use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Case {
    Lower,
    Upper,
    Title,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Primary {
    Letters,
    Roman,
    Words,
    Decimal,
    Sequence(String),
}

#[derive(Debug, Clone)]
pub struct IntegerFormat {
    pub primary: Primary,
    case: Case,
    pub ordinal: bool,
    zero: u32,
    pub mandatory: usize,
    pub optional: usize,
    /// One separator at every multiple of a position.
    pub regular: Option<(usize, char)>,
    separators: Vec<(usize, char)>,
    /// Exactly so many digits are read.
    pub width: Option<usize>,
}

/// Where digits begin in Unicode.
const DIGITS: &[u32] = &[
    0x30, 0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
    0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50,
    0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10,
];
const FEW: &[&str] = &[
    "Zero",
    "One",
    "Two",
    "Three",
    "Four",
    "Five",
    "Six",
    "Seven",
    "Eight",
    "Nine",
    "Ten",
    "Eleven",
    "Twelve",
    "Thirteen",
    "Fourteen",
    "Fifteen",
    "Sixteen",
    "Seventeen",
    "Eighteen",
    "Nineteen",
];
const ORDINALS: &[&str] = &[
    "Zeroth",
    "First",
    "Second",
    "Third",
    "Fourth",
    "Fifth",
    "Sixth",
    "Seventh",
    "Eighth",
    "Ninth",
    "Tenth",
    "Eleventh",
    "Twelfth",
    "Thirteenth",
    "Fourteenth",
    "Fifteenth",
    "Sixteenth",
    "Seventeenth",
    "Eighteenth",
    "Nineteenth",
];
const DECADES: &[&str] =
    &["Twenty", "Thirty", "Forty", "Fifty", "Sixty", "Seventy", "Eighty", "Ninety", "Hundred"];
const MAGNITUDES: &[&str] = &["Thousand", "Million", "Billion", "Trillion"];
const ROMAN: &[(f64, &str)] = &[
    (1000.0, "m"),
    (900.0, "cm"),
    (500.0, "d"),
    (400.0, "cd"),
    (100.0, "c"),
    (90.0, "xc"),
    (50.0, "l"),
    (40.0, "xl"),
    (10.0, "x"),
    (9.0, "ix"),
    (5.0, "v"),
    (4.0, "iv"),
    (1.0, "i"),
];

impl IntegerFormat {
    pub fn parse(picture: &str) -> Result<Self, Error> {
        let (primary, modifier) = match picture.rfind(';') {
            Some(at) => (&picture[..at], &picture[at + 1..]),
            None => (picture, ""),
        };
        let mut format = Self {
            primary: Primary::Decimal,
            case: Case::Lower,
            ordinal: modifier.starts_with('o'),
            zero: 0x30,
            mandatory: 0,
            optional: 0,
            regular: None,
            separators: Vec::new(),
            width: None,
        };
        let named = match primary {
            "A" => Some((Primary::Letters, Case::Upper)),
            "a" => Some((Primary::Letters, Case::Lower)),
            "I" => Some((Primary::Roman, Case::Upper)),
            "i" => Some((Primary::Roman, Case::Lower)),
            "W" => Some((Primary::Words, Case::Upper)),
            "Ww" => Some((Primary::Words, Case::Title)),
            "w" => Some((Primary::Words, Case::Lower)),
            _ => None,
        };
        if let Some((primary, case)) = named {
            format.primary = primary;
            format.case = case;
            return Ok(format);
        }
        format.digits(primary)?;
        Ok(format)
    }

    fn digits(&mut self, primary: &str) -> Result<(), Error> {
        let mut zero = None;
        let mut position = 0;
        for character in primary.chars().rev() {
            let code = u32::from(character);
            let group = DIGITS.iter().find(|group| (**group..=**group + 9).contains(&code));
            if let Some(&group) = group {
                self.mandatory += 1;
                position += 1;
                if *zero.get_or_insert(group) != group {
                    return Err(Error::new(
                        "D3131",
                        "In a decimal digit pattern, all digits must be from the same decimal group",
                    ));
                }
            } else if character == '#' {
                position += 1;
                self.optional += 1;
            } else {
                self.separators.push((position, character));
            }
        }
        if self.mandatory == 0 {
            self.primary = Primary::Sequence(primary.to_owned());
            return Ok(());
        }
        self.zero = zero.unwrap_or(0x30);
        let repeat = regular_repeat(&self.separators);
        if repeat > 0 {
            self.regular = Some((repeat, self.separators[0].1));
        }
        Ok(())
    }

    pub fn format(&self, number: f64) -> Result<String, Error> {
        let value = number.abs();
        let text = match &self.primary {
            Primary::Letters => self.cased(letters(value)),
            Primary::Roman => self.cased(roman(value)),
            Primary::Words => self.cased(words(value, false, self.ordinal)),
            Primary::Decimal => self.decimal(value),
            Primary::Sequence(token) => {
                return Err(Error::new(
                    "D3130",
                    format!(
                        "Formatting or parsing an integer as a sequence starting with \"{token}\" is not supported by this implementation"
                    ),
                ));
            }
        };
        Ok(if number < 0.0 { format!("-{text}") } else { text })
    }

    fn cased(&self, text: String) -> String {
        match self.case {
            Case::Lower => text.to_lowercase(),
            Case::Upper => text.to_uppercase(),
            Case::Title => text,
        }
    }

    fn decimal(&self, value: f64) -> String {
        let mut text: Vec<char> = crate::value::number_text(value).chars().collect();
        while text.len() < self.mandatory {
            text.insert(0, '0');
        }
        if self.zero != 0x30 {
            for character in &mut text {
                if let Some(digit) = character.to_digit(10) {
                    *character = char::from_u32(self.zero + digit).unwrap_or(*character);
                }
            }
        }
        match self.regular {
            Some((every, separator)) => {
                let count = (text.len().saturating_sub(1)) / every;
                let mut place = text.len();
                for _ in 0..count {
                    place -= every;
                    text.insert(place, separator);
                }
            }
            None => {
                // From the right: those that stand already are no digits.
                let mut standing = 0;
                for (position, separator) in &self.separators {
                    let digits = text.len() - standing;
                    if *position <= digits {
                        text.insert(digits - position, *separator);
                        standing += 1;
                    }
                }
            }
        }
        let mut text: String = text.into_iter().collect();
        if self.ordinal {
            let characters: Vec<char> = text.chars().collect();
            let teen = characters.len() > 1 && characters[characters.len() - 2] == '1';
            let suffix = match characters.last() {
                Some('1') if !teen => "st",
                Some('2') if !teen => "nd",
                Some('3') if !teen => "rd",
                _ => "th",
            };
            text.push_str(suffix);
        }
        text
    }

    /// The pattern that a number in this form matches.
    pub fn pattern(&self) -> Result<String, Error> {
        Ok(match &self.primary {
            Primary::Letters => if self.case == Case::Upper { "[A-Z]+" } else { "[a-z]+" }.into(),
            Primary::Roman => if self.case == Case::Upper { "[MDCLXVI]+" } else { "[mdclxvi]+" }.into(),
            Primary::Words => word_pattern(),
            Primary::Decimal => {
                let digits = match self.width {
                    Some(width) => format!("[0-9]{{{width}}}"),
                    None => "[0-9]+".into(),
                };
                if self.ordinal { format!("{digits}(?:th|st|nd|rd)") } else { digits }
            }
            Primary::Sequence(token) => {
                return Err(Error::new(
                    "D3130",
                    format!(
                        "Formatting or parsing an integer as a sequence starting with \"{token}\" is not supported by this implementation"
                    ),
                ));
            }
        })
    }

    pub fn parse_text(&self, text: &str) -> Result<Option<f64>, Error> {
        Ok(match &self.primary {
            Primary::Letters => {
                let base = if self.case == Case::Upper { 'A' } else { 'a' };
                let mut value = 0.0;
                for character in text.chars() {
                    value =
                        value * 26.0 + (f64::from(u32::from(character)) - f64::from(u32::from(base)) + 1.0);
                }
                Some(value)
            }
            Primary::Roman => Some(from_roman(&text.to_lowercase())),
            Primary::Words => from_words(&text.to_lowercase()),
            Primary::Decimal => {
                let digits = if self.ordinal {
                    text.get(..text.len().saturating_sub(2)).unwrap_or_default()
                } else {
                    text
                };
                let separators: Vec<char> = match self.regular {
                    Some(_) => vec![',', self.regular.map_or(',', |(_, separator)| separator)],
                    None => self.separators.iter().map(|(_, separator)| *separator).collect(),
                };
                let plain: String = digits
                    .chars()
                    .filter(|character| !separators.contains(character))
                    .map(|character| {
                        let code = u32::from(character);
                        let digit = code.checked_sub(self.zero).filter(|digit| *digit < 10);
                        digit.and_then(|digit| char::from_digit(digit, 10)).unwrap_or(character)
                    })
                    .collect();
                let end =
                    plain.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '+').unwrap_or(plain.len());
                plain[..end].parse().ok()
            }
            Primary::Sequence(token) => {
                return Err(Error::new(
                    "D3130",
                    format!(
                        "Formatting or parsing an integer as a sequence starting with \"{token}\" is not supported by this implementation"
                    ),
                ));
            }
        })
    }
}

/// The interval of separators that are alike and equally far apart, or none.
fn regular_repeat(separators: &[(usize, char)]) -> usize {
    let Some((_, first)) = separators.first() else { return 0 };
    if separators.iter().any(|(_, character)| character != first) {
        return 0;
    }
    regular(&separators.iter().map(|(position, _)| *position).collect::<Vec<_>>())
}

pub fn regular(positions: &[usize]) -> usize {
    fn divisor(a: usize, b: usize) -> usize {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    let factor = positions.iter().copied().reduce(divisor).unwrap_or(0);
    let complete = factor > 0 && (1..=positions.len()).all(|at| positions.contains(&(at * factor)));
    if complete { factor } else { 0 }
}

fn letters(mut value: f64) -> String {
    let mut text = Vec::new();
    while value > 0.0 {
        text.push(char::from(b'a' + ((value - 1.0) % 26.0) as u8));
        value = ((value - 1.0) / 26.0).floor();
    }
    text.into_iter().rev().collect()
}

fn roman(mut value: f64) -> String {
    let mut text = String::new();
    // Nobody reads more thousands than that.
    value = value.min(1_000_000.0);
    for (worth, letters) in ROMAN {
        while value >= *worth {
            text.push_str(letters);
            value -= worth;
        }
    }
    text
}

fn from_roman(text: &str) -> f64 {
    let worth = |character: char| match character {
        'm' => 1000.0,
        'd' => 500.0,
        'c' => 100.0,
        'l' => 50.0,
        'x' => 10.0,
        'v' => 5.0,
        'i' => 1.0,
        _ => 0.0,
    };
    let (mut value, mut highest) = (0.0, 1.0);
    for character in text.chars().rev() {
        let worth = worth(character);
        if worth < highest {
            value -= worth;
        } else {
            highest = worth;
            value += worth;
        }
    }
    value
}

fn words(number: f64, previous: bool, ordinal: bool) -> String {
    let few = |at: f64, ordinal: bool| if ordinal { ORDINALS[at as usize] } else { FEW[at as usize] };
    if number <= 19.0 {
        return format!("{}{}", if previous { " and " } else { "" }, few(number, ordinal));
    }
    if number < 100.0 {
        let (tens, rest) = ((number / 10.0).floor(), number % 10.0);
        let mut text = format!("{}{}", if previous { " and " } else { "" }, DECADES[tens as usize - 2]);
        if rest > 0.0 {
            text.push('-');
            text.push_str(&words(rest, false, ordinal));
        } else if ordinal {
            text.pop();
            text.push_str("ieth");
        }
        return text;
    }
    if number < 1000.0 {
        let (hundreds, rest) = ((number / 100.0).floor(), number % 100.0);
        let mut text = format!("{}{} Hundred", if previous { ", " } else { "" }, FEW[hundreds as usize]);
        if rest > 0.0 {
            text.push_str(&words(rest, true, ordinal));
        } else if ordinal {
            text.push_str("th");
        }
        return text;
    }
    let magnitude = ((number.log10() / 3.0).floor() as usize).clamp(1, MAGNITUDES.len());
    let factor = 10f64.powi(magnitude as i32 * 3);
    let (many, rest) = ((number / factor).floor(), number - (number / factor).floor() * factor);
    let mut text = format!(
        "{}{} {}",
        if previous { ", " } else { "" },
        words(many, false, false),
        MAGNITUDES[magnitude - 1]
    );
    if rest > 0.0 {
        text.push_str(&words(rest, true, ordinal));
    } else if ordinal {
        text.push_str("th");
    }
    text
}

fn from_words(text: &str) -> Option<f64> {
    let text = text.replace(", ", " ").replace(" and ", " ").replace('-', " ");
    let mut segments = vec![0.0];
    for word in text.split_whitespace() {
        let value = word_value(word)?;
        let top = segments.pop().unwrap_or(0.0);
        if value < 100.0 {
            if top >= 1000.0 {
                segments.push(top);
                segments.push(value);
            } else {
                segments.push(top + value);
            }
        } else {
            segments.push(top * value);
        }
    }
    Some(segments.iter().sum())
}

/// Any of the words, and what joins them.
fn word_pattern() -> String {
    let mut words: Vec<String> = FEW.iter().chain(ORDINALS).map(|word| word.to_lowercase()).collect();
    for decade in DECADES {
        let lower = decade.to_lowercase();
        words.push(format!("{}ieth", &lower[..lower.len() - 1]));
        words.push(lower);
    }
    words.push("hundredth".into());
    for magnitude in MAGNITUDES {
        words.push(format!("{}th", magnitude.to_lowercase()));
        words.push(magnitude.to_lowercase());
    }
    // Longer words before their beginnings.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    format!("(?:{}|and|[\\-, ])+", words.join("|"))
}

fn word_value(word: &str) -> Option<f64> {
    let place = |words: &[&str]| words.iter().position(|other| other.eq_ignore_ascii_case(word));
    if let Some(at) = place(FEW).or_else(|| place(ORDINALS)) {
        return Some(at as f64);
    }
    for (at, decade) in DECADES.iter().enumerate() {
        let lower = decade.to_lowercase();
        if word == lower
            || word == format!("{}ieth", &lower[..lower.len() - 1])
            || (at == 8 && word == "hundredth")
        {
            return Some((at as f64 + 2.0) * 10.0);
        }
    }
    for (at, magnitude) in MAGNITUDES.iter().enumerate() {
        let lower = magnitude.to_lowercase();
        if word == lower || word == format!("{lower}th") {
            return Some(10f64.powi((at as i32 + 1) * 3));
        }
    }
    None
}
