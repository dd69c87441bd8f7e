//! SAGE's conversations, with texts of a stand-in of the same structure as the authors' files.

use paravt_suite::fixtures::Scripted;
use paravt_suite::message::{Content, Message, Part};
use paravt_suite::protocol::{Fidelity, Protocol};
use paravt_suite::record::{Outcome, ToolOutcome};
use paravt_upstream::agents::sage::RELEASE;

use crate::own::{files, run};

const MAIN: &str = r#"
class SAGE:
    def format_tool_calls(self, tool_calls):
        for tool_call in tool_calls:
            text += f"{tool_call} gave {tool_calls[tool_call].get('result', 'none')};"

    def format_tool_calls_args(self, tool_calls):
        for tool_call in tool_calls:
            text += f"{tool_call} of {tool_calls[tool_call].get('arguments', {})}"

    def get_tool_calls(self, vlm_response):
        return {"tool_calls": {"x": {"result": "Nobody called"}}}

    def get_iterative_reasoner_results(self, query):
        video_info_prompt = f"Video {video_path}, {timestamp_format}."

    def execute_tool_call(self, function_calls):
        if not isinstance(org_arguments, dict):
            raise ValueError(f"found {type(org_arguments)}")
        try:
            if not ok:
                raise ValueError(f"Not for {tool_call['name']}: {errors}")
            results["x"] = {"result": function_call_result}
        except Exception as e:
            results["x"] = ({"result": f"{tool_call['name']} failed: {str(e)} with {str(arguments)}"})

    def run_inference(self, query):
        final_answer = f"None after {self.max_num_iterative_reasoner_calls}"
        tool_calls_result = {"None": {"result": "Neither called nor answered"}}
"#;

const API: &str = r#"
class BaseAPI:
    def identify_timestamps_visually(self, video_path):
        if a:
            raise ValueError(f"Ending: {video_path}")
        if b:
            raise FileNotFoundError(f"Nothing at {video_path}")
        if c:
            raise ValueError(f"{timestamp_start} is {timestamp_end}")
        elif d:
            raise ValueError(f"{timestamp_start} is behind {timestamp_end}")
        elif e:
            raise ValueError(f"{timestamp_end} is behind {video_duration}")
"#;

const MODEL: &str = r#"
class QwenVL:
    def _prepare_input(self, prompt):
        messages = [{"role": "system", "content": system_prompt}]
        messages = [{"role": "system", "content": "Be brief."}]
        content.append({"type": "text", "text": prompt})
"#;

const ARGUMENTS: &str = r#"
def check_file_exists(path, arg_name):
    if a:
        return False, f"{arg_name} is {type(path).__name__}"
    if b:
        return False, f"{arg_name}: no {path}"
    return True, ''

def check_valid_extension(path, arg_name):
    if a:
        return False, f"{arg_name} is {type(path).__name__}"
    if b:
        return False, f"{arg_name}: {path} is not {valid_exts}"
    return True, ''

def check_valid_timestamp(ts, arg_name):
    if a:
        return False, f"{arg_name} empty: {ts}"
    if b:
        return False, f"{arg_name} form: {ts}"
    return True, ''

def check_in_allowed_values(value, allowed, arg_name):
    return False, f"{arg_name}: {value} not of {allowed}"

def check_non_empty_string(s, arg_name):
    return False, f"{arg_name} says nothing"

def parse_timestamp(ts, arg_name):
    if a:
        return None, f"{arg_name} range: {ts}"
    elif b:
        return None, f"{arg_name} M: {ts}"
    elif c:
        return None, f"{arg_name} range: {ts}"
    elif d:
        return None, f"{arg_name} H: {ts}"
    else:
        return None, f"{arg_name} parts: {ts}"

def check_timestamp_range(start_ts, end_ts):
    if a:
        return False, f"Start: {err_start}"
    if b:
        return False, f"End: {err_end}"
    if c:
        return False, f"Start: {err}"
    if d:
        return False, f"End: {err}"
    if e:
        return False, f"{start_ts} after {end_ts}"
    elif f:
        return False, f"{start_ts} same {end_ts}"
    if g:
        return False, f"{start_ts} short {end_ts}"
    elif h:
        return False, f"{start_ts} long {end_ts}"
    return True, ''

class ArgsValidator:
    def validate(self, args):
        errors[arg] = f"No {arg}."

def patch_validator_with_timestamp_range(validator):
    def new_validate(args):
        errors['x'] = f"Both {start_key} and {end_key}."

perform_reasoning_args_validator = ArgsValidator({
    'media_paths': (False, lambda v: (True, '') if v is None else ((a, 'not all files') if b else (False, 'not all texts'))),
})
"#;

const PARSER: &str =
    "def clean_json(text):\n    raise JSONParsingError(message=f\"No JSON: {e}\", invalid_json_string=x)\n";

fn tool(name: &str, arguments: &str) -> String {
    format!(
        "def {name}({arguments}) -> Dict:\n    \"\"\"\n    Does {name}.\n    Args:\n        query: Words\n    \"\"\"\n"
    )
}

