//! Answers found by the corrected rules, and texts without one.

use super::*;
use crate::fixtures::TAGS;
use proptest::prelude::*;

fn read(gold: &Gold, reply: &str) -> Score {
    Strict { tags: &TAGS }.score(gold, "", reply)
}

#[test]
fn letters_are_taken_where_they_are_answers() {
    for (text, expected) in [
        ("<answer>B</answer>", Some(('B', "answer_tag"))),
        ("<answer>b</answer>", Some(('B', "answer_tag"))),
        ("<answer>A</answer> no, <answer> (C). </answer>", Some(('C', "answer_tag"))),
        ("<answer>\\boxed{D}</answer>", Some(('D', "answer_tag"))),
        ("<answer>**B**</answer>", Some(('B', "answer_tag"))),
        ("<answer>B. The green lamp.</answer>", Some(('B', "answer_tag_option"))),
        ("<think>A or B?</think> C", Some(('C', "letter_only"))),
        ("(d)", Some(('D', "letter_only"))),
        ("The answer is B.", Some(('B', "letter_only"))),
        ("Answer: (C)", Some(('C', "letter_only"))),
        ("I looked twice.\nB\n", Some(('B', "letter_line"))),
        ("**Answer:** B", Some(('B', "letter_only"))),
        ("The answer is C because the lamp is lit", Some(('C', "answer_is"))),
        ("The answer is A because the lamp is lit", Some(('A', "answer_is"))),
        ("The answer is A - the lamp", Some(('A', "answer_is"))),
        ("<action>output answer: D </action>", Some(('D', "answer_is"))),
        ("the answer is option (b)", Some(('B', "answer_is"))),
        ("So the answer is \\boxed{D}.", Some(('D', "boxed"))),
        ("Correct option: C, not A", Some(('C', "answer_is"))),
        ("The answer is A. No: the answer is B.", Some(('B', "answer_is"))),
        ("[[c]]", Some(('C', "letter_only"))),
        ("_B_", Some(('B', "letter_only"))),
        ("\\boxed{(b)}", Some(('B', "letter_only"))),
        ("<answer>A<answer>B</answer>", Some(('B', "answer_tag"))),
        ("<answer>B</answer> done</answer>", Some(('B', "answer_tag"))),
        ("<answer>B</answer><answer>C", Some(('B', "answer_tag"))),
        ("<think>x</think> y <think>z</think>\nB", Some(('B', "letter_only"))),
        ("<tool_call>{\"a\": \"C\"}</tool_call>\nB", Some(('B', "letter_only"))),
        ("B<|im_end|>", Some(('B', "letter_only"))),
        ("答案是B", Some(('B', "answer_is"))),
    ] {
        assert_eq!(letter(text, &Options::new("ABCD", &[]), &TAGS), expected, "{text}");
    }
}

#[test]
fn letters_are_not_taken_out_of_prose_errors_or_calls() {
    for text in [
        "A dog runs past the gate.",
        "<answer>E</answer>",
        "<answer></answer>",
        "[API error: Error code: 400]",
        "<tool_call>{\"name\": \"B\"",
        "<think>The answer is B",
        "The answer is a matter of taste",
        "The answer is A man in red",
        "Answer: A dog runs past",
        "The answer is B or C",
        "The answer is not B",
        "Option B is wrong",
        "option b looks right",
        "A. red B. green C. blue D. none",
        "A_B",
        "B C",
        "4",
        "Á",
        "[API error: answer: B]",
        "<think>x</think> y <think> The answer is B",
        "<tool_call>{\"answer\": \"B\"}</tool_call>",
        "<answer><tool_call>answer: B</tool_call></answer>",
        "<tool_response>\nB\n</tool_response>",
        "<answer>E</answer> B",
        "",
    ] {
        assert_eq!(letter(text, &Options::new("ABCD", &[]), &TAGS), None, "{text}");
    }
}

#[test]
fn an_option_that_is_repeated_is_an_answer() {
    let options = Options::new("ABCD", &["on the book", "under it", "under it", "Yes."]);
    for (text, found) in [
        ("A. on the book.", Some('A')),
        ("On the book", Some('A')),
        ("(D) yes", Some('D')),
        ("B) under it", Some('B')),
        ("C: under it", Some('C')),
        // Which of the two, and a letter beside the text of another option.
        ("under it", None),
        ("B. on the book", None),
        ("A. on the book or B. under it", None),
        ("A on the book\n\nThe suitcase lies there.", Some('A')),
        ("I looked at it.\n**B. under it**", Some('B')),
        ("A on the whole", None),
        ("", None),
    ] {
        assert_eq!(letter(text, &options, &TAGS).map(|(letter, _)| letter), found, "{text}");
    }
}

