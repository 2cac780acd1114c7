//! The part of Dockerfiles that needs no builder: FROM, COPY, ENV, WORKDIR, ENTRYPOINT, CMD, and what only informs. What
//! would have to run something (RUN) is refused, with the line. Pure.

use std::fmt;

/// What a file asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dockerfile {
    pub base: String,
    pub copies: Vec<Copy>,
    /// `NAME=VALUE`.
    pub env: Vec<String>,
    pub work_dir: Option<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
}

/// Files of the context, and an absolute path in the image.
#[derive(Debug, PartialEq, Eq)]
pub struct Copy {
    pub from: Vec<String>,
    pub to: String,
    pub line: usize,
}

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for Problem {}

/// Instructions that say something about an image and change nothing in it.
const INFORM: [&str; 4] = ["LABEL", "EXPOSE", "MAINTAINER", "STOPSIGNAL"];

pub fn parse(text: &str) -> Result<Dockerfile, Problem> {
    let mut file = Dockerfile::default();
    for (line, instruction) in instructions(text) {
        let problem = |message: String| Problem { line, message };
        let (word, rest) = instruction.split_once(char::is_whitespace).unwrap_or((&instruction, ""));
        let (word, rest) = (word.to_ascii_uppercase(), rest.trim());
        if file.base.is_empty() && word != "FROM" {
            return Err(problem(format!("{word} stands before FROM, which must be the first")));
        }
        match word.as_str() {
            "FROM" if !file.base.is_empty() => {
                return Err(problem("a second FROM: images of several stages need a builder".to_owned()));
            }
            "FROM" if rest.is_empty() || rest.contains(char::is_whitespace) => {
                return Err(problem("give FROM one image and nothing else".to_owned()));
            }
            "FROM" => file.base = rest.to_owned(),
            "COPY" | "ADD" => file.copies.push(copy(rest, file.work_dir.as_deref(), line).map_err(problem)?),
            "ENV" => file.env.extend(variables(rest).map_err(problem)?),
            "WORKDIR" if rest.is_empty() => return Err(problem("give WORKDIR a folder".to_owned())),
            "WORKDIR" => file.work_dir = Some(absolute(rest, file.work_dir.as_deref()).map_err(problem)?),
            "ENTRYPOINT" => file.entrypoint = words(rest).map_err(problem)?,
            "CMD" => file.command = words(rest).map_err(problem)?,
            word if INFORM.contains(&word) => {}
            "RUN" => {
                let told = "RUN needs a builder, and here is none: copy what it would make, or take Debian packages with --package";
                return Err(problem(told.to_owned()));
            }
            other => {
                let told = format!("{other} is not one of FROM, COPY, ENV, WORKDIR, ENTRYPOINT, CMD");
                return Err(problem(told));
            }
        }
    }
    match file.base.is_empty() {
        true => Err(Problem { line: 1, message: "there is no FROM".to_owned() }),
        false => Ok(file),
    }
}

/// Whole instructions with the line in which they begin: a backslash at the end of a line goes on in the next.
fn instructions(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (begun, before) = open.take().unwrap_or((at + 1, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => open = Some((begun, format!("{before}{part} "))),
            None => found.push((begun, format!("{before}{line}"))),
        }
    }
    found.extend(open);
    found
}

fn copy(rest: &str, work_dir: Option<&str>, line: usize) -> Result<Copy, String> {
    if let Some(flag) = rest.split_whitespace().find(|word| word.starts_with("--")) {
        return Err(format!("{flag}: COPY takes files of the folder and nothing else"));
    }
    let mut paths: Vec<String> = match rest.starts_with('[') {
        true => words(rest)?,
        false => rest.split_whitespace().map(str::to_owned).collect(),
    };
    let Some(to) = paths.pop().filter(|_| !paths.is_empty()) else {
        return Err("COPY needs what is copied, and where to".to_owned());
    };
    if let Some(foreign) = paths.iter().find(|path| path.contains("://") || path.contains('*')) {
        return Err(format!("{foreign}: give paths of files and folders, without patterns"));
    }
    if let Some(outside) = paths.iter().find(|path| path.split('/').any(|part| part == "..")) {
        return Err(format!("{outside} leads out of the folder"));
    }
    // A slash at its end says that it is a folder.
    let is_folder = to.ends_with('/') || to == "." || paths.len() > 1;
    let to = absolute(&to, work_dir)?;
    Ok(Copy { from: paths, to: if is_folder { format!("{}/", to.trim_end_matches('/')) } else { to }, line })
}

