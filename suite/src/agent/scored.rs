//! The text of a conversation that an agent's own extraction reads.

use crate::message::Role;
use crate::protocol::Scored;
use crate::record::{RecordedMessage, RecordedPart, Transcript};

/// The replies that are read, as one text. [`Scored::Joined`] is that of a release whose loop joins them itself.
pub fn text(scored: Scored, transcript: &Transcript) -> String {
    let messages = &transcript.messages;
    let is_reply = |message: &&RecordedMessage| message.role == Role::Assistant;
    match scored {
        Scored::Last => transcript.final_text.clone(),
        Scored::All | Scored::Joined => {
            messages.iter().filter(is_reply).map(text_of).collect::<Vec<_>>().join(" ")
        }
        Scored::Conversation => {
            messages.iter().skip_while(|message| !is_reply(message)).map(text_of).collect()
        }
    }
}

fn text_of(message: &RecordedMessage) -> String {
    let texts = message.parts.iter().map(|part| match part {
        RecordedPart::Text { text } => text.as_str(),
        _ => "",
    });
    texts.collect()
}
