//! Probes of the options of a choice question.

use sha2::{Digest as _, Sha256};

use crate::sample::{Gold, Question, Sample};
use crate::text::{embedded_options, with_embedded_options};

/// Text of the gold option under `none-right`, as in lmms-eval 0.7.3
/// (`lmms_eval/tasks/videomme/gt_none_option/utils.py`).
pub(super) const NONE: &str = "None";

/// The sample with its options in an order drawn from the seed and its uid; the gold letter follows its text. `None`
/// for a sample without options to reorder.
///
/// # Errors
/// The options cannot be told from the question.
pub(super) fn shuffled(sample: &Sample, seed: u64) -> Result<Option<Sample>, String> {
    let Some((texts, gold)) = options(sample)? else { return Ok(None) };
    if texts.len() < 2 {
        return Ok(None);
    }
    let order = order(texts.len(), seed, &sample.uid);
    let reordered: Vec<&str> = order.iter().map(|&old| texts[old].as_str()).collect();
    let place = order.iter().position(|&old| old == gold);
    let letter = place.and_then(|place| sample.question.letters.chars().nth(place));
    let Some(letter) = letter else { return Ok(None) };
    let gold = Gold::Choice { answer: letter.to_string() };
    Ok(Some(Sample { question: with_texts(&sample.question, &reordered), gold, ..sample.clone() }))
}

/// The sample with [`NONE`] as the text of its gold option. `None` for a sample without a gold option.
///
/// # Errors
/// The options cannot be told from the question.
pub(super) fn none_right(sample: &Sample) -> Result<Option<Sample>, String> {
    let Some((texts, gold)) = options(sample)? else { return Ok(None) };
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts[gold] = NONE;
    Ok(Some(Sample { question: with_texts(&sample.question, &texts), ..sample.clone() }))
}

/// Texts of the options and the position of the gold one; `None` for a sample without them, and for a row that is not
/// asked at all.
fn options(sample: &Sample) -> Result<Option<(Vec<String>, usize)>, String> {
    let (question, Gold::Choice { answer }) = (&sample.question, &sample.gold) else { return Ok(None) };
    if sample.defect.is_some() {
        return Ok(None);
    }
    let Some(gold) = question.letters.chars().position(|letter| answer.chars().eq([letter])) else {
        return Ok(None);
    };
    let texts: Vec<String> = question.option_texts().into_iter().map(str::to_owned).collect();
    let refused = |why: String| Err(format!("sample {} (row {}): {why}", sample.uid, sample.row));
    if texts.len() != question.letters.chars().count() {
        return refused(format!(
            "{} options where the row has the letters {}",
            texts.len(),
            question.letters
        ));
    }
    // A stem that repeats the options (MLVU as released) is changed with them; one that holds others is not understood.
    let in_stem = embedded_options(&question.stem);
    let differs =
        || in_stem.len() != texts.len() || in_stem.iter().zip(&texts).any(|((_, a), b)| a.trim() != b);
    if !in_stem.is_empty() && differs() {
        return refused("its question holds option lines that are not its options".to_owned());
    }
    Ok(Some((texts, gold)))
}

/// The question with other texts for its options, letter by letter, wherever they stand.
fn with_texts(question: &Question, texts: &[&str]) -> Question {
    let old = question.option_texts();
    let options = question.options.iter().zip(old).zip(texts).map(|((option, old), new)| {
        // What stands before the text is the letter of the place.
        let before = option.trim_end().strip_suffix(old).unwrap_or_default();
        format!("{before}{new}")
    });
    Question {
        stem: with_embedded_options(&question.stem, texts),
        options: options.collect(),
        ..question.clone()
    }
}

/// An order of `count` things, by Fisher and Yates from SHA-256 of seed, uid and place: the same with every version
/// and on every machine. A place is drawn from 64 bits, which for so few options is even to 1 in 10^17.
fn order(count: usize, seed: u64, uid: &str) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let digest = Sha256::digest(format!("{seed}\n{last}\n{uid}"));
        let draw = digest.iter().take(8).fold(0u64, |draw, byte| draw << 8 | u64::from(*byte));
        order.swap(last, (draw % (last as u64 + 1)) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(stem: &str, options: &[&str], letters: &str, gold: &str) -> Sample {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let question = Question { stem: stem.into(), options, letters: letters.into(), subtitles: None };
        let gold = Gold::Choice { answer: gold.into() };
        Sample::new("t", "u".into(), 3, "v.mp4".into(), question, gold)
    }

    fn gold_text(sample: &Sample) -> String {
        sample.gold_text().expect("a gold option").to_owned()
    }

    /// The same question in the forms that the seven splits have it in.
    fn forms() -> [Sample; 4] {
        let lines = "What flies?\n(A) kite\n(B) bird \n(C) drone";
        [
            choice("What flies?", &["kite", "bird", "drone"], "ABC", "B"),
            choice("What flies?", &["A. kite", "B. bird", "C. drone"], "ABC", "B"),
            choice(lines, &[], "ABC", "B"),
            choice(lines, &["kite", "bird", "drone"], "ABC", "B"),
        ]
    }

    #[test]
    fn the_gold_letter_follows_its_text_through_every_order() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..100 {
            for form in forms() {
                let probed = shuffled(&form, seed).unwrap().unwrap();
                assert_eq!(gold_text(&probed), "bird", "{probed:?}");
                let mut texts = probed.question.option_texts();
                seen.insert(texts.join(" "));
                texts.sort_unstable();
                assert_eq!(texts, ["bird", "drone", "kite"], "{probed:?}");
            }
        }
        assert_eq!(seen.len(), 6, "all orders of three are drawn: {seen:?}");
    }

    #[test]
    fn one_seed_gives_one_order_and_samples_their_own() {
        let [form, ..] = forms();
        let of =
            |uid: &str, seed| shuffled(&Sample { uid: uid.into(), ..form.clone() }, seed).unwrap().unwrap();
        assert_eq!(of("a", 1).question, of("a", 1).question);
        let orders = |seed| (0..20).map(|n| of(&n.to_string(), seed).question.options).collect::<Vec<_>>();
        assert_ne!(orders(1), orders(2));
        assert!(orders(1).iter().any(|order| *order != orders(1)[0]));
    }

    #[test]
    fn letters_stay_in_their_places_in_list_and_stem() {
        let probed = forms().map(|form| none_right(&form).unwrap().unwrap());
        assert_eq!(probed[0].question.options, ["kite", "None", "drone"]);
        assert_eq!(probed[1].question.options, ["A. kite", "B. None", "C. drone"]);
        assert_eq!(probed[2].question.stem, "What flies?\n(A) kite\n(B) None \n(C) drone");
        assert_eq!(probed[3].question.options, ["kite", "None", "drone"]);
        assert!(probed.iter().all(|sample| sample.gold == Gold::Choice { answer: "B".into() }));
    }

    #[test]
    fn options_that_cannot_be_told_are_an_error_with_the_row() {
        let other = choice("Q?\n(A) one\n(B) two", &["three", "four"], "AB", "A");
        let error = shuffled(&other, 1).unwrap_err();
        assert!(error.contains("row 3") && error.contains("option lines"), "{error}");
        let few = choice("Q?", &["one"], "AB", "A");
        assert!(none_right(&few).unwrap_err().contains("1 options"), "{few:?}");
        assert_eq!(none_right(&choice("Q?", &["one", "two"], "AB", "?")).unwrap(), None, "no gold option");
    }
}
