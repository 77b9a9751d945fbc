//! Tests of positions in random histories, and of the limits of a fork.

use proptest::prelude::*;

use super::fork::{FRAME_BYTES, reduce_to_text};
use super::tests::{accepted, chat, completed, ended, result, round, state, texts};
use super::{History, import, json_bytes, shorten_results};
use crate::journal::{Entry, Imported, WorkingExtraction, WorkingState};
use folio_types::limits;
use folio_types::message::{Message, ToolCall};
use folio_types::{DocumentId, ExtractionId, PromptId, PromptRevId, Reason};

/// Maximum size of a fork in these tests. The maximum of the product takes seconds to encode.
const SMALL_FORK_BYTES: usize = 1024 * 1024;

/// Returns the journal that an owner writes for turns with these numbers of rounds and truncations.
fn journal(turns: &[(u32, Option<u32>)]) -> Vec<Entry> {
    let mut history = History::new();
    let mut entries = Vec::new();
    let mut write = |history: &mut History, entry: Entry| {
        history.push(entry.clone());
        entries.push(entry);
    };
    for (number, (rounds, truncate_to)) in (1u32..).zip(turns) {
        let position = history.position(*truncate_to);
        let mut entry = accepted(number, *truncate_to, state(number));
        if let Entry::Accepted(accepted) = &mut entry {
            accepted.position = Some(position);
        }
        write(&mut history, entry);
        for at in 1..=*rounds {
            write(&mut history, round(number, at, 1, vec![result(at, 1)]));
        }
        write(&mut history, ended(number, completed(number), Vec::new(), state(number + 1), 9));
    }
    entries
}

/// Reads the visible messages by positions only, starting at the newest segment.
fn read_by_positions(entries: &[Entry]) -> Vec<(u32, Message)> {
    let mut found = Vec::new();
    let mut next = entries.iter().rposition(Entry::starts_segment);
    let mut end = u32::MAX;
    while let Some(at) = next {
        let position = entries[at].position().unwrap();
        let group = entries[at..].iter().enumerate().take_while(|(step, entry)| *step == 0 || !entry.starts_segment());
        let history = History::fold(group.map(|(_, entry)| entry.clone()));
        let visible = end.saturating_sub(position.messages) as usize;
        let messages = history.messages().take(visible).map(|shown| (shown.count + position.counted, shown.message));
        found.extend(messages.collect::<Vec<_>>().into_iter().rev());
        end = position.messages;
        next = position.below.first().map(|at| *at as usize);
    }
    found.reverse();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn positions_identify_exactly_the_visible_messages(
        turns in proptest::collection::vec((0u32..3, proptest::option::weighted(0.4, 0u32..12)), 0..14),
    ) {
        let entries = journal(&turns);
        let history = History::fold(entries.clone());
        let expected: Vec<_> = history.messages().map(|shown| (shown.count, shown.message)).collect();
        prop_assert_eq!(&read_by_positions(&entries), &expected);
        // The positions reference the segments at distances 1, 2, 4, …; each of them has fewer preceding messages.
        for entry in entries.iter().filter(|entry| entry.starts_segment()) {
            let position = entry.position().unwrap();
            let mut before = position.messages;
            for (at, below) in position.below.iter().enumerate() {
                let below = entries[*below as usize].position().unwrap();
                prop_assert!(below.messages < before || (below.messages == 0 && before == 0), "{position:?}");
                prop_assert!(at < 5);
                before = below.messages;
            }
        }
        let forked = history.fork(None).unwrap();
        prop_assert_eq!(read_by_positions(&forked), expected);
    }
}

fn large(turn: u32, bytes: usize) -> Vec<Entry> {
    let mut question = accepted(turn, None, state(1));
    if let Entry::Accepted(accepted) = &mut question {
        accepted.text = "q".repeat(bytes);
    }
    vec![question, ended(turn, completed(turn), Vec::new(), state(turn), 1)]
}

fn size(entries: &[Entry]) -> usize {
    entries.iter().map(json_bytes).sum()
}

#[test]
fn a_fork_of_a_long_thread_copies_its_newest_half_and_states_it() {
    let history = History::fold((1..=20).flat_map(|turn| large(turn, 100_000)));
    let fork = history.fork_within(None, SMALL_FORK_BYTES).unwrap();
    assert!(size(&fork) <= SMALL_FORK_BYTES, "{} bytes", size(&fork));
    assert!(size(&fork) > SMALL_FORK_BYTES / 2, "{} bytes", size(&fork));
    let forked = History::fold(fork.clone());
    let (all, kept) = (texts(&history), texts(&forked));
    assert!(kept[0].contains("omitted"), "{}", kept[0]);
    assert_eq!(kept[1..], all[all.len() - (kept.len() - 1)..], "the newest part unchanged");
    assert_eq!(forked.working(), history.working());
    // A fork of a fork stays within the bound, and the note about omitted messages is not repeated.
    let again = History::fold(forked.fork_within(None, SMALL_FORK_BYTES).unwrap());
    assert_eq!(texts(&again), kept);
    let early = History::fold(history.fork_within(Some(4), SMALL_FORK_BYTES).unwrap());
    assert_eq!(texts(&early), all[..4], "fitting messages are complete");
}

