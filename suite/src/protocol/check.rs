//! Validation of protocol files beyond their types.

use super::{
    Clips, CodeLoop, Encoding, FrameLoop, FramePolicy, ImageClues, Protocol, SentAs, Shape, SizeRule,
    Template,
};

/// A protocol that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidProtocol {
    pub field: String,
    /// The fault, and what is expected.
    pub problem: String,
}

fn invalid(field: impl Into<String>, problem: impl Into<String>) -> InvalidProtocol {
    InvalidProtocol { field: field.into(), problem: problem.into() }
}

/// Slots of a question.
const QUESTION: [&str; 6] =
    ["question", "caption", "options", "instruction", "subtitles_block", "duration_note"];

/// Slots of a sub-agent's prompt.
const SUBAGENT_PROMPT: [&str; 7] = ["question", "start", "end", "n", "start_clock", "end_clock", "duration"];

/// Slots of the label of a frame.
const LABEL: [&str; 6] = ["time", "time2", "hms", "mmss", "index", "frame"];

/// Slots of an agent's first message.
const OPENING: [&str; 5] = ["frames", "question", "stripped", "seconds", "side"];

/// More of them where each call shows a video.
const CLIPS_OPENING: [&str; 9] =
    ["frames", "question", "stripped", "seconds", "side", "fps", "count", "duration", "file_duration"];

/// Slots of a result with a video.
const CLIP: [&str; 6] = ["turn", "start", "end", "fps", "count", "frames"];

/// The same where the agent writes code over the video.
const CODE_OPENING: [&str; 5] = ["question", "video_info", "width", "height", "frames"];

impl Protocol {
    /// Checks what the types do not: every name of a mode is one of [`Protocol::system`], every template can be
    /// filled, the tool can be called.
    pub fn check(&self) -> Result<(), InvalidProtocol> {
        if self.name.is_empty() {
            return Err(invalid("name", "expected a name, found an empty text"));
        }
        if self.max_tokens == 0 || self.force.values().any(|force| force.max_tokens == 0) {
            return Err(invalid("max_tokens", "expected a positive number, found 0"));
        }
        if self.images && (self.agent.is_some() || !self.tool.modes.is_empty()) {
            let problem =
                "tools and loops of agents are over videos; code over images has `agent.code.clues`";
            return Err(invalid("images", problem));
        }
        self.check_modes()?;
        self.check_tool()?;
        self.check_agent()?;
        self.check_slots()
    }

    fn check_agent(&self) -> Result<(), InvalidProtocol> {
        let Some(agent_loop) = &self.agent else { return Ok(()) };
        let positive = |field: &str, is: bool| match is {
            true => Ok(()),
            false => Err(invalid(field, "expected a positive number, found 0 or less")),
        };
        positive("agent.turns", agent_loop.turns() > 0)?;
        positive("agent.harness.max_tokens", agent_loop.harness.max_tokens.values().all(|limit| *limit > 0))?;
        for (kind, continued) in &agent_loop.continued {
            positive(&format!("agent.continued.{kind}.max_tokens"), continued.max_tokens > 0)?;
        }
        match &agent_loop.shape {
            Shape::OneTurn => {}
            Shape::Frames(frames) => self.check_frames(frames, &positive)?,
            Shape::Code(code) => {
                let rules = &code.rules;
                positive("agent.code.seconds", rules.seconds > 0)?;
                positive("agent.code.images", rules.images > 0)?;
                rules.clues.as_ref().map_or(Ok(()), check_clues)?;
                positive("agent.code.context_tokens", rules.context_tokens > 0)?;
            }
        }
        match self.reference {
            Some(_) => Ok(()),
            None => Err(invalid("reference", "missing: it names the rules of the agent's loop")),
        }
    }

    fn check_frames(
        &self,
        frames: &FrameLoop,
        positive: &impl Fn(&str, bool) -> Result<(), InvalidProtocol>,
    ) -> Result<(), InvalidProtocol> {
        let policy = &frames.policy;
        if let Some(overview) = policy.overview {
            positive("agent.frames.overview.frames", overview.frames > 0)?;
            positive("agent.frames.overview.fps", overview.fps.is_none_or(|fps| fps > 0.0))?;
            if overview.at_least.is_some_and(|least| least > overview.frames) {
                let problem = format!("expected at most `frames`, {}", overview.frames);
                return Err(invalid("agent.frames.overview.at_least", problem));
            }
        }
        positive("agent.tries.count", frames.tries.count > 0)?;
        if let Some(long) = policy.long {
            positive("agent.frames.long.seconds", long.seconds > 0.0)?;
            positive("agent.frames.long.frames", long.frames > 0)?;
        }
        let as_video = policy.sent_as == SentAs::Video;
        if as_video && self.frame_label.is_some() {
            return Err(invalid(
                "frame_label",
                "frames that are sent as a video have no labels; leave it out",
            ));
        }
        if as_video && frames.turns > 1 && frames.clips.is_none() {
            let problem = "calls would add videos to the request, and nothing says which positions theirs have: write \
                           `images`, or `agent.clips`";
            return Err(invalid("agent.frames.sent_as", problem));
        }
        if !as_video && policy.keep_size {
            return Err(invalid("agent.frames.keep_size", "expected with `sent_as = \"video\"` alone"));
        }
        if let Encoding::Jpeg(quality) = policy.encoding
            && !(1..=100).contains(&quality)
        {
            let problem = format!("expected a quality from 1 to 100, found {quality}");
            return Err(invalid("agent.frames.encoding.jpeg", problem));
        }
        frames.clips.as_ref().map_or(Ok(()), |clips| check_clips(clips, policy))
    }

