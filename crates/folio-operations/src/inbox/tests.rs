//! Tests of the merged list of the inbox.

use folio_resources::policy::Approver;
use folio_types::{ThreadId, TurnId};

use super::*;

fn cursor(second: i64, id: &str) -> Cursor {
    Cursor { at: Timestamp::constant(second, 5), id: id.to_owned() }
}

#[test]
fn a_filter_selects_one_kind() {
    assert_eq!(selected(" "), Ok(None));
    assert_eq!(selected("kind:approval"), Ok(Some(InboxKind::Approval)));
    assert_eq!(selected("kind=field_review"), Ok(Some(InboxKind::FieldReview)));
    assert_eq!(selected("kind:proposal"), Ok(Some(InboxKind::Proposal)));
    assert_eq!(selected("kind:dictionary_question"), Ok(Some(InboxKind::DictionaryQuestion)));
    for bad in ["kind:other", "user:x", "kind:approval kind:approval", "kind:"] {
        assert_eq!(selected(bad).unwrap_err().violations[0].field, "filter", "{bad}");
    }
}

#[test]
fn pages_of_the_merged_list_are_contiguous() {
    let lists = [
        (InboxKind::Approval, vec![cursor(1, "a"), cursor(4, "b"), cursor(4, "c")]),
        (InboxKind::FieldReview, vec![cursor(2, "d"), cursor(4, "e"), cursor(9, "f")]),
    ];
    for limit in 1..=7 {
        let (mut position, mut seen) = (Position::default(), Vec::new());
        loop {
            let entries = lists.iter().flat_map(|(kind, list)| {
                let last = position.0.get(kind);
                let start = last.map_or(0, |last| list.iter().position(|cursor| cursor == last).unwrap() + 1);
                let rest = list[start..].iter().take(limit);
                rest.map(|cursor| Entry { kind: *kind, cursor: cursor.clone(), item: None }).collect::<Vec<_>>()
            });
            let page = merge(entries.collect(), position.clone(), limit);
            let is_last = page.len() < limit;
            for (after, _) in page {
                let moved = |(kind, cursor): &(&InboxKind, &Cursor)| position.0.get(kind) != Some(*cursor);
                seen.extend(after.0.iter().filter(moved).map(|(_, cursor)| cursor.id.clone()));
                assert_eq!(after.to_string().parse(), Ok(after.clone()));
                position = after;
            }
            if is_last {
                break;
            }
        }
        assert_eq!(seen.concat(), "adbcef", "pages of {limit}");
    }
    for bad in ["", "other 1 a", "approval", "approval x a", "approval 1", "approval 1 "] {
        assert!(bad.parse::<Position>().is_err(), "{bad}");
    }
}

#[test]
fn the_deciders_of_an_approval_are_those_of_its_undecided_calls() {
    use Role::{Admin, Member, Viewer};
    let (owner, requester) = (UserId::derive(&["owner"]), UserId::derive(&["requester"]));
    let approver = |roles: &[Role], not_by_requester| Approver { roles: roles.to_vec(), not_by_requester };
    for (approvers, roles, is_owner, is_excluded) in [
        (vec![approver(&[], false)], vec![Admin], true, false),
        (vec![approver(&[], true)], vec![Admin], true, true),
        (vec![approver(&[Member], false)], vec![Member], false, false),
        (vec![approver(&[Viewer], false)], vec![Member], false, false),
        (vec![approver(&[Admin], true), approver(&[Member], true)], vec![Member, Admin], false, true),
        (vec![approver(&[Admin], true), approver(&[], false)], vec![Admin], true, false),
        (vec![], vec![], false, false),
    ] {
        let approval = PendingApproval {
            turn: TurnId::new(ThreadId::derive(&["thread"]), 1),
            user: requester.clone(),
            owner: owner.clone(),
            approvers: approvers.clone(),
            calls: Vec::new(),
            paused_at: None,
            expires_at: None,
            documents: Vec::new(),
        };
        let expected = Deciders {
            roles: roles.into_iter().collect(),
            user: is_owner.then(|| owner.clone()),
            excluded: is_excluded.then(|| requester.clone()),
        };
        assert_eq!(Subject::Approval(approval).deciders(), expected, "{approvers:?}");
    }
}