#[test]
fn a_fork_of_many_turns_accepts_as_many_turns() {
    let count = limits::TURNS_PER_THREAD;
    let history = History::fold((1..=count).flat_map(|turn| large(turn, 10)));
    let forked = History::fold(history.fork(None).unwrap());
    let users = forked.messages().filter(|shown| matches!(shown.message, Message::User { .. })).count();
    assert_eq!(users, limits::FORK_TURNS);
    assert!(texts(&forked)[0].contains("omitted"));
}

#[test]
fn invariant_4_a_fork_keeps_calls_with_their_results_and_shortens_oversized_rounds() {
    let long = |index| {
        let content = "r".repeat(limits::TOOL_RESULT_BYTES);
        crate::journal::CallResult { content, ..result(1, index) }
    };
    let mut entries = vec![accepted(1, None, state(1)), round(1, 1, 32, (1..=32).map(long).collect())];
    entries.push(ended(1, completed(1), Vec::new(), state(2), 1));
    let fork = History::fold(entries).fork(None).unwrap();
    assert!(fork.iter().all(|entry| json_bytes(entry) <= limits::ENTRY_BYTES));
    let messages: Vec<Message> = History::fold(fork).messages().map(|shown| shown.message).collect();
    let results = messages.iter().filter(|message| matches!(message, Message::Tool { .. }));
    assert!(results.clone().all(|m| matches!(m, Message::Tool { content, .. } if content.contains("[truncated:"))));
    assert_eq!((results.count(), messages.len()), (32, 35));
    assert_eq!(super::sanitize(messages.clone()), messages);
}

#[test]
fn a_round_that_exceeds_an_entry_with_the_working_state_is_reduced_to_text() {
    let call = ToolCall {
        id: "c".into(),
        name: "t".into(),
        arguments: serde_json::json!({ "long": "a".repeat(limits::ENTRY_BYTES) }),
    };
    let text = "t".repeat(2_000);
    let messages = vec![
        Message::user("u".repeat(2 * limits::ENTRY_BYTES)),
        Message::Assistant { text: String::new(), thinking: Vec::new(), calls: vec![call.clone()] },
        Message::Tool { call: "c".into(), content: "r".into() },
        Message::Assistant { text: text.clone(), thinking: Vec::new(), calls: vec![call] },
        Message::Tool { call: "c".into(), content: "r".into() },
    ];
    let history =
        History::fold([Entry::Imported(Imported { messages, working: WorkingState::default(), position: None })]);
    let fork = history.fork(None).unwrap();
    assert!(fork.iter().all(|entry| json_bytes(entry) <= limits::ENTRY_BYTES));
    let kept: Vec<Message> = History::fold(fork).messages().map(|shown| shown.message).collect();
    let Message::User { text: truncated, .. } = &kept[0] else { panic!() };
    assert!(truncated.ends_with("for a fork]") && truncated.len() > limits::ENTRY_BYTES / 4);
    assert!(matches!(&kept[1], Message::Assistant { text, calls, .. } if calls.is_empty() && !text.is_empty()));
    assert_eq!(
        kept[2],
        Message::Assistant { text, thinking: Vec::new(), calls: Vec::new() },
        "a fitting text is complete"
    );
    assert_eq!(kept.len(), 3);
}

fn imported(messages: Vec<Message>, working: WorkingState) -> Entry {
    Entry::Imported(Imported { messages, working, position: None })
}

#[test]
fn a_fork_is_complete_up_to_exactly_its_maximum_size() {
    let copied = |turn: &Vec<Entry>| size(&History::fold(turn.clone()).fork(None).unwrap());
    let mut turns: Vec<_> = (1..=9).map(|turn| large(turn, 104_000)).collect();
    let left = SMALL_FORK_BYTES - FRAME_BYTES - turns.iter().map(copied).sum::<usize>();
    for (added, is_complete) in [(left, true), (left + 1, false)] {
        turns[0] = large(1, 104_000 + added);
        let history = History::fold(turns.concat());
        let forked = History::fold(history.fork_within(None, SMALL_FORK_BYTES).unwrap());
        assert_eq!(texts(&forked) == texts(&history), is_complete);
    }
}

#[test]
fn a_fork_counts_every_user_message_and_notes_an_omission_with_its_working_state() {
    let users = |text: &str, version| imported(vec![Message::user(text.to_owned()); 600], state(version));
    let forked = History::fold(History::fold([users("old", 1), users("new", 2)]).fork(None).unwrap());
    let kept = texts(&forked);
    assert!(kept[0].contains("omitted") && kept[1..].iter().all(|text| text == "new"), "{}", kept[0]);
    assert_eq!(kept.len(), 601);
    assert_eq!((forked.working_at(1), forked.working()), (state(1), state(2)));
}