#[test]
fn times_in_every_listed_form() {
    for (text, expected) in [
        ("The event happens in the 24.3 - 30.4 seconds.", Some((24.3, 30.4))),
        ("<answer>24.3s to 30.4s</answer>", Some((24.3, 30.4))),
        ("00:10 to 00:20", Some((10.0, 20.0))),
        ("01:02:03 - 01:02:10.5", Some((3723.0, 3730.5))),
        ("24.3 − 30.4", Some((24.3, 30.4))),
        ("24.3‑30.4", Some((24.3, 30.4))),
        ("24.3~30.4", Some((24.3, 30.4))),
        ("between 3 and 9 seconds", Some((3.0, 9.0))),
        ("[3, 9]", Some((3.0, 9.0))),
        ("<think>1 - 2</think><answer>3 - 9</answer>", Some((3.0, 9.0))),
        ("- 24.3 - 30.4", Some((24.3, 30.4))),
        ("24.3—30.4", Some((24.3, 30.4))),
        ("24.3‐30.4", Some((24.3, 30.4))),
        ("24.3, 30.4", Some((24.3, 30.4))),
        ("3 SEC To 9 Secs", Some((3.0, 9.0))),
        ("1:02:03,1:02:10", Some((3723.0, 3730.0))),
        ("from 00:19.7s - 00:25.6s.", Some((19.7, 25.6))),
        ("61:00 - 62:00", Some((3660.0, 3720.0))),
        ("３ - ７", Some((3.0, 7.0))),
        ("<think>1 - 2</think> 3 - 9", Some((3.0, 9.0))),
        ("<answer>1 - 2</answer><answer>3 - 9</answer>", Some((3.0, 9.0))),
        ("5 - 5", None),
        ("10 - -5", None),
        ("starts at 3", None),
        ("3 cats, 5 dogs", None),
        ("[API error: 400 - 65536]", None),
        ("<think>3 - 9", None),
        ("<tool_call>{\"start_time\": 3, \"x\": [3, 9]}</tool_call>", None),
        ("", None),
        ("30.4 - 24.3", None),
        ("at 5 seconds", None),
        ("-5 - 10", None),
        ("[API error: Error code: 400]", None),
    ] {
        assert_eq!(interval(text, &TAGS).map(|(found, _)| found.into()), expected, "{text}");
    }
}

#[test]
fn numbers_are_taken_where_they_are_answers() {
    for (text, expected) in [
        ("3", Some((3.0, "number_only"))),
        ("3.", Some((3.0, "number_only"))),
        ("**2.5 meters**", Some((2.5, "number_only"))),
        ("12 square meters.", Some((12.0, "number_only"))),
        ("<answer>1,250 cm</answer>", Some((1250.0, "answer_tag"))),
        ("<answer>\\boxed{-0.5}</answer>", Some((-0.5, "answer_tag"))),
        ("<answer>There are 4 chairs</answer>", Some((4.0, "answer_tag"))),
        ("<think>2 or 3</think>Three", Some((3.0, "number_only"))),
        ("I counted 2, then 5. The answer is 7.", Some((7.0, "answer_is"))),
        ("First 2, then 5.\n7", Some((7.0, "number_line"))),
        ("<answer>2 or 3</answer>", None),
        ("between 2 and 3", None),
        ("[API error: 400]", None),
        ("<tool_call>{\"start_time\": 3}</tool_call>", None),
        ("many", None),
        ("", None),
    ] {
        assert_eq!(number(text, &TAGS), expected, "{text}");
    }
    let gold = Gold::Number { answer: 10.0 };
    assert_eq!(read(&gold, "9").value, 0.9);
    assert_eq!(read(&gold, "many").outcome, Outcome::Unparsed);
}

#[test]
fn free_text_is_compared_without_articles_and_punctuation() {
    let gold = Gold::open("Doppler effect");
    assert_eq!(read(&gold, "<answer>The Doppler-Effect.</answer>").value, 1.0);
    assert_eq!(read(&gold, "<answer>Doppler</answer>").value, 0.0);
    assert_eq!(read(&gold, "<answer> </answer>").outcome, Outcome::Unparsed);
    let letter = Gold::open("A");
    assert_eq!(read(&letter, "<answer>the</answer>").value, 0.0);
    assert_eq!(read(&letter, "<answer>a.</answer>").value, 1.0);
}

proptest! {
    #[test]
    fn no_text_panics_and_no_foreign_letter_comes_out(text in ".{0,200}") {
        if let Some((found, _)) = letter(&text, &Options::new("ABC", &["red", "a green lamp", "2"]), &TAGS) {
            prop_assert!("ABC".contains(found));
        }
        if let Some((TimeSpan { start, end }, _)) = interval(&text, &TAGS) {
            prop_assert!(end > start);
        }
        if let Some((found, _)) = number(&text, &TAGS) {
            prop_assert!(found.is_finite());
        }
    }
}
