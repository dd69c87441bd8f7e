//! Video-o3 (ZZQ987/Video-o3-Qwen3VL a6e0973, a fork of MCG-NJU/Video-o3): the whole video, then a [clip](clips) of it for
//! each call, and an answer that is asked for after the eighth. Of its two models the one on Qwen2.5-VL;
//! [`qwen3vl`] has what differs in the other.
//!
//! Sources below `Eval/vlmeval`: `vlm/video_o3/model.py` (answer), `dataset/utils` (scores). The release gives this model
//! no positions of the frames: transformers then takes two for a second in every video. Its chat template is not the
//! model's; a server takes it with each request, but gives it a plain text as a list of one part, which the template
//! would write in another way than the text that it is in the release. A line that is put into the template makes it a
//! text again.

pub mod clips;
pub mod qwen3vl;
mod sizes;

use std::collections::BTreeMap;
use std::sync::Arc;

use paravt_python::strip;
use paravt_suite::agent::turns::{FrameSetup, message};
use paravt_suite::agent::{
    Ask, Conversation, Kit, Loop, NoFrames, Reference, Shown, SpecialFields, protocol_error, scored as texts,
};
use paravt_suite::frames::Pick;
use paravt_suite::media::VideoFacts;
use paravt_suite::message::{Message, Part, Role};
use paravt_suite::protocol::render::{self, RenderError};
use paravt_suite::protocol::{
    AgentLoop, CallError, Clips, Encoding, Fidelity, Filter, FrameLoop, FramePolicy, Harness, OptionForm,
    Overview, Protocol, Sampling, Scored, SentAs, SizeRule, Source, Template, Tool,
};
use paravt_suite::record::{SampleError, Score, ToolOutcome, Transcript};
use paravt_suite::reference::{Call, FrameChoice, Tag, ToolSyntax};
use paravt_suite::sample::{Gold, Sample};
use paravt_suite::scoring::Scorer;
use paravt_suite::settings::SamplingParams;
use paravt_suite::span::TimeSpan;
use paravt_suite::text::fixed1;
use paravt_upstream::import::parts::{Parts, protocol};
use paravt_upstream::import::{ImportError, Pinned, Release, Text, Texts};
use serde_json::{Value, json};

use sizes::{Sizes, call_sizes, first_sizes};

use crate::agent::{Agent, choice};
use clips::{Grounding, Sampled, clip, grounding, overview};

/// Video-o3: its rules and its texts.
pub(crate) const AGENT: Agent = Agent {
    reference: Some(Reference::of(QWEN25VL.name, &VideoO3)),
    releases: &[&RELEASE, &qwen3vl::RELEASE],
};

const MODEL: &str = "Eval/vlmeval/vlm/video_o3/model.py";
const PROMPTS: &str = "Eval/vlmeval/vlm/video_o3/prompt.py";

/// What differs between the models of the release.
struct Model {
    name: &'static str,
    /// Pixels along a side of a visual token.
    side: u32,
    /// The model's processor is given the frames' positions, and told to resize none.
    is_given_positions: bool,
}

const QWEN25VL: Model = Model { name: "video-o3", side: 28, is_given_positions: false };

/// The release: its texts, and the files whose rules are repeated here.
pub static RELEASE: Release = Release {
    name: QWEN25VL.name,
    repository: "ZZQ987/Video-o3-Qwen3VL",
    commit: "a6e0973c6e5c8a8478c9ea7aa05304dfa247b2ea",
    files: &files(Pinned::new(
        "Eval/vlmeval/vlm/video_o3/vision_process.py",
        "4c3dc1713e5e74b5d2fd20e0cab72495831c90d46ae97a1ee0b60bd5a76c50b3",
    )),
    texts: &[
        Text::python("system", MODEL, 8623..9979),
        Text::python("chat_template", MODEL, 6429..8591),
        Text::python("clip", MODEL, 13021..13563),
        Text::python("clip.last", MODEL, 13882..14542),
        Text::python("error", MODEL, 13595..13854),
        Text::python("error.last", MODEL, 14656..15165),
        Text::python("opening", PROMPTS, 1446..1645),
        Text::python("videomme", PROMPTS, 1682..2153),
        Text::python("question", PROMPTS, 2198..2650),
    ],
    make: |texts, source| make(texts, source, &QWEN25VL),
};

