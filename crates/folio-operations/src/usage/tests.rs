//! Tests of sums of usage.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use folio_credit::GrantKind;
use folio_storage::{HourSums, UsageHour};
use folio_types::message::Usage;
use folio_types::{DocumentId, GrantId, UserId};

use super::*;

/// A store that truncates times to microseconds, and counts the records that it returns.
#[derive(Default)]
struct MicrosecondStore {
    records: Mutex<Vec<UsageRecord>>,
    sums: Mutex<BTreeMap<Timestamp, HourSums>>,
    late: Mutex<BTreeMap<Timestamp, Timestamp>>,
    read: AtomicUsize,
}

impl MicrosecondStore {
    fn of(records: Vec<UsageRecord>) -> Arc<Self> {
        Arc::new(Self { records: Mutex::new(records), ..Self::default() })
    }

    /// Returns the number of records read since the last call.
    fn read(&self) -> usize {
        self.read.swap(0, Ordering::SeqCst)
    }
}

#[async_trait::async_trait]
impl UsageStore for MicrosecondStore {
    async fn record(&self, record: UsageRecord, now: Timestamp) -> Result<()> {
        if UsageHour::is_late(&record, now) {
            self.late.lock().unwrap().insert(UsageHour::start_of(record.at), now);
        }
        let mut records = self.records.lock().unwrap();
        records.push(record);
        records.sort_by_key(|record| record.at);
        Ok(())
    }

    async fn list(&self, _: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageRecord>> {
        let records = self.records.lock().unwrap();
        let first = records.partition_point(|record| record.at.as_microsecond() < from.as_microsecond());
        let listed: Vec<_> = records[first..].iter().take(limit).cloned().collect();
        self.read.fetch_add(listed.len(), Ordering::SeqCst);
        Ok(listed)
    }

    async fn hours(&self, _: &OrgId, from: Timestamp, limit: usize) -> Result<Vec<UsageHour>> {
        let mut starts: Vec<_> =
            self.records.lock().unwrap().iter().map(|record| UsageHour::start_of(record.at)).collect();
        starts.dedup();
        let (sums, late) = (self.sums.lock().unwrap(), self.late.lock().unwrap());
        let listed = starts.into_iter().filter(|start| *start >= UsageHour::start_of(from)).take(limit);
        Ok(listed
            .map(|start| UsageHour { start, sums: sums.get(&start).cloned(), late_at: late.get(&start).copied() })
            .collect())
    }

    async fn put_sums(&self, _: &OrgId, start: Timestamp, sums: HourSums) -> Result<()> {
        self.sums.lock().unwrap().insert(start, sums);
        Ok(())
    }
}

fn org() -> OrgId {
    OrgId::derive(&["org"])
}

fn record(number: usize, at: Timestamp) -> UsageRecord {
    UsageRecord {
        org: org(),
        user: UserId::derive(&["user", &(number % 3).to_string()]),
        key: format!("{number:08}"),
        operation: "chat".to_owned(),
        model: format!("m{}", number % 2),
        usage: Usage { input_tokens: number as u64 % 7, ..Usage::default() },
        completed: true,
        at,
        document: Some(DocumentId::derive(&[&(number % 5).to_string()])),
        charged: None,
    }
}

const HOUR_SECONDS: i64 = 3_600;

fn at(hours: i64, seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 / HOUR_SECONDS * HOUR_SECONDS + hours * HOUR_SECONDS + seconds).unwrap()
}

#[test]
fn a_due_grant_has_no_credit_left() {
    let grant =
        Grant { expires_at: Some(at(1, 0)), ..Grant::new(GrantId::derive(&["g"]), GrantKind::Admin, 9, at(0, 0)) };
    assert_eq!(without_due_credit(grant.clone(), at(0, 59)), grant);
    let due = without_due_credit(grant.clone(), at(1, 0));
    assert_eq!((due.available, due.expired, due.amount), (0, 9, 9));
}

#[tokio::test]
async fn calls_of_one_microsecond_are_returned_once_each() {
    // Three records in each microsecond, in an order that the stores do not preserve.
    let time = |number: i128| Timestamp::from_nanosecond(1_000 * (number / 3) + 300 * (2 - number % 3)).unwrap();
    let all: Vec<_> = (0..2_000).map(|number: usize| record(number, time(number as i128))).collect();
    let end = Timestamp::from_second(1).unwrap();
    let returned = records(MicrosecondStore::of(all.clone()), org(), (Timestamp::UNIX_EPOCH, end));
    let returned: Vec<_> = returned.map(Result::unwrap).concat().await;
    assert!(returned.iter().map(|record| &record.key).eq(all.iter().map(|record| &record.key)));
}