fn absolute(path: &str, work_dir: Option<&str>) -> Result<String, String> {
    if path.split('/').any(|part| part == "..") {
        return Err(format!("{path}: give a path without .."));
    }
    let base = if path.starts_with('/') { "" } else { work_dir.unwrap_or("/") };
    let parts = base.split('/').chain(path.split('/')).filter(|part| !part.is_empty() && *part != ".");
    Ok(format!("/{}", parts.collect::<Vec<_>>().join("/")))
}

/// `NAME=VALUE …` with quotes, or `NAME VALUE`.
fn variables(rest: &str) -> Result<Vec<String>, String> {
    let first = rest.split_whitespace().next().unwrap_or_default();
    if !first.contains('=') {
        let (name, value) = rest.split_once(char::is_whitespace).ok_or("ENV needs NAME=VALUE")?;
        return Ok(vec![format!("{name}={}", value.trim())]);
    }
    let mut found = Vec::new();
    let (mut word, mut quote) = (String::new(), None);
    for c in rest.chars().chain([' ']) {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c.is_whitespace() => {
                if !word.is_empty() {
                    found.push(std::mem::take(&mut word));
                }
            }
            (_, c) => word.push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    match found.iter().find(|pair| pair.starts_with('=') || !pair.contains('=')) {
        Some(bad) => Err(format!("{bad}: ENV needs NAME=VALUE")),
        None => Ok(found),
    }
}

/// A JSON list; a plain line is what a shell runs.
fn words(rest: &str) -> Result<Vec<String>, String> {
    if rest.starts_with('[') {
        return serde_json::from_str(rest).map_err(|error| format!("{rest}: not a list of texts: {error}"));
    }
    Ok(["/bin/sh", "-c", rest].map(str::to_owned).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockerfile_without_a_builder_is_read() {
        let text = "# an app\nFROM minik8s.io/web:1\nWORKDIR /srv\nENV SIZE=64 NAME=\"a b\" \\\n  X=1\nENV OLD form here\n\
                    COPY site.html .\nCOPY [\"a b.txt\", \"data/x\"]\nCOPY one two /etc/many\nEXPOSE 80\nLABEL a=b\n\
                    ENTRYPOINT [\"/bin/web\", \"-p\"]\nCMD serve now\n";
        let file = parse(text).unwrap();
        assert_eq!((file.base.as_str(), file.work_dir.as_deref()), ("minik8s.io/web:1", Some("/srv")));
        assert_eq!(file.env, ["SIZE=64", "NAME=a b", "X=1", "OLD=form here"]);
        let copies: Vec<_> = file.copies.iter().map(|one| (one.from.join(","), one.to.as_str())).collect();
        let want = [("site.html", "/srv/"), ("a b.txt", "/srv/data/x"), ("one,two", "/etc/many/")];
        assert_eq!(copies, want.map(|(from, to)| (from.to_owned(), to)));
        assert_eq!(file.entrypoint, ["/bin/web", "-p"]);
        assert_eq!(file.command, ["/bin/sh", "-c", "serve now"]);
    }

    #[test]
    fn what_needs_a_builder_is_refused_with_its_line() {
        let check = |text: &str, line: usize, told: &str| {
            let problem = parse(text).unwrap_err();
            assert!(problem.line == line && problem.message.contains(told), "{text:?}: {problem}");
        };
        check("", 1, "no FROM");
        check("COPY a b", 1, "before FROM");
        check("FROM a\nRUN apt-get update", 2, "builder");
        check("FROM a\nFROM b", 2, "stages");
        check("FROM a AS b", 1, "nothing else");
        check("FROM a\nCOPY --from=x a b", 2, "--from");
        check("FROM a\n\nCOPY ../secret /", 3, "out of the folder");
        check("FROM a\nCOPY a ../b", 2, "without ..");
        check("FROM a\nCOPY http://x/y /", 2, "patterns");
        check("FROM a\nCOPY a", 2, "where to");
        check("FROM a\nENV A=\"b", 2, "quote");
        check("FROM a\nCMD [1]", 2, "list of texts");
        check("FROM a\nHEALTHCHECK x", 2, "HEALTHCHECK");
    }
}
