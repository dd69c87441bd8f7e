//! Rollouts: the suite's agent samples answers, and every token of the main agent is kept with its
//! log-probability.
//!
//! Source: ParaVT `paravt/rl/workflow.py`.

mod figures;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::seed::Seed;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use paravt_media::{MediaError, VideoRequest};
use paravt_qwen_vl::engine::Engine;
use paravt_qwen_vl::prompt::Prompt;
use paravt_suite::agent::{Agent, Bound};
use paravt_suite::backend::{Backend, BackendError, BackendInfo, Completion, Request};
use paravt_suite::frames::{FrameSet, FrameSource};
use paravt_suite::message::{Message, Role};
use paravt_suite::plan::{Channel, CropMode, RunPlan};
use paravt_suite::profile::Profile;
use paravt_suite::protocol::Protocol;
use paravt_suite::record::{Record, RecordedPart};
use paravt_suite::sample::Sample;
use paravt_suite::settings::{RequestSettings, SamplingParams, ToolDialect};
use paravt_suite::videos::VideoStore;
use rand::Rng as _;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::example::Example;
use crate::reward::{QuestionType, Reward, RewardConfig, compose, format_reward};

pub use figures::RolloutFigures;

/// Opens the model's turns when the think prefix is forced.
const THINK: &str = "<think>\n";

/// Which reading of the recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Semantics {
    /// What the released code does: `fps: 1` switches the frame-budget gating off (frames at 1 per second,
    /// at most 64), and the scored completion holds neither the forced think prefix nor tool responses.
    Release,
    /// What the paper says: gating draws the budget, the think prefix belongs to the completion, and so do
    /// the results of its calls.
    Paper,
}

/// Knobs of rollouts; defaults are those of `paragrpo_8b.yaml` and `_base.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RolloutConfig {
    /// Which reading of the recipe.
    pub semantics: Semantics,
    pub group_size: usize,
    pub temperature: f64,
    /// Maximum tokens of one turn.
    pub max_new_tokens: u32,
    /// Turns in which tools may be called.
    pub max_turns: usize,
    /// Maximum calls run per turn; 0 for no maximum, as in the release.
    pub max_parallel: usize,
    /// Whether the assistant turn is prefilled with `<think>\n`.
    pub think_prefix: bool,
    /// Whether each prompt has a frame budget of its own, drawn from `frame_budgets`.
    pub frame_gating: bool,
    /// Budgets, in frames of the overview.
    pub frame_budgets: Vec<usize>,
    /// Overview frames without gating (`nframes`).
    pub nframes: usize,
    /// Tokens after which a sub-agent's summary is cut.
    pub tool_response_tokens: usize,
    /// Share of calls that fail whatever their window, as calls of the release do that run out of time or context.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_calls: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a field over by reference")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            semantics: Semantics::Release,
            group_size: 8,
            temperature: 0.7,
            max_new_tokens: 2048,
            max_turns: 3,
            max_parallel: 0,
            think_prefix: true,
            frame_gating: true,
            frame_budgets: vec![4, 8, 16, 32, 64],
            nframes: 32,
            tool_response_tokens: 512,
            failed_calls: 0.0,
        }
    }
}

impl RolloutConfig {
    /// Overview frames of a prompt about a video of so many seconds; all its rollouts have the same.
    fn budget(&self, duration: f64, seed: Seed) -> usize {
        match (self.frame_gating, self.semantics) {
            // `fps: 1` with at most 64 frames, an even number of them, whatever the gating says.
            (_, Semantics::Release) => (duration as usize).clamp(4, 64) / 2 * 2,
            (true, Semantics::Paper) => {
                let budgets = &self.frame_budgets;
                budgets[seed.child("frames").rng().random_range(0..budgets.len())]
            }
            (false, Semantics::Paper) => self.nframes,
        }
    }
}

