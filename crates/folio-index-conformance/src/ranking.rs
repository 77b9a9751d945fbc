//! Lexical, dense and hybrid rankings, and hostile searches.

use folio_index::{Embedding, Gap, PartUse, Passage, PassageIndex, Search};

use crate::sample::{SPACE, document, found, id, org, passage, ready, search, upsert, words};
use crate::{Failure, Outcome, check, same};

pub(crate) async fn suite(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    lexical(index, nonce).await?;
    hostile(index, nonce).await?;
    dense(index, nonce).await?;
    hybrid(index, nonce).await
}

async fn lexical(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "lexical");
    ready(index, &org).await?;
    let in_language = |number, text: &str, language: &str| Passage {
        language: Some(language.to_owned()),
        ..passage(number, text, &[])
    };
    let with_context = Passage { context: "penalty".to_owned(), ..passage(4, "late delivery", &[]) };
    let passages = vec![
        in_language(0, "The invoices of the supplier are due.", "en"),
        in_language(1, "Die Rechnungen der Lieferanten sind fällig.", "de"),
        in_language(2, "請求書の支払い", "ja"),
        passage(3, "The penalty is two percent.", &[]),
        with_context,
    ];
    upsert(index, &org, vec![document("a", 1, passages)]).await?;
    for (text, expected) in [
        ("INVOICE", vec![0]),
        ("rechnung", vec![1]),
        ("fallig", vec![1]),
        ("請求書", vec![2]),
        ("penalty", vec![3, 4]),
        ("absent", vec![]),
    ] {
        let numbers: Vec<u32> = words(index, &org, text).await?.into_iter().map(|(_, number)| number).collect();
        same(numbers, expected, text)?;
    }
    let answer = index.search(&org, &search("penalty", &[])).await?;
    same(answer.dense, PartUse { is_used: false, gaps: vec![Gap::NotRequested] }, "the dense part without a vector")?;
    same(answer.lexical, PartUse { is_used: true, gaps: vec![] }, "the lexical part")?;
    let descends = answer.hits.windows(2).all(|pair| matches!(pair, [left, right] if left.score > right.score));
    check(descends, "scores do not descend")?;
    let limited = Search { limit: 1, ..search("penalty", &[]) };
    same(found(&index.search(&org, &limited).await?), vec![(id("a"), 3)], "a limit of one passage")
}

async fn hostile(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "hostile");
    ready(index, &org).await?;
    upsert(index, &org, vec![document("a", 1, vec![passage(0, "alpha beta", &[]), passage(1, "gamma", &[])])]).await?;
    // An operator would exclude or match more passages.
    for (text, expected) in [
        ("-alpha", vec![0]),
        ("NOT alpha", vec![0]),
        ("+gamma alpha", vec![0, 1]),
        ("alp*", vec![]),
        ("alph?", vec![]),
        ("/al.*/", vec![]),
        ("[alpha TO omega]", vec![0]),
        ("\"beta alpha\"", vec![0]),
        ("(alpha", vec![0]),
        ("alpha^1000 \\", vec![0]),
        ("alpha\u{0}beta", vec![0]),
    ] {
        let mut numbers: Vec<u32> = words(index, &org, text).await?.into_iter().map(|(_, number)| number).collect();
        numbers.sort_unstable();
        same(numbers, expected, text)?;
    }
    for text in ["*", "?? --", "\"\"", "()", "\u{202e}"] {
        let answer = index.search(&org, &search(text, &[])).await?;
        same(answer.lexical, PartUse { is_used: false, gaps: vec![Gap::NoWords] }, text)?;
        check(answer.hits.is_empty(), "a search without words found passages")?;
    }
    for text in ["a ".repeat(2_000), "a".repeat(4_000), "語".repeat(4_000), "alpha ".repeat(600)] {
        index.search(&org, &search(&text, &[])).await?;
    }
    for refused in [search(&"a".repeat(4_001), &[]), search("", &[]), Search { limit: 0, ..search("a", &[]) }] {
        check(index.search(&org, &refused).await.is_err(), "a search out of bounds was accepted")?;
    }
    Ok(())
}

