//! A graph as SVG: states in rows by their distance from the start, the path taken in colour.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use super::{Graph, Visit, Visits};

const WIDTH: usize = 200;
const HEIGHT: usize = 46;
const GAP: (usize, usize) = (40, 64);
const MARGIN: usize = 24;

const STYLE: &str = "<style>\
text{font:13px sans-serif;text-anchor:middle;fill:#1f2430}\
text.kind{font-size:10px;fill:#667}\
text.label{font-size:11px;fill:#445}\
rect{fill:#fff;stroke:#8892a6;stroke-width:1.5}\
rect.left{fill:#e3f6e8;stroke:#2e9e56}\
rect.entered{fill:#e6f0ff;stroke:#2f6fde}\
rect.failed{fill:#fde8e8;stroke:#d33a3a}\
path{fill:none;stroke:#8892a6;stroke-width:1.5}\
path.taken{stroke:#2e9e56;stroke-width:2.5}\
</style>";

pub fn svg(graph: &Graph, visits: &Visits) -> String {
    let places = places(graph);
    let columns = places.values().map(|place| place.0 + 1).max().unwrap_or(1);
    let rows = places.values().map(|place| place.1 + 1).max().unwrap_or(1);
    let (width, height) =
        (columns * (WIDTH + GAP.0) - GAP.0 + 2 * MARGIN, rows * (HEIGHT + GAP.1) - GAP.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         {STYLE}\n<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" \
         orient=\"auto\"><path d=\"M0,0L8,4L0,8z\" style=\"fill:#8892a6;stroke:none\"/></marker></defs>\n"
    );
    for edge in &graph.edges {
        let (Some(&from), Some(&to)) = (places.get(edge.from.as_str()), places.get(edge.to.as_str())) else {
            continue;
        };
        let taken = visits.get(&edge.from) == Some(&Visit::Left) && visits.contains_key(&edge.to);
        let _ = writeln!(svg, "{}", arrow(from, to, &edge.label, taken));
    }
    for node in &graph.nodes {
        let Some(&place) = places.get(node.name.as_str()) else { continue };
        let (x, y) = corner(place);
        let class = match visits.get(&node.name) {
            Some(Visit::Left) => "left",
            Some(Visit::Entered) => "entered",
            Some(Visit::Failed) => "failed",
            None => "untouched",
        };
        let _ = writeln!(
            svg,
            "<g><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>\
             <text x=\"{middle}\" y=\"{name_y}\">{}</text><text class=\"kind\" x=\"{middle}\" y=\"{kind_y}\">{}</text></g>",
            escape(&shorten(&node.name, 26)),
            escape(&node.kind),
            middle = x + WIDTH / 2,
            name_y = y + 21,
            kind_y = y + 37,
        );
    }
    svg += "</svg>\n";
    svg
}

/// Column and row of every state: its row is its distance from the start.
fn places(graph: &Graph) -> BTreeMap<&str, (usize, usize)> {
    let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
    let mut queue: VecDeque<(&str, usize)> = graph
        .nodes
        .iter()
        .filter(|node| node.start && node.depth == 0)
        .map(|node| (node.name.as_str(), 0))
        .collect();
    while let Some((name, row)) = queue.pop_front() {
        if rows.contains_key(name) {
            continue;
        }
        rows.insert(name, row);
        queue.extend(
            graph.edges.iter().filter(|edge| edge.from == name).map(|edge| (edge.to.as_str(), row + 1)),
        );
    }
    // What no edge leads to is drawn below the rest.
    let below = rows.values().max().map_or(0, |row| row + 1);
    let mut used: BTreeMap<usize, usize> = BTreeMap::new();
    let mut places = BTreeMap::new();
    for node in &graph.nodes {
        let row = rows.get(node.name.as_str()).copied().unwrap_or(below);
        let column = used.entry(row).or_default();
        places.insert(node.name.as_str(), (*column, row));
        *column += 1;
    }
    places
}

fn corner((column, row): (usize, usize)) -> (usize, usize) {
    (MARGIN + column * (WIDTH + GAP.0), MARGIN + row * (HEIGHT + GAP.1))
}

fn arrow(from: (usize, usize), to: (usize, usize), label: &str, taken: bool) -> String {
    let ((x1, y1), (x2, y2)) = (corner(from), corner(to));
    let class = if taken { " class=\"taken\"" } else { "" };
    let (start, end) = match from.1 < to.1 {
        true => ((x1 + WIDTH / 2, y1 + HEIGHT), (x2 + WIDTH / 2, y2)),
        // Back or aside: by the right edge.
        false => ((x1 + WIDTH, y1 + HEIGHT / 2), (x2 + WIDTH, y2 + HEIGHT / 2)),
    };
    let bend = if from.1 < to.1 {
        (start.0, start.1 + GAP.1 / 2, end.0, end.1.saturating_sub(GAP.1 / 2))
    } else {
        (start.0 + 36, start.1, end.0 + 36, end.1)
    };
    let path = format!(
        "<path{class} marker-end=\"url(#arrow)\" d=\"M{},{}C{},{} {},{} {},{}\"/>",
        start.0, start.1, bend.0, bend.1, bend.2, bend.3, end.0, end.1
    );
    if label.is_empty() {
        return path;
    }
    let (x, y) = ((start.0 + end.0) / 2, (start.1 + end.1) / 2);
    format!("{path}<text class=\"label\" x=\"{x}\" y=\"{y}\">{}</text>", escape(&shorten(label, 40)))
}

fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