/// The files of a model, whose videos are read by `reader`.
const fn files(reader: Pinned) -> [Pinned; 9] {
    [
        Pinned::new(MODEL, "b9a683d65cedc51a0dbb753d4ced93be77c9576014c1bb84011fd635c4822697"),
        Pinned::new(PROMPTS, "4cc0f698cba8a59f601d35cdc3996bd5113c226172ea7f0a8212155bcc4916fe"),
        reader,
        Pinned::new(
            "Eval/vlmeval/config.py",
            "32019a0ee6bb93d366b296ec68ab363a43028d976dc2a4e27a3392f37522af4a",
        ),
        Pinned::new(
            "Eval/vlmeval/dataset/videomme.py",
            "5e3dfa7e8f29b73661c40720d977cd60bd7725e4bd9aea151316fb5211dec1e8",
        ),
        Pinned::new(
            "Eval/vlmeval/dataset/lvbench.py",
            "69ee7cc3a007c9dc7c31385acb44c334ce573cc5361adb1dcac8cc9ac2eff3a1",
        ),
        Pinned::new(
            "Eval/vlmeval/dataset/longvideobench.py",
            "d4c6e3fa71550acbce884ce51dbf7af700d657eacd3f1379657ee20c5f5dc211",
        ),
        Pinned::new(
            "Eval/vlmeval/dataset/mlvu.py",
            "eb81319fcaa0a3d284f795af5b5e864f6f5c7798d8371c4d4bb23fe9fed131b8",
        ),
        Pinned::new(
            "Eval/vlmeval/dataset/video_dataset_config.py",
            "ff1d034023405654bcc18077e066184a51db71b08cdae52981260011c32fcf82",
        ),
    ]
}

struct VideoO3;

impl ToolSyntax for VideoO3 {
    fn tags(&self) -> &'static [Tag] {
        &[("<grounding>", "</grounding>")]
    }

    /// The call of a reply without an answer.
    fn calls(&self, text: &str, _tool: &Tool) -> Vec<Call> {
        if answer(text).is_some() || !text.contains("<grounding>") || !text.contains("</grounding>") {
            return Vec::new();
        }
        vec![match grounding(text) {
            Ok(Grounding { start, end, strategy }) => Call {
                value: json!({"temporal_segment": [start, end], "sampling_strategy": strategy}),
                window: Ok(TimeSpan { start, end }),
            },
            Err(reason) => Call { value: Value::Null, window: Err(CallError::Unreadable { reason }) },
        }]
    }

    /// An answer ends a reply as a call does.
    fn has_unclosed_call(&self, text: &str) -> bool {
        let opened = [("<grounding>", "</grounding>"), ("<answer>", "</answer>")];
        let opened = opened.into_iter().filter_map(|(open, close)| Some((text.rfind(open)?, close)));
        opened.max().is_some_and(|(at, close)| !text[at..].contains(close))
    }
}

impl Loop for VideoO3 {
    /// The whole video, then a clip of it for the call of each reply; the last result asks for the answer.
    fn run<'a>(&'a self, kit: &'a mut Kit<'_>) -> Conversation<'a> {
        Box::pin(async move {
            let FrameSetup { frame_loop, policy, system, video } = kit.set_up_frames().await?;
            let Some(clips) = &frame_loop.clips else {
                return Err(protocol_error("open", &"the protocol has no `agent.clips`"));
            };
            let (frames, slots) = first_video(kit, clips, &policy, &video).await?;
            kit.open(system, (Some(&video), &slots), frames)?;
            let template: Arc<str> = clips.chat_template.as_str().into();
            for turn in 0.. {
                let ask = Ask { chat_template: Some(Arc::clone(&template)), ..kit.turn() };
                let reply = kit.ask(ask).await?;
                if !kit.offers_tool() {
                    return kit.continue_answer(reply).await;
                }
                let call = kit.calls(&reply).into_iter().next();
                let Some(call) = call.filter(|_| !frame_loop.is_last(turn)) else { return Ok(reply.text) };
                answer_call(kit, (frame_loop, clips, &policy), turn + 1, &call, &reply.text).await?;
            }
            unreachable!("the last turn ends the conversation")
        })
    }

    /// The reply of the last turn has no answer without all of its marks.
    fn scored_text(&self, agent_loop: &AgentLoop, transcript: &Transcript) -> String {
        let is_last = transcript.calls.len() >= agent_loop.turns();
        let is_answered = |clips: &Clips| clips.is_answered(&transcript.final_text);
        match agent_loop.clips() {
            Some(clips) if is_last && agent_loop.scored == Scored::Last && !is_answered(clips) => {
                String::new()
            }
            _ => texts::text(agent_loop.scored, transcript),
        }
    }

    fn fields(&self) -> SpecialFields {
        SpecialFields { needed: &["clips"], allowed: &["frames.overview", "clips"] }
    }
}