/// A question to learn from.
#[derive(Debug, Clone, PartialEq)]
pub struct RlPrompt {
    /// As the agent puts it.
    pub sample: Sample,
    /// Gold answer for the reward.
    pub answer: String,
    pub question: QuestionType,
    /// Seconds of the video.
    pub duration: f64,
}

/// One finished rollout of the main agent.
#[derive(Debug, Clone)]
pub struct Trajectory {
    /// All its tokens; the generated ones are trained.
    pub example: Example,
    /// Log-probability of each generated token under the distribution it was drawn from.
    pub behaviour: Vec<f32>,
    pub reward: Reward,
    /// What the agent did.
    pub figures: RolloutFigures,
}

/// Everything that is the same for all rollouts of a run.
pub struct Roller {
    /// The model, sharing the trainer's weights.
    pub engine: Arc<Engine>,
    pub protocol: Arc<Protocol>,
    pub frames: Arc<dyn FrameSource>,
    pub config: RolloutConfig,
    pub reward: RewardConfig,
}

/// A recorded call of the main agent.
struct Turn {
    prompt: Prompt,
    ids: Vec<u32>,
    logprobs: Vec<f32>,
}

/// The engine as one rollout sees it.
struct Recorder {
    engine: Arc<Engine>,
    config: RolloutConfig,
    seed: Seed,
    turns: Mutex<Vec<Turn>>,
}

impl Recorder {
    fn turns(&self) -> MutexGuard<'_, Vec<Turn>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prompt and tokens of the turn before, which the release's conversation goes on from token by token.
    fn last_turn(&self) -> Option<(Prompt, Vec<u32>)> {
        self.turns().last().map(|turn| (turn.prompt.clone(), turn.ids.clone()))
    }

    async fn call(&self, request: &Request) -> std::result::Result<Completion, paravt_qwen_vl::Error> {
        let step = &request.id.step;
        let mut generation = request.generation.clone();
        generation.seed = Some(self.seed.child(step).number());
        // The distribution that the objective knows: the softmax at the temperature, nothing cut off and no
        // default of the model's folder.
        let stop = generation.sampling.stop;
        generation.sampling = SamplingParams { stop, ..SamplingParams::neutral() };
        if step.contains("/sub") {
            let prompt = self.engine.prepare(&request.messages).await?;
            let mut completion = self.engine.answer(prompt, generation).await?;
            let ids = completion.token_ids.as_deref().unwrap_or_default();
            if let Some(kept) =
                ids.get(..self.config.tool_response_tokens).filter(|kept| kept.len() < ids.len())
            {
                completion.text = format!("{} [truncated]", self.engine.prompter().decode(kept)?);
            }
            return Ok(completion);
        }
        generation.logprobs = true;
        // The forced answer has its own opening words.
        let forced = self.config.think_prefix && step != "force";
        let mut messages = request.messages.clone();
        if forced {
            messages.push(Message::text(Role::Assistant, THINK));
        }
        let prompt = match self.last_turn() {
            Some(before) => self.engine.prepare_after(before, &messages).await?,
            None => self.engine.prepare(&messages).await?,
        };
        let mut completion = self.engine.answer(prompt.clone(), generation).await?;
        let turn = Turn {
            prompt,
            ids: completion.token_ids.clone().unwrap_or_default(),
            logprobs: completion.logprobs.clone().unwrap_or_default(),
        };
        self.turns().push(turn);
        if forced {
            completion.text.insert_str(0, THINK);
        }
        Ok(completion)
    }
}

impl Backend for Recorder {
    fn describe(&self) -> BackendInfo {
        self.engine.describe()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
    ) -> BoxFuture<'a, std::result::Result<Completion, BackendError>> {
        self.call(request).map(|answer| answer.map_err(BackendError::from)).boxed()
    }
}