    fn check_modes(&self) -> Result<(), InvalidProtocol> {
        let chat = self.chat_tools.iter().flat_map(|chat| chat.system.keys());
        let used = std::iter::once(("default_mode", &self.default_mode))
            .chain(self.tool.modes.iter().map(|mode| ("tool.modes", mode)))
            .chain(self.tool.served.iter().map(|mode| ("tool.served", mode)))
            .chain(self.instructions.modes.keys().map(|mode| ("instructions", mode)))
            .chain(self.instructions.always.iter().map(|mode| ("instructions.always", mode)))
            .chain(chat.map(|mode| ("chat_tools.system", mode)));
        for (field, mode) in used {
            self.system_text(mode).map_err(|unknown| invalid(field, unknown.to_string()))?;
        }
        Ok(())
    }

    fn check_tool(&self) -> Result<(), InvalidProtocol> {
        let tool = &self.tool;
        let said = [&self.crop_response, &self.crop_error, &self.call_error];
        if self.agent.is_none() && !tool.modes.is_empty() && said.iter().any(|text| text.0.is_empty()) {
            let problem =
                "`crop_response`, `crop_error` and `call_error` answer its calls: one of them is missing";
            return Err(invalid("tool.modes", problem));
        }
        if self.agent.is_some() && !tool.served.is_empty() {
            return Err(invalid("tool.served", "an agent's own loop runs its calls itself"));
        }
        if let Some(mode) = tool.served.intersection(&tool.modes).next() {
            let problem =
                format!("mode {mode} is in tool.modes, too: either the server runs its calls or the suite");
            return Err(invalid("tool.served", problem));
        }
        let empty = |names: &[String]| names.is_empty() || names.iter().any(String::is_empty);
        for (field, is_empty) in [
            ("tool.name", tool.name.is_empty()),
            ("tool.start", empty(&tool.start)),
            ("tool.end", empty(&tool.end)),
        ] {
            if is_empty {
                return Err(invalid(field, "expected a name, found an empty value"));
            }
        }
        if !(tool.default_seconds > 0.0 && tool.default_seconds.is_finite()) {
            return Err(invalid(
                "tool.default_seconds",
                format!("expected a positive number, found {}", tool.default_seconds),
            ));
        }
        if tool.max_frames == 0 {
            return Err(invalid("tool.max_frames", "expected a positive number, found 0"));
        }
        let Some(chat) = &self.chat_tools else { return Ok(()) };
        let function = &chat.definition["function"];
        if function["name"] != tool.name.as_str() {
            let found = &function["name"];
            let problem = format!("expected the tool's name \"{}\", found {found}", tool.name);
            return Err(invalid("chat_tools.definition.function.name", problem));
        }
        let properties = &function["parameters"]["properties"];
        for (field, names) in [("tool.start", &tool.start), ("tool.end", &tool.end)] {
            if !names.iter().any(|name| properties.get(name).is_some()) {
                let problem = format!(
                    "chat_tools.definition has no parameter of that name ({}); name one that it has",
                    names.join(", ")
                );
                return Err(invalid(field, problem));
            }
        }
        Ok(())
    }

