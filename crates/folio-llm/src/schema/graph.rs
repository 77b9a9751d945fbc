//! A schema with resolved references: rejects schemas whose validation would not terminate, and estimates the work of
//! validating data.

use std::collections::HashMap;

use serde_json::Value;

use super::bounds::{depth, width_by_level};
use super::walk::{Position, children};
use super::{IN_PLACE_NESTING_MAX, PROPERTIES_MAX, REFERENCE_NESTING_MAX, STEPS_MAX, SUBSCHEMAS_MAX, Violation, join};

/// Maximum levels of a schema without references that is validated on any stack.
const SHALLOW_LEVELS: usize = 32;

/// Entries of a list that are compared in one step.
const LISTED_PER_STEP: usize = 16;
/// Steps of one match of a pattern.
const PATTERN_STEPS: usize = 20;

/// Every subschema of a schema.
pub(super) struct Graph<'a> {
    /// In order of discovery. The first node is the root.
    pub(super) nodes: Vec<Node<'a>>,
    /// Nesting with every reference followed once.
    nesting: usize,
    by_address: HashMap<*const Value, usize>,
}

pub(super) struct Node<'a> {
    pub(super) path: String,
    pub(super) schema: &'a Value,
    /// Target of its `$ref`. In Draft 7, keywords next to it are ignored.
    target: Option<usize>,
    children: Vec<(Position, usize)>,
}

impl<'a> Graph<'a> {
    /// Visits a schema whose size and nesting are bounded, and follows its references.
    pub(super) fn build(root: &'a Value) -> Result<Self, Vec<Violation>> {
        let mut graph = Self { nodes: Vec::new(), nesting: 0, by_address: HashMap::new() };
        graph.walk("#".to_owned(), root)?;
        let mut violations = Vec::new();
        let mut targets: HashMap<usize, usize> = HashMap::new();
        let mut at = 0;
        // Following a reference may discover further subschemas with references.
        while let Some(node) = graph.nodes.get(at) {
            let (path, schema) = (node.path.clone(), node.schema);
            if schema.get("$id").is_some() && at > 0 {
                violations.push(Violation::new(join(&path, "$id"), "only the whole schema may have an $id"));
            }
            if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
                match resolve(root, reference) {
                    Ok((target_path, target)) => {
                        let index = graph.walk(target_path, target)?;
                        targets.entry(index).or_insert_with(|| depth(target));
                        if let Some(node) = graph.nodes.get_mut(at) {
                            node.target = Some(index);
                        }
                    }
                    Err(message) => violations.push(Violation::new(join(&path, "$ref"), message)),
                }
            }
            at += 1;
        }
        graph.nesting = depth(root) + targets.values().sum::<usize>();
        graph.check_sizes(&mut violations);
        if violations.is_empty() { Ok(graph) } else { Err(violations) }
    }

    /// Adds a schema and its subschemas unless they were added before. Returns the index of the schema.
    fn walk(&mut self, path: String, schema: &'a Value) -> Result<usize, Vec<Violation>> {
        let index = self.nodes.len();
        if let Some(known) = self.by_address.get(&std::ptr::from_ref(schema)) {
            return Ok(*known);
        }
        self.add(path, schema);
        let mut at = index;
        while let Some(node) = self.nodes.get(at) {
            let mut found = Vec::new();
            for child in children(&node.path, node.schema) {
                found.push((child.position, child.path, child.schema));
            }
            for (position, path, schema) in found {
                let known = self.by_address.get(&std::ptr::from_ref(schema)).copied();
                let child = known.unwrap_or_else(|| self.add(path, schema));
                if let Some(node) = self.nodes.get_mut(at) {
                    node.children.push((position, child));
                }
            }
            if self.nodes.len() > SUBSCHEMAS_MAX {
                return Err(vec![Violation::new("#", format!("contains more than {SUBSCHEMAS_MAX} subschemas"))]);
            }
            at += 1;
        }
        Ok(index)
    }

    fn add(&mut self, path: String, schema: &'a Value) -> usize {
        let index = self.nodes.len();
        self.by_address.insert(std::ptr::from_ref(schema), index);
        self.nodes.push(Node { path, schema, target: None, children: Vec::new() });
        index
    }

    fn check_sizes(&self, violations: &mut Vec<Violation>) {
        let properties: usize =
            self.nodes.iter().filter_map(|n| n.schema.get("properties")?.as_object()).map(serde_json::Map::len).sum();
        if properties > PROPERTIES_MAX {
            violations
                .push(Violation::new("#", format!("has {properties} properties; the maximum is {PROPERTIES_MAX}")));
        }
        if self.nesting > REFERENCE_NESTING_MAX {
            let message = format!("nests too deep when its references are followed (at most {REFERENCE_NESTING_MAX})");
            violations.push(Violation::new("#", message));
        }
    }

    /// Returns the model from which the work of validation is estimated. Rejects references that lead back to
    /// themselves without descending into the data, because validation would not terminate.
    pub(super) fn cost_model(&self) -> Result<CostModel, Violation> {
        let mut order = SameValueOrder { graph: self, state: vec![Visit::New; self.nodes.len()], done: Vec::new() };
        for index in 0..self.nodes.len() {
            order.visit(index, 0)?;
        }
        let edges = self.nodes.iter().map(Edges::of).collect();
        let refers = self.nodes.iter().any(|node| node.target.is_some());
        Ok(CostModel { order: order.done, edges, is_shallow: !refers && self.nesting <= SHALLOW_LEVELS })
    }
}

