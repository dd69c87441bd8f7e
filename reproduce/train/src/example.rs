//! Tokenised conversations with the tokens that are learned.

use paravt_qwen_vl::prompt::{Medium, Prompt, Prompter};
use paravt_suite::message::Message;

use crate::error::{Error, Result};

/// One sequence: tokens, their positions, the media among them, and which tokens count.
#[derive(Debug, Clone)]
pub struct Example {
    /// Token ids, placeholders repeated.
    pub ids: Vec<u32>,
    /// Time, height and width position of each token.
    pub positions: Vec<[u32; 3]>,
    /// Images and videos in order.
    pub media: Vec<Medium>,
    /// Whether the loss counts a token: it is predicted from the one before. The first never counts.
    pub trained: Vec<bool>,
}

impl Example {
    /// A conversation whose every assistant turn is learned: its words and the token that ends it.
    ///
    /// The reference's `get_qwen_template_labels` learns the line break after the turn too, and every
    /// special token of the other turns; only what the model itself has to say is learned here.
    ///
    /// # Errors
    /// The conversation cannot be rendered or has no assistant turn.
    pub fn of_conversation(prompter: &Prompter, messages: &[Message]) -> Result<Self> {
        let prompt = prompter.whole(messages)?;
        let trained = assistant_tokens(prompter, &prompt.ids)?;
        if !trained.contains(&true) {
            return Err(Error::Data(
                "the conversation has no assistant turn to compute a loss on".to_owned(),
            ));
        }
        Ok(Self::of_prompt(prompt, trained))
    }

    /// A prompt with the tokens that count.
    pub fn of_prompt(prompt: Prompt, mut trained: Vec<bool>) -> Self {
        if let Some(first) = trained.first_mut() {
            *first = false;
        }
        Self { ids: prompt.ids, positions: prompt.positions, media: prompt.media, trained }
    }

    /// Rows at the beginning that another example has too, with the same media; a medium is whole or left out. Neither's
    /// last row is among them.
    pub fn in_common(&self, other: &Self) -> usize {
        let rows = |one: &Self| one.ids.len().saturating_sub(1);
        let pairs = self.ids.iter().zip(&self.positions).zip(other.ids.iter().zip(&other.positions));
        let pairs = pairs.take(rows(self).min(rows(other)));
        let alike = pairs.take_while(|(its, others)| its == others).count();
        let mut media = self.media.iter().enumerate().take_while(|(_, medium)| medium.start() < alike);
        let cut = media.find(|(number, medium)| {
            let same =
                other.media.get(*number).is_some_and(|it| it.key == medium.key && it.runs == medium.runs);
            !same || medium.end() > alike
        });
        cut.map_or(alike, |(_, medium)| medium.start())
    }

    /// What the trainer of the release reads of it to score its tokens that count: the rows from the last one on whose time
    /// does not follow the time before it by one. transformers takes that for the begin of another packed sequence, and
    /// attention does not reach over it.
    ///
    /// # Errors
    /// A token that counts, or a token of a frame, lies on the other side of such a row.
    pub fn last_sequence(&self) -> Result<Self> {
        let mut rows = self.rows();
        let first = rows.next().unwrap_or(0);
        let last = rows.next_back().unwrap_or(first);
        let begins = |&row: &usize| self.positions[row][0] != self.positions[row - 1][0] + 1;
        let start = (1..=first).rev().find(begins).unwrap_or(0);
        let apart = (first + 1..=last).any(|row| begins(&row));
        if apart || self.media.iter().any(|medium| medium.end() > start) {
            return Err(Error::Data(
                "`whole_attention = false` takes rollouts whose pictures all lie before what is generated, of more \
                 than one token each"
                    .to_owned(),
            ));
        }
        let mut trained = self.trained[start..].to_vec();
        if let Some(first) = trained.first_mut() {
            *first = false;
        }
        Ok(Self {
            ids: self.ids[start..].to_vec(),
            positions: self.positions[start..].to_vec(),
            media: Vec::new(),
            trained,
        })
    }

    /// Tokens that count.
    pub fn learned(&self) -> usize {
        self.trained.iter().filter(|trained| **trained).count()
    }

    /// Their ids, in order.
    pub fn targets(&self) -> impl Iterator<Item = u32> + '_ {
        self.ids.iter().zip(&self.trained).filter(|(_, trained)| **trained).map(|(id, _)| *id)
    }

    /// The rows that predict them, in order, counted from the sequence's first token.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (1..self.ids.len()).filter(|token| self.trained[*token]).map(|token| token - 1)
    }
}