    fn check_slots(&self) -> Result<(), InvalidProtocol> {
        let response: &[&str] = match &self.agent {
            Some(agent_loop) if agent_loop.clips().is_some() => &CLIP,
            Some(_) => &["n", "start", "end", "frames", "prompt"],
            None => &["n", "start", "end"],
        };
        for (split, template) in &self.questions {
            let field = format!("questions.{split}");
            slots(&field, template, &QUESTION)?;
            if template.has_slot("duration_note") && self.duration_note.is_none() {
                return Err(invalid(field, "its slot `{duration_note}` needs the text `duration_note`"));
            }
        }
        if let Some(agent_loop) = &self.agent {
            // Length and size are known where frames are chosen one by one.
            let known = match &agent_loop.shape {
                Shape::Code(_) => &CODE_OPENING[..],
                Shape::Frames(frames) if frames.clips.is_some() => &CLIPS_OPENING[..],
                Shape::Frames(_) => &OPENING[..],
                Shape::OneTurn => &OPENING[..3],
            };
            slots("agent.opening", &agent_loop.opening, known)?;
            if let Some(frames) = agent_loop.frames() {
                for (split, text) in frames.round.iter().chain(&frames.last) {
                    slots(&format!("agent.round/last.{split}"), text, &QUESTION)?;
                }
                frames.tries.system.iter().try_for_each(|text| slots("agent.tries.system", text, &["n"]))?;
            }
            for (split, opening) in &agent_loop.harness.openings {
                slots(&format!("agent.harness.openings.{split}"), opening, known)?;
            }
            if let Some(note) = &agent_loop.harness.note {
                slots("agent.harness.note", note, &["video_name"])?;
            }
        }
        if let Some((_, CodeLoop { rules, .. })) = self.code() {
            let texts = &rules.texts;
            slots("agent.code.texts.video", &texts.video, &["width", "height", "frames", "fps"])?;
            slots("agent.code.texts.result", &texts.result, &["stdout", "figures"])?;
            texts
                .printed
                .as_ref()
                .map_or(Ok(()), |text| slots("agent.code.texts.printed", text, &["stdout"]))?;
            slots("agent.code.texts.figure", &texts.figure, &["index", "figure"])?;
            slots("agent.code.texts.error", &texts.error, &["reason"])?;
            slots("agent.code.texts.raised", &texts.raised, &["reason"])?;
        }
        for (split, form) in &self.option_forms {
            slots(&format!("option_forms.{split}.line"), &form.line, &["letter", "option"])?;
        }
        let path = self.video_path.as_ref().map(|path| &path.template);
        let optional: [(&str, Option<&Template>, &[&str]); 3] = [
            ("duration_note", self.duration_note.as_ref(), &["seconds"]),
            ("video_path.template", path, &["question", "video_name"]),
            ("frame_label", self.frame_label.as_ref(), &LABEL),
        ];
        for (field, template, known) in optional {
            template.map_or(Ok(()), |template| slots(field, template, known))?;
        }
        let required: [(&str, &Template, &[&str]); 9] = [
            ("option_line", &self.option_line, &["letter", "option"]),
            ("subtitles_block", &self.subtitles_block, &["subtitles"]),
            ("crop_response", &self.crop_response, response),
            ("crop_error", &self.crop_error, &["start", "end", "reason"]),
            ("call_error", &self.call_error, &["reason"]),
            ("subagent_response", &self.subagent_response, &["start", "end", "summary"]),
            ("subagent_prompt", &self.subagent_prompt, &SUBAGENT_PROMPT),
            ("tool.not_an_object", &self.tool.not_an_object, &["found"]),
            ("tool.too_large", &self.tool.too_large, &[]),
        ];
        required.into_iter().try_for_each(|(field, template, known)| slots(field, template, known))
    }
}

/// Images that code has as variables.
fn check_clues(clues: &ImageClues) -> Result<(), InvalidProtocol> {
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_name =
        clues.variable.starts_with(begins) && clues.variable.chars().all(|c| begins(c) || c.is_ascii_digit());
    if !is_name {
        let problem = format!("expected a name of Python, found `{}`", clues.variable);
        return Err(invalid("agent.code.clues.variable", problem));
    }
    match clues.shown {
        Some([least, most]) if least > most || most == 0 => {
            let problem = format!("expected fewest and most pixels, found {least} and {most}");
            Err(invalid("agent.code.clues.shown", problem))
        }
        _ => Ok(()),
    }
}

fn check_clips(clips: &Clips, policy: &FramePolicy) -> Result<(), InvalidProtocol> {
    if policy.sent_as != SentAs::Video || !matches!(policy.size, SizeRule::Qwen { .. }) {
        let problem = "its frames are sent as a video, in a size by rules of Qwen: `agent.frames` needs \
                       `sent_as = \"video\"` and `size = { qwen = … }`";
        return Err(invalid("agent.clips", problem));
    }
    if !(clips.fps > 0.0 && clips.fps.is_finite()) {
        return Err(invalid("agent.clips.fps", format!("expected a positive number, found {}", clips.fps)));
    }
    if clips.stored.is_some_and(|quality| !(1..=100).contains(&quality)) {
        return Err(invalid("agent.clips.stored", "expected a quality from 1 to 100"));
    }
    slots("agent.clips.last_response", &clips.last_response, &CLIP)?;
    slots("agent.clips.last_error", &clips.last_error, &["start", "end", "reason"])
}

fn slots(field: &str, template: &Template, known: &[&str]) -> Result<(), InvalidProtocol> {
    match template.slots().find(|slot| !known.contains(slot)) {
        None => Ok(()),
        Some(slot) if known.is_empty() => Err(invalid(
            field,
            format!("unknown slot `{{{slot}}}`: this text has no slots; write `{{{{` for a brace"),
        )),
        Some(slot) => {
            let known: Vec<String> = known.iter().map(|slot| format!("{{{slot}}}")).collect();
            Err(invalid(
                field,
                format!("unknown slot `{{{slot}}}`: it has {}; write `{{{{` for a brace", known.join(", ")),
            ))
        }
    }
}