/// The video of the first message, and the values of its slots.
async fn first_video(
    kit: &mut Kit<'_>,
    clips: &Clips,
    policy: &FramePolicy,
    video: &VideoFacts,
) -> Result<(Vec<Part>, Vec<Slot>), SampleError> {
    let Some(wanted) = policy.overview else { return Ok((Vec::new(), Vec::new())) };
    let clip = Clip::of(overview(video.frames, video.rate, wanted.fps.unwrap_or(2.0), wanted.frames), video);
    if clip.indices.is_empty() {
        let message = format!("{} frames are too few for an overview", video.frames);
        return Err(kit.frame_loss(NoFrames { message, timed_out: false }));
    }
    let whole = (video.width, video.height);
    let sizes = first_sizes(clips, &kit.sample.task, policy.size, whole, clip.indices.len());
    let shown = match sizes {
        Ok(sizes) => clip.decode(kit, policy, sizes).await,
        Err(message) => Err(NoFrames { message, timed_out: false }),
    };
    let shown = shown.map_err(|lost| kit.frame_loss(lost))?;
    let frames = kit.frame_parts(policy, &shown, Some(clips.fps));
    Ok((frames.map_err(|error| protocol_error("open", &error))?, clip.slots))
}

/// Runs the call of a reply and appends both reply and result; `turn` counts the calls from 1. A call that can be read and
/// shows nothing has its reply in the conversation twice, as the release has it.
async fn answer_call(
    kit: &mut Kit<'_>,
    (frame_loop, clips, policy): (&FrameLoop, &Clips, &FramePolicy),
    turn: usize,
    call: &Call,
    reply: &str,
) -> Result<(), SampleError> {
    let broken = |error: RenderError| protocol_error("tool", &error);
    let (protocol, is_last) = (kit.protocol(), frame_loop.is_last(turn));
    let TimeSpan { start, end } = call.span();
    let template = if is_last { &clips.last_error } else { &protocol.crop_error };
    let error = |reason: &str| {
        let text = render::crop_error_by(template, start, end, reason).map_err(broken)?;
        Ok::<_, SampleError>(vec![Part::Text(text)])
    };
    let said = Message::text(Role::Assistant, reply);
    kit.messages.push(said.clone());
    let (parts, outcome) = if let Err(error_of_call) = &call.window {
        let reason = render::call_reason(protocol, error_of_call).map_err(broken)?;
        (error(&reason)?, ToolOutcome::Malformed { reason })
    } else {
        match clip_of_call(kit, clips, policy, call).await {
            Ok((shown, slots)) => {
                let template = if is_last { &clips.last_response } else { &protocol.crop_response };
                let rate = Some(clips.fps).filter(|_| !clips.own_positions);
                let video = kit.frame_parts(policy, &shown, rate).map_err(broken)?;
                let parts = render::clip_response(template, turn, (start, end), &slots, video);
                let frames = shown.iter().filter_map(|(image, _)| image.origin).collect();
                (parts.map_err(broken)?, ToolOutcome::Frames { frames })
            }
            Err(reason) => {
                kit.messages.push(said);
                (error(&reason)?, ToolOutcome::CropFailed { reason })
            }
        }
    };
    kit.messages.push(message(frame_loop.result_role.into(), parts));
    kit.note_tool_call(0, call, outcome);
    Ok(())
}

/// The frames of a call and the values of slots around them, or the words about it.
async fn clip_of_call(
    kit: &mut Kit<'_>,
    clips: &Clips,
    policy: &FramePolicy,
    call: &Call,
) -> Result<(Vec<Shown>, Vec<Slot>), String> {
    let video = kit.facts().await.map_err(|lost| kit.note_loss(lost))?;
    let TimeSpan { start, end } = call.span();
    let sampling = call.value["sampling_strategy"].as_str().unwrap_or_default();
    // What Python says of a dictionary without the key, which other samplings leave out.
    let total = clips.totals.get(sampling).copied().ok_or("'total_pixels'")?;
    let clip = Clip::of(clip(start, end, video.frames, video.rate)?, &video);
    let sizes = call_sizes(policy.size, total, (video.width, video.height), clip.indices.len())?;
    let shown = clip.decode(kit, policy, sizes).await.map_err(|lost| kit.note_loss(lost))?;
    Ok((shown, clip.slots))
}