#[test]
fn a_round_is_complete_if_it_leaves_the_reserved_bytes_of_its_entry() {
    let round = |bytes| {
        let arguments = serde_json::json!({ "long": "a".repeat(bytes) });
        let calls = vec![ToolCall { id: "c".into(), name: "t".into(), arguments }];
        let assistant = Message::Assistant { text: String::new(), thinking: Vec::new(), calls };
        vec![assistant, Message::Tool { call: "c".into(), content: "r".into() }]
    };
    let working = WorkingState::default();
    let fitting = limits::ENTRY_BYTES - FRAME_BYTES - json_bytes(&working) - json_bytes(&round(0));
    for (bytes, messages, entries) in [(fitting, 2, Ok(1)), (fitting + 1, 1, Err(Reason::TooLarge))] {
        let fork = History::fold([imported(round(bytes), working.clone())]).fork(None).unwrap();
        assert!(fork.iter().all(|entry| json_bytes(entry) <= limits::ENTRY_BYTES), "the reserve suffices");
        assert_eq!((fork.len(), History::fold(fork).messages().count()), (1, messages));
        let found = import(round(bytes), &working).map(|entries| entries.len());
        assert_eq!(found.map_err(|error| error.reason), entries);
    }
}

#[test]
fn a_message_is_truncated_if_its_segment_exceeds_the_maximum() {
    let working = WorkingState::default();
    let user = |bytes| vec![Message::user("u".repeat(bytes))];
    let fitting = limits::ENTRY_BYTES - FRAME_BYTES - json_bytes(&working) - json_bytes(&user(0));
    for added in 0..4 {
        let history = History::fold([imported(user(fitting + added), working.clone())]);
        let forked = History::fold(history.fork(None).unwrap());
        assert_eq!(texts(&forked) == texts(&history), added == 0, "{added} bytes too many");
    }
}

#[test]
fn a_message_that_fills_its_segment_keeps_its_text() {
    let user = |bytes| Message::user("u".repeat(bytes));
    let bytes_max = json_bytes(&[user(5_000)]);
    for (bytes, is_kept) in [(5_000, true), (5_001, false)] {
        let mut message = user(bytes);
        reduce_to_text(&mut message, bytes_max);
        assert_eq!(message == user(bytes), is_kept);
    }
}

#[test]
fn a_text_is_truncated_only_if_its_entry_can_contain_more_than_1_kib() {
    for (free, kept) in [(1_024, Err(Reason::TooLarge)), (1_025, Ok(1))] {
        let working = |bytes| {
            let (id, document) = (ExtractionId::derive(&["e"]), DocumentId::derive(&["d"]));
            let prompt = PromptRevId::new(PromptId::derive(&["p"]), 1);
            let data = "x".repeat(bytes).into();
            let extraction = Some(WorkingExtraction { id, document, prompt, data });
            WorkingState { extraction, ..WorkingState::default() }
        };
        let filling = working(limits::ENTRY_BYTES - FRAME_BYTES - free - json_bytes(&working(0)));
        let history = History::fold([imported(vec![Message::user("u".repeat(5_000))], filling)]);
        let fork = history.fork(None).map(|entries| entries.len());
        assert_eq!(fork.map_err(|error| error.reason), kept, "{free} bytes");
    }
}

#[test]
fn results_are_halved_until_they_fit_or_have_1_kib() {
    let (long, half) = (limits::TOOL_RESULT_BYTES, limits::TOOL_RESULT_BYTES / 2);
    let result = |bytes| Message::Tool { call: "c".into(), content: "r".repeat(bytes) };
    for (bytes_max, expected) in [
        (2 * long, [(long, false), (half, false)]),
        (long + 1_000, [(half, true), (half, false)]),
        (0, [(1_024, true), (1_024, true)]),
    ] {
        let mut messages = [result(long), result(half)];
        shorten_results(&mut messages, "[cut]", |messages| json_bytes(&messages) <= bytes_max);
        let found = messages.map(|message| match message {
            Message::Tool { content, .. } => (content.len(), content.ends_with("[cut]")),
            other => panic!("{other:?}"),
        });
        assert_eq!(found, expected, "{bytes_max} bytes");
    }
}

#[test]
fn a_position_references_the_segments_at_distances_1_2_4_and_8() {
    let history = History::fold(chat(9));
    assert_eq!(history.position(None).below, [16, 14, 10, 2], "the entries of the turns 9, 8, 6 and 2");
    let fork = history.fork(None).unwrap();
    assert_eq!(fork[8].position().unwrap().below, [7, 6, 4, 0]);
}
