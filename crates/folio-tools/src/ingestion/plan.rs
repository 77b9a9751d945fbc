//! The parts of a document that have summaries, and their order. Pure: equal outlines give equal plans, so that jobs and agents
//! summarize the same parts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use folio_resources::{Outline, Section};
use folio_storage::SummaryScope;

/// Maximum number of sections of a document that have summaries.
// proto: Ingestion.summaries "at most {} sections"
pub const SUMMARIZED_SECTIONS_MAX: usize = 255;

/// A part of a document that has a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryStep {
    /// None: the document.
    pub section: Option<u32>,
    pub scope: SummaryScope,
    /// The parts directly below that have summaries, in the order of the text. Empty: the summary is made of the text alone.
    pub children: Vec<u32>,
}

/// The summaries of a document. Each step follows the steps of its children, and the last one is the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPlan {
    pub steps: Vec<SummaryStep>,
    /// Number of sections without a summary of their own. If such a section is in a part with a summary, the part is summarized with
    /// the text of the section.
    pub omitted: usize,
}

impl SummaryPlan {
    pub fn of(outline: &Outline) -> Self {
        let planned = planned(outline.sections());
        let mut children: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
        for section in &planned {
            children.entry(section.parent).or_default().push(section.number);
        }
        let mut steps: Vec<(u8, SummaryStep)> = planned
            .iter()
            .map(|section| {
                let children = children.remove(&Some(section.number)).unwrap_or_default();
                let scope = if children.is_empty() { SummaryScope::Section } else { SummaryScope::Chapter };
                (section.level, SummaryStep { section: Some(section.number), scope, children })
            })
            .collect();
        // A section has a higher level than the one that contains it.
        steps.sort_by_key(|(level, _)| Reverse(*level));
        let whole = children.remove(&None).unwrap_or_default();
        let document = SummaryStep { section: None, scope: SummaryScope::Document, children: whole };
        let steps: Vec<_> = steps.into_iter().map(|(_, step)| step).chain([document]).collect();
        Self { omitted: outline.sections().len().saturating_sub(planned.len()), steps }
    }

    /// Returns the step of a section (None: of the document). None: the part has no summary.
    pub fn step(&self, section: Option<u32>) -> Option<&SummaryStep> {
        self.steps.iter().find(|step| step.section == section)
    }
}

/// Returns the sections of the highest levels, as many levels as fit, in the order of the text. If the first level does not fit, its
/// first sections. Text before the first heading belongs to the first level.
fn planned(sections: &[Section]) -> Vec<&Section> {
    let level_of = |section: &Section| section.level.max(1);
    let levels: BTreeSet<u8> = sections.iter().map(level_of).collect();
    let count = |level: u8| sections.iter().filter(|section| level_of(section) <= level).count();
    let fitting = levels.iter().copied().take_while(|level| count(*level) <= SUMMARIZED_SECTIONS_MAX).last();
    let deepest = fitting.or_else(|| levels.first().copied()).unwrap_or_default();
    sections.iter().filter(|section| level_of(section) <= deepest).take(SUMMARIZED_SECTIONS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use folio_resources::Heading;
    use proptest::prelude::*;

    use super::*;

    fn outline(levels: &[u8]) -> Outline {
        let heading = |(level, word): (&u8, u32)| Heading { level: *level, title: format!("{word}"), word };
        // The first word precedes the first heading.
        Outline::new([(1, levels.iter().zip(1..).map(heading).collect())])
    }

    fn steps(levels: &[u8]) -> Vec<(Option<u32>, SummaryScope, Vec<u32>)> {
        let plan = SummaryPlan::of(&outline(levels));
        plan.steps.into_iter().map(|step| (step.section, step.scope, step.children)).collect()
    }

    #[test]
    fn sections_precede_chapters_and_the_document() {
        use SummaryScope::{Chapter, Document, Section};
        assert_eq!(steps(&[]), [(Some(0), Section, vec![]), (None, Document, vec![0])]);
        assert_eq!(
            steps(&[1, 2, 3, 2, 1]),
            [
                (Some(3), Section, vec![]),
                (Some(2), Chapter, vec![3]),
                (Some(4), Section, vec![]),
                (Some(1), Chapter, vec![2, 4]),
                (Some(5), Section, vec![]),
                (Some(0), Section, vec![]),
                (None, Document, vec![0, 1, 5]),
            ]
        );
    }

    #[test]
    fn the_deepest_sections_of_a_long_document_are_omitted() {
        let levels: Vec<u8> = (0..100).flat_map(|_| [1, 2, 3]).collect();
        let plan = SummaryPlan::of(&outline(&levels));
        assert_eq!((plan.steps.len(), plan.omitted), (202, 100), "levels 0 to 2, and the document");
        assert_eq!(plan.step(Some(1)).unwrap().children, [2]);
        assert_eq!(plan.step(Some(2)).unwrap().scope, SummaryScope::Section);
        assert_eq!(plan.step(Some(3)), None);
        let flat = SummaryPlan::of(&Outline::new([(1, vec![Heading { level: 1, title: "a".into(), word: 0 }; 1_000])]));
        assert_eq!((flat.steps.len(), flat.omitted), (SUMMARIZED_SECTIONS_MAX + 1, 1_000 - SUMMARIZED_SECTIONS_MAX));
    }

    proptest! {
        #[test]
        fn each_step_follows_its_children_and_each_part_has_one_parent(levels in prop::collection::vec(1u8..7, 0..600)) {
            let plan = SummaryPlan::of(&outline(&levels));
            prop_assert!(plan.steps.len() <= SUMMARIZED_SECTIONS_MAX + 1);
            let mut summarized = BTreeSet::new();
            let mut used = BTreeSet::new();
            for step in &plan.steps {
                for child in &step.children {
                    prop_assert!(summarized.contains(&Some(*child)) && used.insert(*child));
                }
                prop_assert!(summarized.insert(step.section));
            }
            prop_assert_eq!(used.len() + 1, plan.steps.len(), "each section has a parent");
            prop_assert_eq!(plan.steps.last().map(|step| step.section), Some(None));
        }
    }
}