/// A slot of the text around a video, and its value.
type Slot = (&'static str, String);

/// Frames of a video, an even number of them: the last one twice where it is odd.
struct Clip {
    indices: Vec<usize>,
    rate: f64,
    slots: Vec<Slot>,
}

impl Clip {
    fn of(sampled: Sampled, video: &VideoFacts) -> Self {
        let Sampled { mut indices, fps } = sampled;
        let slots = vec![
            ("fps", format!("{fps:.2}")),
            ("count", fixed1(indices.len() as f64)),
            ("duration", fixed1(video.frames as f64 / video.rate)),
            ("file_duration", fixed1(video.file_duration)),
        ];
        if indices.len() % 2 == 1 {
            indices.extend(indices.last().copied());
        }
        Self { indices, rate: video.rate, slots }
    }

    async fn decode(
        &self,
        kit: &mut Kit<'_>,
        policy: &FramePolicy,
        (size, stored): Sizes,
    ) -> Result<Vec<Shown>, NoFrames> {
        let FrameChoice { indices, times, .. } = FrameChoice::at(self.indices.clone(), self.rate);
        let (filter, encoding) = (policy.filter, policy.encoding);
        kit.pick(Pick { indices, stored, size, filter, encoding }, times).await
    }
}

impl Scorer for VideoO3 {
    fn score(&self, gold: &Gold, _letters: &str, text: &str) -> Score {
        scored("videomme", gold, text)
    }

    fn score_sample(&self, sample: &Sample, text: &str) -> Score {
        scored(&sample.task, &sample.gold, text)
    }
}

/// The answer of a reply: what stands between its first `<answer>` and its first `</answer>`. `Some(None)` where both
/// are there in the wrong order, for which the release asks the model again with nothing new.
pub fn answer(reply: &str) -> Option<Option<&str>> {
    let (start, end) = (reply.find("<answer>")? + "<answer>".len(), reply.find("</answer>")?);
    Some((start <= end).then(|| strip(&reply[start..end])))
}

/// The option that a benchmark's evaluation reads in an answer; empty where it finds none. What VLMEvalKit then guesses
/// from the texts of the options is not repeated.
pub fn option(split: &str, answer: &str) -> String {
    let letter = |letters: &str| {
        // Of the words that are taken out first, these alone have a letter of an option.
        let text = answer.replace("Best answer:Best option:", "").replace("Answer:", "");
        text.chars().find(|c| letters.contains(*c)).map(String::from).unwrap_or_default()
    };
    match split {
        "longvideobench" => letter("ABCDE"),
        "lvbench" => polished(answer),
        "mlvu" => match answer.split_once(')') {
            Some((before, _)) => before.chars().last().map(String::from).unwrap_or_default(),
            None => answer.to_owned(),
        },
        _ => letter("ABCD"),
    }
}

/// `_polish_answer`.
fn polished(answer: &str) -> String {
    let text = strip(strip(answer).split(')').next().unwrap_or_default());
    let text = text.split('(').nth(1).map_or(text, strip);
    let word = strip(text.split(' ').next().unwrap_or_default());
    word.chars().next().map(|c| c.to_uppercase().collect()).unwrap_or_default()
}

fn scored(split: &str, gold: &Gold, text: &str) -> Score {
    let found = option(split, answer(text).flatten().unwrap_or(text));
    choice(gold, Some(found), |found, gold| found == gold)
}

/// A text of `str.format` with other names for its values.
fn named(texts: &Texts, name: &str, text: &str) -> Result<Template, ImportError> {
    let names = [
        ("{sample_fps:.2f}", "{fps}"),
        ("{total_frames:.1f}", "{count}"),
        ("{max_duration:.1f}", "{duration}"),
        ("{start_time:.1f}", "{start}"),
        ("{end_time:.1f}", "{end}"),
        ("{action_turn}", "{turn}"),
        ("{observation_turn}", "{turn}"),
        ("{error_info}", "{reason}"),
    ];
    let text = names.iter().fold(text.to_owned(), |text, (theirs, ours)| text.replace(theirs, ours));
    texts.format(name, &text)
}

/// The release's template with a line that makes a list of one text a text.
fn chat_template(texts: &Texts) -> Result<String, ImportError> {
    const LOOP: &str = "{% for message in messages %}\n";
    const PLAIN: &str = "    {% set message = {'role': message['role'], 'content': message['content'][0]['text']} if \
                         message['content'] is not string and message['content'] | length == 1 and \
                         message['content'][0]['type'] == 'text' else message %}\n";
    let text = texts.text("chat_template")?;
    match text.matches(LOOP).count() {
        1 => Ok(text.replace(LOOP, &format!("{LOOP}{PLAIN}"))),
        _ => Err(texts.error("chat_template", format!("not one `{}`", LOOP.trim_end()))),
    }
}

fn make(texts: &Texts, source: Source, model: &Model) -> Result<Protocol, ImportError> {
    let said = |name: &str| named(texts, name, &texts.text(name)?);
    let clip = |text: Template| Template(text.0.into_iter().chain(Template::parse("{frames}").0).collect());
    let opening = |duration: &str| -> Result<Template, ImportError> {
        let text = texts.text("opening")?.replace("{max_duration:.1f}", duration);
        named(texts, "opening", &(text + "{question}"))
    };
    // A question with its options, for the template that has no place for these.
    let within = |inner: &str| -> Result<Template, ImportError> {
        let text = texts.text("question")?.replace("{question}", inner);
        named(texts, "question", &text)
    };
    let questions = [
        ("videomme", said("videomme")?),
        ("longvideobench", within("{question}\n{options}")?),
        ("mlvu", within("Question: {question}\nOptions:\n{options}")?),
        ("lvbench", within("{question}")?),
    ];
    let token = model.side * model.side;
    let size = |fewest: u32, token: u32| SizeRule::Qwen {
        side: model.side,
        min: u64::from(fewest * token),
        max: Some(u64::from(768 * token)),
        total: Some(16_384 * token),
    };
    // The data set LVBench counts in tokens of Qwen2.5-VL, whichever model is asked.
    let of_data = QWEN25VL.side * QWEN25VL.side;
    let counts_alike = token == of_data;
    let clips = Clips {
        fps: 2.0,
        own_positions: model.is_given_positions,
        stored: Some(75),
        least: if counts_alike {
            BTreeMap::from([("lvbench".to_owned(), u64::from(128 * token))])
        } else {
            BTreeMap::new()
        },
        sizes: if counts_alike {
            BTreeMap::new()
        } else {
            BTreeMap::from([("lvbench".to_owned(), size(128, of_data))])
        },
        totals: [("coarse", 2048), ("medium", 4096), ("fine", 6144)]
            .map(|(sampling, tokens)| (sampling.to_owned(), tokens * token))
            .into(),
        marks: vec!["<answer>".to_owned(), "</answer>".to_owned()],
        last_response: clip(said("clip.last")?),
        last_error: said("error.last")?,
        chat_template: chat_template(texts)?,
    };
    let policy = FramePolicy {
        overview: Some(Overview { frames: 768, fps: Some(2.0), at_least: None }),
        sent_as: SentAs::Video,
        keep_size: model.is_given_positions,
        ..FramePolicy::new(size(20, token), Filter::Bicubic, Encoding::Png)
    };
    let frames = FrameLoop { clips: Some(clips), ..FrameLoop::new(9, policy) };
    let agent = AgentLoop {
        opening: opening("{duration}")?,
        harness: Harness {
            openings: BTreeMap::from([("lvbench".to_owned(), opening("{file_duration}")?)]),
            ..Harness::default()
        },
        sampling: Sampling {
            temperature: 0.0,
            params: SamplingParams {
                stop: vec!["</grounding>".to_owned(), "</answer>".to_owned()],
                repetition_penalty: Some(1.0),
                ..SamplingParams::default()
            },
        },
        ..AgentLoop::new(Fidelity::Exact, frames)
    };
    let bracketed = OptionForm {
        line: Template::parse("({letter}) {option}"),
        separator: "\n".to_owned(),
        line_break: None,
    };
    let error = said("error")?;
    Ok(Protocol {
        reference: Some(QWEN25VL.name.to_owned()),
        option_forms: BTreeMap::from([("mlvu".to_owned(), bracketed)]),
        crop_response: clip(said("clip")?),
        call_error: error.clone(),
        crop_error: error,
        ..protocol(Parts {
            name: model.name,
            source,
            system: texts.text("system")?,
            tool: ("grounding", 768),
            questions: questions.map(|(split, template)| (split.to_owned(), template)).into(),
            agent,
            max_tokens: 4096,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        assert_eq!(answer("<answer> B </answer>"), Some(Some("B")));
        assert_eq!(answer("</answer><answer>"), Some(None));
        assert_eq!(answer("<answer>B"), None);
    }

    #[test]
    fn options_are_those_of_each_benchmark() {
        for (split, answer, found) in [
            ("videomme", "Answer: B", "B"),
            ("videomme", "E", ""),
            ("longvideobench", "so E", "E"),
            ("lvbench", "(c) a dog", "C"),
            ("lvbench", "B. a dog", "B"),
            ("lvbench", " ", ""),
            ("mlvu", "(D) x", "D"),
            ("mlvu", "D", "D"),
        ] {
            assert_eq!(option(split, answer), found, "{split}: {answer}");
        }
    }
}
