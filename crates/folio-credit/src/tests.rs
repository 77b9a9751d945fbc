use super::*;
use folio_types::{Incarnation, Reason, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn grant(name: &str, amount: u64, expires: Option<i64>) -> Grant {
    Grant { expires_at: expires.map(at), ..Grant::new(GrantId::derive(&[name]), GrantKind::Admin, amount, at(0)) }
}

fn block(name: &str) -> OpenBlock {
    let (id, holder) = (BlockId::derive(&[name]), Incarnation::derive(&["holder"]));
    OpenBlock { id, holder, parts: Vec::new(), at: at(0), reserves_until: at(60) }
}

fn draw(account: &mut Account, name: &str, need: u64, want: u64, now: i64) -> OpenBlock {
    let block = account.draw(block(name), (need, want), at(now)).unwrap();
    account.check().unwrap();
    block
}

fn amounts(block: &OpenBlock) -> Vec<u64> {
    block.parts.iter().map(|part| part.amount).collect()
}

#[test]
fn use_counts_against_the_lower_priority_and_then_the_earlier_expiry() {
    let mut account = Account::default();
    account.grant(grant("never", 10, None), at(0)).unwrap();
    account.grant(grant("late", 10, Some(200)), at(0)).unwrap();
    account.grant(Grant { priority: 1, ..grant("last", 10, Some(5)) }, at(0)).unwrap();
    account.grant(grant("soon", 10, Some(100)), at(0)).unwrap();
    let block = draw(&mut account, "a", 35, 0, 1);
    let expected = ["soon", "late", "never", "last"].map(|name| GrantId::derive(&[name]));
    assert!(block.parts.iter().map(|part| &part.grant).eq(&expected));
    assert_eq!(amounts(&block), [10, 10, 10, 5]);
    account.close(&block.id, 12, at(2)).unwrap();
    account.check().unwrap();
    assert_eq!((account.available(), account.settled), (28, 12));
    assert!(account.grants.iter().all(|grant| grant.id != expected[0]), "a used-up grant is dropped");
}

#[test]
fn the_allowance_is_granted_beyond_the_bound_on_grants() {
    let mut account = Account::default();
    for number in 0..GRANTS_MAX {
        account.grant(grant(&number.to_string(), 1, None), at(0)).unwrap();
    }
    let refused = account.clone().grant(grant("more", 1, None), at(0)).unwrap_err();
    assert_eq!(refused.reason, Reason::TooLarge);
    let allowance = Grant::new(GrantId::derive(&["month"]), GrantKind::Allowance, 10, at(0));
    account.grant(Grant { expires_at: Some(at(100)), ..allowance }, at(0)).unwrap();
    assert_eq!((account.available_at(at(1)), account.available_at(at(100))), (510, 500));
    account.check().unwrap();
}

#[test]
fn a_block_takes_the_wanted_amount_bounded_by_a_quarter_or_the_needed_amount() {
    let mut account = Account::default();
    account.grant(grant("a", 1_000, None), at(0)).unwrap();
    assert_eq!(draw(&mut account, "plenty", 5, 200, 0).amount(), 200);
    assert_eq!(draw(&mut account, "less", 5, 900, 0).amount(), 200);
    assert_eq!(draw(&mut account, "need", 590, 0, 0).amount(), 590);
    assert_eq!(draw(&mut account, "little", 7, 200, 0).amount(), 7);
    let short = account.clone().draw(block("short"), (4, 4), at(0)).unwrap_err();
    assert_eq!(short, InsufficientCredit { available: 3, in_blocks: 997 });
}

#[test]
fn credit_that_returns_to_an_expired_grant_expires() {
    let mut account = Account::default();
    account.grant(grant("soon", 100, Some(10)), at(0)).unwrap();
    account.grant(grant("never", 100, None), at(0)).unwrap();
    let block = draw(&mut account, "a", 60, 0, 0);
    assert_eq!(account.available_at(at(10)), 100);
    account.close(&block.id, 20, at(11)).unwrap();
    account.check().unwrap();
    assert_eq!((account.available(), account.expired, account.settled), (100, 80, 20));
    assert_eq!(account.close(&block.id, 20, at(12)), None, "a block is closed once");
}

#[test]
fn an_expired_grant_stays_expired_if_another_clock_is_behind() {
    let mut account = Account::default();
    account.grant(grant("soon", 100, Some(10)), at(0)).unwrap();
    let block = draw(&mut account, "a", 60, 0, 0);
    account.grant(grant("other", 1, None), at(11)).unwrap();
    assert_eq!(account.expired, 40);
    account.close(&block.id, 0, at(5)).unwrap();
    account.check().unwrap();
    assert_eq!((account.available(), account.expired), (1, 100));
}

#[test]
fn only_available_credit_is_withdrawn() {
    let mut account = Account::default();
    account.grant(grant("a", 100, None), at(0)).unwrap();
    let block = draw(&mut account, "a", 60, 0, 0);
    assert!(account.clone().withdraw(41, at(1)).is_err());
    account.withdraw(40, at(1)).unwrap();
    account.check().unwrap();
    account.close(&block.id, 60, at(2)).unwrap();
    account.check().unwrap();
    assert_eq!((account.granted, account.settled, account.grants.len()), (60, 60, 0));
    for amount in [0, AMOUNT_MAX + 1] {
        assert!(account.grant(grant("wrong", amount, None), at(3)).is_err());
    }
}

#[test]
fn each_change_increments_the_version_and_is_found_by_its_key() {
    let mut account = Account::default();
    let granted = account.grant(grant("a", AMOUNT_MAX, None), at(1)).unwrap();
    let (one, two) = (draw(&mut account, "one", 10, 0, 2), draw(&mut account, "two", 20, 0, 3));
    assert_eq!((account.block(&one.id), account.block(&two.id)), (Some(&one), Some(&two)));
    let closed = account.close(&one.id, 5, at(4)).unwrap();
    assert_eq!((account.block(&one.id), account.version), (None, 4));
    let id = GrantId::derive(&["b"]);
    let withdrawn = AccountEntry::Withdrawn { id: id.clone(), amount: 1, note: String::new(), by: None, at: at(5) };
    let drawn = AccountEntry::Drawn(OpenBlock { at: at(2), ..one.clone() });
    for (entry, key, time) in [
        (granted, format!("grant/{}", GrantId::derive(&["a"])), at(0)),
        (withdrawn, format!("grant/{id}"), at(5)),
        (drawn, format!("drawn/{}", one.id), at(2)),
        (closed, format!("closed/{}", one.id), at(4)),
    ] {
        assert_eq!((entry.key(), entry.at()), (key, time), "{entry:?}");
    }
}

#[test]
fn a_withdrawal_starts_with_the_grant_that_would_be_used_last() {
    let mut account = Account::default();
    account.grant(grant("first", 10, Some(50)), at(0)).unwrap();
    account.grant(grant("last", 10, None), at(0)).unwrap();
    account.withdraw(15, at(1)).unwrap();
    account.check().unwrap();
    let left: Vec<_> = account.grants.iter().map(|grant| (&grant.id, grant.available)).collect();
    assert_eq!(left, [(&GrantId::derive(&["first"]), 5)]);
}

#[test]
fn all_available_credit_can_be_drawn_and_a_block_has_no_empty_part() {
    let mut account = Account::default();
    account.grant(grant("first", 10, Some(50)), at(0)).unwrap();
    account.grant(grant("last", 10, None), at(0)).unwrap();
    assert_eq!(amounts(&draw(&mut account, "a", 10, 0, 1)), [10]);
    assert_eq!(amounts(&draw(&mut account, "b", 10, 0, 2)), [10], "the first grant is in a block");
}

#[test]
fn the_check_finds_an_account_and_a_grant_whose_parts_do_not_add_up() {
    let mut account = Account::default();
    account.grant(grant("soon", 100, Some(10)), at(0)).unwrap();
    let drawn = draw(&mut account, "a", 60, 0, 0);
    account.draw(block("b"), (1, 0), at(11)).unwrap_err();
    assert_eq!((account.expired, account.in_blocks()), (40, 60));
    account.check().unwrap();
    for (granted, expired) in [(99, 40), (101, 40), (100, 39), (100, 101)] {
        let wrong = Account { granted, expired, ..account.clone() };
        assert!(wrong.check().unwrap_err().contains("granted"), "{granted} {expired}");
    }
    let mut wrong = account.clone();
    wrong.grants[0].settled += 1;
    assert!(wrong.check().unwrap_err().contains("the parts of grant"));
    account.close(&drawn.id, 0, at(12)).unwrap();
    assert_eq!((account.granted, account.expired), (100, 100));
    account.check().unwrap();
}