#[tokio::test]
async fn a_period_with_more_calls_than_one_request_reads_is_summed_from_hours() {
    const CALLS: usize = 20_000;
    let (hours, calls_max) = (100, 1_000);
    let all = (0..CALLS).map(|number| {
        let second = number as i64 * hours * HOUR_SECONDS / CALLS as i64;
        record(number, at(0, second))
    });
    let store = MicrosecondStore::of(all.collect());
    let sums = async |period, groups: &[UsageGroup]| {
        sum_up(store.clone(), &org(), period, (groups, calls_max), at(hours + 10, 0)).await
    };
    let whole = (at(0, 0), at(hours, 0));
    let first = sums(whole, &[UsageGroup::Model, UsageGroup::Day]).await.unwrap();
    assert_eq!(first.total.totals.calls, CALLS as u64);
    assert!(store.read() >= CALLS);
    assert_eq!(sums(whole, &[UsageGroup::Model, UsageGroup::Day]).await.unwrap(), first);
    assert_eq!(sums(whole, &[UsageGroup::Document]).await.unwrap().rows.len(), 5);
    assert_eq!(store.read(), 0, "records of summed hours");
    // The hours at the ends of another period are read.
    let part = sums((at(0, 1_800), at(hours - 1, 1_800)), &[]).await.unwrap();
    assert_eq!(part.total.totals.calls, (CALLS - CALLS / hours as usize) as u64);
    assert!(store.read() <= 2 * CALLS / hours as usize + 4 * READ_RECORDS);
    // Hours that may not be summed yet.
    let recent = sum_up(store.clone(), &org(), (at(0, 1), at(50, 0)), (&[], 100), at(0, 0)).await;
    assert_eq!(recent.unwrap_err().reason, Reason::TooLarge);
}

#[tokio::test]
async fn a_late_record_is_in_the_sums() {
    let store = MicrosecondStore::of((0..100).map(|number| record(number, at(0, number as i64))).collect());
    let calls = async |now| {
        let sums = sum_up(store.clone(), &org(), (at(0, 0), at(1, 0)), (&[], CALLS_MAX), now).await.unwrap();
        sums.total.totals.calls
    };
    assert_eq!(calls(at(5, 0)).await, 100);
    store.record(record(100, at(0, 200)), at(6, 0)).await.unwrap();
    // Shortly after a late record another one may be in flight: the sums are not stored yet.
    for now in [at(6, 1), at(6, 2), at(7, 0)] {
        store.read();
        assert_eq!(calls(now).await, 101);
        assert!(store.read() > 100);
    }
    assert_eq!(calls(at(7, 0)).await, 101);
    assert_eq!(store.read(), 0);
}

#[tokio::test]
async fn sums_of_any_period_equal_those_of_its_records() {
    let seed = folio_testkit::seed();
    let mut state = seed;
    let mut random = |bound: i64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as i64 % bound
    };
    let mut all: Vec<_> = (0..3_000).map(|number| record(number, at(0, random(100 * HOUR_SECONDS)))).collect();
    all.sort_by_key(|record| record.at);
    let store = MicrosecondStore::of(all);
    let choices: [&[UsageGroup]; 4] =
        [&[], &[UsageGroup::Day], &[UsageGroup::Document, UsageGroup::User], &[UsageGroup::Model]];
    for number in 0..200 {
        let (from, to) = (random(100 * HOUR_SECONDS), random(100 * HOUR_SECONDS));
        let (start, end) = (at(0, from.min(to)), at(0, from.max(to)));
        let groups = choices[random(4) as usize];
        let now = at(number as i64 / 2, random(2) * 1_200);
        if random(5) == 0 {
            let age = random(1 + number as i64 * HOUR_SECONDS / 2);
            store.record(record(3_000 + number, now - Duration::from_secs(age as u64)), now).await.unwrap();
        }
        let mut expected = Grouped { groups, rows: BTreeMap::new(), total: UsageTotals::default() };
        let records = store.records.lock().unwrap().clone();
        for record in records.iter().filter(|record| record.at >= start && record.at < end) {
            expected.add(&UsageSum::from(record), record.at).unwrap();
        }
        let found = sum_up(store.clone(), &org(), (start, end), (groups, CALLS_MAX), now).await.unwrap();
        assert_eq!(found, expected.finish(), "seed {seed}, period {number}");
    }
}