impl Roller {
    /// Rolls every prompt out `group_size` times, all at once: group after group.
    ///
    /// # Errors
    /// A rollout that failed; the message names its sample.
    pub async fn roll(&self, prompts: &[&RlPrompt], seed: Seed) -> Result<Vec<Vec<Trajectory>>> {
        let groups = prompts.iter().enumerate().map(|(number, prompt)| async move {
            let seed = seed.numbered(number as u64);
            let frames = self.config.budget(prompt.duration, seed);
            let samples = 0..self.config.group_size as u64;
            let rollouts = samples.map(|sample| self.one(prompt, frames, seed.numbered(sample)));
            join_all(rollouts).await.into_iter().collect::<Result<Vec<_>>>()
        });
        join_all(groups).await.into_iter().collect()
    }

    async fn one(&self, prompt: &RlPrompt, frames: usize, seed: Seed) -> Result<Trajectory> {
        let recorder = Arc::new(Recorder {
            engine: Arc::clone(&self.engine),
            config: self.config.clone(),
            seed,
            turns: Mutex::default(),
        });
        let profile = Profile::Strict;
        let Bound { protocol, reference } = paravt_agents::bind(Arc::clone(&self.protocol))?;
        let agent = Agent {
            backend: Arc::clone(&recorder) as Arc<dyn Backend>,
            protocol,
            protocol_hash: String::new(),
            reference,
            plan: RunPlan {
                rules: profile.into(),
                mode: self.protocol.default_mode.clone(),
                channel: Channel::Image,
                nframes: frames,
                max_turns: self.config.max_turns,
                max_parallel: self.config.max_parallel,
                crop: CropMode::Subagent,
                max_tokens: self.config.max_new_tokens,
                temperature: self.config.temperature,
                seed: None,
                dialect: ToolDialect::Text,
                request: RequestSettings::default(),
                probe: None,
                max_image_kb: None,
                own_positions: false,
                repeat: 1,
            },
            frames: self.frames_of(seed),
            code: None,
            videos: VideoStore::default(),
        };
        let record = agent.run(&prompt.sample).await;
        let failed =
            |message: &str| Error::Rollout { sample: prompt.sample.uid.clone(), message: message.to_owned() };
        if let Some(error) = &record.error {
            return Err(failed(&error.message));
        }
        let turns = std::mem::take(&mut *recorder.turns());
        let conversation = spoken(&record).collect::<Vec<_>>().join("\n");
        let mut figures = RolloutFigures::of(&record.transcript, frames);
        figures.compliance = format_reward(&conversation, &RewardConfig::vanilla());
        let completion = match self.config.semantics {
            Semantics::Release => self.generated(&turns)?,
            Semantics::Paper => conversation,
        };
        let reward = compose(&completion, &prompt.answer, prompt.question, &self.reward).unwrap_or_default();
        let (example, behaviour, retokenised) = assemble(turns).ok_or_else(|| failed("it has no turn"))?;
        figures.generated = behaviour.len() + retokenised;
        figures.retokenised = retokenised;
        Ok(Trajectory { example, behaviour, reward, figures })
    }

    /// Frames of a rollout.
    fn frames_of(&self, seed: Seed) -> Arc<dyn FrameSource> {
        let frames = Arc::clone(&self.frames);
        if self.config.failed_calls == 0.0 {
            return frames;
        }
        Arc::new(Failing { frames, share: self.config.failed_calls, seed: seed.child("failed calls") })
    }

    /// Text of the generated tokens, special ones too, as `tokenizer.decode` gives them.
    fn generated(&self, turns: &[Turn]) -> Result<String> {
        let ids: Vec<u32> = turns.iter().flat_map(|turn| &turn.ids).copied().collect();
        let text = self.engine.prompter().tokenizer().decode(&ids, false);
        text.map_err(|error| Error::Tokenizer(error.to_string()))
    }
}

/// Frames of which a share of the windows cannot be had.
struct Failing {
    frames: Arc<dyn FrameSource>,
    share: f64,
    seed: Seed,
}

impl FrameSource for Failing {
    fn frames(&self, path: &Path, request: &VideoRequest) -> std::result::Result<Arc<FrameSet>, MediaError> {
        // The overview has no window.
        let window = request.start.zip(request.end).map(|window| self.seed.child(&format!("{window:?}")));
        if window.is_some_and(|window| window.rng().random::<f64>() < self.share) {
            return Err(MediaError::Request("no answer in time".to_owned()));
        }
        self.frames.frames(path, request)
    }
}

