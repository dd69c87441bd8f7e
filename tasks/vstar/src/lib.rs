#![forbid(unsafe_code)]
//! V* Bench: questions about small details of a photograph.

use paravt_suite::data::{DataError, Id};
use paravt_suite::sample::{Gold, Question, Sample, Tags};
use paravt_suite::task::{Benchmark, IntoSample, RowContext, letters, read};
use paravt_suite::text::embedded_options;
use serde::Deserialize;

/// The splits of the benchmark.
pub static SPLITS: &[&Benchmark] = &[&VSTAR];
/// `vstar`.
pub static VSTAR: Benchmark = Benchmark::new(include_str!("../benchmark.toml"), read::<Row>);

/// The published columns.
#[derive(Deserialize)]
struct Row {
    image: String,
    /// The question, its options as lines `(A) …`, and how to answer.
    text: String,
    category: String,
    question_id: Id,
    label: String,
}

impl IntoSample for Row {
    fn into_sample(self, cx: &RowContext<'_>) -> Result<Option<Sample>, DataError> {
        let letters = letters(embedded_options(&self.text).len());
        cx.need_options("text", &letters)?;
        let mut flags = Vec::new();
        let answer = cx.letter("label", &self.label, &letters, &mut flags)?;
        let image = cx.path("image", &self.image)?;
        // Several readers number the questions of each category from 0.
        let uid = format!("{}/{}", self.category, self.question_id.0);
        let question = Question { stem: self.text, letters, ..Question::default() };
        let tags = Tags::from([("category".to_owned(), vec![self.category])]);
        let sample = cx.sample(uid, image.clone(), question, Gold::Choice { answer });
        Ok(Some(Sample { images: vec![image], tags, flags, ..sample }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paravt_suite::profile::Profile;
    use serde_json::json;

    #[test]
    fn options_stay_in_the_text_as_it_is_published() {
        let text = "Which colour?\n(A) red\n(B) green\n(C) blue\n(D) grey\nAnswer with a letter.";
        let row = json!({"image": "direct_attributes/sa_1.jpg", "text": text, "category": "direct_attributes",
            "question_id": "7", "label": "C"});
        let sample = VSTAR.sample("rows".as_ref(), 0, row.as_object().unwrap(), Profile::Strict);
        let sample = sample.unwrap().unwrap();
        assert_eq!((&*sample.uid, &*sample.question.letters), ("direct_attributes/7", "ABCD"));
        assert_eq!((&*sample.question.stem, sample.gold_text()), (text, Some("blue")));
        assert_eq!(sample.images, [sample.video]);
    }
}