fn sage() -> Protocol {
    let of =
        |name: &str| RELEASE.files.iter().map(|file| file.path).find(|path| path.ends_with(name)).unwrap();
    let (extract, reason, identify) = (
        tool("extract_parts_from_timestamp", "video_path: str, extract_type: str = \"frames\""),
        tool("perform_reasoning", "query: str, media_paths: List[str]"),
        tool("identify_timestamps_visually", "video_path: str, event: str"),
    );
    let texts = [
        (of("sage/context_vlm.txt"), "See first.\n<<<tools>>>"),
        (of("sage/iterative_reasoner.txt"), "Think.\n<<<tools>>>\n"),
        (
            of("iterative_reasoner_msg.txt"),
            "<<<previous_tool_call>>>|<<<visual_context>>>|<<<query>>>|<<<video_info>>>|<<<tools_so_far>>>",
        ),
        (of("grounding.txt"), "When is <<<event>>> in <<<begin>>> to <<<end>>>?"),
        (of("sage/main.py"), MAIN),
        (of("base_api.py"), API),
        (of("qwen_vl.py"), MODEL),
        (of("args_check.py"), ARGUMENTS),
        (of("json_parser.py"), PARSER),
        (of("tools/extract.py"), &*extract),
        (of("tools/reason.py"), &*reason),
        (of("tools/temporal.py"), &*identify),
    ];
    RELEASE.import(&files(&RELEASE, &texts), true).unwrap()
}

fn context(call: &str) -> String {
    format!(
        r#"<json>{{"video_context": "a cat", "final_answer": null, "recommended_tools": {{"needed": true, "tool_calls": [{call}]}}}}</json>"#
    )
}

fn next(call: &str) -> String {
    format!(
        r#"<json>{{"answerable": {{"verdict": false}}, "recommended_tools": {{"needed": true, "tool_calls": [{call}]}}}}</json>"#
    )
}