/// Texts of a conversation from the model's first turn on.
fn spoken(record: &Record) -> impl Iterator<Item = &str> {
    let messages = record.transcript.messages.iter().skip_while(|message| message.role != Role::Assistant);
    messages.flat_map(|message| &message.parts).filter_map(|part| match part {
        RecordedPart::Text { text } => Some(text.as_str()),
        _ => None,
    })
}

/// The last prompt with all that was generated before it and after it. A turn whose text the template has changed in the
/// next prompt is read but not trained.
fn assemble(mut turns: Vec<Turn>) -> Option<(Example, Vec<f32>, usize)> {
    let last = turns.pop()?;
    let mut prompt = last.prompt;
    let (mut trained, mut behaviour, mut lost) = (vec![false; prompt.ids.len()], Vec::new(), 0);
    for turn in &turns {
        let (start, end) = (turn.prompt.ids.len(), turn.prompt.ids.len() + turn.ids.len());
        let same = prompt.ids.starts_with(&turn.prompt.ids) && prompt.ids.get(start..end) == Some(&turn.ids);
        if same {
            trained[start..end].fill(true);
            behaviour.extend_from_slice(&turn.logprobs);
        } else {
            lost += turn.ids.len();
        }
    }
    for (number, &id) in last.ids.iter().enumerate() {
        prompt.ids.push(id);
        prompt.positions.push([prompt.next_position + number as u32; 3]);
        trained.push(true);
    }
    behaviour.extend(last.logprobs);
    Some((Example::of_prompt(prompt, trained), behaviour, lost))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn turn(prompt: &[u32], ids: &[u32]) -> Turn {
        let prompt = Prompt::of_ids(prompt.to_vec());
        Turn { prompt, ids: ids.to_vec(), logprobs: ids.iter().map(|id| -(*id as f32)).collect() }
    }

    #[test]
    fn the_release_takes_one_frame_a_second_whatever_the_gating_says() {
        let config =
            |semantics, frame_gating| RolloutConfig { semantics, frame_gating, ..Default::default() };
        let of = |config: RolloutConfig, duration| -> BTreeSet<usize> {
            (0..200).map(|prompt| config.budget(duration, Seed::new("test", 1).numbered(prompt))).collect()
        };
        for gating in [false, true] {
            let release = |duration| of(config(Semantics::Release, gating), duration);
            assert_eq!([release(21.9), release(2.0), release(600.0)], [[20].into(), [4].into(), [64].into()]);
        }
        assert_eq!(of(config(Semantics::Paper, true), 21.9), [4, 8, 16, 32, 64].into());
        assert_eq!(of(config(Semantics::Paper, false), 21.9), [32].into());
    }

    #[test]
    fn a_rollout_is_one_sequence_whose_generated_tokens_are_trained() {
        let turns = vec![turn(&[1, 2], &[3, 4]), turn(&[1, 2, 3, 4, 8, 9], &[5])];
        let (example, behaviour, lost) = assemble(turns).unwrap();
        assert_eq!(example.ids, [1, 2, 3, 4, 8, 9, 5]);
        assert_eq!(example.trained, [false, false, true, true, false, false, true]);
        assert_eq!((behaviour, lost), (vec![-3.0, -4.0, -5.0], 0));
        assert_eq!(example.positions[6], [6; 3]);
    }

    #[test]
    fn a_turn_that_the_template_changes_later_is_read_and_not_trained() {
        let turns = vec![turn(&[1, 2], &[3, 4]), turn(&[1, 2, 7, 8, 9], &[5, 6])];
        let (example, behaviour, lost) = assemble(turns).unwrap();
        assert_eq!(example.trained, [false, false, false, false, false, true, true]);
        assert_eq!((behaviour, lost), (vec![-5.0, -6.0], 2));
    }
}
