//! SRT subtitles (ParaVT cf55249 `paravt/eval/utils.py`).

use paravt_python::{pattern, strip};
use paravt_suite::text::clock_seconds;

/// `parse_srt` of the reference: the text of all cues, tags removed, without times. Blocks of
/// fewer than three lines are skipped; the byte order mark of the first line is harmless.
pub fn parse_srt(content: &str) -> String {
    cues(content).flat_map(|(_, lines)| lines).collect::<Vec<_>>().join("\n")
}

/// The same cues with their start times, `[mm:ss] text`, consecutive duplicates once: what the
/// `strict` profile shows.
pub fn timed_subtitles(content: &str) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut before = String::new();
    for (timing, lines) in cues(content) {
        let text = lines.join(" ");
        if text.is_empty() || text == before {
            continue;
        }
        let line = match start_seconds(&timing) {
            Some(seconds) => format!("[{:02}:{:02}] {text}", seconds / 60, seconds % 60),
            None => text.clone(),
        };
        out.push(line);
        before = text;
    }
    out.join("\n")
}

/// Blocks of three lines or more: the timing line and the cleaned, non-empty text lines.
fn cues(content: &str) -> impl Iterator<Item = (String, Vec<String>)> {
    pattern! { BLANK = r"\n\s*\n" }
    pattern! { TAG = "<[^>]+>" }
    // Python opens the file in text mode: every line end is one newline.
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    let blocks: Vec<String> = BLANK.split(strip(&content)).map(str::to_owned).collect();
    blocks.into_iter().filter_map(|block| {
        let lines: Vec<&str> = strip(&block).split('\n').collect();
        let [_, timing, text @ ..] = &lines[..] else { return None };
        if text.is_empty() {
            return None;
        }
        let clean = |line: &&str| strip(&TAG.replace_all(line, "")).to_owned();
        let text = text.iter().map(clean).filter(|line| !line.is_empty()).collect();
        Some(((*timing).to_owned(), text))
    })
}

/// Whole seconds of `HH:MM:SS,mmm --> …`.
fn start_seconds(timing: &str) -> Option<u64> {
    let start = timing.split("-->").next()?.trim().split([',', '.']).next()?;
    clock_seconds(start).map(|seconds| seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUES: &str = "1\r\n00:00:01,000 --> 00:00:02,000\r\n<font color=\"white\">Hello</font>\r\n\r\n\
                        2\r\n00:01:05,000 --> 00:01:06,000\r\nHello\r\n\r\n3\r\n00:02:00,5 --> 00:02:01,0\r\nlast";

    #[test]
    fn texts_with_and_without_times() {
        assert_eq!(parse_srt(CUES), "Hello\nHello\nlast");
        assert_eq!(timed_subtitles(CUES), "[00:01] Hello\n[02:00] last");
        assert_eq!(parse_srt("00:00:01,000 --> 00:00:02,000\nno index line\n"), "");
        assert_eq!(parse_srt(""), "");
    }
}