/// Resolves a reference in this document.
fn resolve<'a>(root: &'a Value, reference: &str) -> Result<(String, &'a Value), String> {
    let shown: String = reference.chars().take(120).collect();
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(format!("{shown:?} is remote: a $ref stays in its schema and begins with \"#/\""));
    };
    if !(pointer.is_empty() || pointer.starts_with('/')) || pointer.contains('%') {
        return Err(format!("{shown:?} is not a plain JSON pointer such as \"#/$defs/name\""));
    }
    match root.pointer(pointer) {
        Some(target) if target.is_object() || target.is_boolean() => Ok((reference.to_owned(), target)),
        Some(_) => Err(format!("{shown:?} refers to a value that is not a schema")),
        None => Err(format!("{shown:?} refers to a missing value")),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    Open,
    Done,
}

/// Orders subschemas so that each follows those that apply to the same value.
struct SameValueOrder<'g, 'a> {
    graph: &'g Graph<'a>,
    state: Vec<Visit>,
    done: Vec<usize>,
}

impl SameValueOrder<'_, '_> {
    fn visit(&mut self, index: usize, nesting: usize) -> Result<(), Violation> {
        let Some(node) = self.graph.nodes.get(index) else { return Ok(()) };
        match self.state.get(index) {
            Some(Visit::Open) => {
                return Err(Violation::new(&node.path, "refers to itself without descending into the data"));
            }
            Some(Visit::New) => {}
            Some(Visit::Done) | None => return Ok(()),
        }
        if nesting > IN_PLACE_NESTING_MAX {
            let message = format!("more than {IN_PLACE_NESTING_MAX} schemas apply to one value, one inside the other");
            return Err(Violation::new(&node.path, message));
        }
        self.set(index, Visit::Open);
        for next in node.on_same_value() {
            self.visit(next, nesting + 1)?;
        }
        self.set(index, Visit::Done);
        self.done.push(index);
        Ok(())
    }

    fn set(&mut self, index: usize, to: Visit) {
        if let Some(state) = self.state.get_mut(index) {
            *state = to;
        }
    }
}

impl Node<'_> {
    fn on_same_value(&self) -> impl Iterator<Item = usize> {
        self.target.into_iter().chain(self.at(Position::Same))
    }

    /// Returns the children at a position. With a `$ref`, other keywords have no effect.
    fn at(&self, position: Position) -> impl Iterator<Item = usize> {
        let is_reference = self.target.is_some();
        self.children.iter().filter(move |(at, _)| !is_reference && *at == position).map(|(_, child)| *child)
    }
}

/// Subschemas that apply at each position, by index.
struct Edges {
    /// Steps of the schema's own keywords per value.
    weight: u64,
    same: Vec<usize>,
    one_member: Vec<usize>,
    any_member: Vec<usize>,
    one_item: Vec<usize>,
    any_item: Vec<usize>,
}

impl Edges {
    fn of(node: &Node<'_>) -> Self {
        Self {
            weight: weight(node.schema),
            same: node.on_same_value().collect(),
            one_member: node.at(Position::OneMember).collect(),
            any_member: node.at(Position::AnyMember).collect(),
            one_item: node.at(Position::OneItem).collect(),
            any_item: node.at(Position::AnyItem).collect(),
        }
    }
}

/// Returns the steps of a schema's own keywords: one, and more for long lists and patterns.
fn weight(schema: &Value) -> u64 {
    let listed: usize = ["enum", "required"]
        .iter()
        .filter_map(|keyword| schema.get(keyword)?.as_array())
        .map(|list| list.len() / LISTED_PER_STEP)
        .sum();
    let patterns = usize::from(schema.get("pattern").is_some())
        + schema.get("patternProperties").and_then(Value::as_object).map_or(0, serde_json::Map::len);
    1 + (listed + patterns * PATTERN_STEPS) as u64
}

/// Part of a schema that the estimate of validation work needs.
pub(super) struct CostModel {
    /// True if neither compiling nor validating needs more than the default stack.
    pub(super) is_shallow: bool,
    order: Vec<usize>,
    edges: Vec<Edges>,
}

impl CostModel {
    /// Returns an upper bound of the steps to validate `data` (bounded in nesting), counted up to slightly more than
    /// [`STEPS_MAX`].
    ///
    /// The estimate counts, per level, the paths through the schema that lead to one value. A recursive schema with two
    /// branches doubles them at each level.
    pub(super) fn steps(&self, data: &Value) -> u64 {
        let mut total = 0u64;
        // Steps for one value, by number of levels below a value that is validated against each subschema.
        let mut below: Option<Vec<u64>> = None;
        for width in width_by_level(data) {
            let level = self.level(below.as_deref());
            let root = level.first().copied().unwrap_or(0);
            total = total.saturating_add(width.saturating_mul(root));
            if total > STEPS_MAX {
                break;
            }
            below = Some(level);
        }
        total
    }

    fn level(&self, below: Option<&[u64]>) -> Vec<u64> {
        let mut counts = vec![0u64; self.edges.len()];
        for index in &self.order {
            let Some(edges) = self.edges.get(*index) else { continue };
            let down = below.map_or(edges.weight, |below| {
                let members = max(below, &edges.one_member).saturating_add(sum(below, &edges.any_member));
                let items = max(below, &edges.one_item).saturating_add(sum(below, &edges.any_item));
                members.max(items)
            });
            let count = down.saturating_add(sum(&counts, &edges.same));
            if let Some(slot) = counts.get_mut(*index) {
                *slot = count;
            }
        }
        counts
    }
}

fn sum(counts: &[u64], of: &[usize]) -> u64 {
    of.iter().filter_map(|index| counts.get(*index)).fold(0, |sum, count| sum.saturating_add(*count))
}

fn max(counts: &[u64], of: &[usize]) -> u64 {
    of.iter().filter_map(|index| counts.get(*index)).copied().max().unwrap_or(0)
}
