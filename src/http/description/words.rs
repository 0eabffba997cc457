//! Schemas of values that are written as one word or one text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

macro_rules! texts {
    ($($($part:ident)::+ => $said:literal;)*) => {$(
        impl JsonSchema for crate::$($part)::+ {
            fn schema_name() -> Cow<'static, str> {
                let path = stringify!($($part)::+);
                path.rsplit(':').next().unwrap_or(path).trim().into()
            }
            fn schema_id() -> Cow<'static, str> {
                stringify!($($part)::+).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "format": $said})
            }
        }
    )*};
}

texts! {
    base::JobId => "uuid";
    base::TopicId => "uuid";
    base::MessageId => "uuid";
    base::MailId => "uuid";
    base::HandoffId => "uuid";
    base::ChatId => "uuid";
    base::ChatMessageId => "uuid";
    base::CallId => "uuid";
    base::ChannelId => "uuid";
    base::TurnId => "uuid";
    base::ApprovalId => "uuid";
    base::ProposalId => "uuid";
    base::AttemptId => "uuid";
    base::PersonId => "uuid";
    base::TokenId => "uuid";
    base::BlobId => "git-object";
    base::Millis => "date-time";
    base::Actor => "actor";
    base::Address => "address";
    base::SourcePath => "source-path";
}

macro_rules! words {
    ($($($part:ident)::+ as $name:literal: $($word:expr),* ;)*) => {$(
        impl JsonSchema for crate::$($part)::+ {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let words: Vec<&str> = $($word.iter().map(|it| it.as_str()).collect())*;
                json_schema!({"type": "string", "enum": words})
            }
        }
    )*};
}

words! {
    jobs::Status as "JobStatus": crate::jobs::Status::ALL;
    jobs::Reason as "JobReason": crate::jobs::Reason::ALL;
}
