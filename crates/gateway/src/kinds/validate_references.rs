//! What lists of references must be like, with the messages of the project's own definitions. Whether what they name is
//! there is not looked at.

use std::collections::BTreeSet;

use minik8s_api::{At, FieldErrors};

pub fn parents(all: &At<'_>, errors: &mut FieldErrors) {
    distinct(all, &["group", "kind", "namespace", "name"], ("parentRefs", "parent"), errors);
}

pub fn targets(all: &At<'_>, errors: &mut FieldErrors) {
    distinct(all, &["group", "kind", "name"], ("targetRefs", "target"), errors);
}

/// References to the same object name its parts: all of them do, and each another.
fn distinct(all: &At<'_>, object: &[&str], (list, one): (&str, &str), errors: &mut FieldErrors) {
    let references: Vec<At<'_>> = all.items().collect();
    let mut problems = BTreeSet::new();
    for (index, reference) in references.iter().enumerate() {
        let is_same = |other: &&At<'_>| {
            object.iter().all(|name| other.field(name).text() == reference.field(name).text())
        };
        for other in references[..index].iter().filter(is_same) {
            let [section, other_section] = [reference, other].map(|at| at.field("sectionName").text());
            let [port, other_port] = [reference, other].map(|at| at.field("port").int());
            if section == other_section && port == other_port {
                problems.insert("unique");
            } else if section.is_empty() != other_section.is_empty() || port.is_some() != other_port.is_some()
            {
                problems.insert("specified");
            }
        }
    }
    let has_ports = references.iter().any(|at| at.field("port").exists());
    let part = if has_ports { "sectionName or port" } else { "sectionName" };
    for problem in problems {
        let text =
            format!("{part} must be {problem} when {list} includes 2 or more references to the same {one}");
        all.invalid(errors, text);
    }
}