fn call(name: &str, arguments: &str) -> String {
    format!(r#"{{"name": "{name}", "arguments": {{{arguments}}}}}"#)
}

const ANSWER: &str = r#"<json>{"answerable": {"verdict": true}, "final_answer": "(B) a dog"}</json>"#;
const FRAMES: &str =
    r#""video_path": "elsewhere/clip.mp4", "timestamp_start": "00:00:10", "timestamp_end": "00:00:19""#;

/// The user's text and the kinds of what stands before it.
fn asked(messages: &[Message]) -> (String, String) {
    let Content::Parts(parts) = &messages[1].content else { panic!("no parts") };
    let kind = |part: &Part| match part {
        Part::Image(image) => format!("{}:{} ", image.mime, image.origin.unwrap().index),
        Part::Frames(frames) => format!("video of {} at {}", frames.images.len(), frames.rate()),
        _ => String::new(),
    };
    let Part::Text(text) = parts.last().unwrap() else { panic!("no text") };
    (text.clone(), parts.iter().map(kind).collect())
}

#[tokio::test]
async fn frames_are_cut_and_the_model_is_asked_about_them() {
    let frame = "data/videos/clip_frames_00:10_00:19/clip_frame_100_00:10.jpg";
    let elsewhere = frame.replace("data/videos", "frames");
    let reason =
        call("perform_reasoning", &format!(r#""query": "What?", "media_paths": ["{elsewhere}", "{frame}"]"#));
    let script = Scripted::new(&[
        ("try0/context", &context(&call("extract_parts_from_timestamp", FRAMES))),
        ("try0/reasoner1", &next(&reason)),
        ("try0/tool1", "A dog."),
        ("try0/reasoner2", &next(&reason)),
        ("try0/reasoner3", ANSWER),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    assert_eq!(
        backend.steps(),
        ["try0/context", "try0/reasoner1", "try0/tool1", "try0/reasoner2", "try0/reasoner3"]
    );
    let requests = backend.asked.lock().unwrap();
    let sent: Vec<_> = requests.iter().map(|request| asked(&request.messages)).collect();
    let video = "Video data/videos/clip.mp4, 00:01:40.";
    let question = "What is shown?\nOptions:\n(A) a cat\n(B) a dog";
    assert_eq!(sent[0], (format!("{question}\n{video}"), "video of 100 at 2".to_owned()));
    let (text, _) = &sent[1];
    assert!(
        text.starts_with(
            "extract_parts_from_timestamp_#1 of {'video_path': 'data/videos/clip.mp4', 'timestamp_start':"
        ),
        "{text}"
    );
    assert!(
        text.contains(&format!(
            "|a cat|{question}|{video}|extract_parts_from_timestamp_#1 gave {{'media_paths': ['{frame}'"
        )),
        "{text}"
    );
    assert_eq!(sent[2], ("What?".to_owned(), "image/jpeg:100 ".to_owned()));
    let Content::Text(system) = &requests[2].messages[0].content else { panic!() };
    assert_eq!(system, "Be brief.");
    assert!(
        sent[3].0.starts_with(&format!(
            "perform_reasoning_#1 of {{'query': 'What?', 'media_paths': ['{frame}']}}|"
        )),
        "a known path is dropped"
    );
    // The same question is answered from before.
    assert!(sent[4].0.ends_with(
        "perform_reasoning_#1 gave {'answer': 'A dog.'};perform_reasoning_#2 gave {'answer': 'A dog.'};"
    ));
    assert_eq!(record.transcript.final_text, "(B) a dog");
    let own = record.own.unwrap();
    assert_eq!((own.fidelity, own.score.outcome, own.score.value), (Fidelity::Variant, Outcome::Scored, 1.0));
    let [cut, seen, again] = &record.transcript.tool_calls[..] else { panic!() };
    assert!(
        matches!(&cut.outcome, ToolOutcome::Frames { frames } if frames.len() == 10 && frames[9].index == 190)
    );
    assert_eq!((cut.start, cut.end, cut.turn, seen.turn, again.turn), (Some(10.0), Some(19.0), 0, 1, 2));
    assert_eq!(record.transcript.messages.len(), 5 * 3 + 1, "every conversation, and the answer");
}

#[tokio::test]
async fn a_moment_is_asked_for_in_its_clip() {
    let arguments = format!(r#""event": "it's", {FRAMES}"#);
    let script = Scripted::new(&[
        ("try0/context", &context(&call("identify_timestamps_visually", &arguments))),
        ("try0/tool0", r#"<json>{"timestamps": {"start": "00:00:02", "end": "4.5"}}</json>"#),
        ("try0/reasoner1", ANSWER),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    let requests = backend.asked.lock().unwrap();
    let (text, shown) = asked(&requests[1].messages);
    assert_eq!((&*text, &*shown), ("When is it's in 00:00:10 to 00:00:19?", "video of 9 at 2"));
    let (text, _) = asked(&requests[2].messages);
    assert!(text.ends_with("gave {'timestamps': {'start': '12', 'end': '14'}};"), "{text}");
    assert!(
        text.contains("{'video_path': 'data/videos/clip.mp4', 'event': \"it's\"")
            || text.contains("{'event': \"it's\", 'video_path'")
    );
    assert_eq!(record.transcript.tool_calls.len(), 1);
}

#[tokio::test]
async fn what_is_refused_is_said_and_ten_rounds_are_the_end() {
    let wrong = call(
        "extract_parts_from_timestamp",
        r#""video_path": "no.mp4", "timestamp_start": "00:20", "timestamp_end": "00:10", "extract_type": 3"#,
    );
    let mut script = Scripted::new(&[
        ("try0/context", &context(&wrong)),
        ("try0/reasoner1", &next(r#"{"name": "search"}"#)),
    ]);
    for round in 2..=10 {
        let waits = r#"<json>{"answerable": {"verdict": true}, "final_answer": null}</json>"#;
        script =
            script.with(&format!("try0/reasoner{round}"), waits, paravt_suite::backend::FinishReason::Stop);
    }
    let (record, backend) = run(sage(), "videomme", script).await;
    let requests = backend.asked.lock().unwrap();
    assert_eq!(requests.len(), 11);
    let refused = "extract_parts_from_timestamp_#1 gave extract_parts_from_timestamp_#1 failed: Not for \
                   extract_parts_from_timestamp_#1: {'video_path': 'video_path: no no.mp4', 'extract_type': \"extract_type: 3 not of \
                   ['frames', 'subclips']\", 'timestamp_range': '00:20 after 00:10'} with {'video_path': 'no.mp4',";
    let (text, _) = asked(&requests[10].messages);
    assert!(text.contains(refused), "{text}");
    assert!(text.contains("None_#1 gave Nobody called;None gave Neither called nor answered;"), "{text}");
    assert_eq!(record.transcript.final_text, "None after 10");
    assert!(
        record.transcript.tool_calls.iter().all(|call| matches!(call.outcome, ToolOutcome::Malformed { .. }))
    );
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_begins_the_sample_again() {
    let script = Scripted::new(&[
        ("try0/context", "no object"),
        ("try1/context", &context(&call("perform_reasoning", r#""query": "What?", "media_paths": []"#))),
        ("try1/tool0", "Nothing."),
        ("try1/reasoner1", "<json>[1]</json>"),
        (
            "try2/context",
            "```json\n{\"final_answer\": \"B\", \"recommended_tools\": {\"needed\": false}}\n```",
        ),
    ]);
    let (record, backend) = run(sage(), "videomme", script).await;
    let temperatures: Vec<f64> =
        backend.asked.lock().unwrap().iter().map(|request| request.generation.temperature).collect();
    assert_eq!(temperatures, [0.0, 0.7, 0.0, 0.7, 0.7]);
    assert_eq!(record.transcript.final_text, "B");
    let unread: Vec<(String, &str)> = (0..5).map(|attempt| (format!("try{attempt}/context"), "no")).collect();
    let unread: Vec<(&str, &str)> = unread.iter().map(|(step, text)| (step.as_str(), *text)).collect();
    let (record, _) = run(sage(), "videomme", Scripted::new(&unread)).await;
    assert_eq!((record.transcript.calls.len(), record.transcript.final_text.as_str()), (5, ""));
    assert_eq!(record.own.unwrap().score.outcome, Outcome::Unparsed);
}