/// Which tokens lie between the head of an assistant's turn and its end, the end included.
fn assistant_tokens(prompter: &Prompter, ids: &[u32]) -> Result<Vec<bool>> {
    let head = prompter.encode("<|im_start|>assistant")?;
    let [end] = prompter.encode("<|im_end|>")?[..] else {
        return Err(Error::Tokenizer("it has no token <|im_end|>: not a ChatML model".to_owned()));
    };
    let mut trained = vec![false; ids.len()];
    let mut at = 0;
    while at < ids.len() {
        if !ids[at..].starts_with(&head) {
            at += 1;
            continue;
        }
        at += head.len();
        // The line break of the head. A turn that begins with one has both in one token, which the model never generates:
        // it is given its own head.
        if let Some(id) = ids.get(at)
            && prompter.decode(&[*id])?.starts_with('\n')
        {
            at += 1;
        }
        while at < ids.len() {
            trained[at] = true;
            at += 1;
            if ids[at - 1] == end {
                break;
            }
        }
    }
    Ok(trained)
}

#[cfg(test)]
mod tests {
    use paravt_qwen_vl::config::Config;
    use paravt_suite::message::Role;
    use serde_json::{Map, Value, json};

    use super::*;

    /// Two frames of 2 x 2 tokens, each after a text: the time stands still within a frame, and a text goes on after its
    /// farthest column.
    #[test]
    fn the_trainer_of_the_release_reads_what_follows_the_last_frame() {
        let frame = |at: u32| [[at, at, at], [at, at, at + 1], [at, at + 1, at], [at, at + 1, at + 1]];
        let text = |from: u32, count: u32| (from..from + count).map(|at| [at; 3]);
        let positions: Vec<[u32; 3]> =
            text(0, 3).chain(frame(3)).chain(text(5, 2)).chain(frame(7)).chain(text(9, 6)).collect();
        let count = positions.len();
        let example = |positions: Vec<[u32; 3]>, trained: fn(usize) -> bool| Example {
            ids: (0..count as u32).collect(),
            positions,
            media: Vec::new(),
            trained: (0..count).map(trained).collect(),
        };
        let read = example(positions.clone(), |at| at >= 15).last_sequence().unwrap();
        assert_eq!(read.ids, [13, 14, 15, 16, 17, 18]);
        assert_eq!(read.positions, positions[13..]);
        assert_eq!(read.trained, [false, false, true, true, true, true]);
        assert_eq!(read.rows().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let error = |example: Example| example.last_sequence().unwrap_err().to_string();
        assert!(error(example(positions, |at| at == 8 || at == 18)).contains("`whole_attention = false`"));
        // Without frames all of it is read.
        let plain = example(text(0, count as u32).collect(), |at| at >= 4);
        assert_eq!(plain.last_sequence().unwrap().ids.len(), count);
    }

    #[test]
    fn a_turn_that_begins_with_a_line_break_is_learned() {
        let folder = tempfile::tempdir().unwrap();
        // As Qwen's tokenizer, it has two line breaks as one token.
        let characters = "IVabinstuerx\n".chars().map(String::from).chain(["\n\n".to_owned()]);
        let mut vocabulary = Map::new();
        for token in characters {
            let id = vocabulary.len();
            vocabulary.entry(token).or_insert_with(|| id.into());
        }
        let special = |id: usize, content: &str| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        };
        let (start, end) = (vocabulary.len(), vocabulary.len() + 1);
        let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
            "added_tokens": [special(start, "<|im_start|>"), special(end, "<|im_end|>")], "pre_tokenizer": null,
            "post_processor": null, "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [["\n", "\n"]]}});
        let config = json!({"model_type": "qwen3_vl", "vocab_size": end + 1, "hidden_size": 8,
            "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
            "rms_norm_eps": 1e-6, "rope_theta": 1e4, "image_token_id": 0, "video_token_id": 1,
            "vision_config": {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2,
                "patch_size": 16, "out_hidden_size": 64, "num_position_embeddings": 16}});
        let template =
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        write("tokenizer.json", Value::to_string(&tokenizer));
        write("config.json", config.to_string());
        write("chat_template.jinja", template.to_owned());
        write("preprocessor_config.json", "{}".to_owned());
        let prompter = Prompter::read(folder.path(), &Config::read(folder.path()).unwrap()).unwrap();
        let said = |role, text: &str| Message::text(role, text);
        let conversation = [
            said(Role::User, "x"),
            said(Role::Assistant, "\nbx"),
            said(Role::User, "x"),
            said(Role::Assistant, "xx"),
        ];
        let example = Example::of_conversation(&prompter, &conversation).unwrap();
        let learned: Vec<u32> = example.targets().collect();
        let text = prompter.tokenizer().decode(&learned, false).unwrap();
        assert_eq!(text, "bx<|im_end|>xx<|im_end|>");
    }
}
