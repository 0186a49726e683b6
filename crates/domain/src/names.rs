//! [`names!`]: enums whose variants have one name each, which is the same in JSON, in the database and in prompts.

/// Declares an enum with the names of its variants:
///
/// ```text
/// names! {
///     /// The author of a thread message.
///     pub enum Source {
///         /// The user.
///         User = "user",
///     }
/// }
/// ```
///
/// It has `ALL`, `as_str`, `from_name`, `Display`, serde by name, and with the feature `openapi` the schema, which has
/// another name with `enum Role as "EntryRole"`. What else it derives is said before it.
macro_rules! names {
    ($(#[$meta:meta])* $vis:vis enum $name:ident $(as $schema:literal)? { $($(#[$of:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        $vis enum $name {
            $($(#[$of])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in JSON, in the database and in prompts.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The one with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                crate::schema::one_of([$($text),+]).into()
            }
        }

        #[cfg(feature = "openapi")]
        impl utoipa::ToSchema for $name {
            $(fn name() -> std::borrow::Cow<'static, str> { $schema.into() })?
        }
    };
}

/// Whether a name begins with a letter from a to z, followed by such letters, digits and `more`, and has at most so many bytes.
pub(crate) fn is_plain_name(name: &str, more: &[u8], most: usize) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || more.contains(&byte);
    name.len() <= most
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_part)
}

/// Types whose form in JSON is the text that [`Display`](std::fmt::Display) writes and [`FromStr`](std::str::FromStr) reads.
#[macro_export]
macro_rules! as_text {
    ($($name:ty),+) => {$(
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text: std::borrow::Cow<'de, str> = serde::Deserialize::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the functions of a private enum are public")]
mod tests {
    names! {
        enum Place {
            Here = "here",
            FarAway = "far_away",
        }
    }

    #[test]
    fn names_are_the_same_in_json_and_parsing() {
        for place in Place::ALL {
            assert_eq!(Place::from_name(place.as_str()), Some(place));
            assert_eq!(serde_json::to_value(place).unwrap(), place.as_str());
            assert_eq!(place.to_string(), place.as_str());
        }
        assert_eq!(Place::FarAway.as_str(), "far_away");
        assert_eq!(Place::from_name("Here"), None);
    }
}