async fn dense(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "dense");
    ready(index, &org).await?;
    let other = Embedding { space: "test/successor".to_owned(), values: vec![0.0, 0.0, 1.0] };
    let mut in_both = passage(3, "in both spaces", &[-1.0, 0.1]);
    in_both.vectors.push(other.clone());
    let passages = vec![
        passage(0, "far", &[0.0, 3.0]),
        passage(1, "near", &[5.0, 0.5]),
        passage(2, "between", &[1.0, 2.0]),
        in_both,
        passage(4, "without", &[]),
    ];
    upsert(index, &org, vec![document("a", 1, passages)]).await?;
    let answer = index.search(&org, &search("", &[2.0, 0.0])).await?;
    let numbers: Vec<u32> = answer.hits.iter().map(|hit| hit.number).collect();
    same(numbers, vec![1, 2, 0, 3], "the order by cosine")?;
    same(answer.lexical, PartUse { is_used: false, gaps: vec![Gap::NotRequested] }, "the lexical part without text")?;
    let gaps = vec![Gap::WithoutVector { passages: 1 }];
    same(answer.dense, PartUse { is_used: true, gaps }, "the dense part with a passage without a vector")?;
    let cosines = answer.hits.iter().filter_map(|hit| hit.dense.map(|part| part.score));
    for (found, expected) in cosines.zip([0.995_04, 0.447_21, 0.0, -0.995_04]) {
        check((found - expected).abs() < 0.02, format_args!("a cosine of {found}, expected {expected}"))?;
    }
    let in_space = Search { vector: Some(other), ..search("", &[]) };
    same(found(&index.search(&org, &in_space).await?), vec![(id("a"), 3)], "passages in another space")?;
    let dimensions =
        Search { vector: Some(Embedding { space: SPACE.to_owned(), values: vec![1.0; 5] }), ..search("", &[]) };
    let answer = index.search(&org, &dimensions).await?;
    let without = PartUse { is_used: false, gaps: vec![Gap::WithoutVector { passages: 5 }] };
    same((answer.hits.len(), answer.dense), (0, without), "a vector with other dimensions")
}

async fn hybrid(index: &dyn PassageIndex, nonce: &str) -> Outcome {
    let org = org(nonce, "hybrid");
    ready(index, &org).await?;
    let passages = vec![
        passage(0, "delivery delivery", &[0.0, 1.0]),
        passage(1, "delivery of other goods in the warehouse", &[1.0, 0.1]),
        passage(2, "shipment", &[1.0, 0.0]),
        passage(3, "unrelated", &[-1.0, 0.0]),
    ];
    upsert(index, &org, vec![document("a", 1, passages)]).await?;
    let answer = index.search(&org, &search("delivery", &[1.0, 0.0])).await?;
    let numbers: Vec<u32> = answer.hits.iter().map(|hit| hit.number).collect();
    same(numbers, vec![0, 1, 2, 3], "the fused order")?;
    let ranks: Vec<_> =
        answer.hits.iter().map(|hit| (hit.lexical.map(|part| part.rank), hit.dense.map(|part| part.rank))).collect();
    same(ranks, vec![(Some(1), Some(3)), (Some(2), Some(2)), (None, Some(1)), (None, Some(4))], "ranks of both parts")?;
    let lexical: Vec<f64> = answer.hits.iter().filter_map(|hit| hit.lexical).map(|part| part.score.into()).collect();
    let [best, second] = lexical.as_slice() else { return Err(Failure(format!("the lexical scores {lexical:?}"))) };
    let expected = [1.0 / 61.0 + 1.0 / 63.0, (second / best + 1.0) / 62.0, 1.0 / 61.0, 1.0 / 64.0];
    for (hit, expected) in answer.hits.iter().zip(expected) {
        check(
            (hit.score - expected).abs() < 1e-6,
            format_args!("a fused score of {}, expected {expected}", hit.score),
        )?;
    }
    Ok(())
}
